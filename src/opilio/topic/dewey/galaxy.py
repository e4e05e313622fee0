"""The galaxy: the densest area of a text's D-numbers (S2-19, S2-21, S2-22, S2-26, S2-E6).

Every (word, D-number) is a dot at x = length of the number, y = the number. Dots add to the mass of every prefix of
their number; a cell (three digits) also gains from its tens and its hundred; cells far below the best are outliers.
Knows nothing of pages: the caller cuts the window at the break points (S2-23) and widens it where it is empty.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from opilio.topic.dewey.matcher import Hit
from opilio.topic.dewey.number import digits_of, related, shorten

_CELL = 3  # digits of a cell: the classes of the paper
EQUAL_DIGITS = 9  # scores alike in so many decimals are equal: the order in which weights were added is no reason


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How dots are weighed. The defaults are the paper's (S2-37), open points as in S2-E6."""

    max_length: int = 3  # digits of a D-number that are used
    anchor_impact: float = 1.4  # S2-22; T3/G3 take 0.5 (S2-E7)
    length_gain: float = 0.1  # λ: a longer number is a more precise topic
    ambiguity: float = 0.0  # τ: a word with n numbers counts 1/n**τ for each
    rarity: float = 0.0  # exponent of a word's rarity in general English: 1 makes `energy` count less than `muon`
    repeats: float = 1.0  # the n-th power of a word's count: 1 every occurrence counts alike, 0.5 square root
    tens_share: float = 0.5
    hundreds_share: float = 0.25
    outlier: float = 0.25  # cells below this share of the best are dropped
    starts_at_link: bool = True  # of a link's block only what stands from its anchor on is plotted (S2-23)


PAPER = Rule()
RECOMMENDED = Rule(ambiguity=1.0, rarity=2.0, repeats=0.75, hundreds_share=0.1, starts_at_link=False)


class Dot(NamedTuple):
    """One word under one D-number; `among` is the count of numbers the word has."""

    word: str
    number: str
    in_anchor: bool = False
    among: int = 1
    rarity: float = 1.0

    @property
    def x(self) -> int:
        """Length of the number in digits (S2-19)."""
        return len(digits_of(self.number))

    @property
    def y(self) -> float:
        """The number itself (S2-19)."""
        digits = digits_of(self.number).ljust(_CELL, "0")  # 61 of a shorter scheme stands where 610 does
        return float(f"{digits[:_CELL]}.{digits[_CELL:]}")


class Scored(NamedTuple):
    code: str
    score: float


class Galaxy(msgspec.Struct, frozen=True):
    """The cells that are left, best first, and those dropped. Nothing in `ranked`: the topic is unknown."""

    ranked: tuple[Scored, ...] = ()
    outliers: tuple[Scored, ...] = ()

    @property
    def code(self) -> str:
        """The D-number of the galaxy, or an empty string."""
        return self.ranked[0].code if self.ranked else ""

    def on_topic(self, topic: Iterable[str], top: int = 1) -> bool:
        """Does one of the best `top` codes belong to a class of the topic, or the other way round?"""
        wanted = list(topic)
        return any(related(cell.code, code) for cell in self.ranked[:top] for code in wanted)

    def closeness(self, topic: Sequence[str]) -> float:
        """How near to a topic: t / (t + o) of its best cell t and the best other cell o.

        0: no cell is of the topic; from 0.5 on the best one is; 1: all are. Outliers count: they make it small.
        """
        ours = theirs = 0.0
        for code, score in (*self.ranked, *self.outliers):
            if any(related(code, wanted) for wanted in topic):
                ours = max(ours, score)
            else:
                theirs = max(theirs, score)
        return ours / (ours + theirs) if ours else 0.0


def dots_of(hits: Iterable[Hit], anchor: tuple[int, int] = (0, 0), max_length: int = 3) -> list[Dot]:
    """One dot per (word, D-number) (S2-25); numbers equal after the cut are one. `anchor` is a slice of the terms."""
    dots: list[Dot] = []
    for hit in hits:
        cut = _cut(hit.numbers, max_length)
        inside = anchor[0] <= hit.start and hit.end <= anchor[1]
        dots += [Dot(hit.word, number, inside, len(cut), hit.rarity) for number in cut]
    return dots


@lru_cache(maxsize=1 << 15)  # a lexicon's terms share some thousand lists of numbers
def _cut(numbers: tuple[str, ...], max_length: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shorten(number, max_length) for number in numbers))


def find(dots: Sequence[Dot], rule: Rule = PAPER) -> Galaxy:
    """The galaxy of the dots: every cell scored, best first, ties by the lower number."""
    mass = _masses(dots, rule)
    cells = {digits_of(dot.number)[:_CELL] for dot in dots}
    scored = [(round(_score(cell, mass, rule), EQUAL_DIGITS), cell) for cell in cells]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    floor = rule.outlier * scored[0][0] if scored else 0.0
    ranked = tuple(Scored(_deepest(cell, mass, rule), score) for score, cell in scored if score >= floor)
    return Galaxy(ranked, tuple(Scored(cell, score) for score, cell in scored if score < floor))


def widened(windows: Iterable[Sequence[Dot]], rule: Rule = PAPER) -> Galaxy:
    """The galaxy of the first window that has dots: the link's own, its section, the title; unknown where none has."""
    return next((find(dots, rule) for dots in windows if dots), Galaxy())


def _masses(dots: Sequence[Dot], rule: Rule) -> dict[str, float]:
    """The mass of every prefix. Equal dots are counted first: a page repeats its words."""
    mass: dict[str, float] = {}
    for dot, count in Counter(dots).items():
        digits = digits_of(shorten(dot.number, rule.max_length))
        weight = rule.anchor_impact if dot.in_anchor else 1.0
        weight *= 1.0 + rule.length_gain * (len(digits) - _CELL)
        weight *= count**rule.repeats / dot.among**rule.ambiguity * dot.rarity**rule.rarity
        for length in range(1, len(digits) + 1):
            prefix = digits[:length]
            mass[prefix] = mass.get(prefix, 0.0) + weight
    return mass


def _score(cell: str, mass: dict[str, float], rule: Rule) -> float:
    """Own mass, half of what the rest of the tens has, a quarter of what the rest of the hundred has."""
    own, tens, hundred = mass[cell], mass[cell[:2]], mass[cell[:1]]
    return own + rule.tens_share * (tens - own) + rule.hundreds_share * (hundred - tens)


def _deepest(cell: str, mass: dict[str, float], rule: Rule) -> str:
    """The longest number that still holds more than half of its parent's mass, written with its point."""
    code = cell
    while len(code) < rule.max_length:
        best = max((code + digit for digit in "0123456789"), key=lambda child: mass.get(child, 0.0))
        if mass.get(best, 0.0) <= mass[code] / 2:
            break
        code = best
    return f"{code[:_CELL]}.{code[_CELL:]}" if len(code) > _CELL else code
