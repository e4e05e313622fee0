"""The addresses of host names.

The system's resolver can't be interrupted, and takes 10 s and more if a name server does not reply. libcurl has at most
20 threads for it and uvloop 4, so a page with links to 30 such names would keep all other hosts waiting, and the end of
the crawl too. Here every lookup has a thread of its own, which does not keep the process from ending.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from opilio.core.caches import evict_oldest

TIMEOUT_S = 10.0
KEEP_S = 60.0  # as libcurl
# That have not ended, also those that nothing waits for any more.
MAX_LOOKUPS = 512
MAX_NAMES = 20_000

Addresses = tuple[str, ...]


def system_addresses(name: str) -> Addresses:
    """What the system's resolver knows, in the order in which to try them; empty for an unknown name."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    # UnicodeError: a label too long for IDNA.
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class NameResolver:
    """Belongs to one event loop. Found and missing names are remembered for a minute."""

    def __init__(self, look_up: Callable[[str], Addresses] = system_addresses, timeout_s: float = TIMEOUT_S) -> None:
        self._look_up = look_up
        self._timeout_s = timeout_s
        # With the time until which it counts.
        self._known: dict[str, tuple[float, Addresses]] = {}
        self._running: dict[str, asyncio.Future[Addresses]] = {}

    async def addresses(self, name: str) -> Addresses:
        """The addresses of a name; empty if it has none, or if they were not found in time."""
        loop = asyncio.get_running_loop()
        until, known = self._known.get(name, (0.0, ()))
        if until > loop.time():
            return known
        lookup = self._running.get(name)
        if lookup is None:
            if len(self._running) >= MAX_LOOKUPS:
                return ()
            lookup = self._start(name, loop)
        await asyncio.wait([lookup], timeout=self._timeout_s)
        if lookup.done():
            return lookup.result()
        self._keep(name, (), loop)
        return ()

    def _start(self, name: str, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[Addresses]":
        lookup = self._running[name] = loop.create_future()

        def run() -> None:
            found = self._look_up(name)
            # The loop is closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, found)

        def finish(found: Addresses) -> None:
            del self._running[name]
            self._keep(name, found, loop)
            lookup.set_result(found)

        try:
            Thread(target=run, daemon=True, name="name lookup").start()
        # Too many threads.
        except RuntimeError:
            finish(())
        return lookup

    def _keep(self, name: str, found: Addresses, loop: asyncio.AbstractEventLoop) -> None:
        self._known.pop(name, None)
        self._known[name] = (loop.time() + KEEP_S, found)
        evict_oldest(self._known, MAX_NAMES)
