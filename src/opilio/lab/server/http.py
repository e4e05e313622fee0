"""HTTP/1.1 for the lab's server: parses requests and formats responses, with the access log. Pure.

Only what crawlers and browsers send is supported; anything else is a 400. Both request forms are read: a path with a
Host header, and a whole URL, as sent to a forward proxy (RFC 9112, section 3.2). Crawlers are scored by the access log.
"""

from collections.abc import Iterable
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import msgspec

from opilio.core.errors import OfflineWebError
from opilio.core.urls import canonicalize_url

MAX_HEAD_BYTES = 65_536
HEAD_END = b"\r\n\r\n"


class ParsedRequest(msgspec.Struct, frozen=True):
    """One request. `size` is the number of bytes it took from the buffer."""

    method: str
    host: str
    target: str  # path and query
    keep_alive: bool
    size: int
    etag: str = ""  # If-None-Match
    modified_since: str = ""  # If-Modified-Since


class MalformedRequestError(ValueError):
    """Bytes that are not a request this server supports."""


def parse_request(buffer: bytes | bytearray) -> ParsedRequest | None:
    """The first request in a buffer, None while it is not complete."""
    end = buffer.find(HEAD_END)
    if end < 0:
        if len(buffer) > MAX_HEAD_BYTES:
            raise MalformedRequestError("head too large")
        return None
    lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise MalformedRequestError("no request line")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = fields.get("content-length", "0")
    if not length.isdecimal() or "transfer-encoding" in fields:
        raise MalformedRequestError("a body this server does not read")
    size = end + len(HEAD_END) + int(length)
    if len(buffer) < size:
        return None
    host, target = _resolve_host(words[0], words[1], fields.get("host", ""))
    connection = (fields.get("connection") or fields.get("proxy-connection") or "").lower()
    keep = connection != "close" if words[2] == "HTTP/1.1" else connection == "keep-alive"
    marks = fields.get("if-none-match", ""), fields.get("if-modified-since", "")
    return ParsedRequest(words[0], host, target, keep, size, *marks)


def _resolve_host(method: str, target: str, host: str) -> tuple[str, str]:
    if target.startswith("/"):
        return host.lower(), target
    scheme, mark, rest = target.partition("://")
    if method == "CONNECT":
        raise MalformedRequestError(
            "CONNECT is not supported; request the http:// URL, which also serves pages recorded under https"
        )
    if not mark or scheme.lower() not in ("http", "https"):
        raise MalformedRequestError("a target that is neither a path nor an address")
    name, slash, path = rest.partition("/")
    return name.lower(), slash + path or "/"


def format_response(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[bytes, bytes]:
    """Head (without its last line, so that Connection can be added) and body of a response."""
    lines = [f"HTTP/1.1 {status} {_reason_phrase(status)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
    return head.encode("utf-8", "surrogateescape"), body


def _reason_phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


class LoggedFetch(NamedTuple):
    """One fetch as the server logged it. Requests for robots.txt do not count as fetches."""

    url: str
    status: int


class AccessLogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One request. `at`: when it was received; `target` is the path and query as they were sent."""

    at: float
    host: str
    target: str
    status: int
    client_port: int
    method: str = "GET"

    @property
    def url(self) -> str:
        """The canonical URL requested; empty if it is invalid."""
        return canonicalize_url(f"http://{self.host}{self.target}") or ""


_encoder = msgspec.json.Encoder()


def append_access_log(accesses: Iterable[AccessLogEntry], path: Path) -> None:
    """Append requests to a file, one JSON array per line."""
    try:
        with path.open("ab") as file:
            file.write(b"".join(_encoder.encode(access) + b"\n" for access in accesses))
    except OSError as error:
        raise OfflineWebError(f"{path}: the access log can't be written: {error.strerror}") from error


def read_access_log(path: Path) -> list[AccessLogEntry]:
    """The requests in a file that `append_access_log` wrote."""
    try:
        return [msgspec.json.decode(line, type=AccessLogEntry) for line in path.read_bytes().splitlines() if line]
    except (OSError, msgspec.DecodeError) as error:
        raise OfflineWebError(f"{path}: no access log: {error}") from error


def fetch_attempts(accesses: Iterable[AccessLogEntry]) -> list[LoggedFetch]:
    """The requests that count as fetches, in order: GETs, without robots.txt, which is free for every crawler."""
    asked = ((a.url, a.status) for a in accesses if a.method == "GET")
    return [LoggedFetch(url, status) for url, status in asked if url and not url.endswith("/robots.txt")]
