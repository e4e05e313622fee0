"""One request in flight: libcurl's callbacks for headers, body bytes and sockets.

Invariant: a callback never raises. To abort, it returns a value that makes libcurl stop and stores the reason in
`failure`. Nothing here waits, and memory is bounded by `FetchLimits`.
"""

import socket
from typing import Protocol

import pycurl

from opilio.core.errors import OpilioError
from opilio.core.records import Failure
from opilio.fetch.addresses import is_metadata_address, is_public
from opilio.fetch.decoding import BodyTooLargeError, Decoder, DecodingError, decode_readable
from opilio.fetch.http import (
    FetchLimits,
    ResponseFilter,
    is_text,
    parse_content_length,
    parse_headers,
    parse_status_line,
)

_ABORT = -1
# Text compresses 3 to 20 times; a higher ratio is a decompression bomb.
_BOMB_RATIO = 50
BOMB = "bomb"
# Failures after which the beginning of the body is known.
INTERRUPTED = frozenset(("truncated", "reset", "timeout", "slow", "transfer"))
# Every piece costs a call, whatever its length. Most servers send pieces of 1 KB and more; a page of 16 KB may come in
# single bytes.
_FREE_PIECES, _MIN_PIECE_BYTES = 16_384, 64
# Of a robots.txt, the beginning counts (RFC 9309, 2.5); a parser that reads 500 KiB sees that it is cut.
_ROBOTS_BYTES = 512 << 10


class SocketTarget(Protocol):
    """The resolved address that libcurl is about to connect to."""

    family: int
    socktype: int
    protocol: int
    # (address, port, ...), or bytes for a Unix socket.
    addr: object


class BodyBudget:
    """The bytes of all bodies in flight.

    Every transfer may hold an equal share of `limit`, however large the others are. Beyond that, all of them together
    may hold `limit`, so that the total is at most twice as much.
    """

    def __init__(self, limit: int, transfers: int) -> None:
        self._limit = limit
        self._share = limit // transfers
        self.used = 0

    def take(self, held: int, more: int) -> bool:
        """True if a transfer that holds `held` bytes may hold `more`."""
        if self.used + more > self._limit and held + more > self._share:
            return False
        self.used += more
        return True

    def release(self, held: int) -> None:
        self.used -= held


class Transfer:
    """Collects one response. `release` must be called when its body is no longer in flight."""

    def __init__(self, url: str, limits: FetchLimits, accept: ResponseFilter, budget: BodyBudget | None = None) -> None:
        self.allow_private = False
        self._sockets: list[socket.socket] = []
        self.url = url
        self.status = 0
        # Why the body is incomplete, in the words of WARC-Truncated.
        self.truncated = ""
        self.headers: tuple[tuple[str, str], ...] = ()
        self.failure: Failure | None = None
        self._limits = limits
        self._accept = accept
        self._head = _ResponseHead()
        self._is_robots = url.partition("?")[0].endswith("/robots.txt")
        self._keeps_beginning = self._is_robots
        self._body = _ResponseBody(limits.body_bytes, budget or BodyBudget(limits.in_flight_bytes, 1))

    def on_header(self, line: bytes) -> int | None:
        """Handle a header line; an empty one ends the head, a status line starts another response (1xx, CONNECT)."""
        head = self._head
        head.size += len(line)
        head.count += 1
        if head.size > self._limits.header_bytes or head.count > self._limits.header_count:
            return self._abort(Failure("headers", f"more than {head.count - 1} header lines or {head.size} bytes"))
        if line in (b"\r\n", b"\n"):
            return self._on_head_end()
        if line.startswith(b"HTTP/"):
            head.lines.clear()
            self.status = parse_status_line(line)
        # Trailers after the body are ignored.
        elif not self._body.received:
            head.lines.append(line)
        return None

    def _on_head_end(self) -> int | None:
        if self.status < 200 or self._body.received:
            return None
        self._head.ended = True
        self.headers = parse_headers(self._head.lines)
        values = {name.lower(): value for name, value in self.headers}
        if 300 <= self.status < 400 and values.get("location"):
            self._head.moved = True
            return None
        kind = values.get("content-type", "")
        if self.status < 300 and (refusal := self._accept.refusal(self.url, kind)):
            return self._abort(refusal)
        if self._accept.is_document(self.url, kind):
            self._body.limit = self._limits.document_bytes
        else:
            self._keeps_beginning = self._keeps_beginning or is_text(kind)
        size = parse_content_length(values.get("content-length", ""))
        if size > self._body.limit and self.status != 304 and not self._keeps_beginning:
            return self._abort(Failure("too-large", f"{size} bytes announced"))
        try:
            self._body.decode_with(values.get("content-encoding", ""))
        except DecodingError as problem:
            return self._abort(Failure("decode", str(problem)))
        return None

    def on_body(self, data: bytes) -> int | None:
        """Handle bytes of the body, decoded immediately so that no bomb grows; bodies of redirects are dropped."""
        if self._head.moved:
            self._body.received += len(data)
            return None if self._body.received <= self._limits.body_bytes else _ABORT
        try:
            self._body.add(data)
        except BodyTooLargeError:
            failure = self._body.overflow()
            is_page = self._keeps_beginning and self._body.size and failure.kind != BOMB
            return self._cut("length") if is_page else self._abort(failure)
        except DecodingError as problem:
            # What came before the damage is a page.
            return self._cut("unspecified") if self._body.size else self._abort(Failure("decode", str(problem)[:200]))
        except _BodyRefusedError as problem:
            return self._abort(problem.failure)
        return self._cut("length") if self._is_robots and self._body.size > _ROBOTS_BYTES else None

    def open_socket(self, _purpose: int, target: SocketTarget) -> socket.socket | int:
        """The address guard: checks the address that libcurl connects to, after every DNS answer."""
        address = target.addr[0] if isinstance(target.addr, tuple) else ""
        address = address.decode("ascii", "replace") if isinstance(address, bytes) else address
        # Cloud metadata is never a page, whatever the user allows.
        if is_metadata_address(address) or not (self.allow_private or is_public(address)):
            self.failure = Failure("private-address", address)
            return int(pycurl.SOCKET_BAD)
        try:
            # pycurl duplicates the descriptor; this one is closed with the transfer.
            self._sockets.append(socket.socket(target.family, target.socktype, target.protocol))
            return self._sockets[-1]
        # Too many open files, or an address family that this machine does not support.
        except OSError as problem:
            self.failure = Failure("connect", str(problem), retry=True)
            return int(pycurl.SOCKET_BAD)

    def finish(self) -> bytes:
        """The decoded body, which is not kept here. Sets `failure` if the response is incomplete.

        Redirects need only a head, as in browsers, even if the body is broken. libcurl reports success for a response
        whose head is truncated or whose status it does not know.
        """
        body, complete = self._body.take()
        if self._head.moved:
            self.failure = None
        if self.failure is None and not self._head.ended:
            cut = self.status >= 100
            self.failure = Failure("truncated" if cut else "protocol", "incomplete response head", cut)
        if self.failure is None and not complete and not self.truncated:
            # What could be decoded is a page. A server that sends half a body sends it again.
            self.truncated = "disconnect"
            if not body:
                self.failure = Failure("decode", "the encoded body is truncated", True)
        return b"" if self.failure and self.failure.kind not in INTERRUPTED else body

    def release(self) -> None:
        """Give the room of the body back, and close its sockets."""
        for opened in self._sockets:
            opened.close()
        self._body.release()

    def _abort(self, failure: Failure) -> int:
        self.failure = failure
        return _ABORT

    def _cut(self, reason: str) -> int:
        """Stop here and keep what was received."""
        self.truncated = reason
        return _ABORT


class _ResponseHead:
    """The header lines so far. The counts include all 1xx responses before the final one."""

    __slots__ = ("count", "ended", "lines", "moved", "size")

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.size = 0
        self.count = 0
        # The head of the final response is complete.
        self.ended = False
        # The response is a redirect.
        self.moved = False


class _BodyRefusedError(OpilioError):
    """A body that is not received any further."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class _ResponseBody:
    """The decoded bytes so far, never more than `limit`."""

    __slots__ = (
        "_budget",
        "_decoder",
        "_encodings",
        "_first",
        "_held",
        "_pieces",
        "_rest",
        "limit",
        "received",
        "size",
    )

    def __init__(self, limit: int, budget: BodyBudget) -> None:
        self.limit = limit
        self._budget = budget
        # Most bodies arrive in one piece, which is not copied. Further pieces are appended to one buffer: as objects of
        # their own they would take fifty times the memory of single bytes.
        self._first = b""
        self._rest = bytearray()
        self._decoder: Decoder | None = None
        self._encodings = ""
        self._pieces = 0
        self._held = 0
        self.received = 0
        self.size = 0

    def decode_with(self, encodings: str) -> None:
        self._decoder = Decoder(encodings, self.limit) if encodings else None
        self._encodings = encodings

    def add(self, data: bytes) -> None:
        self.received += len(data)
        self._pieces += 1
        if self._pieces > _FREE_PIECES + self.received // _MIN_PIECE_BYTES:
            raise _BodyRefusedError(Failure("protocol", f"{self.received} bytes in {self._pieces} pieces"))
        if self._decoder is not None:
            # What decodes to next to nothing has no other end than the limit of time.
            if self.received > self.limit:
                raise BodyTooLargeError("encoded body")
            try:
                data = self._decoder.feed(data)
            except DecodingError:
                if self._pieces == 1:
                    self._keep(decode_readable(self._encodings, data, self.limit))
                raise
        fits = self.limit - self.size
        if len(data) > fits:
            self._keep(data[:fits])
            raise BodyTooLargeError("body")
        self._keep(data)

    def _keep(self, data: bytes) -> None:
        if not self._budget.take(self.size, len(data)):
            raise _BodyRefusedError(Failure("transfer", "too many bytes in flight", retry=True))
        self._held += len(data)
        self.size += len(data)
        if self._first:
            self._rest += data
        else:
            self._first = data

    def overflow(self) -> Failure:
        bomb = self._decoder is not None and self.limit > _BOMB_RATIO * self.received
        return Failure(BOMB if bomb else "too-large", f"more than {self.limit} bytes from {self.received}")

    def take(self) -> tuple[bytes, bool]:
        body = self._first + self._rest if self._rest else self._first
        self._first, self._rest = b"", bytearray()
        return body, self._decoder is None or self._decoder.is_complete()

    def release(self) -> None:
        self._budget.release(self._held)
        self._held = 0
