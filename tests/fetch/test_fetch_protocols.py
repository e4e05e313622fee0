"""libcurl's fetcher against servers that break TLS and HTTP/2: always a typed failure, within the limits."""

import asyncio
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from opilio.core.records import FetchResult
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import FetchLimits, NetworkOptions

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LIMITS = FetchLimits(body_bytes=1 << 20, total_s=20, slow_s=10)


def fetch(answer: Answer, certificate: Path, tls: ssl.SSLContext | None, limits: FetchLimits = LIMITS) -> FetchResult:
    """Fetch a page over https from a server that answers with bytes."""

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, ssl.SSLError):
                await answer(reader, writer)
                await writer.drain()
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.get_running_loop().create_task(serve(reader, writer)))

    async def main() -> FetchResult:
        server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
        places = {"birds.example": f"127.0.0.1:{server.sockets[0].getsockname()[1]}"}
        network = NetworkOptions(allow_private=True, resolve=places, ca_file=str(certificate))
        fetcher = CurlFetcher("Opilio/test", limits=limits, network=network)
        try:
            return await fetcher.fetch("https://birds.example/")
        finally:
            await fetcher.close()
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(main())


def kind_of(found: FetchResult) -> str:
    assert found.failure is not None, found
    return found.failure.kind


def sends(data: bytes) -> Answer:
    """These bytes after the first of the client, then the end of the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(data)

    return answer


async def is_silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(1 << 16):
        pass


@pytest.mark.parametrize(
    ("data", "kinds"),
    [
        (b"", {"tls", "connect"}),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", {"tls"}),
        (b"\x16\x03\x03\xff\xff" + bytes(70_000), {"tls", "connect"}),  # a record that is too long
        (b"\x15\x03\x03\x00\x02\x02\x28", {"tls"}),  # an alert: handshake failure
        (b"\x16\x03\x03\x00\x04\x02\x00", {"tls", "connect"}),  # a handshake that is cut
    ],
    ids=["nothing", "no TLS", "long record", "alert", "cut"],
)
def test_failure_is_typed_when_the_handshake_is(certificate: Path, data: bytes, kinds: set[str]) -> None:
    assert kind_of(fetch(sends(data), certificate, None)) in kinds


def test_handshake_that_never_ends_is_a_timeout(certificate: Path) -> None:
    assert kind_of(fetch(is_silent, certificate, None, FetchLimits(total_s=0.5))) == "timeout"


def test_body_that_is_cut_inside_tls_is_truncated(certificate: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 900\r\n\r\n"
    assert kind_of(fetch(sends(head + b"<p>wren"), certificate, context)) == "truncated"


# Frames of HTTP/2 (RFC 9113): length, type, flags, stream.
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, CONTINUATION = 0, 1, 3, 4, 6, 7, 9
END_STREAM, END_HEADERS = 1, 4
STATUS_200 = b"\x88"  # of HPACK's static table
TYPE_HTML = b"\x5f\x09text/html"  # content-type, not indexed


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


OPENING = frame(SETTINGS)
HEAD = frame(HEADERS, END_HEADERS, 1, STATUS_200 + TYPE_HTML)


def h2(data: bytes, again: bytes = b"") -> Answer:
    """Frames after the request; `again` is sent until the client closes the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(OPENING + data)
        while again:
            writer.write(again)
            await writer.drain()
        # The client has what was sent before the end of the connection.
        await reader.read(1 << 16)

    return answer


H2_FAULTS: dict[str, tuple[Answer, set[str]]] = {
    "garbage": (h2(b"\xff" * 4096), {"protocol"}),
    "goaway": (h2(frame(GOAWAY, payload=struct.pack("!II", 0, 2))), {"reset"}),
    "reset": (h2(frame(RST_STREAM, 0, 1, struct.pack("!I", 2))), {"reset"}),
    "reset in the body": (
        h2(HEAD + frame(DATA, 0, 1, b"<p>wren") + frame(RST_STREAM, 0, 1, struct.pack("!I", 2))),
        {"reset"},
    ),
    "data without a head": (h2(frame(DATA, END_STREAM, 1, b"<p>wren")), {"protocol"}),
    "endless headers": (
        h2(frame(HEADERS, 0, 1, STATUS_200), frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x81\x7e" + b"b" * 16_000)),
        {"protocol", "headers"},
    ),
    "empty continuations": (
        h2(frame(HEADERS, 0, 1, STATUS_200), frame(CONTINUATION, 0, 1) * 1000),
        {"reset"},
    ),
    "endless settings": (h2(b"", frame(SETTINGS) * 1000), {"reset"}),
    "endless pings": (h2(b"", frame(PING, payload=bytes(8)) * 1000), {"reset"}),
    "endless empty data": (h2(HEAD, frame(DATA, 0, 1) * 1000), {"protocol", "timeout", "slow"}),
}


@pytest.mark.parametrize("case", H2_FAULTS)
def test_failure_is_typed_when_http_2_has(certificate: Path, case: str) -> None:
    answer, kinds = H2_FAULTS[case]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])
    assert kind_of(fetch(answer, certificate, context, FetchLimits(total_s=3))) in kinds
