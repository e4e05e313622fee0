"""Queued links are classified again whenever S1's learner was fitted (S1-14): old scores came from an older model."""

from collections.abc import Iterable, Sequence

from opilio.crawl.chooser import PlainChooser
from opilio.model.protocols import Entry
from opilio.model.records import Lead, Outcome
from opilio.rank.s1 import S1Ranker, unpacked

CHANGE = 1e-3


LIMIT = 50_000  # queued links whose features are remembered


class S1Chooser(PlainChooser):
    """Remembers the features of queued links, at most `limit` of them; the rest keep the score they had.

    `waiting` are those that a resumed crawl finds in its queue.
    """

    def __init__(self, ranker: S1Ranker, waiting: Iterable[Entry] = (), limit: int = LIMIT) -> None:
        self._ranker = ranker
        self._limit = limit
        self._version = ranker.version
        leads = (entry.lead for entry in waiting if entry.parents)
        self._queued = {lead.key: (lead.host, lead.score, lead.features) for lead in leads}

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._queued.pop(outcome.lead.key, None)

    def _leads(self, outcome: Outcome) -> list[Lead]:
        leads = super()._leads(outcome)
        for lead in leads:
            known = self._queued.get(lead.key)
            if known is None or lead.score > known[1]:
                self._queued[lead.key] = (lead.host, lead.score, lead.features)
        while len(self._queued) > self._limit:
            del self._queued[next(iter(self._queued))]
        return leads

    def changes(self) -> Iterable[tuple[str, int, float]]:
        if self._ranker.version == self._version or not self._queued:
            return []
        self._version = self._ranker.version
        rows = unpacked([features for _, _, features in self._queued.values()])
        scores = self._ranker.chances(rows)
        moved = []
        for (key, (host, old, features)), score in zip(self._queued.items(), scores.tolist(), strict=True):
            if abs(score - old) > CHANGE:
                moved.append((host, key, score))
            self._queued[key] = (host, score, features)
        return moved
