"""Decodes content encodings, as the bytes arrive or of a response that an archive recorded, with a limit on the output.

libcurl does no decoding: the libcurl in pycurl's wheels supports brotli but not zstd, and decodes either everything or
nothing. One decoder also means one limit.
"""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import IO, Any, Protocol, cast

import msgspec
import zstandard
from isal import isal_zlib

from opilio.core.errors import OpilioError
from opilio.core.warc import MAX_RECORD_BYTES, ByteBuffer, WarcRecord, parse_http, read_record

# Optional; without it br is not offered to servers. Untyped, hence not a plain import.
brotli: Any = import_module("brotli") if find_spec("brotli") else None

# isal's stubs declare the class as an instance.
_INFLATE_ERROR = cast(type[Exception], isal_zlib.error)
# Servers behind a misconfigured proxy compress twice; more layers are an attack.
_MAX_LAYERS = 2
# RFC 9659: the largest window a server may ask for.
_ZSTD_WINDOW = 8 << 20
# A layer gets its input in such steps: what follows the end of a gzip member is copied.
_STEP_BYTES = 1 << 16
_GZIP_START = b"\x1f\x8b"
# Members and blocks take time even if they are empty. A file of `bgzip` has a member for each 64 KB, and a server that
# flushes often sends a block for each 100 bytes.
_MAX_MEMBERS = 1_000
_FREE_BLOCKS, _MIN_BLOCK_BYTES = 16_384, 64
# In which the readable part of a damaged body is searched.
_SEARCH_STEP_BYTES = 64
# Values that some servers send for unencoded bodies.
_IDENTITY_ENCODINGS = frozenset(("", "identity", "none", "utf-8", "utf8", "binary", "8bit"))


class BodyTooLargeError(OpilioError):
    """The decoded body exceeds the limit."""


class DecodingError(OpilioError):
    """The bytes do not match their content encoding."""


class EncodingLayer(Protocol):
    """One encoding. `feed` returns at most `room` bytes and raises BodyTooLargeError if there are more."""

    def feed(self, data: bytes, room: int) -> bytes: ...

    def is_complete(self) -> bool: ...


class _Inflate:
    """gzip (with any number of members), and deflate with or without the zlib wrapper, since servers send both."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        # Too short to see what it begins.
        self._head = b""
        self._members = 0
        self._padded = False
        self._stream = isal_zlib.decompressobj(wbits=31) if gzip else None

    def feed(self, data: bytes, room: int) -> bytes:
        data, self._head = self._head + data, b""
        out = b""
        while data and not self._padded:
            if self._stream is None or self._stream.eof:
                if len(data) < 2:
                    self._head = data
                    break
                self._start(data)
                continue
            out += self._inflate(data, room - len(out))
            data = self._stream.unused_data
        return out

    def _start(self, data: bytes) -> None:
        """Begin the deflate stream, or the next gzip member."""
        self._members += 1
        if not self._gzip and self._stream is None:
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = isal_zlib.decompressobj(wbits=15 if wrapped else -15)
        elif not self._gzip or not data.startswith(_GZIP_START):
            # Padding after the end is ignored, as in browsers.
            self._padded = True
        elif self._members >= _MAX_MEMBERS:
            raise DecodingError(f"more than {_MAX_MEMBERS} gzip members")
        else:
            self._stream = isal_zlib.decompressobj(wbits=31)

    def _inflate(self, data: bytes, room: int) -> bytes:
        assert self._stream is not None
        try:
            out: bytes = self._stream.decompress(data, max_length=room + 1)
        except _INFLATE_ERROR as problem:
            raise DecodingError(str(problem)) from None
        if len(out) > room:
            raise BodyTooLargeError("deflate")
        return out

    def is_complete(self) -> bool:
        return self._stream is None or bool(self._stream.eof)


class _Brotli:
    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    def feed(self, data: bytes, room: int) -> bytes:
        if self._stream.is_finished():
            return b""
        try:
            out: bytes = self._stream.process(data, output_buffer_limit=room + 1)
        except brotli.error as problem:
            raise DecodingError(str(problem)) from None
        if len(out) > room:
            raise BodyTooLargeError("br")
        return out

    def is_complete(self) -> bool:
        return bool(self._stream.is_finished())


class _ZstdFrames:
    """Follows the frames of a zstd stream (RFC 8878, 3.1) to find its end, which the library does not report."""

    _SKIPPABLE = 0x184D2A5

    def __init__(self) -> None:
        # The field that is being read.
        self._field = b""
        # Its length.
        self._wanted = 4
        self._skip = 0
        self._next: Callable[[int], None] = self._on_magic
        self._checksum_bytes = 0
        self._size = 0
        self._blocks = 0

    def feed(self, data: bytes) -> None:
        position = 0
        self._size += len(data)
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
            else:
                step = min(self._wanted - len(self._field), len(data) - position)
                self._field += data[position : position + step]
                if len(self._field) == self._wanted:
                    field, self._field = int.from_bytes(self._field, "little"), b""
                    self._next(field)
            position += step

    def at_end(self) -> bool:
        return self._next == self._on_magic and not self._skip and not self._field

    def _expect(self, read: Callable[[int], None], length: int, skip: int = 0) -> None:
        self._blocks += 1
        if self._blocks > _FREE_BLOCKS + self._size // _MIN_BLOCK_BYTES:
            raise DecodingError(f"{self._size} bytes in {self._blocks} zstd blocks")
        self._next, self._wanted, self._skip = read, length, skip

    def _on_magic(self, magic: int) -> None:
        if magic >> 4 == self._SKIPPABLE:
            self._expect(self._on_skippable_size, 4)
        else:
            self._expect(self._on_descriptor, 1)

    def _on_skippable_size(self, size: int) -> None:
        self._expect(self._on_magic, 4, size)

    def _on_descriptor(self, flags: int) -> None:
        single_segment = flags >> 5 & 1
        content_size = (single_segment, 2, 4, 8)[flags >> 6]
        self._checksum_bytes = 4 * (flags >> 2 & 1)
        self._expect(self._on_block, 3, 1 - single_segment + (0, 1, 2, 4)[flags & 3] + content_size)

    def _on_block(self, header: int) -> None:
        is_last, is_repeated_byte = header & 1, header >> 1 & 3 == 1
        size = 1 if is_repeated_byte else header >> 3
        if is_last:
            self._expect(self._on_magic, 4, size + self._checksum_bytes)
        else:
            self._expect(self._on_block, 3, size)


class _Zstd:
    """Uses a writer, the only interface of zstandard that returns its output in pieces."""

    def __init__(self) -> None:
        self._out: list[bytes] = []
        self._room = 0
        self._frames = _ZstdFrames()
        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).stream_writer(
            cast(IO[bytes], self), closefd=False
        )

    def write(self, piece: bytes) -> int:
        self._room -= len(piece)
        if self._room < 0:
            raise BodyTooLargeError("zstd")
        self._out.append(bytes(piece))
        return len(piece)

    def feed(self, data: bytes, room: int) -> bytes:
        self._out, self._room = [], room
        try:
            self._stream.write(data)
        except zstandard.ZstdError as problem:
            raise DecodingError(str(problem)) from None
        self._frames.feed(data)
        return b"".join(self._out)

    def is_complete(self) -> bool:
        return self._frames.at_end()


_LAYERS: dict[str, Callable[[], EncodingLayer]] = {
    **({"br": _Brotli} if brotli is not None else {}),
    "gzip": lambda: _Inflate(gzip=True),
    "x-gzip": lambda: _Inflate(gzip=True),
    "deflate": lambda: _Inflate(gzip=False),
    "zstd": _Zstd,
}

ACCEPT_ENCODING = ", ".join(name for name in ("gzip", "deflate", "br", "zstd") if name in _LAYERS)


class Decoder:
    """Decodes one response; never holds more than `limit` bytes of output per layer."""

    def __init__(self, encodings: str, limit: int) -> None:
        names = [n for n in (part.strip().lower() for part in encodings.split(",")) if n not in _IDENTITY_ENCODINGS]
        unknown = next((n for n in names if n not in _LAYERS), "")
        if unknown or len(names) > _MAX_LAYERS:
            raise DecodingError(f"content encoding {unknown[:40] or 'repeated'} not supported")
        self._layers = [_LAYERS[n]() for n in reversed(names)]
        self._rooms = [limit] * len(names)
        self._fed = False

    def feed(self, data: bytes) -> bytes:
        """The next decoded bytes. Raises BodyTooLargeError or DecodingError."""
        self._fed = True
        for number in range(len(self._layers)):
            steps = range(0, len(data), _STEP_BYTES)
            data = b"".join([self._feed_layer(number, data[start : start + _STEP_BYTES]) for start in steps])
        return data

    def _feed_layer(self, number: int, data: bytes) -> bytes:
        decoded = self._layers[number].feed(data, self._rooms[number])
        self._rooms[number] -= len(decoded)
        return decoded

    def is_complete(self) -> bool:
        """True if every layer reached its end, or nothing was received."""
        return not self._fed or all(layer.is_complete() for layer in self._layers)


def decode_readable(encodings: str, damaged: bytes, limit: int) -> bytes:
    """What comes before the damage in the first bytes of a body: a decoder returns nothing of a piece with an error."""
    decoder, found = Decoder(encodings, limit), bytearray()
    with suppress(BodyTooLargeError, DecodingError):
        for start in range(0, len(damaged), _SEARCH_STEP_BYTES):
            found += decoder.feed(damaged[start : start + _SEARCH_STEP_BYTES])
    return bytes(found)


_TRANSFER_HEADERS = frozenset(
    {"content-encoding", "transfer-encoding", "content-length", "connection", "keep-alive", "trailer", "upgrade"}
)


class RecordedResponse(msgspec.Struct, frozen=True):
    """A recorded response: the body decoded, without the headers of its transfer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        return next((v for k, v in self.headers if k.lower() == name), "")


def read_response(data: ByteBuffer, offset: int, length: int) -> RecordedResponse:
    """The response in the record at an offset from `scan_records`."""
    return recorded_response(read_record(data, offset, length))


def recorded_response(record: WarcRecord) -> RecordedResponse:
    """The response in a record."""
    if record.is_http:
        return parse_http_response(record.block)
    return RecordedResponse(200, (("Content-Type", record.fields.get("content-type", "text/html")),), record.block)


def parse_http_response(message: bytes) -> RecordedResponse:
    """Parse a raw HTTP response and decode its body."""
    raw = RecordedResponse(*parse_http(message))
    body = raw.body
    if raw.header("transfer-encoding").lower() == "chunked":
        body = _decode_chunked(body)
    body = _decode_content(body, raw.header("content-encoding"))
    kept = tuple((k, v) for k, v in raw.headers if k.lower() not in _TRANSFER_HEADERS)
    return RecordedResponse(raw.status, kept, body)


def _decode_chunked(body: bytes) -> bytes:
    """The content of a chunked body; the body itself if it is not chunked (some tools undo it).

    >>> _decode_chunked(b"4\\r\\nwren\\r\\n0\\r\\n"), _decode_chunked(b"-6\\r\\n"), _decode_chunked(b"wren")
    (b'wren', b'', b'wren')
    """
    parts: list[bytes] = []
    position = 0
    while position < len(body):
        line_end = body.find(b"\r\n", position)
        try:
            size = int(body[position:line_end].split(b";")[0], 16)
        except ValueError:
            return body if not parts else b"".join(parts)
        # A negative size would lead back and never end.
        if size <= 0:
            break
        parts.append(body[line_end + 2 : line_end + 2 + size])
        position = line_end + 4 + size
    return b"".join(parts)


def _decode_content(body: bytes, encodings: str) -> bytes:
    """The content of a compressed body; the body itself if it is not compressed that way (some tools undo it)."""
    try:
        return Decoder(encodings, MAX_RECORD_BYTES).feed(body) or body
    except (BodyTooLargeError, DecodingError):
        return body
