"""Prose for synthetic pages: sentences with words of their subject and the long tail of real text. Pure.

Words are drawn with Zipf weights (a word's probability falls with its rank in the list). The word lists are data of the
package; the random generator is passed in.
"""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """A subject of pages. `other_sense` names the subject that shares the `ambiguous` word."""

    name: str
    nouns: tuple[str, ...]
    verbs: tuple[str, ...] = ()
    adjectives: tuple[str, ...] = ()
    ambiguous: str = ""
    other_sense: str = ""
    replaces: str = ""  # a subject with the same content, left out of webs about this one
    contexts: tuple[str, ...] = ()  # words of senses that are not meant, as a user would give them


class WordLists(msgspec.Struct, frozen=True):
    """All word lists: general words, the subjects that can be topics, and the other subjects.

    `papers` are topics of the papers' experiments, used only where a shape names them.
    """

    general: Subject
    subjects: tuple[Subject, ...]
    senses: tuple[Subject, ...]
    papers: tuple[Subject, ...] = ()
    paper_senses: tuple[Subject, ...] = ()

    @property
    def topics(self) -> dict[str, Subject]:
        """Every subject that can be a topic, by its name."""
        return {subject.name: subject for subject in (*self.subjects, *self.papers)}


@lru_cache(maxsize=1)
def load_word_lists() -> WordLists:
    """The word lists that come with the package."""
    table = tomllib.loads((files("opilio.lab.synthetic") / "words.toml").read_text("utf-8"))
    general = msgspec.convert({"name": "general", **table["general"]}, Subject)
    kinds = ("subject", "sense", "paper", "paper_sense")
    subjects, senses, papers, paper_senses = (msgspec.convert(table[k], tuple[Subject, ...]) for k in kinds)
    return WordLists(general, subjects, senses, papers, paper_senses)


_TEMPLATES = (
    "The {a} {n} {v} the {n} of the {n}.",
    "In {y}, {p} {v} a {a} {n} near the {n}.",
    "Every {n} {v} the {n}, and the {a} {n} {v} it.",
    "Most {n} and {n} in {p} are {a} and {a}.",
    "A {a} {n} is what {p} calls the {n} of the {n}.",
    "According to {p}, the {n} {v} more than one {n}.",
    "There is no {n} without a {n}, whatever the {a} {n} {v}.",
    "{p} wrote about the {n} in {y} and again about the {a} {n}.",
    "When the {n} {v}, a {n} with {a} {n} is seen.",
    "Some say that the {a} {n} {v} only the {n}.",
    "This {n} is {a}; that one, near {p}, is {a}.",
    "How the {n} {v} a {n} is a {n} for another {n}.",
)
_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")
_OPENINGS = ("About the", "The", "A short history of the", "Notes on the", "Looking after the", "Understanding the")
_SYLLABLES = (
    "bar",
    "den",
    "wick",
    "ham",
    "lo",
    "mar",
    "ton",
    "el",
    "vin",
    "ros",
    "ka",
    "ster",
    "ny",
    "hol",
    "bech",
    "or",
)


class ProseGenerator:
    """Writes about one subject. `density` is the share of content words that are the subject's own."""

    def __init__(self, general: Subject, subject: Subject, density: float, rng: random.Random) -> None:
        self._own = {"n": subject.nouns, "v": subject.verbs, "a": subject.adjectives}
        self._common = {"n": general.nouns, "v": general.verbs, "a": general.adjectives}
        self._density = density
        self._rng = rng

    def word(self, kind: str) -> str:
        """One word: n(oun), v(erb), a(djective), p(roper name) or y(ear)."""
        if kind == "p":
            return proper_name(self._rng)
        if kind == "y":
            return str(self._rng.randint(1840, 2024))
        own = self._own[kind]
        return zipf(own if own and self._rng.random() < self._density else self._common[kind], self._rng)

    def sentence(self) -> str:
        pieces = self._rng.choice(_SPLIT_TEMPLATES)
        text = "".join(self.word(piece[1]) if piece.startswith("{") else piece for piece in pieces)
        return fix_articles(text[0].upper() + text[1:])

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self._rng.randint(2, 6)))

    def title(self) -> str:
        """A heading that names the subject more often than not."""
        own = zipf(self._own["n"], self._rng)
        return f"{self._rng.choice(_OPENINGS)} {self.word('a')} {own} of {proper_name(self._rng)}"

    def phrase(self) -> str:
        """A few words, as in an anchor."""
        return f"{self.word('a')} {self.word('n')} {self.word('n')}"


def fix_articles(text: str) -> str:
    """
    >>> fix_articles("A owl with a egg near a nest")
    'An owl with an egg near a nest'
    """
    return _BEFORE_VOWEL.sub(r"\1n ", text)


def proper_name(rng: random.Random) -> str:
    """An invented name: text has a long tail of words that are nowhere else."""
    return "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 2, 3)))).capitalize()


def zipf(words: Sequence[str], rng: random.Random) -> str:
    """One word, the first ones most often."""
    return rng.choices(words, cum_weights=_weights(len(words)))[0]


@lru_cache(maxsize=64)
def _weights(size: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (place + 3) for place in range(size)))


def _split(template: str) -> tuple[str, ...]:
    parts = template.replace("{", "\0{").replace("}", "}\0").split("\0")
    return tuple(p for p in parts if p)


_SPLIT_TEMPLATES = tuple(map(_split, _TEMPLATES))
