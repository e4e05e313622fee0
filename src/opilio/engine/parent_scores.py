"""Leads whose score counts all the pages they were found on (S3-17, S3-23, X-11), in the writing process."""

from collections.abc import Iterator, Mapping

import numpy as np

from opilio.core.protocols import Database, LinkScorer
from opilio.core.records import Lead, LinkColumns, Outcome
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.rank.link_scores import ScoreColumn, build_leads, unpack
from opilio.rank.topic_genre import GENRE_PART, PAGE_PART, KnownParents, ParentValues, TopicGenreOptions, best_genre
from opilio.store.versions import linked_pages

MAX_LINKS = 200_000  # links with known parents: those found last


class ParentLinkScorer(StaticLinkScorer):
    """Replaces the values of the one page that holds a link by those of all its known parents."""

    def __init__(self, options: TopicGenreOptions) -> None:
        self._options = options
        self._parents = KnownParents(limit=MAX_LINKS, per_link=options.parents)

    def resume(self, connection: Database, agent: int = 0) -> None:
        """Load the parents from the collection's pages (those of an agent), the newest first."""
        newest: list[tuple[int, ParentValues, list[int]]] = []
        links = 0
        for page in _pages_with_links(connection, agent):
            newest.append(page)
            links += len(page[2])
            if links >= MAX_LINKS:
                break
        for key, values, found in reversed(newest):
            self._parents.add(key, values, found)

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        analysis = outcome.analysis
        if analysis is None or analysis.verdict is None or not analysis.links:
            return []
        columns, verdict = unpack(analysis.links), analysis.verdict
        scores = self._parent_scores(columns, outcome.lead.key, verdict.score)
        return build_leads(columns, outcome.lead, verdict.relevant, scores)

    def _parent_scores(self, columns: LinkColumns, page: int, relevance: float) -> list[float]:
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        known, options, parts = self._parents, self._options, _genre_parts(columns)
        own = _parent_values(parts, relevance)
        known.forget(page)
        together = np.array([known.aggregate(key, own, options.parent_agg) for key in keys]).reshape(len(keys), -1)
        known.add(page, own, _followed_keys(columns))
        scores = np.frombuffer(columns.scores, dtype=np.float32).astype(np.float64)
        # By rank, the parents' part has no size of its own: the page's share stays as the ranker found it.
        if options.scale == "rank":
            return list(map(float, scores))
        scores += options.topic * (together[:, 0] - relevance)
        if len(own) > 1:
            pages = [name for name in parts if name.endswith(PAGE_PART)]
            all_pages = parts | {name: together[:, at] for at, name in enumerate(pages, 1)}
            scores += options.genre * (best_genre(all_pages, len(keys)) - best_genre(parts, len(keys)))
        return list(map(float, scores))


def parent_link_scorer(context: LinkScorerContext) -> LinkScorer:
    """The scorer with the parents that the collection's pages have (those of one agent)."""
    scorer = ParentLinkScorer(context.ranker.options)
    scorer.resume(context.collection.connection, context.owner.number)
    return scorer


def _followed_keys(columns: LinkColumns) -> list[int]:
    """The keys of the links that are followed, each once."""
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    return list(dict.fromkeys(key for at, key in enumerate(keys) if at not in columns.dropped))


def _genre_parts(columns: LinkColumns) -> dict[str, ScoreColumn]:
    """The parts of the links' scores that belong to a genre."""
    parts = np.frombuffer(columns.parts, dtype=np.float32).reshape(len(columns.urls), len(columns.names))
    places = {name: at for at, name in enumerate(columns.names) if name.startswith(GENRE_PART)}
    return {name: parts[:, at].astype(np.float64) for name, at in places.items()}


def _parent_values(parts: Mapping[str, ScoreColumn], relevance: float) -> ParentValues:
    """What the page contributes to its links: every link has the same value of it."""
    return relevance, *(float(column[0]) for name, column in parts.items() if name.endswith(PAGE_PART))


def _pages_with_links(connection: Database, agent: int) -> Iterator[tuple[int, ParentValues, list[int]]]:
    """Every page with its values and the links to follow, newest first."""
    for page in linked_pages(connection, agent):
        columns = unpack(page.columns)
        yield page.key, _parent_values(_genre_parts(columns), page.score), _followed_keys(columns)
