"""What pages work with: collections, statistics, clock; and the declarations of pages and actions."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from opilio.core.caches import evict_oldest
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
    """The part of a request that a page needs."""

    name: str = ""  # of the collection
    values: dict[str, Any] = {}
    address: str = ""  # path and query, for links to JSON and CSV
    client: str = ""

    def redirect_target(self, usual: str) -> str:
        """The page to show after an action: `back` if it is a local URL, else `usual`."""
        wanted = str(self.values.get("back", ""))
        return wanted if is_local_address(wanted) else usual


def is_local_address(address: str) -> bool:
    """Whether this is a path on this server.

    >>> [is_local_address(a) for a in ("/c/birds", "//evil.example", "/\\\\evil.example", "https://evil.example", "")]
    [True, False, False, False, False]
    """
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()


class ActionResult(msgspec.Struct, kw_only=True):
    """The result of an action: `message` for the user, `data` for programs, and the next page."""

    message: str
    redirect_to: str
    data: dict[str, Any] = {}


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A page. `has_table`: it is available as CSV too."""

    path: str
    show: "Callable[[AppContext, PageRequest], PageView]"
    about: str
    params: tuple[Param, ...] = ()
    has_table: bool = True


class ActionRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A request that changes something."""

    path: str
    run: "Callable[[AppContext, PageRequest], PageView | ActionResult]"
    about: str
    params: tuple[Param, ...] = ()


class RawRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A file, picture or stream in a single format."""

    path: str
    about: str
    media_type: str
    params: tuple[Param, ...] = ()


class ReadOnlyError(UsageError):
    """A change was requested from a read-only server."""


class FlashMessages:
    """Messages for the page that follows an action, by unguessable keys."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def add(self, message: str) -> str:
        number = secrets.token_urlsafe(9)
        self._messages[number] = message
        evict_oldest(self._messages, MAX_FLASH_MESSAGES)
        return number

    def get(self, number: str) -> str:
        return self._messages.get(number, "")


class AppContext:
    """Shared state of all pages."""

    def __init__(
        self, collections: ServedCollections, clock: Clock, *, read_only: bool = False, allow_local: bool = False
    ) -> None:
        self.collections = collections
        self.clock = clock
        self.read_only = read_only
        self.allow_local = allow_local
        self.flash = FlashMessages()
        self.searchers = SearcherPool()
        self.search_limiter = RateLimiter(rate_s=5.0, burst=40)
        self._stats: dict[Path, CollectionStats] = {}

    def limit_searches(self, client: str) -> None:
        """Count a search of a client; raises if it searches too often."""
        self.search_limiter.acquire(client, self.clock.now())

    @contextmanager
    def open(self, name: str) -> Iterator[Collection]:
        """A collection, opened read-only."""
        with open_readonly(self.collections.folder(name)) as collection:
            yield collection

    def stats(self, collection: Collection) -> CollectionStats:
        """The statistics of a collection, up to date."""
        tally = self._stats.setdefault(collection.folder, CollectionStats())
        tally.refresh(collection)
        return tally

    def forget(self, name: str) -> None:
        """Serve a collection no longer; called after its deletion."""
        folder = self.collections.remove(name)
        self._stats.pop(folder, None)
        self.searchers.forget(name, folder)

    def require_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this server is read-only (opilio serve --read-only)")
