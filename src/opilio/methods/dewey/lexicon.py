"""The lexicon: index terms and the D-numbers they belong to (S2-04, S2-25, S2-E11), and arithmetic on D-numbers.

A file has one class per line, `number | name | term; term; several words`; `#` begins a comment line. The built-in
lexicon is in data/, one file per hundred; the user's own file can replace or extend it, in Dewey or in another scheme
of the same shape. Reads and validates files; `detect.LexiconMatcher` finds the terms in a text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from opilio.core.errors import TopicError

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
        self.dewey = dewey  # or of another scheme

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
