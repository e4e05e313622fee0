"""How a learner is kept: now and then its whole state, and behind it every lesson since, with the visit it came from.

A lesson is written in the same unit of work as its visit, so what a killed crawl had committed it has also learnt.
Saving costs as much as is known, so the more there is, the longer the journal grows in between.
"""

from collections.abc import Iterator

from opilio.store.collection import Collection
from opilio.store.run_tables import latest_state

SNAPSHOT_MIN_LESSONS = 1_000  # lessons between two saved states, at least
STATE_BYTES_PER_LESSON = 1_000  # of a state: saving adds about so much to the cost of a lesson


class LearnerJournal:
    """The journal of one learner. Writes inside `collection.unit_of_work()`."""

    def __init__(self, collection: Collection, name: str) -> None:
        self._connection = collection.connection
        # A collection in memory is never resumed.
        self._persistent = collection.persistent
        self.name = name
        self.pending_lessons = 0  # lessons since the last saved state, as far as this process knows
        self._snapshot_after = SNAPSHOT_MIN_LESSONS

    @property
    def snapshot_due(self) -> bool:
        """Is it time to save the whole state?"""
        return self.pending_lessons >= self._snapshot_after

    def add(self, lesson: bytes, lessons: int = 1) -> None:
        """Write a lesson down; `lessons` is how many visits are in it."""
        if not self._persistent:
            return
        self._connection.execute("INSERT INTO lesson (name, data) VALUES (?, ?)", (self.name, lesson))
        self.pending_lessons += lessons

    def load_snapshot(self) -> bytes | None:
        """The state that was saved last."""
        return latest_state(self._connection, self.name)

    def lessons(self) -> Iterator[bytes]:
        """The lessons behind that state, in their order."""
        for (lesson,) in self._connection.execute("SELECT data FROM lesson WHERE name = ? ORDER BY id", (self.name,)):
            self.pending_lessons += 1
            yield bytes(lesson)

    def save_snapshot(self, version: int, at: float, state: bytes) -> None:
        """Keep a state in the place of the last one and of the lessons behind it."""
        self._connection.execute("DELETE FROM snapshot WHERE name = ?", (self.name,))
        self._connection.execute("INSERT INTO snapshot VALUES (?, ?, ?, ?)", (self.name, version, at, state))
        self._connection.execute("DELETE FROM lesson WHERE name = ?", (self.name,))
        self.pending_lessons = 0
        self._snapshot_after = max(SNAPSHOT_MIN_LESSONS, len(state) // STATE_BYTES_PER_LESSON)
