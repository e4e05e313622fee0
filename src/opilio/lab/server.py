"""A web over HTTP on loopback: all hosts on one port, by Host header and as a forward proxy.

So any crawler can be run over the same web as the replay. The answers are the recorded ones; faults (delays, errors,
throttling) are added where asked for, and every request is logged. Answers on one connection are given in the order
of its requests, delayed ones too, so pipelining is safe. This is a server for loopback and strangers' crawlers
under test, not for the internet.
"""

import asyncio
from html import escape
from pathlib import Path
from typing import Self, cast

import msgspec

from opilio.lab.accesslog import Access, write_log
from opilio.lab.faults import TOO_MANY, Faults, Trouble
from opilio.lab.httpwire import HEAD_END, Request, RequestError, parse_request, response
from opilio.lab.source import Source
from opilio.model.clock import Clock, SystemClock
from opilio.model.urls import canonical

_FREE = "User-agent: *\nDisallow:\n"
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_LOOPBACK = ("127.0.0.", "localhost", "[::1]")


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """How a web is served."""

    port: int = 0  # 0: any free one
    addresses: int = 1  # listen on 127.0.0.1 … 127.0.0.N, hosts shared out among them
    robots: str = _FREE  # for hosts that recorded none; empty: 404
    log_file: Path | None = None
    cache_bytes: int = 512 << 20  # of answers kept ready


class WebServer:
    """Serves a web while it is entered: `async with WebServer(web) as server: server.port`."""

    def __init__(
        self,
        source: Source,
        serving: Serving | None = None,
        faults: Faults | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.serving = serving = serving or Serving()
        self.log: list[Access] = []
        self.port = 0
        self.desk = Desk(source, serving, faults or {}, clock or SystemClock())
        self._servers: list[asyncio.Server] = []
        self._connections: set[_Connection] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.port = self.serving.port
        for number in range(1, self.serving.addresses + 1):
            server = await loop.create_server(
                lambda: _Connection(self.desk, self.log, self._connections),
                f"127.0.0.{number}",
                self.port,
                backlog=1024,
            )
            self._servers.append(server)
            self.port = self.desk.port = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        if self.serving.log_file is not None:
            write_log(self.log, self.serving.log_file)

    @property
    def proxy(self) -> str:
        """The address to give to a crawler as its proxy."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def address_of(self) -> dict[str, str]:
        """The loopback address each host is served on."""
        names = sorted(self.desk.source.hosts)
        return {name: f"127.0.0.{place % self.serving.addresses + 1}" for place, name in enumerate(names)}


class Reply(msgspec.Struct):
    """An answer on the wire, and how long it is held back."""

    status: int
    head: bytes
    body: bytes
    delay_s: float = 0.0


class Desk:
    """Decides the answer to each request. Invariant: `_ready` holds at most `cache_bytes` of answers."""

    def __init__(self, source: Source, serving: Serving, faults: Faults, clock: Clock) -> None:
        self.source = source
        self.clock = clock
        self.port = 0
        self._serving = serving
        self._trouble = Trouble(faults)
        self._ready: dict[tuple[str, str], Reply] = {}
        self._ready_bytes = 0

    def named(self, request: Request) -> Request:
        """The request with its host as the web knows it: clients add the server's own port (RFC 9110, 7.2)."""
        host = request.host.removesuffix(f":{self.port}")
        known = host == request.host or request.host in self.source.hosts
        return request if known else msgspec.structs.replace(request, host=host)

    def reply(self, request: Request) -> Reply:
        """The answer to a request, faults included."""
        if request.method not in ("GET", "HEAD"):
            return _plain(405, "only GET and HEAD are answered")
        found = self._ready.get((request.host, request.target)) or self._recorded(request)
        if found.status == 200 and (request.etag or request.since):
            found = _unless_changed(found, request)
        status, delay_s = self._trouble.strikes(request.host, request.target, self.clock.now())
        if status == TOO_MANY:
            return _plain(status, "too many requests", ("Retry-After", "1"))
        if status:
            found = _plain(status, "this host fails now and then")
        return Reply(found.status, found.head, found.body, delay_s) if delay_s else found

    def _recorded(self, request: Request) -> Reply:
        reply = self._looked_up(request.host, request.target)
        if self._ready_bytes < self._serving.cache_bytes:
            self._ready[request.host, request.target] = reply
            self._ready_bytes += len(reply.body) + 500
        return reply

    def _looked_up(self, host: str, target: str) -> Reply:
        for scheme in ("http", "https"):
            url = canonical(f"{scheme}://{host}{target}")
            answer = self.source.find(url) if url else None
            if answer is not None:
                return Reply(answer.status, *response(answer.status, answer.headers, answer.body))
        if target == "/robots.txt" and self._serving.robots:
            return Reply(200, *response(200, _TEXT, self._serving.robots.encode()))
        if target == "/" and host.startswith(_LOOPBACK):
            return self._welcome()
        return _plain(404, "not in this web")

    def _welcome(self) -> Reply:
        """What a person sees who opens the server's own address."""
        items = "".join(f"<li>{escape(h)} ({n} pages)" for h, n in sorted(self.source.hosts.items()))
        page = f"<title>An offline web</title><p>Use this address as a proxy to visit:<ul>{items}</ul>"
        return Reply(200, *response(200, (("Content-Type", "text/html; charset=utf-8"),), page.encode()))


def _unless_changed(reply: Reply, request: Request) -> Reply:
    """RFC 9110, 13.2.2: a tag that matches, or without one the same date, means 304."""
    marks = {}
    for line in reply.head.decode("utf-8", "surrogateescape").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        marks[name.lower()] = value.strip()
    same = request.etag == marks.get("etag") if request.etag else request.since == marks.get("last-modified")
    if not same:
        return reply
    kept = tuple((name, marks[name]) for name in ("etag", "last-modified") if name in marks)
    return Reply(304, *response(304, kept, b""), reply.delay_s)


def _plain(status: int, text: str, *headers: tuple[str, str]) -> Reply:
    return Reply(status, *response(status, (*_TEXT, *headers), f"{text}\n".encode()))


class _Connection(asyncio.Protocol):
    """One client. Invariant: while an answer is held back, nothing behind it is read from the buffer."""

    def __init__(self, desk: Desk, log: list[Access], all_connections: set["_Connection"]) -> None:
        self._desk = desk
        self._log = log
        self._all = all_connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._client_port = 0
        self._held: asyncio.TimerHandle | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._client_port = transport.get_extra_info("peername")[1]
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        self._all.discard(self)
        self._transport = None
        if self._held is not None:
            self._held.cancel()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._work()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._work()

    def _work(self) -> None:
        """Answer what is complete in the buffer, unless an answer is held back or the client does not read."""
        while self._buffer and self._held is None and not self._paused and self._transport is not None:
            try:
                request = parse_request(self._buffer)
            except RequestError as error:
                self._send(_plain(400, str(error)), Request("GET", "", "", False, 0))
                return
            if request is None:
                return
            del self._buffer[: request.size]
            request = self._desk.named(request)
            reply = self._desk.reply(request)
            if reply.delay_s > 0:
                self._held = asyncio.get_running_loop().call_later(reply.delay_s, self._release, reply, request)
                return
            self._send(reply, request)

    def _release(self, reply: Reply, request: Request) -> None:
        self._held = None
        self._send(reply, request)
        self._work()

    def _send(self, reply: Reply, request: Request) -> None:
        if self._transport is None:
            return
        now = self._desk.clock.now()
        if request.size:
            self._log.append(Access(now, request.host, request.target, reply.status, self._client_port, request.method))
        connection = b"" if request.keep_alive else b"\r\nConnection: close"
        body = b"" if request.method == "HEAD" else reply.body
        self._transport.write(b"".join((reply.head, connection, HEAD_END, body)))
        if not request.keep_alive:
            self._transport.close()
