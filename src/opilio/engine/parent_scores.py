"""Leads whose score counts all the pages they were found on (S3-17, X-11), in the writing process."""

from collections.abc import Iterator

import numpy as np

from opilio.core.protocols import Database, LinkScorer
from opilio.core.records import Lead, LinkColumns, Outcome
from opilio.engine.link_columns import build_leads, unpack
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.rank.topic_genre import KnownParents, TopicGenreOptions, aggregate_parents
from opilio.store.answers import linked_pages

MAX_LINKS = 200_000  # links with known parents: those found last


class ParentLinkScorer(StaticLinkScorer):
    """Replaces the relevance of the linking page by that of all known parents."""

    def __init__(self, options: TopicGenreOptions) -> None:
        self._options = options
        self._parents = KnownParents(limit=MAX_LINKS, per_link=options.parents or MAX_LINKS)

    def resume(self, connection: Database, agent: int = 0) -> None:
        """Load the parents from the collection's pages (those of an agent), the newest first."""
        newest: list[tuple[int, float, list[int]]] = []
        links = 0
        for page in _pages_with_links(connection, agent):
            newest.append(page)
            links += len(page[2])
            if links >= MAX_LINKS:
                break
        for key, relevance, found in reversed(newest):
            self._parents.add(key, relevance, found)

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        analysis = outcome.analysis
        if analysis is None or analysis.verdict is None or not analysis.links:
            return []
        columns, verdict = unpack(analysis.links), analysis.verdict
        scores = self._parent_scores(columns, outcome.lead.key, verdict.score)
        return build_leads(columns, outcome.lead, verdict.relevant, scores)

    def _parent_scores(self, columns: LinkColumns, page: int, relevance: float) -> list[float]:
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        known, how = self._parents, self._options.parent_agg
        alone = np.frombuffer(columns.scores, dtype=np.float32).astype(np.float64)
        together = np.array([aggregate_parents([*known.relevances(key, page), relevance], how) for key in keys])
        known.add(page, relevance, _followed_keys(columns))
        # The rank changes, not the size: the share of the page's relevance stays as the ranker computed it.
        lifted = alone if self._options.scale == "rank" else alone + self._options.topic * (together - relevance)
        return list(map(float, lifted))


def parent_link_scorer(context: LinkScorerContext) -> LinkScorer:
    """The scorer with the parents that the collection's pages have (those of one agent)."""
    scorer = ParentLinkScorer(context.ranker.options)
    scorer.resume(context.collection.connection, context.owner.number)
    return scorer


def _followed_keys(columns: LinkColumns) -> list[int]:
    """The keys of the links that are followed, each once."""
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    return list(dict.fromkeys(key for at, key in enumerate(keys) if at not in columns.dropped))


def _pages_with_links(connection: Database, agent: int) -> Iterator[tuple[int, float, list[int]]]:
    """Every page with its relevance and the links to follow, newest first."""
    for page in linked_pages(connection, agent):
        yield page.key, page.score, _followed_keys(unpack(page.columns))
