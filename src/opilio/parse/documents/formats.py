"""The formats of documents, the conversion of a response to HTML, and zip archives and XML read within limits.

A format is registered as an entry point in the group `opilio.document_readers`. The crawl converts a document once, in
a worker process under its limits of time and memory, and stores the HTML beside the document: search and exports use
that HTML.
"""

import zlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from html import escape
from importlib.util import find_spec
from io import BytesIO
from struct import Struct
from typing import NamedTuple
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

import msgspec
from msgspec.structs import replace

from opilio.core.errors import ParseError
from opilio.core.records import CONTENT_TYPE_FAILURE, FetchResult, media_type
from opilio.core.registry import DOCUMENT_READERS, load_plugin, plugin_names
from opilio.parse.encoding import ContentKind, detect_kind

MAX_MEMBERS = 10_000
MAX_BYTES = 48 << 20  # of all members that are read, unpacked
MAX_DEPTH = 200  # of nested elements
_PIECE = 1 << 16

_MEMBER = b"PK\x03\x04"
# Of a member's header: method, size, lengths of the name and of the extra field.
_MEMBER_HEADER = Struct("<8xH8xI4xHH")
_MAX_NAME_BYTES = 500
_STORED, _DEFLATED = 0, 8
_ZIP_ERRORS = (BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


class _CutMember(NamedTuple):
    """A part of an archive without a directory: where its data is, and how it is packed."""

    method: int
    start: int
    end: int


class _CutArchive:
    """The parts of an archive whose end is missing, and with it the directory."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._members: dict[str, _CutMember] = {}
        at = 0
        for _ in range(MAX_MEMBERS):
            at = body.find(_MEMBER, at)
            if not 0 <= at <= len(body) - _MEMBER_HEADER.size:
                break
            method, size, name, extra = _MEMBER_HEADER.unpack_from(body, at)
            start = at + _MEMBER_HEADER.size + name
            path = body[at + _MEMBER_HEADER.size : start].decode("utf-8", "replace")
            # A packed part knows its own end.
            end = start + extra + size if method == _STORED else len(body)
            # Hostile names may overlap.
            if name <= _MAX_NAME_BYTES:
                self._members.setdefault(path, _CutMember(method, start + extra, end))
            at += len(_MEMBER)

    def __bool__(self) -> bool:
        return bool(self._members)

    def open(self, path: str) -> BytesIO:
        """A part, as far as it is there."""
        method, start, end = self._members[path]
        data = memoryview(self._body)[start:end]
        if method == _STORED:
            return BytesIO(data)
        return BytesIO(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, MAX_BYTES) if method == _DEFLATED else b"")


class DocumentArchive:
    """The files of a zipped document. More than `MAX_BYTES` are never unpacked, whatever the archive declares.

    `is_cut`: the end of the archive is missing.
    """

    def __init__(self, body: bytes, name: str) -> None:
        self._room = MAX_BYTES
        self.is_cut = False
        self._zip: ZipFile | _CutArchive
        try:
            self._zip = ZipFile(BytesIO(body))
        except _ZIP_ERRORS as error:
            self._zip, self.is_cut = _CutArchive(body), True
            if not self._zip:
                raise ParseError(f"document: the {name} file is damaged ({error})") from error
        if isinstance(self._zip, ZipFile) and len(self._zip.filelist) > MAX_MEMBERS:
            raise ParseError(f"document: the {name} file has more than {MAX_MEMBERS} parts")

    def read(self, path: str) -> bytes:
        """A part; empty if it is missing or can't be unpacked, as far as it goes if the limit is reached."""
        parts: list[bytes] = []
        try:
            with self._zip.open(path) as file:
                while self._room > 0 and (piece := file.read(min(_PIECE, self._room))):
                    parts.append(piece)
                    self._room -= len(piece)
        except (KeyError, *_ZIP_ERRORS):
            return b"".join(parts)
        return b"".join(parts)

    @property
    def is_exhausted(self) -> bool:
        """True if the limit of unpacked bytes was reached."""
        return self._room <= 0


class Tag(NamedTuple):
    """The local name of an element and its attributes by their local names."""

    name: str
    attributes: Mapping[str, str]


class _StopReadingError(Exception):
    """The rest of the document is not read."""


def read_xml(
    data: bytes, start: Callable[[Tag], None], end: Callable[[str], None], text: Callable[[str], bool]
) -> bool:
    """Report elements and text in order; True if all of it was read.

    `text` returns False to stop. External entities are never loaded, and expat itself bounds what internal ones expand
    to; nesting is bounded here.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    depth = 0

    def on_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise _StopReadingError
        start(Tag(_local(name), {_local(key): value for key, value in attributes.items()} if attributes else {}))

    def on_end(name: str) -> None:
        nonlocal depth
        depth -= 1
        end(_local(name))

    def on_text(value: str) -> None:
        if not text(value):
            raise _StopReadingError

    parser.StartElementHandler = on_start
    parser.EndElementHandler = on_end
    parser.CharacterDataHandler = on_text
    try:
        parser.Parse(data, True)
    # ValueError: an encoding that expat does not know; LookupError: one that Python does not know.
    except (_StopReadingError, expat.ExpatError, ValueError, LookupError):
        return False
    return True


@lru_cache(maxsize=4096)
def _local(name: str) -> str:
    return name.rpartition(" ")[2]


# Types that say nothing about the content: the first bytes decide.
_UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "application/x-download", "application/zip", "text/html"})
# Why a document is incomplete, as in WARC-Truncated.
_TRUNCATED = "length"


class HtmlDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document as HTML."""

    html: str
    # A part is missing: the document is damaged, or larger than the limits.
    truncated: bool = False


class DocumentFormat(msgspec.Struct, frozen=True, kw_only=True):
    """How to read one format. `to_html` raises ParseError, and nothing else, for a document it can't read."""

    name: str
    types: tuple[str, ...]  # media types, the usual one first
    # Of files, in lower case without the dot.
    extensions: tuple[str, ...]
    to_html: Callable[[bytes], HtmlDocument]
    # Whether a body of unknown type is such a document.
    recognizes: Callable[[bytes], bool]
    module: str = ""  # must be installed; empty: nothing
    extra: str = ""  # installs the module

    @property
    def missing(self) -> str:
        """What to install to read it; empty if it can be read."""
        if not self.module or find_spec(self.module) is not None:
            return ""
        return f"to read {self.name}, install {self.extra}"


@cache
def document_formats() -> tuple[DocumentFormat, ...]:
    """All registered formats."""
    return tuple(load_plugin(DOCUMENT_READERS, name) for name in plugin_names(DOCUMENT_READERS))


def readable_types() -> tuple[str, ...]:
    """The media types of the documents that can be read here."""
    return tuple(kind for known in document_formats() if not known.missing for kind in known.types)


def missing_types() -> dict[str, str]:
    """What to install for the types that can't be read here, by media type."""
    return {kind: known.missing for known in document_formats() if known.missing for kind in known.types}


def extensions_of_types(wanted: Callable[[str], bool]) -> list[str]:
    """The file extensions of the formats of which a media type is wanted."""
    return [name for known in document_formats() if any(map(wanted, known.types)) for name in known.extensions]


def find_format(media: str, body: bytes) -> DocumentFormat | None:
    """The format of a media type, or of a body whose type is unknown."""
    for known in document_formats():
        if media in known.types or (media in _UNKNOWN_TYPES and known.recognizes(body)):
            return known
    return None


def convert_document(fetched: FetchResult) -> FetchResult:
    """The response with its document as HTML in `converted`; a page as it is.

    Raises ParseError if the document can't be read.
    """
    content_type = fetched.header("content-type")
    if fetched.converted or detect_kind(content_type, fetched.body) is not ContentKind.DOCUMENT:
        return fetched
    media = media_type(content_type)
    known = find_format(media, fetched.body)
    if known is None:
        raise ParseError(f"{CONTENT_TYPE_FAILURE}: {media or 'none'} is not supported")
    if known.missing:
        raise ParseError(f"{CONTENT_TYPE_FAILURE}: {media or known.types[0]}; {known.missing}")
    document = known.to_html(fetched.body)
    return replace(
        fetched,
        converted=document.html.encode("utf-8", "replace"),
        truncated=fetched.truncated or (_TRUNCATED if document.truncated else ""),
    )


def html_page(body: str, *, title: str = "", language: str = "", **meta: str) -> str:
    """A page with its metadata.

    >>> html_page("<p>Wrens", title="Birds & co", author="A. Wren")
    '<html><head><title>Birds &amp; co</title><meta name="author" content="A. Wren"></head><body><p>Wrens</body></html>'
    """
    values = "".join(f'<meta name="{name}" content="{escape(value)}">' for name, value in meta.items() if value)
    declared = f' lang="{escape(language)}"' if language else ""
    return f"<html{declared}><head><title>{escape(title)}</title>{values}</head><body>{body}</body></html>"
