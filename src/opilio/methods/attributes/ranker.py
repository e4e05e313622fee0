"""The link score of S1: the probability, by a learner, that a link with these four attributes leads to a relevant page.

The learner is trained while crawling (S1-12): every fetched page is a row of its link's attributes and the verdict.
Until both classes are known the score is the mean of the four attributes. The ranker scores a link with the current
page as its only parent. In the writing process, `AttributesLinkScorer` knows the first five parents (S1-22…S1-24) and
scores a link again when its row or the model changed (S1-14).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.errors import ConfigError
from opilio.core.protocols import (
    RANK_STATE,
    BaseLearner,
    Database,
    FeatureEffect,
    FrontierEntry,
    LinkExplanation,
    LinkScorer,
)
from opilio.core.records import Lead, LinkColumns, Outcome, Reading, Verdict
from opilio.core.settings import Count, Positive, Settings, TunnelDepth
from opilio.engine.link_scoring import MAX_PARENT_LINKS, LinkScorerContext, StaticLinkScorer
from opilio.methods.attributes.features import (
    ATTRIBUTES,
    MAX_TRAINING_ROWS,
    TABLE_SIZE,
    LinkRows,
    Rows,
    TermFunctions,
    add_parent_evidence,
    stack_rows,
)
from opilio.methods.attributes.features import pack_evidence as packed_evidence
from opilio.methods.attributes.learner import OnlineTrainer, RowLearner, make_learner, require_sklearn
from opilio.methods.attributes.training import load_learner, read_models
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.rank.link_scores import LinkScores, LinkTexts, drop_all, refused_links, tunnel_drop_reason, unpack
from opilio.store.versions import linked_pages
from opilio.topic.setup import BuildContext
from opilio.topic.weights import WeightTable, table_from_weights

# Share of the attributes' mean in the score of a link: below what separates two leaves of a tree.
TIE_BREAK = 1e-3
MIN_CLASS_ROWS = 10  # of either class before the first fit
NEVER = 1 << 62
ROW_DTYPE = np.dtype([("values", "<f4", (4,)), ("missing", "?", (4,))])


def pack_rows(rows: Rows) -> list[bytes]:
    """Each row in the format of a lesson."""
    made = np.zeros(len(rows), dtype=ROW_DTYPE)
    made["values"], made["missing"] = rows[:, :4], rows[:, 4:] >= 0.5
    data, size = made.tobytes(), ROW_DTYPE.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def unpack_rows(rows: Sequence[bytes]) -> Rows:
    """The rows of packed bytes; bytes of another format become rows of missing values."""
    nothing = pack_rows(np.repeat([[0.0, 1.0]], 4, axis=1))[0]
    data = b"".join(row if len(row) == ROW_DTYPE.itemsize else nothing for row in rows)
    made = np.frombuffer(data, dtype=ROW_DTYPE)
    return stack_rows(made["values"].astype(np.float64), made["missing"])


class _RowLesson(msgspec.Struct, array_like=True, frozen=True):
    """One fetched page: the row of its link, its relevance, its key; `corrects`: a label changed the relevance."""

    row: bytes
    relevant: bool
    key: int = 0
    corrects: bool = False


class _AttributesRankerState(msgspec.Struct):
    # Empty in states from before there were tables: then the whole state is the trainer's.
    trainer: bytes = msgspec.field(default=b"", name="teacher")
    table: WeightTable = WeightTable()
    learned_rows: dict[int, bytes] = msgspec.field(default_factory=dict, name="told")


class AttributesRanker(BaseLearner):
    """Scores links by a learner, and learns. The features of a link are the evidence that its page gives for it.

    `pending_rows` are the rows of pages that were just fetched, by key, until they are learned. Learned rows are kept
    by key too, so that labels can correct them.
    """

    learns_from_labels = True

    def __init__(self, links: LinkRows, trainer: OnlineTrainer, tunnel_depth: int = -1) -> None:
        self.links = links
        self.trainer = trainer
        self.tunnel_depth = tunnel_depth
        self.pending_rows: dict[int, bytes] = {}
        self._learned_rows: dict[int, bytes] = {}

    def learners(self) -> dict[str, "AttributesRanker"]:
        """See `HasLearners`."""
        return {RANK_STATE: self}

    @property
    def version(self) -> int:
        """Grows with every fit."""
        return self.trainer.version

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        rows, found = self.links.rows_from_page(reading)
        parts = dict(zip(ATTRIBUTES, rows[:, :4].T, strict=True))
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.tunnel_depth))
        return LinkScores(self.probabilities(rows), parts, dropped, features=packed_evidence(found))

    def member_scores(self, reading: Reading, _: LinkTexts) -> NDArray[np.float64]:
        """The probability of each link, as a committee member's opinion."""
        return self.probabilities(self.links.rows_from_page(reading)[0])

    def probabilities(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row."""
        mean: NDArray[np.float64] = rows[:, :4].mean(axis=1)
        if not self.trainer.is_ready:
            return mean
        # A tree has few distinct probabilities: among equals the better attributes come first.
        return (1.0 - TIE_BREAK) * self.trainer.probability(rows) + TIE_BREAK * mean

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The rows of these visits, for the journal; empty if there are none."""
        lessons: list[_RowLesson] = []
        for outcome in outcomes:
            verdict, lead = outcome.analysis.verdict if outcome.analysis else None, outcome.lead
            if verdict is not None and not outcome.duplicate_of:
                lessons.append(
                    _RowLesson(self.pending_rows.get(lead.key) or self._packed_row(lead), verdict.relevant, lead.key)
                )
        self.pending_rows.clear()
        return msgspec.msgpack.encode(lessons) if lessons else b""

    def correction_lesson(self, links: Sequence[tuple[Lead, bool]]) -> bytes:
        """The lesson of labels that changed the relevance of pages."""
        rows = (
            (self._learned_rows.get(lead.key) or self._packed_row(lead), relevant, lead.key) for lead, relevant in links
        )
        return msgspec.msgpack.encode([_RowLesson(*row, corrects=True) for row in rows])

    def _packed_row(self, lead: Lead) -> bytes:
        return pack_rows(self.links.lead_row(lead))[0]

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson, new or from the journal."""
        lessons = msgspec.msgpack.decode(lesson, type=list[_RowLesson]) if lesson else []
        for corrects, teach in ((False, self.trainer.add), (True, self.trainer.correct)):
            rows = [one for one in lessons if one.corrects is corrects]
            if rows:
                teach(unpack_rows([one.row for one in rows]), np.array([one.relevant for one in rows], dtype=np.bool_))
        self._learned_rows |= {one.key: one.row for one in lessons if one.key}
        # Older rows are dropped by the learner too.
        evict_oldest(self._learned_rows, MAX_TRAINING_ROWS)

    def snapshot(self) -> bytes:
        """The state of the trainer, with the table that rows are counted by."""
        return msgspec.msgpack.encode(
            _AttributesRankerState(self.trainer.snapshot(), self.links.fixed_table, self._learned_rows)
        )

    def worker_state(self) -> bytes:
        """What workers need: all but the rows by page."""
        return msgspec.msgpack.encode(_AttributesRankerState(self.trainer.snapshot(), self.links.fixed_table))

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_AttributesRankerState)
        self.trainer.restore(kept.trainer or state)
        self.links.fixed_table, self._learned_rows = kept.table, kept.learned_rows


MIN_RESCORE_CHANGE = 1e-3
# Queued links whose parents are remembered.
MAX_QUEUED_LINKS = 50_000


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
    """The link scorer with the queued links of a collection (of one agent)."""
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
        if links >= MAX_PARENT_LINKS:
            break
    return pages


# Where `opilio lab train` leaves its learners in a collection.
MODEL_FILE = "model.json"


def attributes_ranker(
    context: BuildContext,
    *,
    learner: Literal["bayes", "tree", "neural"] = "bayes",
    table: Positive = TABLE_SIZE,
    every: Count = 50,
    model: str = "",
    tunnel_depth: TunnelDepth = -1,
) -> AttributesRanker:
    """S1's ranker. A new crawl starts with the learner in the file or collection `model`, where one is named."""
    words = TermFunctions(
        context.url_terms.terms_batch, context.page_words.with_weighting("tfidf").weighted_terms, context.page_words.idf
    )
    require_sklearn()
    # With every = 0 a crawl keeps the model it starts with, or the mean of the attributes.
    trainer = OnlineTrainer(make_learner(learner), every, MIN_CLASS_ROWS if every else NEVER)
    ranker = AttributesRanker(LinkRows(context.evolving_topic, words, table), trainer, tunnel_depth)
    if model and RANK_STATE not in context.states:
        ranker.trainer.learner, ranker.links.fixed_table = find_learner(model, learner, "rank.model")
    return ranker


def start_state(learner: RowLearner, table: WeightTable) -> bytes:
    """The first state of a ranker whose learner was trained before the crawl."""
    return msgspec.msgpack.encode(_AttributesRankerState(OnlineTrainer(learner).snapshot(), table))


def check_start_model(settings: Settings) -> dict[str, bytes]:
    """ConfigError where the model that a crawl should start with can't be used. The ranker reads it itself."""
    require_sklearn()
    if name := str(settings.rank.get("model", "")):
        find_learner(name, str(settings.rank["learner"]), "rank.model")
    return {}


def _trained_member(context: BuildContext) -> CommitteeMember:
    """The first learner of the file or collection `rank.trained`, for the committee."""
    ranker = attributes_ranker(context)
    ranker.trainer.learner, ranker.links.fixed_table = find_learner(str(context.settings.rank["trained"]))
    return CommitteeMember({"s1": ranker.member_scores})


def _check_trained(settings: Settings) -> dict[str, bytes]:
    find_learner(str(settings.rank["trained"]))
    return {}


TRAINED_MEMBER = MemberKind(_trained_member, _check_trained)


def find_learner(name: str, learner: str = "", option: str = "rank.trained") -> tuple[RowLearner, WeightTable]:
    """A learner of a file or collection, the first where none is named, and the table its rows were counted with.

    The table is empty where rows were given. ConfigError where the file can't be used.
    """
    path = Path(name) / MODEL_FILE if Path(name).is_dir() else Path(name)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} {path}: can't be read: {error.strerror}; 'opilio lab train' makes one") from error
    file = read_models(data, f"{option} {path}")
    return load_learner(file, learner, f"{option} {path}"), table_from_weights(file.table)
