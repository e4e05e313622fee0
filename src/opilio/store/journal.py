"""How a learner is stored: a snapshot of its state from time to time, and a journal of the lessons since.

A lesson is written in the same unit of work as its visit, so a killed crawl has learned everything that it committed.
The larger the state, the longer the journal between two snapshots.

The previous snapshot and its journal are kept as well, under another name, to rebuild a damaged snapshot. The checksum
of a snapshot is in `meta`.
"""

from collections.abc import Iterator

import xxhash

from opilio.store.collection import Collection
from opilio.store.run_tables import PREVIOUS_MARK, latest_snapshot, latest_state

SNAPSHOT_MIN_LESSONS = 1_000  # lessons between two saved states, at least
STATE_BYTES_PER_LESSON = 1_000  # of a state: saving costs about this per lesson
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
        self.pending_lessons = 0  # lessons since the last saved state, as far as this process knows
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

    def save_snapshot(self, version: int, at: float, state: bytes) -> None:
        """Store a snapshot; the last one and its lessons become the previous ones."""
        _rename_state(self._collection, self.name, self.name + PREVIOUS_MARK)
        self._connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?)", (self.name, version, at, state))
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
    for name in names:
        collection.connection.execute("DELETE FROM snapshot WHERE name = ?", (name,))
        collection.connection.execute("UPDATE snapshot SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        collection.connection.execute("UPDATE lesson SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        previous = latest_state(collection.connection, name)
        collection.set_meta(**{_checksum_key(name): _checksum(previous or b"")})
    return names


def _rename_state(collection: Collection, name: str, new_name: str) -> None:
    """Rename a snapshot and its lessons, replacing what has that name."""
    for table in ("snapshot", "lesson"):
        collection.connection.execute(f"DELETE FROM {table} WHERE name = ?", (new_name,))
        collection.connection.execute(f"UPDATE {table} SET name = ? WHERE name = ?", (new_name, name))


def _checksum_key(name: str) -> str:
    return f"{_CHECKSUM_PREFIX}{name}"


def _checksum(state: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(state)
