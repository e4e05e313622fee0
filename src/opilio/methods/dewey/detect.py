"""The Dewey lexicon, and the classes of a text, of a page and of its links.

The lexicon has index terms and the D-numbers they belong to (S2-04, S2-25, S2-E11). A file has one class per line,
`number | name | term; term; several words`; `#` begins a comment line. The built-in lexicon is in data/, one file per
hundred; the user's own file can replace or extend it, in Dewey or in another scheme of the same shape.

`LexiconMatcher` finds the lexicon's terms in words: phrases before words, the longest first, by stems (S2-20, S2-24).
It works on the terms of a `Reading`, so a page is tokenised and stemmed once for everything.

`Galaxy` is the densest area of a text's D-numbers (S2-19, S2-21, S2-22, S2-26, S2-E6). Every (word, D-number) is a dot
at x = length of the number, y = the number. Dots add to the mass of every prefix of their number; a cell (three digits)
also gains from its tens and its hundred; cells far below the best are outliers. The caller cuts the window at the break
points (S2-23) and widens it where it is empty.

Apart from the lexicon's files nothing is read, and no state of a text is kept.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import msgspec

from opilio.core.errors import TopicError
from opilio.core.records import BLOCK_BREAK, Reading
from opilio.text.term_arrays import BackgroundIdf
from opilio.text.tokens import tokenize_marked
from opilio.text.vocabulary import BLOCK_END_CODE, PhraseMatcher, Vocabulary

_DEWEY = re.compile(r"\d{3}(\.\d+)?")
_ANY_SCHEME = re.compile(r"\d+(\.\d+)*")


def is_number(text: str, dewey: bool = True) -> bool:
    """Three digits and perhaps decimals; in another scheme (UDC and the like) any digits with points between.

    >>> is_number("746.92"), is_number("74.6"), is_number("621.396.2", dewey=False)
    (True, False, True)
    """
    return (_DEWEY if dewey else _ANY_SCHEME).fullmatch(text) is not None


def is_prefix(text: str) -> bool:
    """One digit or two, which stand for all numbers that begin so.

    >>> is_prefix("5"), is_prefix("59"), is_prefix("5984")
    (True, True, False)
    """
    return len(text) < 3 and text.isdecimal()


def digits_of(number: str) -> str:
    """The digits alone: what prefixes are compared on.

    >>> digits_of("155.95")
    '15595'
    """
    return number.replace(".", "")


# A lexicon has a few thousand numbers, and pages ask for them repeatedly.
@lru_cache(maxsize=4096)
def shorten(number: str, length: int) -> str:
    """The number cut to at most `length` digits (S2-37: three).

    >>> shorten("155.95", 3), shorten("155.95", 4), shorten("391", 5)
    ('155', '155.9', '391')
    """
    kept, digits = 0, 0
    for character in number:
        if digits == length:
            break
        kept += 1
        digits += character != "."
    return number[:kept].rstrip(".")


def is_related(code: str, other: str) -> bool:
    """Is one the beginning of the other? `4` is all of language, `598.8` a part of `598` (S2-E6).

    >>> is_related("598.8", "598"), is_related("415", "4"), is_related("415", "416")
    (True, True, False)
    """
    mine, theirs = digits_of(code), digits_of(other)
    return mine.startswith(theirs) or theirs.startswith(mine)


class DeweyClass(NamedTuple):
    """One class: `name` is in our own words; `terms` is empty where a number is not in use."""

    number: str
    name: str
    terms: tuple[str, ...]


class Lexicon:
    """Classes by number, and the numbers of every term. Immutable: `merged_with` returns a new one."""

    def __init__(self, classes: Iterable[DeweyClass], dewey: bool = True) -> None:
        self.classes: Mapping[str, DeweyClass] = {entry.number: entry for entry in classes}
        # Or of another scheme.
        self.dewey = dewey

    @cached_property
    def numbers(self) -> Mapping[str, tuple[str, ...]]:
        """term -> all its numbers, in rising order."""
        found: dict[str, tuple[str, ...]] = {}
        for number, entry in sorted(self.classes.items()):
            only = (number,)
            found.update({term: (*found[term], number) if term in found else only for term in entry.terms})
        return found

    def name_of(self, number: str) -> str:
        """The name of the class or of its nearest parent; empty without one."""
        for length in range(len(number), 0, -1):
            entry = self.classes.get(shorten(number, length))
            if entry is not None:
                return entry.name
        return ""

    def merged_with(self, other: "Lexicon") -> "Lexicon":
        """Both together: a class in both gets the other's name and the terms of both."""
        merged = dict(self.classes)
        for number, entry in other.classes.items():
            mine = merged.get(number)
            terms = dict.fromkeys((*mine.terms, *entry.terms)) if mine else entry.terms
            merged[number] = DeweyClass(number, entry.name, tuple(terms))
        return Lexicon(merged.values())


def parse_lexicon(text: str, source: str, dewey: bool = True) -> Lexicon:
    """A lexicon from the text of a file. Raises TopicError naming `source` and the line."""
    classes: dict[str, DeweyClass] = {}
    for place, line in _lines(text, source):
        entry = _parse_class(line, place, dewey)
        if entry.number in classes:
            raise TopicError(f"{place}: the class {entry.number} occurs twice; put its terms on one line")
        classes[entry.number] = entry
    if not classes:
        raise TopicError(f"{source}: has no class; a line has the form: number | name | term; term")
    return Lexicon(classes.values(), dewey)


def read_lexicon(path: Path, dewey: bool = True) -> Lexicon:
    """The user's own lexicon file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TopicError(f"{path}: can't be read as a lexicon ({error})") from error
    return parse_lexicon(text, str(path), dewey)


@lru_cache(maxsize=1)
def builtin_lexicon() -> Lexicon:
    """The lexicon that comes with Opilio: all thousand classes, read on first use."""
    pages = sorted((page for page in files(__package__).joinpath("data").iterdir()), key=lambda page: page.name)
    parts = [parse_lexicon(page.read_text(encoding="utf-8"), page.name) for page in pages if page.name.endswith(".txt")]
    return Lexicon(entry for part in parts for entry in part.classes.values())


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            yield f"{source}, line {index}", line


def _parse_class(line: str, place: str, dewey: bool) -> DeweyClass:
    parts = line.split("|")
    if len(parts) != 3:
        raise TopicError(f"{place}: {len(parts)} parts, not 3; a line has the form: number | name | term; term")
    number, name, listed = (part.strip() for part in parts)
    if not is_number(number, dewey):
        raise TopicError(f"{place}: {number!r} is not a class number; write it like 598 or 598.8")
    if not name:
        raise TopicError(f"{place}: the class {number} has no name; write one between the bars")
    terms = [term for part in listed.lower().split(";") if (term := part.strip())]
    if len(set(terms)) < len(terms):
        twice = next(term for term in terms if terms.count(term) > 1)
        raise TopicError(f"{place}: the term {twice!r} occurs twice; delete one")
    return DeweyClass(number, name, tuple(terms))


class LexiconHit(NamedTuple):
    """An index term found at terms[start:end]."""

    start: int
    end: int
    word: str
    numbers: tuple[str, ...]
    # 0..1: idf in general English over the highest there is.
    rarity: float = 1.0


class LexiconMatcher:
    """A lexicon prepared for one vocabulary. With a background, each hit has the rarity of its words."""

    def __init__(self, lexicon: Lexicon, vocabulary: Vocabulary, background: BackgroundIdf | None = None) -> None:
        self.lexicon = lexicon
        self.vocabulary = vocabulary
        spelled = lexicon.numbers
        merged: dict[tuple[int, ...], tuple[str, tuple[str, ...]]] = {}
        for word, key in zip(spelled, _phrase_terms(list(spelled), vocabulary), strict=True):
            numbers = spelled[word]
            # `bird` and `birds` are one term: it has the numbers of both.
            if key in merged:
                word, before = merged[key]
                numbers = tuple(sorted({*before, *numbers}))
            if key:
                merged[key] = (word, numbers)
        rarities = map(_rarity(background), merged)
        self._found = [(*found, rarity) for found, rarity in zip(merged.values(), rarities, strict=True)]
        self._phrases = PhraseMatcher({key: index for index, key in enumerate(merged)})

    def __len__(self) -> int:
        return len(self._found)

    def hits(self, terms: Sequence[int]) -> list[LexiconHit]:
        """Every index term, from left to right, without overlaps."""
        return [LexiconHit(start, end, *self._found[index]) for start, end, index in self._phrases.matches(terms)]


def _rarity(background: BackgroundIdf | None) -> Callable[[tuple[int, ...]], float]:
    """How rare a term is: a phrase is as rare as its words together, at most 1."""
    if background is None:
        return lambda _: 1.0
    # No word has this number: the idf of a word never counted.
    highest = background.idf(-1)
    return lambda key: min(1.0, sum(map(background.idf, key)) / highest)


def _phrase_terms(spelled: list[str], vocabulary: Vocabulary) -> list[tuple[int, ...]]:
    """The terms of each phrase, tokenised in one call: one call per phrase is four times as slow.

    A phrase of which one word is left has no key: `t cell` is not `cell`, nor `the guardian` any guardian.
    """
    keys: list[tuple[int, ...]] = []
    terms = list(map(vocabulary.__getitem__, tokenize_marked(BLOCK_BREAK.join(spelled) + BLOCK_BREAK)))
    start = 0
    for _ in spelled:
        end = terms.index(BLOCK_END_CODE, start)
        words = list(filter(None, terms[start:end]))
        keys.append(tuple(vocabulary.join_phrases(words)) if len(words) > 1 or end - start == 1 else ())
        start = end + 1
    return keys


# Digits of a cell: the classes of the paper.
_CELL_DIGITS = 3
# Scores equal to this many decimals are ties: the order in which weights were added must not decide.
SCORE_DIGITS = 9


class GalaxyRule(msgspec.Struct, frozen=True, kw_only=True):
    """How dots are weighted. The defaults are the paper's (S2-37), open points as in S2-E6."""

    max_length: int = 3  # digits of a D-number that are used
    anchor_impact: float = 1.4  # S2-22; T3/G3 take 0.5 (S2-E7)
    # λ: a longer number is a more precise topic.
    length_gain: float = 0.1
    # τ: a word with n numbers counts 1/n**τ for each.
    ambiguity: float = 0.0
    # Exponent of a word's rarity in general English: 1 makes `energy` count less than `muon`.
    rarity: float = 0.0
    # The n-th power of a word's count: 1 every occurrence counts alike, 0.5 square root.
    repeats: float = 1.0
    tens_share: float = 0.5
    hundreds_share: float = 0.25
    # Cells below this share of the best are dropped.
    outlier: float = 0.25
    # Of a link's block only the part from its anchor on is plotted (S2-23).
    starts_at_link: bool = True


PAPER_RULE = GalaxyRule()
RECOMMENDED_RULE = GalaxyRule(ambiguity=1.0, rarity=2.0, repeats=0.75, hundreds_share=0.1, starts_at_link=False)


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
        # `61` of a shorter scheme is plotted at 610.
        digits = digits_of(self.number).ljust(_CELL_DIGITS, "0")
        return float(f"{digits[:_CELL_DIGITS]}.{digits[_CELL_DIGITS:]}")


class ScoredClass(NamedTuple):
    code: str
    score: float


class Galaxy(msgspec.Struct, frozen=True):
    """The remaining cells, best first, and the dropped outliers. Without `ranked` the topic is unknown."""

    ranked: tuple[ScoredClass, ...] = ()
    outliers: tuple[ScoredClass, ...] = ()

    @property
    def code(self) -> str:
        """The D-number of the galaxy, or an empty string."""
        return self.ranked[0].code if self.ranked else ""

    def on_topic(self, topic: Iterable[str], top: int = 1) -> bool:
        """Does one of the best `top` codes belong to a class of the topic, or the other way round?"""
        wanted = list(topic)
        return any(is_related(cell.code, code) for cell in self.ranked[:top] for code in wanted)

    def closeness(self, topic: Sequence[str]) -> float:
        """How near to a topic: t / (t + o) of its best cell t and the best other cell o.

        0: no cell is of the topic; from 0.5 on the best one is; 1: all are. Outliers count: they make it small.
        """
        ours = theirs = 0.0
        for code, score in (*self.ranked, *self.outliers):
            if any(is_related(code, wanted) for wanted in topic):
                ours = max(ours, score)
            else:
                theirs = max(theirs, score)
        return ours / (ours + theirs) if ours else 0.0


def dots_from_hits(hits: Iterable[LexiconHit], anchor: tuple[int, int] = (0, 0), max_length: int = 3) -> list[Dot]:
    """One dot per (word, D-number) (S2-25); numbers equal after the cut are one. `anchor` is a slice of the terms."""
    dots: list[Dot] = []
    for hit in hits:
        cut = _shorten_numbers(hit.numbers, max_length)
        inside = anchor[0] <= hit.start and hit.end <= anchor[1]
        dots += [Dot(hit.word, number, inside, len(cut), hit.rarity) for number in cut]
    return dots


# The terms of a lexicon share a few thousand lists of numbers.
@lru_cache(maxsize=1 << 15)
def _shorten_numbers(numbers: tuple[str, ...], max_length: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shorten(number, max_length) for number in numbers))


def find_galaxy(dots: Sequence[Dot], rule: GalaxyRule = PAPER_RULE) -> Galaxy:
    """The galaxy of the dots: every cell scored, best first, ties by the lower number."""
    mass = _prefix_masses(dots, rule)
    cells = {digits_of(dot.number)[:_CELL_DIGITS] for dot in dots}
    scored = [(round(_cell_score(cell, mass, rule), SCORE_DIGITS), cell) for cell in cells]
    scored.sort(key=lambda pair: (-pair[0], pair[1]))
    floor = rule.outlier * scored[0][0] if scored else 0.0
    ranked = tuple(ScoredClass(_deepest_number(cell, mass, rule), score) for score, cell in scored if score >= floor)
    return Galaxy(ranked, tuple(ScoredClass(cell, score) for score, cell in scored if score < floor))


def first_galaxy(windows: Iterable[Sequence[Dot]], rule: GalaxyRule = PAPER_RULE) -> Galaxy:
    """The galaxy of the first window that has dots: the link's own, its section, the title; unknown without any."""
    return next((find_galaxy(dots, rule) for dots in windows if dots), Galaxy())


def _prefix_masses(dots: Sequence[Dot], rule: GalaxyRule) -> dict[str, float]:
    """The mass of every prefix. Equal dots are counted first: a page repeats its words."""
    mass: dict[str, float] = {}
    for dot, count in Counter(dots).items():
        digits = digits_of(shorten(dot.number, rule.max_length))
        weight = rule.anchor_impact if dot.in_anchor else 1.0
        weight *= 1.0 + rule.length_gain * (len(digits) - _CELL_DIGITS)
        weight *= count**rule.repeats / dot.among**rule.ambiguity * dot.rarity**rule.rarity
        for length in range(1, len(digits) + 1):
            prefix = digits[:length]
            mass[prefix] = mass.get(prefix, 0.0) + weight
    return mass


def _cell_score(cell: str, mass: dict[str, float], rule: GalaxyRule) -> float:
    """Its own mass, half of the rest of the tens, a quarter of the rest of the hundred."""
    own, tens, hundred = mass[cell], mass[cell[:2]], mass[cell[:1]]
    return own + rule.tens_share * (tens - own) + rule.hundreds_share * (hundred - tens)


def _deepest_number(cell: str, mass: dict[str, float], rule: GalaxyRule) -> str:
    """The longest number that still holds more than half of its parent's mass, written with its point."""
    code = cell
    while len(code) < rule.max_length:
        best = max((code + digit for digit in "0123456789"), key=lambda child: mass.get(child, 0.0))
        if mass.get(best, 0.0) <= mass[code] / 2:
            break
        code = best
    return f"{code[:_CELL_DIGITS]}.{code[_CELL_DIGITS:]}" if len(code) > _CELL_DIGITS else code


def galaxy_of(terms: Sequence[int], matcher: LexiconMatcher, rule: GalaxyRule = RECOMMENDED_RULE) -> Galaxy:
    """The galaxy of a whole text."""
    return find_galaxy(dots_from_hits(matcher.hits(terms), max_length=rule.max_length), rule)


def main_galaxy(reading: Reading, matcher: LexiconMatcher, rule: GalaxyRule = RECOMMENDED_RULE) -> Galaxy:
    """The galaxy of a page: its title and main text, else all its text."""
    return galaxy_of(main_terms(reading, matcher), matcher, rule)


def main_terms(reading: Reading, matcher: LexiconMatcher) -> list[int]:
    """The terms by which a page is plotted: those of its title and of its main text."""
    title = matcher.vocabulary.terms(reading.page.title)
    main = [term for start, end in reading.main_slices for term in reading.terms[start:end]]
    return [*title, *(main if reading.main_slices else reading.terms)]


def link_galaxies(reading: Reading, matcher: LexiconMatcher, rule: GalaxyRule = PAPER_RULE) -> list[Galaxy]:
    """The galaxy of every link, from the words between its break points (S2-23).

    An empty window is widened to the headings above the link, then to the title. The page is matched once.
    """
    hits = matcher.hits(reading.terms)
    starts = [hit.start for hit in hits]
    title: list[Dot] | None = None
    galaxies = []
    for link in reading.page.links:
        anchor, around = reading.anchors[link.index], reading.link_contexts[link.index]
        first = anchor[0] if rule.starts_at_link else around[0]
        dots = dots_from_hits(hits_in_window(hits, starts, (first, around[1])), anchor, rule.max_length)
        if not dots:
            title = _dots(reading.page.title, matcher, rule) if title is None else title
            galaxies.append(first_galaxy((_dots(" ".join(link.headings), matcher, rule), title), rule))
        else:
            galaxies.append(find_galaxy(dots, rule))
    return galaxies


def hits_in_window(hits: Sequence[LexiconHit], starts: Sequence[int], around: tuple[int, int]) -> list[LexiconHit]:
    """The hits inside a slice of the terms; `starts` are the hits' beginnings, in order."""
    first, last = bisect_left(starts, around[0]), bisect_left(starts, around[1])
    return [hit for hit in hits[first:last] if hit.end <= around[1]]


def _dots(text: str, matcher: LexiconMatcher, rule: GalaxyRule) -> list[Dot]:
    return dots_from_hits(matcher.hits(matcher.vocabulary.terms(text)), max_length=rule.max_length)
