"""Zip archives of documents, read within limits, and XML of which a damaged rest does not lose the beginning."""

import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import NamedTuple
from xml.parsers import expat
from zipfile import BadZipFile, ZipFile

from opilio.core.errors import ParseError

MAX_MEMBERS = 10_000
MAX_BYTES = 48 << 20  # of all members that are read, unpacked
MAX_DEPTH = 200  # of nested elements
_PIECE = 1 << 16

_ZIP_ERRORS = (BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)


class DocumentArchive:
    """The files of a zipped document. More than `MAX_BYTES` are never unpacked, whatever the archive declares."""

    def __init__(self, body: bytes, name: str) -> None:
        self._name = name
        self._room = MAX_BYTES
        try:
            self._zip = ZipFile(BytesIO(body))
        except _ZIP_ERRORS as error:
            raise ParseError(f"document: the {name} file is damaged ({error})") from error
        if len(self._zip.filelist) > MAX_MEMBERS:
            raise ParseError(f"document: the {name} file has more than {MAX_MEMBERS} parts")

    def __contains__(self, path: str) -> bool:
        return path in self._zip.NameToInfo

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
