"""What kind of answer this is: HTML, plain text, or nothing we read. Decided by the header, and by the bytes
where the header is missing or plainly wrong. Must not: decode or parse."""

from enum import Enum, auto

from opilio.model.errors import ParseError

_SNIFFED_BYTES = 1_024  # as much as browsers look at
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_XML_TYPES = frozenset({"text/xml", "application/xml"})
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "unknown/unknown", "application/unknown", "*/*"})
# First bytes of what servers like to send as text/html (the MIME Sniffing standard, section 6).
_BINARY_STARTS = (
    *(b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b\x08", b"Rar!\x1a", b"7z\xbc\xaf"),
    *(b"\x7fELF", b"OggS", b"ID3", b"RIFF", b"\xd0\xcf\x11\xe0", b"%!PS-Adobe-", b"wOFF", b"wOF2", b"{\\rtf"),
)


class Kind(Enum):
    HTML = auto()
    XHTML = auto()
    PLAIN = auto()


def kind_of(content_type: str, body: bytes) -> Kind:
    """How to read the body; raises ParseError("content-type: ...") where we can't."""
    media = content_type.partition(";")[0].strip().lower()
    start = body[:_SNIFFED_BYTES]
    if start.startswith(_BINARY_STARTS):
        raise ParseError(f"content-type: {media or 'none'} was declared, but the body is a binary file")
    if media in _HTML_TYPES:
        return Kind.HTML if media == "text/html" else Kind.XHTML
    if media == "text/plain":
        return Kind.PLAIN
    if media in _XML_TYPES and b"<html" in start.lower():
        return Kind.XHTML
    if media in _UNKNOWN_TYPES:
        return _sniffed(media, start)
    raise ParseError(f"content-type: {media} is not read")


def _sniffed(media: str, start: bytes) -> Kind:
    lowered = start.lower()
    if b"<html" in lowered or b"<!doctype html" in lowered or b"<head" in lowered or b"<body" in lowered:
        return Kind.HTML
    if b"\x00" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ParseError(f"content-type: {media or 'none'} and the body is not text")
    return Kind.HTML if lowered.lstrip().startswith(b"<") else Kind.PLAIN
