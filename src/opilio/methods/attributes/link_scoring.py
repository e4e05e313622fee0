"""S1's links in the writing process: known by their first five parents, classified again when either side changed.

A link's row grows with every parent that is found (S1-22…S1-24), and old scores came from an older model (S1-14).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from opilio.core.caches import evict_oldest
from opilio.core.protocols import Database, FeatureEffect, FrontierEntry, LinkExplanation, LinkScorer
from opilio.core.records import Lead, LinkColumns, Outcome, Reading
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.engine.parent_scores import MAX_LINKS
from opilio.methods.attributes.features import add_parent_evidence
from opilio.methods.attributes.ranker import AttributesRanker, pack_rows, unpack_rows
from opilio.methods.attributes.rows import ATTRIBUTES
from opilio.rank.link_scores import unpack
from opilio.store.versions import linked_pages

MIN_RESCORE_CHANGE = 1e-3
MAX_QUEUED_LINKS = 50_000  # queued links whose parents are remembered


@dataclass(slots=True)
class _QueuedLink:
    """A queued link: what its parents say of it, the row that makes, and the score in the frontier."""

    url: str
    host: str
    score: float
    evidence: dict[int, bytes] = field(default_factory=dict)
    row: bytes = b""


class AttributesLinkScorer(StaticLinkScorer):
    """Remembers queued links, at most `limit` of them; the rest keep the score they had."""

    def __init__(self, ranker: AttributesRanker, limit: int = MAX_QUEUED_LINKS) -> None:
        self._ranker = ranker
        self._limit = limit
        self._version = ranker.version
        self._queued: dict[int, _QueuedLink] = {}
        # The frontier keeps the better score of a link, so a lower one is sent as a new score.
        self._lowered: dict[int, _QueuedLink] = {}

    def resume(self, waiting: Iterable[FrontierEntry], connection: Database, agent: int = 0) -> None:
        """Load the queued links, with the evidence of the newest stored pages, up to the limit."""
        leads = {entry.lead.key: entry.lead for entry in waiting if entry.parents}
        pages = _newest_pages(connection, agent)
        for key, lead in leads.items():
            link = self._queued[key] = _QueuedLink(lead.url, lead.host, lead.score)
            if lead.parent not in pages:
                add_parent_evidence(link.evidence, lead.parent, lead.features)
        for page, columns in reversed(pages.items()):
            keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
            for at, (key, evidence) in enumerate(zip(keys, columns.features, strict=False)):
                if key in leads and at not in columns.dropped:
                    add_parent_evidence(self._queued[key].evidence, page, evidence)
        self._update_rows(list(self._queued.values()))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            failure = outcome.fetched.failure
            link = self._queued.get(outcome.lead.key)
            if link is not None and not (failure is not None and failure.retry):
                del self._queued[outcome.lead.key]
                self._ranker.pending_rows[outcome.lead.key] = link.row

    def discard(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._queued.pop(key, None)

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        leads = super()._score_page_links(outcome)
        links = [self._queued.setdefault(lead.key, _QueuedLink(lead.url, lead.host, lead.score)) for lead in leads]
        changed = {
            o.key: link
            for o, link in zip(leads, links, strict=True)
            if add_parent_evidence(link.evidence, o.parent, o.features)
        }
        self._update_rows(list(changed.values()))
        for (key, link), score in zip(changed.items(), self._scores(changed.values()), strict=True):
            if len(link.evidence) > 1 and score < link.score - MIN_RESCORE_CHANGE:
                self._lowered[key] = link
            link.score = score
        scored = [replace(lead, score=link.score) for lead, link in zip(leads, links, strict=True)]
        evict_oldest(self._queued, self._limit)
        return scored

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        moved, self._lowered = {key: link for key, link in self._lowered.items() if key in self._queued}, {}
        if self._ranker.version != self._version and self._queued:
            self._version = self._ranker.version
            for (key, link), score in zip(self._queued.items(), self._scores(self._queued.values()), strict=True):
                if abs(score - link.score) > MIN_RESCORE_CHANGE:
                    moved[key] = link
                link.score = score
        return [(link.host, key, link.score) for key, link in moved.items()]

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None:
        """The probability of a link now, and how much of it each attribute makes; None while nothing is trained."""
        del parent
        trainer = self._ranker.trainer
        if not trainer.is_ready:
            return None
        link = self._queued.get(entry.lead.key)
        row = unpack_rows([link.row]) if link is not None else self._ranker.links.lead_row(entry.lead)
        size = len(ATTRIBUTES)
        # The row once more for each attribute, with that attribute missing.
        rows = np.repeat(row, size + 1, axis=0)
        without = np.arange(size)
        rows[without, without], rows[without, size + without] = 0.0, 1.0
        *others, score = self._ranker.probabilities(rows).tolist()
        parts = [
            FeatureEffect(name, float(row[0, at]), 0.0, score - other)
            for at, (name, other) in enumerate(zip(ATTRIBUTES, others, strict=True))
        ]
        return LinkExplanation(score, parts, [], [], trainer.learner.row_count)

    def _update_rows(self, links: Sequence[_QueuedLink]) -> None:
        rows = pack_rows(
            self._ranker.links.rows([link.url for link in links], [link.evidence.values() for link in links])
        )
        for link, row in zip(links, rows, strict=True):
            link.row = row

    def _scores(self, links: Iterable[_QueuedLink]) -> list[float]:
        rows = unpack_rows([link.row for link in links])
        return self._ranker.probabilities(rows).tolist() if len(rows) else []


def attributes_link_scorer(context: LinkScorerContext) -> LinkScorer:
    """S1's scorer with the queued links of a collection (of one agent); InfoSpiders keep the score of one page."""
    if not isinstance(context.ranker, AttributesRanker):
        return StaticLinkScorer()
    scorer = AttributesLinkScorer(context.ranker)
    waiting = context.queued(MAX_QUEUED_LINKS)
    scorer.resume(waiting, context.collection.connection, context.owner.number)
    return scorer


def _newest_pages(connection: Database, agent: int) -> dict[int, LinkColumns]:
    """The pages stored last (by an agent) with their links, the newest first."""
    pages, links = dict[int, LinkColumns](), 0
    for page in linked_pages(connection, agent):
        columns = pages[page.key] = unpack(page.columns)
        links += len(columns.urls)
        if links >= MAX_LINKS:
            break
    return pages
