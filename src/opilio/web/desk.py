"""What every page is given: the collections, their sums, the clock; and what a page is, declared as data."""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from opilio.model.clock import Clock
from opilio.model.errors import UsageError
from opilio.store.collection import Collection, reading
from opilio.web.buckets import Buckets
from opilio.web.library import Library
from opilio.web.params import Param
from opilio.web.shelf import Shelf
from opilio.web.tally import Tally
from opilio.web.view import View

MOST_NOTES = 200


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as far as a page needs to know it."""

    name: str = ""  # of the collection
    values: dict[str, Any] = {}
    address: str = ""  # path and query, for links to the other forms of the page
    client: str = ""

    def back(self, usual: str) -> str:
        """Where a browser goes after an action: to the page it says it came from, if that is ours."""
        wanted = str(self.values.get("back", ""))
        return wanted if is_inside(wanted) else usual


def is_inside(address: str) -> bool:
    """Is this an address of ours, and of nobody else?

    >>> [is_inside(a) for a in ("/c/birds", "//evil.example", "/\\\\evil.example", "https://evil.example", "")]
    [True, False, False, False, False]
    """
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()


class Done(msgspec.Struct, kw_only=True):
    """What an action did: `said` for people, `data` for machines, `back` where a browser goes next."""

    said: str
    back: str
    data: dict[str, Any] = {}


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Something to look at. `table`: it has one, so it is there as CSV too."""

    path: str
    show: "Callable[[Desk, Asked], View]"
    about: str
    params: tuple[Param, ...] = ()
    table: bool = True


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do."""

    path: str
    act: "Callable[[Desk, Asked], View | Done]"
    about: str
    params: tuple[Param, ...] = ()


class Raw(msgspec.Struct, frozen=True, kw_only=True):
    """Something to take away in one form alone: a file, a picture, a stream. `kind` is its media type."""

    path: str
    about: str
    kind: str
    params: tuple[Param, ...] = ()


class ReadOnlyError(UsageError):
    """Somebody asked for a change where only looking is allowed."""


class Notes:
    """What to tell a person on the page that follows an action, by a number that can't be guessed."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, str] = OrderedDict()

    def keep(self, said: str) -> str:
        number = secrets.token_urlsafe(9)
        self._said[number] = said
        while len(self._said) > MOST_NOTES:
            self._said.popitem(last=False)
        return number

    def find(self, number: str) -> str:
        return self._said.get(number, "")


class Desk:
    """The bundle that pages work with."""

    def __init__(self, shelf: Shelf, clock: Clock, *, read_only: bool = False) -> None:
        self.shelf = shelf
        self.clock = clock
        self.read_only = read_only
        self.notes = Notes()
        self.library = Library()
        self.searches = Buckets(rate_s=5.0, burst=40)
        self._tallies: dict[Path, Tally] = {}

    @contextmanager
    def open(self, name: str) -> Iterator[Collection]:
        """A collection to look at, as it is at this moment."""
        with reading(self.shelf.folder(name)) as collection:
            yield collection

    def tally(self, collection: Collection) -> Tally:
        """The sums of a collection, up to date."""
        tally = self._tallies.setdefault(collection.folder, Tally())
        tally.refresh(collection.connection)
        return tally

    def writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this server only shows: it was started with --read-only")
