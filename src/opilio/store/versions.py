"""Pages through time: every stored version, the state at a date, and what came and went since a moment (S2-F6).

Only reads. A watermark is the number of an answer (`answer.seq`): what an index has taken in up to it stays true until
`changed_since` or `removed_since` say otherwise.
"""

from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import Any

import msgspec

from opilio.model.records import Fetched, Reason
from opilio.store.collection import Collection
from opilio.store.warc import read_record

CURRENT = ""  # the cause of an end that has not come
_SHARED = (
    "key, seq, url, host, title, description, language, genre, words, score, relevant, duplicate_of, noindex,"
    " fetched_at, warc, offset, length, reasons"
)
_NAMES = tuple(name.strip() for name in _SHARED.split(","))
_NOW = f"SELECT {_SHARED}, 9e999, '' FROM page"
_PAST = f"SELECT {_SHARED}, until, cause FROM version"
_reasons = msgspec.msgpack.Decoder(tuple[Reason, ...]).decode


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a page: current from `fetched_at` to `until` (infinite while it is). `cause` says why it ended."""

    key: int
    seq: int
    url: str
    host: str
    title: str
    description: str
    language: str
    genre: str
    words: int
    score: float
    relevant: bool
    duplicate_of: int
    noindex: bool
    fetched_at: float
    place: tuple[int, int, int]  # WARC file, offset, length; length 0: a copy, stored with its original
    reasons: tuple[Reason, ...]
    until: float = inf
    cause: str = CURRENT  # changed, gone, moved

    @property
    def current(self) -> bool:
        return self.cause == CURRENT


def current(collection: Collection, key: int) -> Version | None:
    """The page as it is now; None where there is none, or none any more."""
    row = collection.connection.execute(f"{_NOW} WHERE key = ?", (key,)).fetchone()
    return None if row is None else _version(row)


def history(collection: Collection, key: int) -> list[Version]:
    """Every stored version, the oldest first, with those of addresses that now redirect here for good."""
    found: list[Version] = []
    for known in addresses(collection, key):
        for table in (_PAST, _NOW):
            rows = collection.connection.execute(f"{table} WHERE key = ?", (known,))
            found += [_version(row) for row in rows]
    return sorted(found, key=lambda v: v.seq)  # a clock may have been set back: what came later has a higher number


def addresses(collection: Collection, key: int) -> list[int]:
    """A page's key and those of its former addresses, however often it moved."""
    found = [key]
    for known in found:
        rows = collection.connection.execute("SELECT key FROM move WHERE target = ?", (known,))
        found += [old for (old,) in rows if old not in found]
    return found


def moved_to(collection: Collection, key: int) -> int:
    """Where a page is now that has moved, perhaps more than once; its own key where it has not."""
    been = {key}
    while (
        row := collection.connection.execute("SELECT target FROM move WHERE key = ?", (key,)).fetchone()
    ) is not None:
        if row[0] in been:
            return key
        key = row[0]
        been.add(key)
    return key


def at(collection: Collection, key: int, when: float) -> Version | None:
    """The page as it stood at a time, as far as it was known then."""
    for table, over in ((_NOW, ""), (_PAST, " AND until > :when")):
        sql = f"{table} WHERE key = :key AND fetched_at <= :when{over} ORDER BY seq DESC LIMIT 1"
        row = collection.connection.execute(sql, {"key": key, "when": when}).fetchone()
        if row is not None:
            return _version(row)
    return None


def pages_at(collection: Collection, when: float) -> Iterator[Version]:
    """Every page as it stood at a time; a stream."""
    now = collection.connection.execute(f"{_NOW} WHERE fetched_at <= ?", (when,))
    past = collection.connection.execute(f"{_PAST} WHERE fetched_at <= ? AND until > ?", (when, when))
    return map(_version, chain(now, past))


def watermark(collection: Collection) -> int:
    """The number of the last answer: what was read now need not be read again before a higher one."""
    row = collection.connection.execute("SELECT max(seq) FROM answer").fetchone()
    return int(row[0] or 0)


def changed_since(collection: Collection, seq: int) -> Iterator[Version]:
    """Pages that are new or have a new version since a watermark, in the order they came."""
    rows = collection.connection.execute(f"{_NOW} WHERE seq > ? ORDER BY seq", (seq,))
    return map(_version, rows)


def removed_since(collection: Collection, seq: int) -> Iterator[int]:
    """Keys of pages that are no longer there, gone or moved, since a watermark."""
    rows = collection.connection.execute(
        "SELECT DISTINCT key FROM version WHERE ended > ? AND key NOT IN (SELECT key FROM page)", (seq,)
    )
    return (int(key) for (key,) in rows)


def stored_answer(collection: Collection, version: Version) -> Fetched | None:
    """The answer as it came; None for a copy, whose text is stored with its original."""
    return read_record(collection.folder, *version.place) if version.place[2] else None


def _version(row: tuple[Any, ...]) -> Version:
    told = dict(zip(_NAMES, row, strict=False))
    place = (told.pop("warc"), told.pop("offset"), told.pop("length"))
    reasons = _reasons(told.pop("reasons"))
    told["relevant"], told["noindex"] = bool(told["relevant"]), bool(told["noindex"])
    return Version(**told, place=place, reasons=reasons, until=row[-2], cause=row[-1])
