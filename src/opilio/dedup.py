"""Duplicates: fingerprints of texts, and the content-seen test over them.

Fingerprints are equal for equal texts (xxh3) and similar for similar texts (SimHash). The papers compare MD5 signatures
of the body (S0-07, S0-08) or 64-bit checksums of the document (S4-15). Opilio can use 64 bits of the body's MD5; the
default is 64-bit xxh3 of the normalized text (X-08): bodies differ at every fetch by a date or session id while the
text does not (S0-E6), eight bytes fit an integer column, and xxh3 takes a fiftieth of the time of MD5. A forged
collision would only hide the forger's own page. With ten million texts the probability of any false match is 3 in a
million.

Near duplicates are found without comparing all pairs: two signatures that differ in at most three bits agree in one of
four bands of 16 bits (pigeonhole principle; Manku, Jain and Das Sarma 2007). With a larger distance some are missed.

The test is in memory for tests, the lab and short crawls, and in the collection's database (S4-15).
`StoredDuplicateDetector` survives a restart. It executes statements on the given connection; the caller owns
transactions, so that a text is seen exactly if the visit that found it is committed. Fingerprints are signed 64-bit
integers, as in SQLite and PostgreSQL.
"""

import hashlib
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from opilio.core.protocols import Database
from opilio.text.term_arrays import term_array

Terms = Sequence[int] | NDArray[np.uint32]
MIN_TERMS = 8
_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_APOSTROPHE = 0x27
# Every byte of a character outside ASCII counts as part of a word.
_WORD_BYTES = bytes(byte > 127 or chr(byte).isalnum() for byte in range(256))


def fingerprint_terms(terms: Terms, short_words: bytes = b"") -> int:
    """A 64-bit fingerprint of a text's terms, independent of case, punctuation, stop words and inflection.

    `short_words` are the words of one character, which are no terms; without any, the fingerprint is that of the terms.
    """
    if len(terms) < MIN_TERMS:
        return 0
    return _to_signed(xxhash.xxh3_64_intdigest(_as_array(terms).astype("<u4", copy=False).tobytes() + short_words))


def digest_body(body: bytes) -> int:
    """The first 64 bits of the MD5 of a body: equal for bodies of equal bytes only (S0-08)."""
    return _to_signed(int.from_bytes(hashlib.md5(body, usedforsecurity=False).digest()[:8], "big"))


def one_character_words(text: str) -> bytes:
    """The ASCII letters and digits that stand alone, in lower case: pages of a listing may differ in nothing else.

    >>> one_character_words("Page 2 of 5: Vitamin C, the wren's eggs (12)")
    b'25c'
    """
    padded = b" %b " % text.encode("utf-8", "replace")
    letters = np.frombuffer(padded, dtype=np.uint8)
    # Faster than an index into an array: 28 instead of 39 µs for a page of documentation (measured).
    inside = np.frombuffer(padded.translate(_WORD_BYTES), dtype=np.uint8)
    before = np.flatnonzero(inside[1:-1] > (inside[:-2] | inside[2:]))
    return bytes(letters[before[letters[before] != _APOSTROPHE] + 1]).lower()


def simhash64(terms: Terms) -> int:
    """Charikar's SimHash (64 bits, signed) over shingles of three terms; 0 for too few terms.

    Similar texts differ in few bits. Every shingle is hashed once and votes on each of 64 bits.
    """
    if len(terms) < MIN_TERMS:
        return 0
    words = _as_array(terms).astype(np.uint64)
    first, second, third = words[:-2], words[1:-1], words[2:]
    shingles = _mix(first * np.uint64(0x9E3779B97F4A7C15) ^ second * np.uint64(0xC2B2AE3D27D4EB4F) ^ third)
    packed = np.packbits(_bit_counts(shingles) * 2 > len(shingles), bitorder="little")
    return _to_signed(int.from_bytes(packed.tobytes(), "little"))


def hamming_distance(one: int, other: int) -> int:
    """The number of bits in which two signatures differ.

    >>> hamming_distance(0b1011, 0b0010)
    2
    """
    return ((one ^ other) & _MASK).bit_count()


def _as_array(terms: Terms) -> NDArray[np.uint32]:
    return terms if isinstance(terms, np.ndarray) else term_array(terms)


def _bit_counts(shingles: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The number of shingles with each bit set.

    Unpacked bits are bytes of 0 or 1. Eight of them are added at once as one 64-bit number, at most 255 rows at a time
    so that no byte overflows: less than half the time of adding bytes.
    """
    bits = np.unpackbits(shingles.astype("<u8", copy=False).view(np.uint8), bitorder="little")
    rows = bits.view(np.uint64).reshape(-1, 8)
    sums = np.add.reduceat(rows, np.arange(0, len(rows), 255), axis=0)
    votes: NDArray[np.uint32] = sums.view(np.uint8).reshape(-1, 64).sum(axis=0, dtype=np.uint32)
    return votes


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """MurmurHash3's finalizer: every input bit flips every output bit with probability ½."""
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def _to_signed(value: int) -> int:
    """The same 64 bits as a signed integer for SQLite; 0 would mean "no text", so it becomes 1."""
    return (value - (1 << 64) if value & _SIGN else value) or 1


BAND_COUNT = 4
_BAND_BITS = 16


def simhash_bands(simhash: int) -> tuple[int, ...]:
    """The four bands, each with its number in the high bits, so that one index serves all.

    >>> simhash_bands(0x0001_0002_0003_0004)
    (4, 65539, 131074, 196609)
    """
    return tuple((band << _BAND_BITS) | (simhash >> (band * _BAND_BITS) & 0xFFFF) for band in range(BAND_COUNT))


def nearest_simhash(simhash: int, candidates: Iterable[tuple[int, int]], max_distance: int) -> int | None:
    """The key of the nearest (key, simhash) within the distance; among equals the smallest key."""
    near = [(hamming_distance(simhash, other), key) for key, other in candidates]
    distance, key = min(near, default=(max_distance + 1, 0))
    return key if distance <= max_distance else None


MAX_DISTANCE = 3
# A band that thousands of pages share is useless; the limit keeps a test cheap.
MAX_CANDIDATES = 2_000


class BandDetector(ABC):
    """The test itself, by fingerprint and by bands of the SimHash; subclasses store both.

    Invariant: the first page with a text is its original, and a page is no duplicate of itself when it is fetched
    again. Fingerprints and signatures of 0 match nothing and are not stored.
    """

    def __init__(self, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        self._near = near
        self._max_distance = max_distance

    def find_original(self, key: int, fingerprint: int, simhash: int) -> tuple[int, bool] | None:
        """The original of this text and whether it is a near duplicate; None for a new text, which is stored."""
        if fingerprint:
            original = self._first_page(fingerprint, key)
            if original != key:
                return original, False
        if not self._near or not simhash:
            return None
        near = nearest_simhash(simhash, self._candidates(key, simhash), self._max_distance)
        if near is not None:
            return near, True
        self._remember(key, simhash)
        return None

    @abstractmethod
    def _first_page(self, fingerprint: int, key: int) -> int:
        """The first page with this fingerprint: `key` for a new one, which is stored."""

    @abstractmethod
    def _candidates(self, key: int, simhash: int) -> Sequence[tuple[int, int]]:
        """Key and signature of the other pages that share a band."""

    @abstractmethod
    def _remember(self, key: int, simhash: int) -> None:
        """Store the signature of a page, in place of an older one."""


class MemoryDuplicateDetector(BandDetector):
    """Implements `DuplicateDetector` with dictionaries."""

    def __init__(self, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        super().__init__(near, max_distance)
        self._exact: dict[int, int] = {}
        self._signatures: dict[int, int] = {}
        self._bands: defaultdict[int, list[int]] = defaultdict(list)

    def _first_page(self, fingerprint: int, key: int) -> int:
        return self._exact.setdefault(fingerprint, key)

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None:
        """Remove the text of a page that changed or is gone, so that the next page with it is no duplicate."""
        if self._exact.get(fingerprint) == key:
            del self._exact[fingerprint]
        if gone:
            self._forget_signature(key)

    def _forget_signature(self, key: int) -> None:
        signature = self._signatures.pop(key, None)
        for band in simhash_bands(signature) if signature is not None else ():
            self._bands[band].remove(key)

    def _candidates(self, key: int, simhash: int) -> list[tuple[int, int]]:
        found = dict.fromkeys(
            k for band in simhash_bands(simhash) for k in self._bands[band][:MAX_CANDIDATES] if k != key
        )
        return [(k, self._signatures[k]) for k in found]

    def _remember(self, key: int, simhash: int) -> None:
        self._forget_signature(key)
        self._signatures[key] = simhash
        for band in simhash_bands(simhash):
            self._bands[band].append(key)


DEDUP_TABLES = (
    "CREATE TABLE IF NOT EXISTS texts (fingerprint INTEGER PRIMARY KEY, key INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS text_signatures (key INTEGER PRIMARY KEY, simhash INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS text_bands
    (band INTEGER NOT NULL, key INTEGER NOT NULL, PRIMARY KEY (band, key)) WITHOUT ROWID""",
)
_SAVE_SIGNATURE = "INSERT INTO text_signatures VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET simhash = excluded.simhash"


def create_dedup_tables(connection: Database) -> None:
    """Create the tables if they are missing."""
    for statement in DEDUP_TABLES:
        connection.execute(statement)


def add_signatures(connection: Database, simhashes: list[tuple[int, int]]) -> None:
    """Store the near-duplicate signatures of (key, simhash) pairs; known keys keep theirs. For a merge in SQLite."""
    connection.executemany("INSERT OR IGNORE INTO main.text_signatures VALUES (?, ?)", simhashes)
    bands = [(band, key) for key, simhash in simhashes for band in simhash_bands(simhash)]
    connection.executemany("INSERT OR IGNORE INTO main.text_bands VALUES (?, ?)", bands)


class StoredDuplicateDetector(BandDetector):
    """Implements `DuplicateDetector` on tables that `create_dedup_tables` made."""

    def __init__(self, connection: Database, near: bool = False, max_distance: int = MAX_DISTANCE) -> None:
        super().__init__(near, max_distance)
        self._connection = connection

    def forget(self, key: int, fingerprint: int, *, gone: bool = False) -> None:
        """Remove the text of a page that changed or is gone, so that the next page with it is no duplicate."""
        self._connection.execute("DELETE FROM texts WHERE fingerprint = ? AND key = ?", (fingerprint, key))
        if gone:
            self._forget_bands(key)
            self._connection.execute("DELETE FROM text_signatures WHERE key = ?", (key,))

    def _forget_bands(self, key: int) -> None:
        row = self._connection.execute("SELECT simhash FROM text_signatures WHERE key = ?", (key,)).fetchone()
        if row is not None:
            old = [(band, key) for band in simhash_bands(row[0])]
            self._connection.executemany("DELETE FROM text_bands WHERE band = ? AND key = ?", old)

    def _first_page(self, fingerprint: int, key: int) -> int:
        # Most texts are new: one statement for them.
        new = "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO NOTHING"
        if self._connection.execute(new, (fingerprint, key)).rowcount == 1:
            return key
        row = self._connection.execute("SELECT key FROM texts WHERE fingerprint = ?", (fingerprint,)).fetchone()
        return int(row[0])

    def _candidates(self, key: int, simhash: int) -> list[tuple[int, int]]:
        query = (
            "SELECT DISTINCT s.key, s.simhash FROM text_bands b JOIN text_signatures s ON s.key = b.key"
            " WHERE b.band IN (?, ?, ?, ?) AND b.key <> ? LIMIT ?"
        )
        return self._connection.execute(query, (*simhash_bands(simhash), key, 4 * MAX_CANDIDATES)).fetchall()

    def _remember(self, key: int, simhash: int) -> None:
        self._forget_bands(key)
        self._connection.execute(_SAVE_SIGNATURE, (key, simhash))
        new = [(band, key) for band in simhash_bands(simhash)]
        self._connection.executemany("INSERT INTO text_bands VALUES (?, ?)", new)
