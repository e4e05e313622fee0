"""Drives libcurl's multi interface with the running asyncio loop (plain asyncio or uvloop).

libcurl reports the sockets and the timer it waits for; the loop waits for them; libcurl then does the work. libcurl
must not be called from within its callbacks, so these only record what to do.
"""

import asyncio

import pycurl

from opilio.fetch.http import CLOSED_CODE

TransferEnd = tuple[int, str]  # libcurl's code (0: success) and its message


class CurlDriver:
    """Runs easy handles, each at most once at a time.

    libcurl's limit per host is not used: it took 0.14 of 0.22 ms per request (measured), and hosts are leased to one
    holder at a time anyway.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: int) -> None:
        self._loop = loop
        self._timer: asyncio.Handle | None = None
        # File descriptor -> events that libcurl waits for.
        self._sockets: dict[int, int] = {}
        self._running: dict[pycurl.Curl, asyncio.Future[TransferEnd]] = {}
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._running)

    async def run(self, handle: pycurl.Curl) -> TransferEnd:
        """Perform the request of a handle. Cancelling removes the handle, which can then be used again."""
        done: asyncio.Future[TransferEnd] = self._loop.create_future()
        self._running[handle] = done
        self._multi.add_handle(handle)
        try:
            return await done
        finally:
            if self._running.pop(handle, None) is not None:
                self._multi.remove_handle(handle)

    def close(self) -> None:
        """Abort all requests and release sockets and timer."""
        for handle, done in list(self._running.items()):
            self._multi.remove_handle(handle)
            del self._running[handle]
            if not done.done():
                done.set_result((CLOSED_CODE, "the fetcher was closed"))
        self._multi.close()
        for descriptor in list(self._sockets):
            self._watch_socket(descriptor, 0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_socket(self, event: int, descriptor: int, _multi: object, _data: object) -> None:
        self._watch_socket(descriptor, 0 if event == pycurl.POLL_REMOVE else event)

    def _watch_socket(self, descriptor: int, wanted: int) -> None:
        had = self._sockets.pop(descriptor, 0)
        if wanted:
            self._sockets[descriptor] = wanted
        changed = had ^ wanted
        if changed & pycurl.POLL_IN:
            if wanted & pycurl.POLL_IN:
                self._loop.add_reader(descriptor, self._on_socket_ready, descriptor, pycurl.CSELECT_IN)
            else:
                self._loop.remove_reader(descriptor)
        if changed & pycurl.POLL_OUT:
            if wanted & pycurl.POLL_OUT:
                self._loop.add_writer(descriptor, self._on_socket_ready, descriptor, pycurl.CSELECT_OUT)
            else:
                self._loop.remove_writer(descriptor)

    def _on_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds == 0:
            self._timer = self._loop.call_soon(self._on_timeout)
        elif milliseconds > 0:
            self._timer = self._loop.call_later(milliseconds / 1000, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        self._on_socket_ready(pycurl.SOCKET_TIMEOUT, 0)

    def _on_socket_ready(self, descriptor: int, event: int) -> None:
        _, still_running = self._multi.socket_action(descriptor, event)
        if still_running < len(self._running):
            self._collect_finished()

    def _collect_finished(self) -> None:
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                self._finish(handle, (0, ""))
            for handle, code, message in failed:
                self._finish(handle, (code, message))

    def _finish(self, handle: pycurl.Curl, ended: TransferEnd) -> None:
        self._multi.remove_handle(handle)
        done = self._running.pop(handle, None)
        if done is not None and not done.done():
            done.set_result(ended)
