"""A person's words about pages, as the writing process takes them up: verdict, judge and ranker follow at once.

Whoever labels appends rows to the table `label`; here they are found by their number, in the next unit of work.
"""

from opilio.crawl.chooser import Chooser
from opilio.crawl.learning import Learning
from opilio.model.events import Event, PageLabelled
from opilio.model.protocols import Frontier
from opilio.model.records import Reason
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper

BY_HAND = "labelled by hand"
TAKEN = "labels_taken"  # the number of the last one that was taken up


class Labels:
    """Takes up what people said since it last looked."""

    def __init__(
        self, collection: Collection, keeper: Keeper, frontier: Frontier, learning: Learning, chooser: Chooser
    ) -> None:
        self._collection = collection
        self._keeper = keeper
        self._frontier = frontier
        self._learning = learning
        self._chooser = chooser
        self._taken = int(collection.meta(TAKEN, "0"))

    def take(self, now: float) -> list[Event]:
        """Apply new labels in their order, inside a unit of work. Where there are none it costs one look."""
        rows = self._collection.connection.execute(
            "SELECT id, key, relevant, sample FROM label WHERE id > ? ORDER BY id", (self._taken,)
        ).fetchall()
        events: list[Event] = []
        for id_, key, relevant, sample in rows:
            events += self._apply(id_, key, bool(relevant), bytes(sample), now)
            self._taken = id_
        if rows:
            self._collection.set_meta(**{TAKEN: self._taken})
        return events

    def _apply(self, id_: int, key: int, relevant: bool, sample: bytes, now: float) -> list[Event]:
        page = self._collection.connection.execute("SELECT url, host, score FROM page WHERE key = ?", (key,)).fetchone()
        if page is None:
            return []
        url, host, score = page
        before = self._earlier(id_, key)
        self._keeper.relabel(key, relevant, Reason(BY_HAND, float(relevant)))
        if before is not relevant:
            self._learning.label(sample, relevant, before)
            entry = self._frontier.entry(host, key)
            if entry is not None:
                self._chooser.correct(entry, score, float(relevant))
        return [PageLabelled(at=now, url=url, relevant=relevant)]

    def _earlier(self, id_: int, key: int) -> bool | None:
        """What was said of the page before."""
        row = self._collection.connection.execute(
            "SELECT relevant FROM label WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1", (key, id_)
        ).fetchone()
        return None if row is None else bool(row[0])
