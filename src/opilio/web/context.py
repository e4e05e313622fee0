"""What every page is given: the collections, their sums, the clock; and what a page is, declared as data."""

import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from opilio.core.clock import Clock
from opilio.core.errors import UsageError
from opilio.store.collection import Collection, open_readonly
from opilio.web.auth import RateLimiter
from opilio.web.collections import SearcherPool, ServedCollections
from opilio.web.params import Param
from opilio.web.stats import CollectionStats
from opilio.web.views import PageView

MAX_FLASH_MESSAGES = 200


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as far as a page needs to know it."""

    name: str = ""  # of the collection
    values: dict[str, Any] = {}
    address: str = ""  # path and query, for links to the other forms of the page
    client: str = ""

    def redirect_target(self, usual: str) -> str:
        """Where a browser goes after an action: to the page it says it came from, if that is ours."""
        wanted = str(self.values.get("back", ""))
        return wanted if is_local_address(wanted) else usual


def is_local_address(address: str) -> bool:
    """Is this an address of ours, and of nobody else?

    >>> [is_local_address(a) for a in ("/c/birds", "//evil.example", "/\\\\evil.example", "https://evil.example", "")]
    [True, False, False, False, False]
    """
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()


class ActionResult(msgspec.Struct, kw_only=True):
    """What an action did: `said` for people, `data` for machines, `back` where a browser goes next."""

    message: str
    redirect_to: str
    data: dict[str, Any] = {}


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Something to look at. `table`: it has one, so it is there as CSV too."""

    path: str
    show: "Callable[[AppContext, PageRequest], PageView]"
    about: str
    params: tuple[Param, ...] = ()
    has_table: bool = True


class ActionRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Something to do."""

    path: str
    run: "Callable[[AppContext, PageRequest], PageView | ActionResult]"
    about: str
    params: tuple[Param, ...] = ()


class RawRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Something to take away in one form alone: a file, a picture, a stream. `kind` is its media type."""

    path: str
    about: str
    media_type: str
    params: tuple[Param, ...] = ()


class ReadOnlyError(UsageError):
    """Somebody asked for a change where only looking is allowed."""


class FlashMessages:
    """What to tell a person on the page that follows an action, by a number that can't be guessed."""

    def __init__(self) -> None:
        self._messages: OrderedDict[str, str] = OrderedDict()

    def add(self, said: str) -> str:
        number = secrets.token_urlsafe(9)
        self._messages[number] = said
        while len(self._messages) > MAX_FLASH_MESSAGES:
            self._messages.popitem(last=False)
        return number

    def get(self, number: str) -> str:
        return self._messages.get(number, "")


class AppContext:
    """The bundle that pages work with."""

    def __init__(self, shelf: ServedCollections, clock: Clock, *, read_only: bool = False) -> None:
        self.collections = shelf
        self.clock = clock
        self.read_only = read_only
        self.flash = FlashMessages()
        self.searchers = SearcherPool()
        self.search_limiter = RateLimiter(rate_s=5.0, burst=40)
        self._stats: dict[Path, CollectionStats] = {}

    @contextmanager
    def open(self, name: str) -> Iterator[Collection]:
        """A collection to look at, as it is at this moment."""
        with open_readonly(self.collections.folder(name)) as collection:
            yield collection

    def stats(self, collection: Collection) -> CollectionStats:
        """The sums of a collection, up to date."""
        tally = self._stats.setdefault(collection.folder, CollectionStats())
        tally.refresh(collection)
        return tally

    def require_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this server only shows: it was started with --read-only")
