"""Serves a web over HTTP on loopback: all hosts on one port, by Host header and as a forward proxy.

So any crawler can be run over the same web as the replay. Responses are the recorded ones; faults (delays, errors,
throttling) are added if configured, and every request is logged. Responses on one connection are sent in the order of
its requests, delayed ones too, so pipelining is safe. The server is for crawlers under test on loopback, not for the
internet. `opilio lab serve` runs it until it is stopped.
"""

import asyncio
import signal
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from html import escape
from pathlib import Path
from typing import Self, cast

import msgspec

from opilio.core.clock import Clock, SystemClock
from opilio.core.urls import canonicalize_url
from opilio.lab.server.http import (
    HEAD_END,
    AccessLogEntry,
    MalformedRequestError,
    ParsedRequest,
    append_access_log,
    format_response,
    parse_request,
)
from opilio.lab.synthetic.changing import (
    TOO_MANY_REQUESTS,
    FaultInjector,
    Faults,
    HostFaults,
    load_faults,
    merge_faults,
)
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb
from opilio.lab.webs.web import ResponseSource, WarcWeb

_ALLOW_ALL_ROBOTS = "User-agent: *\nDisallow:\n"
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_LOOPBACK = ("127.0.0.", "localhost", "[::1]")
# tcpi_last_data_recv of Linux's struct tcp_info: milliseconds since the last data came.
_TCP_INFO_BYTES, _LAST_DATA_RECEIVED_AT, _LAST_DATA_RECEIVED = 104, 56, struct.Struct("I")


class LabServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a web is served."""

    port: int = 0  # 0: any free port
    # Listen on 127.0.0.1 … 127.0.0.N, with the hosts spread over them.
    addresses: int = 1
    # For hosts without a recorded one; empty: 404.
    robots: str = _ALLOW_ALL_ROBOTS
    log_file: Path | None = None
    cache_bytes: int = 512 << 20  # of formatted responses


# Turns of the event loop from accepting a connection to `connection_made`, at most.
ACCEPT_TURNS = 4


class LabWebServer:
    """Serves a web inside its context: `async with LabWebServer(web) as server: server.port`."""

    def __init__(
        self,
        source: ResponseSource,
        serving: LabServerConfig | None = None,
        faults: Faults | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.config = serving = serving or LabServerConfig()
        self.log: list[AccessLogEntry] = []
        self.port = 0
        self.handler = RequestHandler(source, serving, faults or {}, clock or SystemClock())
        self._servers: list[asyncio.Server] = []
        self._connections: set[_ServerConnection] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.port = self.config.port
        for number in range(1, self.config.addresses + 1):
            server = await loop.create_server(
                lambda: _ServerConnection(self.handler, self.log, self._connections),
                f"127.0.0.{number}",
                self.port,
                backlog=1024,
            )
            self._servers.append(server)
            self.port = self.handler.port = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        # A connection that was accepted just before is known some turns of the loop later.
        for _turn in range(ACCEPT_TURNS):
            await asyncio.sleep(0)
        for connection in list(self._connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        if self.config.log_file is not None:
            append_access_log(self.log, self.config.log_file)

    @property
    def proxy(self) -> str:
        """The proxy address for a crawler."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def host_addresses(self) -> dict[str, str]:
        """The loopback address of each host."""
        names = sorted(self.handler.source.hosts)
        return {name: f"127.0.0.{place % self.config.addresses + 1}" for place, name in enumerate(names)}


class ServedResponse(msgspec.Struct):
    """A formatted response with its delay."""

    status: int
    head: bytes
    body: bytes
    delay_s: float = 0.0


class RequestHandler:
    """Decides the response to each request. Invariant: `_ready` holds at most `cache_bytes` of responses."""

    def __init__(self, source: ResponseSource, serving: LabServerConfig, faults: Faults, clock: Clock) -> None:
        self.source = source
        self.clock = clock
        self.port = 0
        self._config = serving
        self._fault_injector = FaultInjector(faults)
        self._cache: dict[tuple[str, str], ServedResponse] = {}
        self._cached_bytes = 0

    def normalize_host(self, request: ParsedRequest) -> ParsedRequest:
        """The request with the host's name in the web: clients add the server's own port (RFC 9110, 7.2)."""
        host = request.host.removesuffix(f":{self.port}")
        known = host == request.host or request.host in self.source.hosts
        return request if known else msgspec.structs.replace(request, host=host)

    def respond(self, request: ParsedRequest) -> ServedResponse:
        """The response to a request, faults included."""
        if request.method not in ("GET", "HEAD"):
            return _text_response(405, "only GET and HEAD are answered")
        found = self._cache.get((request.host, request.target)) or self._load_response(request)
        if found.status == 200 and (request.etag or request.modified_since):
            found = _apply_conditional(found, request)
        status, delay_s = self._fault_injector.next_fault(request.host, request.target, self.clock.now())
        if status == TOO_MANY_REQUESTS:
            return _text_response(status, "too many requests", ("Retry-After", "1"))
        if status:
            found = _text_response(status, "this host fails now and then")
        return ServedResponse(found.status, found.head, found.body, delay_s) if delay_s else found

    def _load_response(self, request: ParsedRequest) -> ServedResponse:
        reply = self._find_response(request.host, request.target)
        if self._cached_bytes < self._config.cache_bytes:
            self._cache[request.host, request.target] = reply
            self._cached_bytes += len(reply.body) + 500
        return reply

    def _find_response(self, host: str, target: str) -> ServedResponse:
        for scheme in ("http", "https"):
            url = canonicalize_url(f"{scheme}://{host}{target}")
            answer = self.source.find(url) if url else None
            if answer is not None:
                return ServedResponse(answer.status, *format_response(answer.status, answer.headers, answer.body))
        if target == "/robots.txt" and self._config.robots:
            return ServedResponse(200, *format_response(200, _TEXT, self._config.robots.encode()))
        if target == "/" and host.startswith(_LOOPBACK):
            return self._index_page()
        return _text_response(404, "not in this web")

    def _index_page(self) -> ServedResponse:
        """The page at the server's own address, for browsers."""
        items = "".join(f"<li>{escape(h)} ({n} pages)" for h, n in sorted(self.source.hosts.items()))
        page = f"<title>An offline web</title><p>Use this address as a proxy to visit:<ul>{items}</ul>"
        return ServedResponse(
            200, *format_response(200, (("Content-Type", "text/html; charset=utf-8"),), page.encode())
        )


def _apply_conditional(reply: ServedResponse, request: ParsedRequest) -> ServedResponse:
    """RFC 9110, 13.2.2: a tag that matches, or without one the same date, means 304."""
    marks = {}
    for line in reply.head.decode("utf-8", "surrogateescape").split("\r\n")[1:]:
        name, _, value = line.partition(":")
        marks[name.lower()] = value.strip()
    same = request.etag == marks.get("etag") if request.etag else request.modified_since == marks.get("last-modified")
    if not same:
        return reply
    kept = tuple((name, marks[name]) for name in ("etag", "last-modified") if name in marks)
    return ServedResponse(304, *format_response(304, kept, b""), reply.delay_s)


def _text_response(status: int, text: str, *headers: tuple[str, str]) -> ServedResponse:
    return ServedResponse(status, *format_response(status, (*_TEXT, *headers), f"{text}\n".encode()))


class _ServerConnection(asyncio.Protocol):
    """One client. Invariant: while a response is delayed, no further request is read from the buffer."""

    def __init__(
        self, handler: RequestHandler, log: list[AccessLogEntry], all_connections: set["_ServerConnection"]
    ) -> None:
        self._handler = handler
        self._log = log
        self._connections = all_connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._client_port = 0
        self._received_at = 0.0
        self._delayed_send: asyncio.TimerHandle | None = None
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one without declaring it.
        self._transport = cast(asyncio.Transport, transport)
        self._client_port = transport.get_extra_info("peername")[1]
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio calls it so
        self._connections.discard(self)
        self._transport = None
        if self._delayed_send is not None:
            self._delayed_send.cancel()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._process_buffer()

    def data_received(self, data: bytes) -> None:
        self._received_at = self._handler.clock.now() - self._unread_s()
        self._buffer += data
        self._process_buffer()

    def _unread_s(self) -> float:
        """How long ago the system received the data: on a busy machine this process may read it late."""
        connection = self._transport.get_extra_info("socket") if self._transport is not None else None
        if connection is None or sys.platform != "linux":
            return 0.0
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        unread_ms: int = _LAST_DATA_RECEIVED.unpack_from(info, _LAST_DATA_RECEIVED_AT)[0]
        return unread_ms / 1000.0

    def _process_buffer(self) -> None:
        """Respond to complete requests in the buffer, unless a response is delayed or the client does not read."""
        while self._buffer and self._delayed_send is None and not self._paused and self._transport is not None:
            try:
                request = parse_request(self._buffer)
            except MalformedRequestError as error:
                self._send(_text_response(400, str(error)), ParsedRequest("GET", "", "", False, 0))
                return
            if request is None:
                return
            del self._buffer[: request.size]
            request = self._handler.normalize_host(request)
            reply = self._handler.respond(request)
            if reply.delay_s > 0:
                self._delayed_send = asyncio.get_running_loop().call_later(
                    reply.delay_s, self._send_delayed, reply, request
                )
                return
            self._send(reply, request)

    def _send_delayed(self, reply: ServedResponse, request: ParsedRequest) -> None:
        self._delayed_send = None
        self._send(reply, request)
        self._process_buffer()

    def _send(self, reply: ServedResponse, request: ParsedRequest) -> None:
        if self._transport is None:
            return
        if request.size:
            where = request.host, request.target, reply.status, self._client_port, request.method
            self._log.append(AccessLogEntry(self._received_at, *where))
        connection = b"" if request.keep_alive else b"\r\nConnection: close"
        body = b"" if request.method == "HEAD" else reply.body
        self._transport.write(b"".join((reply.head, connection, HEAD_END, body)))
        if not request.keep_alive:
            self._transport.close()


OnServerStarted = Callable[[LabWebServer], None]


def serve_web(
    folder: Path,
    serving: LabServerConfig,
    announce: OnServerStarted,
    *,
    faults: bool = True,
    every: HostFaults | None = None,
) -> int:
    """Serve a web's folder until SIGINT or SIGTERM; returns the number of responses.

    `faults`: apply the folder's `hosts.toml`; `every` applies to all hosts in addition.
    """
    web = WarcWeb.open(folder)
    own = load_faults(folder) if faults else {}
    return run_event_loop(
        _serve_until_stopped(LabWebServer(web, serving, merge_faults(web.hosts, own, every)), announce)
    )


def serve_synthetic_web(
    shape: WebShape,
    serving: LabServerConfig,
    announce: OnServerStarted,
    *,
    faults: bool = True,
    every: HostFaults | None = None,
) -> int:
    """Serve a synthetic web whose traps never end, until SIGINT or SIGTERM."""
    web = SyntheticWeb(shape)
    own = web.faults if faults else {}
    return run_event_loop(
        _serve_until_stopped(LabWebServer(web, serving, merge_faults(web.hosts, own, every)), announce)
    )


async def _serve_until_stopped(server: LabWebServer, announce: Callable[[LabWebServer], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with server:
        announce(server)
        await stop.wait()
    return len(server.log)


def run_event_loop(main: Coroutine[object, object, int]) -> int:
    """Run on uvloop where it is installed: half the cost per request, measured in benchmarks/lab."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
