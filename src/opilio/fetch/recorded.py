"""Responses recorded in archives, with the encodings of their transfer removed."""

import msgspec

from opilio.core.warc import MAX_RECORD_BYTES, ByteBuffer, WarcRecord, parse_http, read_record
from opilio.fetch.decoding import BodyTooLargeError, Decoder, DecodingError

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
