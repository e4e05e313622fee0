"""HTTP/1.1 as the lab's server speaks it: requests out of bytes, answers into bytes. Pure.

Only what crawlers and browsers send is understood; anything else is a 400. Both request forms are read: a path
with a Host header, and a whole address, as sent to a forward proxy (RFC 9112, section 3.2).
"""

from http import HTTPStatus

import msgspec

MAX_HEAD_BYTES = 65_536
HEAD_END = b"\r\n\r\n"


class Request(msgspec.Struct, frozen=True):
    """One request. `size` is how many bytes of the buffer it took."""

    method: str
    host: str
    target: str  # path and query
    keep_alive: bool
    size: int
    etag: str = ""  # If-None-Match
    since: str = ""  # If-Modified-Since


class RequestError(ValueError):
    """Bytes that are no request this server understands."""


def parse_request(buffer: bytes | bytearray) -> Request | None:
    """The first request in a buffer, None while it is not complete."""
    end = buffer.find(HEAD_END)
    if end < 0:
        if len(buffer) > MAX_HEAD_BYTES:
            raise RequestError("head too large")
        return None
    lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RequestError("no request line")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    length = fields.get("content-length", "0")
    if not length.isdecimal() or "transfer-encoding" in fields:
        raise RequestError("a body this server does not read")
    size = end + len(HEAD_END) + int(length)
    if len(buffer) < size:
        return None
    host, target = _addressed(words[0], words[1], fields.get("host", ""))
    wish = (fields.get("connection") or fields.get("proxy-connection") or "").lower()
    keep = wish != "close" if words[2] == "HTTP/1.1" else wish == "keep-alive"
    marks = fields.get("if-none-match", ""), fields.get("if-modified-since", "")
    return Request(words[0], host, target, keep, size, *marks)


def _addressed(method: str, target: str, host: str) -> tuple[str, str]:
    if target.startswith("/"):
        return host.lower(), target
    scheme, mark, rest = target.partition("://")
    if method == "CONNECT":
        raise RequestError("no tunnels: ask for http:// addresses, which are answered with recorded https pages too")
    if not mark or scheme.lower() not in ("http", "https"):
        raise RequestError("a target that is neither a path nor an address")
    name, slash, path = rest.partition("/")
    return name.lower(), slash + path or "/"


def response(status: int, headers: tuple[tuple[str, str], ...], body: bytes) -> tuple[bytes, bytes]:
    """Head (without its last line, so that Connection can be added) and body of an answer."""
    lines = [f"HTTP/1.1 {status} {_phrase(status)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join(line.replace("\r", " ").replace("\n", " ") for line in lines)
    return head.encode("utf-8", "surrogateescape"), body


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
