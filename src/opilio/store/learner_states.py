"""What learners have learned: snapshots of their states, and a journal of the lessons since.

A snapshot is stored from time to time. A lesson is written in the same unit of work as its visit, so a killed crawl has
learned everything that it committed. The larger the state, the longer the journal between two snapshots. The previous
snapshot and its journal are kept as well, under another name, to rebuild a damaged snapshot. The checksum of a snapshot
is in `meta`.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import xxhash

from opilio.core.protocols import Database
from opilio.store.collection import Collection
from opilio.store.connection import read_row, read_rows, upsert_sql

# Ends the name of a learner's previous state, which stands in for a damaged one.
PREVIOUS_MARK = "~"


class SnapshotRow(msgspec.Struct, frozen=True):
    """A saved state of something that learns."""

    name: str
    version: int
    at: float
    state: bytes


_SAVE_SNAPSHOT = upsert_sql("snapshot", SnapshotRow.__struct_fields__, ("name", "version"))


def latest_snapshot(db: Database, name: str) -> SnapshotRow | None:
    """The newest saved state of a learner."""
    return read_row(db, SnapshotRow, "snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (name,))


def latest_state(db: Database, name: str) -> bytes | None:
    """The newest saved state of a learner as bytes."""
    found = latest_snapshot(db, name)
    return None if found is None else bytes(found.state)


def snapshots(db: Database, name: str) -> list[SnapshotRow]:
    """Every saved state of a learner, oldest first."""
    return list(read_rows(db, SnapshotRow, "snapshot WHERE name = ? ORDER BY version", (name,)))


def write_snapshots(db: Database, rows: Iterable[SnapshotRow]) -> None:
    """Store states, in place of those of the same learner and version."""
    db.executemany(_SAVE_SNAPSHOT, [msgspec.structs.astuple(row) for row in rows])


def latest_states(db: Database, without: str) -> dict[str, bytes]:
    """The newest saved state of every learner by name; without those called `without`, of agents too."""
    source = f"""snapshot AS s WHERE name <> ? AND name NOT LIKE '%/' || ? AND name NOT LIKE '%{PREVIOUS_MARK}'
        AND version = (SELECT max(version) FROM snapshot WHERE name = s.name)"""
    return {row.name: bytes(row.state) for row in read_rows(db, SnapshotRow, source, (without, without))}


# Lessons between two saved states, at least.
SNAPSHOT_MIN_LESSONS = 1_000
# Of a state: saving costs about this per lesson.
STATE_BYTES_PER_LESSON = 1_000
_NEWEST_VERSION = "(SELECT max(version) FROM snapshot WHERE name = ?)"
STATE_DAMAGED = "the learned state '{}' was changed since it was written; it is restored from the state before it"
STATE_RESTORED = "the learned state '{}' was damaged; it was restored from the state before it and its lessons"
_CHECKSUM_PREFIX = "state of "  # names in `meta`


class LearnerJournal:
    """The journal of one learner. Writes inside `collection.unit_of_work()`."""

    def __init__(self, collection: Collection, name: str) -> None:
        self._collection = collection
        self._connection = collection.connection
        # A collection in memory is never resumed.
        self._persistent = collection.persistent
        self.name = name
        # Lessons since the last saved state, as far as this process knows.
        self.pending_lessons = 0
        self._snapshot_after = SNAPSHOT_MIN_LESSONS

    @property
    def snapshot_due(self) -> bool:
        """Whether to store a snapshot."""
        return self.pending_lessons >= self._snapshot_after

    def add(self, lesson: bytes, lessons: int = 1) -> None:
        """Store a lesson of this number of visits."""
        if not self._persistent:
            return
        self._connection.execute("INSERT INTO lesson (name, data) VALUES (?, ?)", (self.name, lesson))
        self.pending_lessons += lessons

    def load_snapshot(self) -> bytes | None:
        """The last snapshot."""
        return latest_state(self._connection, self.name)

    def lessons(self) -> Iterator[bytes]:
        """The lessons after the last snapshot, in order."""
        for (lesson,) in self._connection.execute("SELECT data FROM lesson WHERE name = ? ORDER BY id", (self.name,)):
            self.pending_lessons += 1
            yield bytes(lesson)

    def save_snapshot(self, version: int, at: float, state: bytes, past: Sequence[tuple[int, bytes]] = ()) -> None:
        """Store a snapshot; the last one and its lessons become the previous ones.

        `past`: what is kept of versions since the last call, for display. A version keeps the time when it was made.
        """
        previous = self.name + PREVIOUS_MARK
        _make_previous(self._connection, self.name, previous)
        made_at = dict(self._connection.execute("SELECT version, at FROM snapshot WHERE name = ?", (previous,)))
        kept = [*past, (version, state)]
        write_snapshots(
            self._connection, [SnapshotRow(self.name, number, made_at.get(number, at), data) for number, data in kept]
        )
        self._collection.set_meta(**{_checksum_key(self.name): _checksum(state)})
        self.pending_lessons = 0
        self._snapshot_after = max(SNAPSHOT_MIN_LESSONS, len(state) // STATE_BYTES_PER_LESSON)


def damaged_states(collection: Collection) -> Iterator[str]:
    """The names of the learners whose last snapshot differs from its checksum."""
    for key, stored in collection.connection.execute(
        "SELECT name, value FROM meta WHERE name LIKE ?", (f"{_CHECKSUM_PREFIX}%",)
    ):
        name = str(key).removeprefix(_CHECKSUM_PREFIX)
        row = latest_snapshot(collection.connection, name)
        if not name.endswith(PREVIOUS_MARK) and row is not None and _checksum(bytes(row.state)) != stored:
            yield name


def restore_damaged_states(collection: Collection) -> list[str]:
    """Replace each damaged snapshot by the previous one and its lessons; returns the names.

    Inside a unit of work. A learner without a previous snapshot learns all lessons again.
    """
    names = list(damaged_states(collection))
    db = collection.connection
    for name in names:
        previous = latest_snapshot(db, name + PREVIOUS_MARK)
        keep_below = previous.version if previous is not None else 0
        sql = f"DELETE FROM snapshot WHERE name = ? AND (version >= ? OR version = {_NEWEST_VERSION})"
        db.execute(sql, (name, keep_below, name))
        db.execute("UPDATE snapshot SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        db.execute("UPDATE lesson SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        collection.set_meta(**{_checksum_key(name): _checksum(b"" if previous is None else bytes(previous.state))})
    return names


def _make_previous(db: Database, name: str, previous: str) -> None:
    """Rename the newest snapshot and all lessons, in place of those that have that name."""
    for table in ("snapshot", "lesson"):
        db.execute(f"DELETE FROM {table} WHERE name = ?", (previous,))
    db.execute(f"UPDATE snapshot SET name = ? WHERE name = ? AND version = {_NEWEST_VERSION}", (previous, name, name))
    db.execute("UPDATE lesson SET name = ? WHERE name = ?", (previous, name))


def _checksum_key(name: str) -> str:
    return f"{_CHECKSUM_PREFIX}{name}"


def _checksum(state: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(state)
