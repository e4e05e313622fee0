"""Scores the links of new pages in the writing process, between analysis and frontier.

`ParentLinkScorer` counts all the pages that a link was found on (S3-17, S3-23, X-11).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opilio.core.protocols import (
    JUDGE_STATE,
    Database,
    FrontierEntry,
    Learns,
    LinkExplanation,
    LinkScorer,
    WeighsTerms,
)
from opilio.core.records import Lead, LinkColumns, Outcome, Reading
from opilio.core.registry import LINK_SCORERS, has_plugin, load_plugin
from opilio.engine.learning import NO_OWNER, Owner
from opilio.engine.link_memory import CommitteeLearner, explain_link
from opilio.frontier.sqlite.urls import best_urls
from opilio.learn.committee import Committee, FoundLinks
from opilio.learn.scoring import SourcePage
from opilio.learn.word_model import unpack_features
from opilio.rank.committee import CommitteeRanker
from opilio.rank.link_scores import ScoreColumn, build_leads, unpack
from opilio.rank.topic_genre import GENRE_PART, PAGE_PART, KnownParents, ParentValues, TopicGenreOptions, best_genre
from opilio.store.collection import Collection
from opilio.store.versions import linked_pages


@dataclass(frozen=True, slots=True)
class LinkScorerContext:
    """The argument of every factory of a link scorer: its ranker, and what the collection knows (of one agent).

    `load_queue` is False for a scorer that only explains: it needs what was learned, not all queued links.
    """

    ranker: Any
    collection: Collection
    learners: Mapping[str, Learns]
    owner: Owner = NO_OWNER
    load_queue: bool = True

    def queued(self, limit: int) -> Iterator[FrontierEntry]:
        """The queued URLs, best first."""
        waiting = best_urls(self.collection.connection, limit)
        agent = self.owner.number
        return waiting if not agent else (entry for entry in waiting if entry.lead.agent == agent)


def build_link_scorer(kind: str, context: LinkScorerContext) -> LinkScorer:
    """The link scorer registered under the ranker's kind; the ranker's own scores where there is none."""
    if not has_plugin(LINK_SCORERS, kind):
        return StaticLinkScorer()
    scorer: LinkScorer = load_plugin(LINK_SCORERS, kind)(context)
    return scorer


class StaticLinkScorer:
    """The ranker's own scores, never changed."""

    learns_from_labels = False

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        pass

    def score_links(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._score_page_links(outcome) for outcome in outcomes]

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        analysis = outcome.analysis
        if analysis is None or not analysis.links:
            return []
        return build_leads(unpack(analysis.links), outcome.lead, _is_relevant(outcome))

    def discard(self, keys: Sequence[int]) -> None:
        """Links that the frontier refused: they will never be fetched."""

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        return ()

    def explored(self) -> list[tuple[str, int]]:
        return []

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        """A label makes a fetched page worth `after`, not `before`."""

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None:
        """Why a queued link has its score, with its words from the page it stands on; None without a model."""
        del entry, parent
        return None

    def save(self, now: float, *, at_end: bool = False) -> None:
        """Store what was learned."""

    @property
    def expected_relevant(self) -> float | None:
        """Estimate of the relevant pages in the queue; None without an estimate."""
        return None


class CommitteeLinkScorer(StaticLinkScorer):
    """The committee learns from every outcome and scores every link, by the judge's term weights too."""

    learns_from_labels = True

    def __init__(self, learner: CommitteeLearner, ranker: CommitteeRanker, judge: WeighsTerms | None = None) -> None:
        self._learner = learner
        self._committee = learner.committee
        self._ranker = ranker
        self._judge = judge
        self._judge_version = 0

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._update_word_values()
        self._learner.observe(outcomes)

    def discard(self, keys: Sequence[int]) -> None:
        self._learner.discard(keys)

    def score_links(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        every = [unpack(outcome.analysis.links if outcome.analysis else b"") for outcome in outcomes]
        kept = [
            _followed_positions(outcome.lead.key, columns) for outcome, columns in zip(outcomes, every, strict=True)
        ]
        found = [_committee_links(*page) for page in zip(outcomes, every, kept, strict=True)]
        scored = self._committee.add_pages(found)
        leads = []
        for outcome, columns, places, scores in zip(outcomes, every, kept, scored, strict=True):
            values = np.frombuffer(columns.scores, dtype=np.float32).astype(np.float64)
            values[places] = scores
            leads.append(build_leads(columns, outcome.lead, _is_relevant(outcome), values.tolist()))
        return leads

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        self._update_word_values()
        return self._committee.rescored()

    def explored(self) -> list[tuple[str, int]]:
        return self._committee.explored()

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        self._learner.correct(entry, before, after)

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None:
        self._update_word_values()
        row = self._learner.load_link(entry)
        return explain_link(self._committee, row, self._word_labels(entry, parent)) if row is not None else None

    def _word_labels(self, entry: FrontierEntry, parent: Reading | None) -> dict[int, str]:
        for place, link in enumerate(parent.page.links if parent is not None else ()):
            if parent is not None and link.key == entry.lead.key:
                return self._ranker.word_labels(parent, place)
        return {}

    def save(self, now: float, *, at_end: bool = False) -> None:
        self._learner.save(now, at_end=at_end)

    @property
    def expected_relevant(self) -> float | None:
        return self._learner.expected_relevant

    def _update_word_values(self) -> None:
        """Pass on the judge's term weights if it has learned since the last time."""
        if self._judge is not None and self._judge.version != self._judge_version:
            self._judge_version = self._judge.version
            terms, weights = self._judge.term_weights
            self._committee.update_word_values(terms, weights)
            meanings = self._ranker.meanings
            direction = meanings.word_direction(terms, weights) if meanings is not None else None
            if direction is not None:
                self._committee.update_meaning_direction(direction)


def committee_link_scorer(context: LinkScorerContext) -> LinkScorer:
    """The committee's scorer with what it learned before; static where the ranker does not learn."""
    ranker: CommitteeRanker = context.ranker
    if not ranker.options.learn:
        return StaticLinkScorer()
    learner = CommitteeLearner(Committee(ranker.options), context.collection, context.owner)
    learner.resume(with_queue=context.load_queue)
    judge = context.learners.get(JUDGE_STATE)
    return CommitteeLinkScorer(learner, ranker, judge if isinstance(judge, WeighsTerms) else None)


def _followed_positions(page: int, columns: LinkColumns) -> list[int]:
    """The places of the links of a page that may be followed and lead elsewhere."""
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    return [at for at, key in enumerate(keys) if at not in columns.dropped and key != page]


def _committee_links(outcome: Outcome, columns: LinkColumns, places: list[int]) -> FoundLinks:
    """These links as the committee takes them."""
    relevant = _is_relevant(outcome)
    page = SourcePage(outcome.lead.key, relevant, 0 if relevant else outcome.lead.tunnel + 1)
    keys, rows = np.frombuffer(columns.keys, dtype=np.int64), unpack_features(columns.features)
    if len(places) == len(keys):
        return FoundLinks(page, columns.hosts, keys, rows)
    return FoundLinks(page, [columns.hosts[at] for at in places], keys[places], rows[places])


def _is_relevant(outcome: Outcome) -> bool:
    verdict = outcome.analysis.verdict if outcome.analysis else None
    if verdict is None or verdict.page_score is None:
        return verdict is not None and verdict.relevant
    return verdict.page_score >= 0.5


# Links with known parents: those found last.
MAX_PARENT_LINKS = 200_000


class ParentLinkScorer(StaticLinkScorer):
    """Replaces the values of the one page that holds a link by those of all its known parents."""

    def __init__(self, options: TopicGenreOptions) -> None:
        self._options = options
        self._parents = KnownParents(limit=MAX_PARENT_LINKS, per_link=options.parents)

    def resume(self, connection: Database, agent: int = 0) -> None:
        """Load the parents from the collection's pages (those of an agent), the newest first."""
        newest: list[tuple[int, ParentValues, list[int]]] = []
        links = 0
        for page in _pages_with_links(connection, agent):
            newest.append(page)
            links += len(page[2])
            if links >= MAX_PARENT_LINKS:
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
