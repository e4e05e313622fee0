"""The committee as a learner: lessons with the visits they come from, snapshots, explanations, estimates of the queue.

The links in its pool are not saved: at the start they are loaded from the frontier's queue, best first.

The estimate of the relevant pages that are left is the sum of the probabilities of the queued links, calibrated by the
outcomes of the last few hundred links: scores order links well before they are good probabilities. The best links are
fetched first, so the calibration is most accurate for links like those.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice

import msgspec
import numpy as np

from opilio.core.protocols import BaseLearner, FeatureEffect, FrontierEntry, LinkExplanation
from opilio.core.records import Outcome, Tier, url_key
from opilio.core.urls import host_of
from opilio.engine.learning import NO_OWNER, JournaledLearner, Owner, state_name
from opilio.frontier.sqlite.urls import best_urls
from opilio.learn.committee import Committee
from opilio.learn.link_pool import MAX_CONTEXTS
from opilio.learn.logistic import FEATURE_NAMES, MEANING_FEATURES
from opilio.learn.scoring import LinkLesson, LinkVisit, SourcePage
from opilio.learn.word_model import LINK_FEATURES_DTYPE, unpack_features
from opilio.store.collection import Collection
from opilio.store.page_selection import is_relevant_alone

UNKNOWN_WORDS = "words that can't be read back"


def explain_link(committee: Committee, row: int, names: Mapping[int, str]) -> LinkExplanation:
    """All contributions to the score of a link in the pool. The pool has hashed words; `names` are their labels."""
    where = np.array([row])
    rows, weights = committee.pool.rows, committee.dense.weights
    dense = committee.dense_features(where)[0]
    parts = [
        FeatureEffect(name, value, weight, value * weight)
        for name, value, weight in zip(FEATURE_NAMES, dense.tolist(), weights.tolist(), strict=True)
        if name not in MEANING_FEATURES
    ]
    parts += committee.meaning_effects(row)
    words = rows["words"][row][rows["words"][row] > 0]
    effects = committee.words.weights[words] / np.sqrt(max(1, len(words)))
    by_name: dict[str, float] = {}
    for word, effect in zip(words.tolist(), effects.tolist(), strict=True):
        name = names.get(word, UNKNOWN_WORDS)
        by_name[name] = by_name.get(name, 0.0) + effect
    score = float(committee.scores(where)[0])
    return LinkExplanation(
        score,
        parts,
        list(by_name.items()),
        committee.sibling_successes(rows["groups"][row, : committee.pool.used_contexts(row)]),
        committee.visits_learned,
    )


CALIBRATION_WINDOW = 300
MIN_CALIBRATION_OUTCOMES = 30  # outcomes before an estimate is given
# Pseudo-count of predicted and of actual relevant pages.
CALIBRATION_PRIOR = 0.5


class _YieldState(msgspec.Struct, array_like=True):
    recent: list[tuple[float, bool]]
    predicted: float


class YieldEstimate:
    """Estimates the relevant pages in the queue. `predicted` is the ranker's sum of the queued links' probabilities."""

    def __init__(self) -> None:
        self.predicted = 0.0
        self._recent: deque[tuple[float, bool]] = deque(maxlen=CALIBRATION_WINDOW)

    def record(self, predicted: float, relevant: bool) -> None:
        """Add the outcome of a link with its predicted probability."""
        self._recent.append((min(1.0, max(0.0, predicted)), relevant))

    @property
    def calibration(self) -> float:
        """The ratio of actual to predicted relevant pages."""
        predicted_sum = sum(predicted for predicted, _ in self._recent)
        actual = sum(relevant for _, relevant in self._recent)
        return (actual + CALIBRATION_PRIOR) / (predicted_sum + CALIBRATION_PRIOR)

    @property
    def expected(self) -> float | None:
        """The estimated number of relevant pages in the queue; None while there are too few outcomes."""
        if len(self._recent) < MIN_CALIBRATION_OUTCOMES:
            return None
        return self.predicted * self.calibration

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_YieldState(list(self._recent), self.predicted))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_YieldState)
        self.predicted = kept.predicted
        self._recent = deque(kept.recent, CALIBRATION_WINDOW)


COMMITTEE = "committee"  # its name among the snapshots
QUEUE_READ_BATCH = 5_000  # queued links read at a time
# Visits between two estimates, which sum over all links of the pool; more for a large pool.
ESTIMATE_EVERY_VISITS = 20
_decode_lessons = msgspec.msgpack.Decoder(list[LinkLesson]).decode


class _LinkModelState(msgspec.Struct, array_like=True):
    committee: bytes
    yield_estimate: bytes = b""


class CommitteeLearner(BaseLearner):
    """See `Learns`. Writes inside `collection.unit_of_work()`.

    Its link scorer decides when it learns: the links of a batch are scored with what the batch has just taught.
    """

    learns_from_labels = True

    def __init__(self, committee: Committee, collection: Collection, owner: Owner = NO_OWNER) -> None:
        self.committee = committee
        self.yield_estimate = YieldEstimate()
        self._collection = collection
        self._owner = owner
        self._journaled = JournaledLearner(self, collection, state_name(owner.agent, COMMITTEE))
        # The last estimate.
        self._expected_relevant: float | None = None
        self._lessons_since_estimate = 0
        self._is_relevant = lru_cache(maxsize=1 << 16)(self._query_relevance)

    @property
    def version(self) -> int:
        return self.committee.visits_learned

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_LinkModelState(self.committee.snapshot(), self.yield_estimate.snapshot()))

    def restore(self, state: bytes) -> None:
        stored = msgspec.msgpack.decode(state, type=_LinkModelState)
        self.committee.restore(stored.committee)
        if stored.yield_estimate:
            self.yield_estimate.restore(stored.yield_estimate)
            self._expected_relevant = self.yield_estimate.expected

    def worker_state(self) -> bytes:
        """Its snapshot. No worker asks for it: the committee scores links in the writing process."""
        return self.snapshot()

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The lesson of these visits. A redirected link stays in the pool under its target, which is still queued."""
        ended, redirected = [], []
        for outcome in outcomes:
            fetched, lead = outcome.fetched, outcome.lead
            if fetched.location:
                self.committee.redirect(lead.key, url_key(fetched.location), host_of(fetched.location))
                redirected.append(_discarded_visit(lead.key))
            elif fetched.failure is None or not fetched.failure.retry:
                ended.append(_committee_visit(outcome))
        return self._encode_lessons([*redirected, *ended])

    def _encode_lessons(self, visits: Iterable[LinkVisit]) -> bytes:
        lessons = [self.committee.make_lesson(visit) for visit in visits]
        return msgspec.msgpack.encode(lessons) if lessons else b""

    def apply_lesson(self, lesson: bytes) -> None:
        lessons = _decode_lessons(lesson) if lesson else []
        self.committee.apply_lessons(*lessons)
        for one in lessons:
            if one.queued_score >= 0.0:
                self.yield_estimate.record(one.queued_score, one.visit.relevant)
        self._lessons_since_estimate += len(lessons)

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from visits, and store what they teach."""
        self._journaled.teach(self.make_lesson(outcomes), len(outcomes))

    def discard(self, keys: Sequence[int]) -> None:
        """Drop links that will never be fetched."""
        self._journaled.teach(self._encode_lessons(map(_discarded_visit, keys)), len(keys))

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        """Learn that a label makes a page worth `after`; its link was learned with `before`."""
        lead = entry.lead
        row = b""
        if self.load_link(entry) is not None:
            row = self.committee.pool.row_bytes(lead.key)
            self.committee.pool.drop(lead.key)
        lesson = LinkLesson(LinkVisit(lead.key, lead.url, after, True, after > 0.5), row, old_reward=before)
        self._journaled.teach(msgspec.msgpack.encode([lesson]))
        self.committee.relabel_page(lead.key, after > 0.5)
        self._is_relevant.cache_clear()

    @property
    def expected_relevant(self) -> float | None:
        """Estimate of the relevant pages among the queued links."""
        if self._lessons_since_estimate >= max(ESTIMATE_EVERY_VISITS, len(self.committee.pool) // 200):
            self._update_estimate(recompute=False)
        return self._expected_relevant

    def _update_estimate(self, *, recompute: bool) -> None:
        self.yield_estimate.predicted = self.committee.expected_relevant(recompute=recompute)
        self._expected_relevant = self.yield_estimate.expected
        self._lessons_since_estimate = 0

    def save(self, now: float, *, at_end: bool = False) -> None:
        """Store a snapshot if the journal is long or the crawl ends."""
        if at_end:
            self._update_estimate(recompute=True)
        if at_end or self._journaled.snapshot_due:
            self._journaled.save(now)

    def resume(self, *, with_queue: bool = True) -> None:
        """Load what was committed: the model, and the queued links."""
        self.load()
        if with_queue:
            self._load_queued_links()

    def load(self) -> bool:
        """Load the last snapshot and the lessons behind it; False where nothing is stored."""
        return self._journaled.load()

    def _load_queued_links(self) -> None:
        # Leave room, so that loading does not evict one of the best links.
        entries = best_urls(self._collection.connection, self.committee.options.capacity * 7 // 8)
        while batch := list(islice(entries, QUEUE_READ_BATCH)):
            own = batch if not self._owner.number else [e for e in batch if e.lead.agent == self._owner.number]
            self._add_entries([entry for entry in own if _has_features(entry)])

    def _add_entries(self, entries: Sequence[FrontierEntry]) -> None:
        """Add links page by page; of their contexts only the features of the best one are known."""
        pages: defaultdict[tuple[int, int], list[FrontierEntry]] = defaultdict(list)
        for entry in entries:
            for parent in entry.parents[:MAX_CONTEXTS]:
                pages[parent, entry.lead.tunnel].append(entry)
        for (parent, tunnel), links in pages.items():
            leads = [entry.lead for entry in links]
            page = SourcePage(parent, self._is_relevant(parent), tunnel)
            found = unpack_features([lead.features for lead in leads])
            self.committee.add_links(page, [lead.host for lead in leads], [lead.key for lead in leads], found)
        pool = self.committee.pool
        held = [entry for entry in entries if entry.lead.key in pool.row_of]
        self.committee.restore_counts({entry.lead.key: entry.times_found for entry in held})
        for entry in held:
            pool.scores[pool.row_of[entry.lead.key]] = max(0.0, entry.lead.score)

    def load_link(self, entry: FrontierEntry) -> int | None:
        """Put the link of a frontier's entry into the pool; returns its row, or None for a link without features."""
        if not _has_features(entry):
            return None
        pages = [SourcePage(p, self._is_relevant(p), entry.lead.tunnel) for p in entry.parents[:MAX_CONTEXTS]]
        row = self.committee.load_link(entry.lead.key, entry.lead.host, entry.lead.features, pages)
        self.committee.restore_counts({entry.lead.key: entry.times_found})
        return row

    def _query_relevance(self, page: int) -> bool:
        return is_relevant_alone(self._collection.connection, page)

    def transferable_state(self) -> bytes:
        """A snapshot for another crawl to start from."""
        return msgspec.msgpack.encode(_LinkModelState(self.committee.transferable_state()))


def _discarded_visit(key: int) -> LinkVisit:
    return LinkVisit(key, "", 0.0, is_page=False, discarded=True)


def _committee_visit(outcome: Outcome) -> LinkVisit:
    """A visit with its reward: 0 for a duplicate, a failure, and a response that is not a page."""
    verdict = outcome.analysis.verdict if outcome.analysis else None
    new = verdict is not None and not outcome.duplicate_of
    reward = 0.0
    if verdict is not None and new:
        reward = verdict.score if verdict.page_score is None else verdict.page_score
    relevant = new and verdict is not None and verdict.relevant
    return LinkVisit(outcome.lead.key, outcome.lead.url, reward, verdict is not None, relevant)


def _has_features(entry: FrontierEntry) -> bool:
    """Whether a queued link was ranked. A redirect's target has the features of another link; a revisit was learned."""
    return (
        entry.lead.tier != Tier.REVISIT
        and bool(entry.parents)
        and not entry.lead.hops
        and len(entry.lead.features) == LINK_FEATURES_DTYPE.itemsize
    )
