"""SQLite's write-ahead log (`crawl.db-wal`), read without SQLite: which pages it holds, and whether it is damaged.

SQLite ignores everything behind the first frame that it can't read, because a power cut leaves such a frame at the end.
A changed byte in the middle would therefore silently undo all later commits. Format: https://sqlite.org/fileformat2.html
"""

import os
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Magic, version, page size, resets, two salts, two checksums.
_FILE_HEADER = struct.Struct(">8I")
# Page, size of the database after a commit (else 0), two salts, two checksums.
_FRAME_HEADER = struct.Struct(">6I")
_PAGE_AND_SIZE = struct.Struct(">2I")  # the beginning of a frame
# The last bit: checksums of big-endian words.
_MAGIC = 0x377F0682
_CHECKSUM_BYTES = 8
_SUMMED_HEADER_BYTES = 8  # of a frame: page and size
_FRAMES_PER_READ = 1_000

_Pair = tuple[int, int]


class LogDamage(NamedTuple):
    """Where a log can't be read. `at_end`: nothing follows, so a power cut may have interrupted this commit."""

    offset: int
    at_end: bool


class LogContents(NamedTuple):
    """The committed pages in a log, which log it is, and where it is damaged."""

    pages: frozenset[int] = frozenset()
    page_bytes: int = 0
    resets: int = 0  # how often it was started anew
    # Grows by one when the log is started anew.
    salt: int = 0
    # Size of the database after the last commit; 0 without one.
    database_pages: int = 0
    damage: LogDamage | None = None


class _Frame(NamedTuple):
    page: int
    database_pages: int  # 0 except in the last frame of a commit
    salts: _Pair
    checksum: _Pair
    sums: _Pair  # of its own bytes


def read_log(path: Path) -> LogContents:
    """The contents of a log; nothing if it is empty or missing."""
    try:
        with path.open("rb") as file:
            head = file.read(_FILE_HEADER.size)
            return _read_contents(file, head) if head else LogContents()
    except FileNotFoundError:
        return LogContents()


def _read_contents(file: BinaryIO, head: bytes) -> LogContents:
    if len(head) < _FILE_HEADER.size:
        return LogContents(damage=LogDamage(0, at_end=True))
    magic, _, page_bytes, resets, *rest = _FILE_HEADER.unpack(head)
    salts, checksum = (rest[0], rest[1]), (rest[2], rest[3])
    words = np.dtype(">u4" if magic & 1 else "<u4")
    summed = np.frombuffer(head[:-_CHECKSUM_BYTES], words)[np.newaxis]
    if magic & ~1 != _MAGIC or _checksum_of(summed.shape[1]).own_sums(summed)[0] != checksum:
        return LogContents(damage=LogDamage(0, at_end=False))
    pages: set[int] = set()
    committed: set[int] = set()
    database_pages = 0
    chain = _checksum_of((_SUMMED_HEADER_BYTES + page_bytes) // words.itemsize)
    unreadable = last_ours = -1
    for number, frame in enumerate(_frames(file, page_bytes, words, chain)):
        # A frame from before the last reset has two other salts; a changed byte leaves one of them.
        if frame.salts[0] == salts[0] or frame.salts[1] == salts[1]:
            last_ours = number
        checksum = chain.append(checksum, frame.sums)
        if unreadable < 0 and (frame.salts, frame.checksum) == (salts, checksum):
            pages.add(frame.page)
            if frame.database_pages:
                committed |= pages
                database_pages = frame.database_pages
                pages.clear()
        elif unreadable < 0:
            unreadable = number
    damage = None
    if 0 <= unreadable <= last_ours:
        offset = _FILE_HEADER.size + unreadable * (_FRAME_HEADER.size + page_bytes)
        damage = LogDamage(offset, at_end=last_ours == unreadable)
    return LogContents(frozenset(committed), page_bytes, resets, salts[0], database_pages, damage)


class LogHeader(NamedTuple):
    """The part of a log's header that identifies the log."""

    page_bytes: int
    resets: int
    salts: _Pair


def read_log_header(path: Path) -> LogHeader | None:
    """The header of a log; None if the log is empty or missing."""
    try:
        with path.open("rb") as file:
            head = file.read(_FILE_HEADER.size)
    except FileNotFoundError:
        return None
    if len(head) < _FILE_HEADER.size:
        return None
    _, _, page_bytes, resets, *rest = _FILE_HEADER.unpack(head)
    return LogHeader(page_bytes, resets, (rest[0], rest[1]))


def logged_pages(
    path: Path, page_bytes: int, frames: int, digest: Callable[[bytes], bytes]
) -> tuple[dict[int, bytes], int]:
    """Digests of the newest content of each page in the first frames of a log, and the size of the database in pages.

    For the process that writes the log: SQLite has just read these frames, so their checksums are not computed. Only
    the newest content of a page is read, because pages are written again and again: 15 to 35 % of the frames.
    """
    size, database_pages = _FRAME_HEADER.size + page_bytes, 0
    newest: dict[int, int] = {}
    with path.open("rb", buffering=0) as file:
        handle, begin = file.fileno(), _FILE_HEADER.size
        for at in range(begin, begin + frames * size, size):
            page, database_pages = _PAGE_AND_SIZE.unpack(os.pread(handle, _PAGE_AND_SIZE.size, at))
            newest[page] = at + _FRAME_HEADER.size
        return {page: digest(os.pread(handle, page_bytes, at)) for page, at in newest.items()}, database_pages


def _frames(file: BinaryIO, page_bytes: int, words: np.dtype[np.uint32], checksum: "_Checksum") -> Iterator[_Frame]:
    """The frames of a log in their order, a few megabytes at a time; an incomplete one at the end is left out."""
    size = _FRAME_HEADER.size + page_bytes
    while data := file.read(size * _FRAMES_PER_READ):
        count = len(data) // size
        frames = np.frombuffer(data, np.uint8, count * size).reshape(count, size)
        # Of the header only page and size are part of the checksum.
        summed = np.concatenate([frames[:, :_SUMMED_HEADER_BYTES], frames[:, _FRAME_HEADER.size :]], axis=1)
        for at, sums in enumerate(checksum.own_sums(summed.view(words))):
            page, database_pages, *rest = _FRAME_HEADER.unpack_from(data, at * size)
            yield _Frame(page, database_pages, (rest[0], rest[1]), (rest[2], rest[3]), sums)


class _Checksum:
    """SQLite's checksum of a fixed number of words: for each pair (x, y), `a += x + b; b += y + a`, modulo 2^32.

    It is linear, so the words of many frames are summed with fixed weights, and only the chain from frame to frame is
    left to a loop: 20 ms instead of seconds for a log of 16 MB.
    """

    def __init__(self, words: int) -> None:
        weights = np.zeros((words, 2), dtype=np.uint32)
        # What x and y of the last pair add to (a, b), then of the pairs before it: each passes through one more step.
        first, second = (1, 1), (0, 1)
        for pair in range(words - 2, -1, -2):
            weights[pair], weights[pair + 1] = first, second
            first, second = _step(first), _step(second)
        self._weights = weights
        # What the sums of the frame before, (1, 0) and (0, 1), become at the end.
        self._carried = (1, 0), (0, 1)
        for _ in range(words // 2):
            self._carried = _step(self._carried[0]), _step(self._carried[1])

    def own_sums(self, rows: NDArray[np.uint32]) -> list[_Pair]:
        """The checksum of each row by itself."""
        sums = rows.astype(np.uint32) @ self._weights
        return [(int(a), int(b)) for a, b in sums]

    def append(self, before: _Pair, own: _Pair) -> _Pair:
        """The checksum of everything so far and of a row behind it."""
        (aa, ab), (ba, bb) = self._carried
        a, b = before
        return (a * aa + b * ba + own[0]) & 0xFFFFFFFF, (a * ab + b * bb + own[1]) & 0xFFFFFFFF


@cache
def _checksum_of(words: int) -> _Checksum:
    """One for each size: the weights take a millisecond, as long as the rest of reading a short log."""
    return _Checksum(words)


def _step(sums: _Pair) -> _Pair:
    """One step of the checksum for a pair of zeros."""
    a = (sums[0] + sums[1]) & 0xFFFFFFFF
    return a, (sums[1] + a) & 0xFFFFFFFF
