"""Queued links raised by what the links among pages say: around any other chooser, in the writing process.

The structure is that of the pages of this run and, after a start, of those stored last; scores are in the frontier.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from opilio.crawl.boostkinds import Boost
from opilio.crawl.chooser import Chooser
from opilio.crawl.columns import unpack
from opilio.model.protocols import Entry
from opilio.model.records import Lead, Outcome
from opilio.rank.structure import Column, LinkStructure
from opilio.store.collection import Collection

HELD = 200_000  # queued links whose own score is remembered
STORED = 5_000  # pages that a resumed crawl reads back
NOTICEABLE = 1e-3


class BoostingChooser:
    """Lets another chooser score, then raises. Links leave its memory when they are fetched, the oldest when full."""

    def __init__(self, inner: Chooser, boost: Boost, structure: LinkStructure | None = None) -> None:
        self._inner = inner
        self._boost = boost
        self._structure = structure or LinkStructure()
        self._own: dict[int, tuple[str, float, float]] = {}  # key -> host, own score, score in the frontier
        self._values: Column = np.zeros(0)
        self._waiting = 0

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._own.pop(outcome.lead.key, None)
        self._inner.watch(outcomes)

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._lifted(*page) for page in zip(outcomes, self._inner.leads(outcomes), strict=True)]

    def _lifted(self, outcome: Outcome, found: list[Lead]) -> list[Lead]:
        verdict = outcome.analysis.verdict if outcome.analysis else None
        relevance = verdict.score if verdict is not None else 0.0
        self._structure.add(outcome.lead.key, outcome.lead.host, relevance, [(lead.key, lead.host) for lead in found])
        self._waiting += 1
        scores = self._raised([lead.key for lead in found], [lead.score for lead in found])
        for lead, score in zip(found, scores, strict=True):
            known = self._own.get(lead.key)
            if known is None or lead.score > known[1]:
                self._own[lead.key] = (lead.host, lead.score, score)
        while len(self._own) > HELD:
            del self._own[next(iter(self._own))]
        return [replace(lead, score=score) for lead, score in zip(found, scores, strict=True)]

    def pass_over(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._own.pop(key, None)
        self._inner.pass_over(keys)

    def changes(self) -> Iterable[tuple[str, int, float]]:
        moved = list(self._inner.changes())
        raised = self._raised([key for _, key, _ in moved], [score for _, _, score in moved])
        for (host, key, own), score in zip(moved, raised, strict=True):
            self._own[key] = (host, own, score)
        told = [(host, key, score) for (host, key, _), score in zip(moved, raised, strict=True)]
        return told if self._waiting < self._boost.every else [*told, *self._again()]

    def _again(self) -> list[tuple[str, int, float]]:
        """All that wait, with what the structure says now."""
        self._waiting = 0
        self._values = self._boost.values(self._structure)
        keys = list(self._own)
        scores = self._raised(keys, [self._own[key][1] for key in keys])
        moved = []
        for key, score in zip(keys, scores, strict=True):
            host, own, told = self._own[key]
            if abs(score - told) > NOTICEABLE:
                self._own[key] = (host, own, score)
                moved.append((host, key, score))
        return moved

    def _raised(self, keys: Sequence[int], own: Sequence[float]) -> list[float]:
        place, known = self._structure.place, len(self._values)
        at = np.array([place.get(key, known) for key in keys], dtype=np.int64)
        values = np.append(self._values, 0.0)[np.minimum(at, known)]  # what came after the last look counts nothing
        return [float(score) for score in self._boost.joined(np.array(own, dtype=np.float64), values)]

    def correct(self, entry: Entry, before: float, after: float) -> None:
        self._inner.correct(entry, before, after)

    def save(self, now: float, *, at_end: bool = False) -> None:
        self._inner.save(now, at_end=at_end)

    @property
    def expected(self) -> float | None:
        return self._inner.expected


def boosting(inner: Chooser, boost: Boost | None, collection: Collection) -> Chooser:
    """A chooser that raises, where asked, with what the collection knows of links."""
    if boost is None:
        return inner
    structure = LinkStructure()
    rows = collection.connection.execute(
        "SELECT key, host, score, columns FROM page JOIN links ON links.parent = key ORDER BY seq DESC LIMIT ?",
        (STORED,),
    )
    for key, host, score, blob in rows:
        columns = unpack(bytes(blob))
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        kept = [(k, h) for at, (k, h) in enumerate(zip(keys, columns.hosts, strict=True)) if at not in columns.dropped]
        structure.add(int(key), str(host), float(score), kept)
    return BoostingChooser(inner, boost, structure)
