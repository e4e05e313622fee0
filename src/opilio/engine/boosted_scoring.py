"""Raises the scores of a link scorer by the link graph of the crawled pages.

These are the pages of this run and, after a start, the newest stored ones.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from opilio.core.caches import evict_oldest
from opilio.core.protocols import FrontierEntry, LinkExplanation, LinkScorer
from opilio.core.records import Lead, Outcome, Reading
from opilio.rank.link_graph import Boost, CrawledLinkGraph, NodeColumn
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection
from opilio.store.versions import newest_linked_pages

# Queued links whose own score is remembered.
MAX_TRACKED_LINKS = 200_000
MAX_RESUMED_PAGES = 5_000  # pages that a resumed crawl reads back
MIN_SCORE_CHANGE = 1e-3


class BoostingLinkScorer:
    """Raises the scores of another scorer. Forgets a link when it is fetched, and the oldest ones when full."""

    def __init__(self, inner: LinkScorer, boost: Boost, structure: CrawledLinkGraph | None = None) -> None:
        self._inner = inner
        self._boost = boost
        self._structure = structure or CrawledLinkGraph()
        # Key -> host, own score, score in the frontier.
        self._own_scores: dict[int, tuple[str, float, float]] = {}
        self._node_values: NodeColumn = np.zeros(0)
        self._pages_since_update = 0

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._own_scores.pop(outcome.lead.key, None)
        self._inner.observe(outcomes)

    def score_links(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._boost_leads(*page) for page in zip(outcomes, self._inner.score_links(outcomes), strict=True)]

    def _boost_leads(self, outcome: Outcome, found: list[Lead]) -> list[Lead]:
        verdict = outcome.analysis.verdict if outcome.analysis else None
        relevance = verdict.score if verdict is not None else 0.0
        self._structure.add(outcome.lead.key, outcome.lead.host, relevance, [(lead.key, lead.host) for lead in found])
        self._pages_since_update += 1
        scores = self._boosted_scores([lead.key for lead in found], [lead.score for lead in found])
        for lead, score in zip(found, scores, strict=True):
            known = self._own_scores.get(lead.key)
            if known is None or lead.score > known[1]:
                self._own_scores[lead.key] = (lead.host, lead.score, score)
        evict_oldest(self._own_scores, MAX_TRACKED_LINKS)
        return [replace(lead, score=score) for lead, score in zip(found, scores, strict=True)]

    def discard(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._own_scores.pop(key, None)
        self._inner.discard(keys)

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        moved = list(self._inner.rescored())
        raised = self._boosted_scores([key for _, key, _ in moved], [score for _, _, score in moved])
        for (host, key, own), score in zip(moved, raised, strict=True):
            self._own_scores[key] = (host, own, score)
        changed = [(host, key, score) for (host, key, _), score in zip(moved, raised, strict=True)]
        return changed if self._pages_since_update < self._boost.interval_pages else [*changed, *self._rescore_all()]

    def explored(self) -> list[tuple[str, int]]:
        return self._inner.explored()

    def _rescore_all(self) -> list[tuple[str, int, float]]:
        """All queued links with a changed score."""
        self._pages_since_update = 0
        self._node_values = self._boost.node_values(self._structure)
        keys = list(self._own_scores)
        scores = self._boosted_scores(keys, [self._own_scores[key][1] for key in keys])
        moved = []
        for key, score in zip(keys, scores, strict=True):
            host, own, previous = self._own_scores[key]
            if abs(score - previous) > MIN_SCORE_CHANGE:
                self._own_scores[key] = (host, own, score)
                moved.append((host, key, score))
        return moved

    def _boosted_scores(self, keys: Sequence[int], own: Sequence[float]) -> list[float]:
        place, known = self._structure.node_of, len(self._node_values)
        at = np.array([place.get(key, known) for key in keys], dtype=np.int64)
        # Pages that were added after the last update have no value yet.
        values = np.append(self._node_values, 0.0)[np.minimum(at, known)]
        return [float(score) for score in self._boost.combine(np.array(own, dtype=np.float64), values)]

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        self._inner.correct(entry, before, after)

    @property
    def learns_from_labels(self) -> bool:
        return self._inner.learns_from_labels

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None:
        return self._inner.explain(entry, parent)

    def save(self, now: float, *, at_end: bool = False) -> None:
        self._inner.save(now, at_end=at_end)

    @property
    def expected_relevant(self) -> float | None:
        return self._inner.expected_relevant


def with_boost(inner: LinkScorer, boost: Boost | None, collection: Collection) -> LinkScorer:
    """The scorer wrapped in a boost, if there is one, with the links of the stored pages."""
    if boost is None:
        return inner
    structure = CrawledLinkGraph()
    for page in newest_linked_pages(collection.connection, MAX_RESUMED_PAGES):
        columns = unpack(page.columns)
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        kept = [(k, h) for at, (k, h) in enumerate(zip(keys, columns.hosts, strict=True)) if at not in columns.dropped]
        structure.add(page.key, page.host, page.score, kept)
    return BoostingLinkScorer(inner, boost, structure)
