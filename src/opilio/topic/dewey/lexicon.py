"""The lexicon: index terms and the D-numbers they stand under (S2-04, S2-25, S2-E11).

A file has one class a line, `number | name | term; term; several words`; `#` begins a comment line. Ours is in
data/, one file per hundred, written by us; a person's own file can replace it or come on top, in Dewey or in
another scheme of the same shape. Reads files and checks them; finding terms in a text is the matcher's business.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from opilio.model.errors import TopicError
from opilio.topic.dewey.number import is_number, shorten


class Class(NamedTuple):
    """One class: `name` is in our own words, `terms` may be empty where a number is not in use."""

    number: str
    name: str
    terms: tuple[str, ...]


class Lexicon:
    """Classes by number, and the numbers of every term. Never changes: `plus` makes a new one."""

    def __init__(self, classes: Iterable[Class], dewey: bool = True) -> None:
        self.classes: Mapping[str, Class] = {entry.number: entry for entry in classes}
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
        """The name of the class or of the nearest one it belongs to; empty when there is none."""
        for length in range(len(number), 0, -1):
            entry = self.classes.get(shorten(number, length))
            if entry is not None:
                return entry.name
        return ""

    def plus(self, other: "Lexicon") -> "Lexicon":
        """Both together: a class that both have keeps the other's name and the terms of both."""
        merged = dict(self.classes)
        for number, entry in other.classes.items():
            mine = merged.get(number)
            terms = dict.fromkeys((*mine.terms, *entry.terms)) if mine else entry.terms
            merged[number] = Class(number, entry.name, tuple(terms))
        return Lexicon(merged.values())


def parse(text: str, source: str, dewey: bool = True) -> Lexicon:
    """A lexicon from the text of a file. Raises TopicError naming `source` and the line."""
    classes: dict[str, Class] = {}
    for place, line in _lines(text, source):
        entry = _class(line, place, dewey)
        if entry.number in classes:
            raise TopicError(f"{place}: the class {entry.number} stands there twice; put its terms on one line")
        classes[entry.number] = entry
    if not classes:
        raise TopicError(f"{source}: no class in it; a line reads: number | name | term; term")
    return Lexicon(classes.values(), dewey)


def read(path: Path, dewey: bool = True) -> Lexicon:
    """A person's own lexicon file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise TopicError(f"{path}: can't be read as a lexicon ({error})") from error
    return parse(text, str(path), dewey)


@lru_cache(maxsize=1)
def ours() -> Lexicon:
    """The lexicon that comes with Opilio: all thousand classes, read when first asked for."""
    pages = sorted((page for page in files(__package__).joinpath("data").iterdir()), key=lambda page: page.name)
    parts = [parse(page.read_text(encoding="utf-8"), page.name) for page in pages if page.name.endswith(".txt")]
    return Lexicon(entry for part in parts for entry in part.classes.values())


def _lines(text: str, source: str) -> Iterator[tuple[str, str]]:
    for index, line in enumerate(text.split("\n"), start=1):
        if line.strip() and not line.startswith("#"):
            yield f"{source}, line {index}", line


def _class(line: str, place: str, dewey: bool) -> Class:
    parts = line.split("|")
    if len(parts) != 3:
        raise TopicError(f"{place}: {len(parts)} parts, not 3; a line reads: number | name | term; term")
    number, name, listed = (part.strip() for part in parts)
    if not is_number(number, dewey):
        raise TopicError(f"{place}: {number!r} is no class number; write it like 598 or 598.8")
    if not name:
        raise TopicError(f"{place}: the class {number} has no name; write one between the bars")
    terms = [term for part in listed.lower().split(";") if (term := part.strip())]
    if len(set(terms)) < len(terms):
        twice = next(term for term in terms if terms.count(term) > 1)
        raise TopicError(f"{place}: the term {twice!r} stands there twice; delete one")
    return Class(number, name, tuple(terms))
