"""SB-CLASSIFIER (Gauquier, Manolescu & Senellart, arXiv 2602.11874): a sleeping bandit over DOM tag paths.

Links are grouped by the tag path to their element: paths whose bigrams of tags have a cosine of at least .75 are one
arm. AUER chooses the arm, chance a link of it; arms without queued links sleep. A classifier of URLs, trained online,
finds links that are targets themselves: these are fetched at once, and a page's reward is the number of targets that it
brings. The paper's targets are files; here a target is a relevant page, and a page that is relevant itself counts, too.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.protocols import RANK_STATE, BaseLearner, LinkScorer
from opilio.core.records import Lead, Outcome, Reading, Verdict
from opilio.core.settings import Amount, Share
from opilio.engine.link_scoring import LinkScorerContext
from opilio.methods.rivals.groups import GroupLinkScorer
from opilio.rank.link_scores import LinkScores, refused_links
from opilio.topic.setup import BuildContext

PATH_BUCKETS, URL_BUCKETS = 512, 1 << 14
MAX_ARMS = 1000
MAX_KNOWN_PATHS, MAX_KNOWN_PAGES = 20_000, 50_000
CLASSIFIER_BATCH = 10
LEARNING_RATE = 0.5
ALPHA = 2.0 * math.sqrt(2.0)

Vector = NDArray[np.float64]


def path_vector(path: str) -> Vector:
    """The bigrams of a tag path, hashed, as a vector of length 1.

    >>> bool(path_vector("body>ul>li>a") @ path_vector("body>ul>li>a") > 0.999)
    True
    """
    steps = ["^", *path.replace("/", ">").split(">"), "$"]
    vector = np.zeros(PATH_BUCKETS)
    for pair in pairwise(steps):
        vector[crc32(">".join(pair).encode()) % PATH_BUCKETS] += 1.0
    return np.asarray(vector / np.linalg.norm(vector))


def url_buckets(url: str) -> NDArray[np.int64]:
    """The distinct bigrams of a URL's characters, hashed."""
    data = np.frombuffer(url.encode("utf-8", "replace"), dtype=np.uint8).astype(np.int64)
    return np.unique((data[:-1] * 256 + data[1:]) % URL_BUCKETS)


class _PathVisit(msgspec.Struct, array_like=True, frozen=True):
    """One fetched page, for the journal."""

    key: int
    parent: int
    path: str
    url: str
    relevant: bool


class _BanditState(msgspec.Struct, kw_only=True, omit_defaults=True):
    visits: int
    centroids: bytes = b""
    pulls: list[int] = []
    rewards: list[float] = []
    weights: bytes = bytes(8 * (URL_BUCKETS + 1))
    page_arms: dict[int, int] = {}
    arm_of_path: dict[str, int] = {}
    batch: list[tuple[str, bool]] = []


class TagPathBandit(BaseLearner):
    """The arms, what they brought, and the classifier of URLs."""

    def __init__(self, alpha: float = ALPHA, similarity: float = 0.75) -> None:
        self.alpha = alpha
        self.similarity = similarity
        self.version = 0
        self._centroids = np.zeros((0, PATH_BUCKETS))
        self._pulls: list[int] = []
        self._rewards: list[float] = []
        self._arm_of_path: dict[str, int] = {}
        self._page_arms: dict[int, int] = {}
        self._weights = np.zeros(URL_BUCKETS + 1)
        self._batch: list[tuple[str, bool]] = []

    def arm(self, path: str) -> int:
        """The arm of a tag path; a path unlike all others makes a new one."""
        known = self._arm_of_path.get(path)
        if known is not None:
            return known
        vector = path_vector(path)
        norms = np.maximum(np.linalg.norm(self._centroids, axis=1), 1e-9)
        alike = self._centroids @ vector / norms
        best = int(np.argmax(alike)) if len(alike) else -1
        if best < 0 or (alike[best] < self.similarity and len(alike) < MAX_ARMS):
            best = len(self._pulls)
            self._centroids = np.vstack([self._centroids, np.zeros(PATH_BUCKETS)])
            self._pulls.append(0)
            self._rewards.append(0.0)
        self._centroids[best] += vector
        self._arm_of_path[path] = best
        evict_oldest(self._arm_of_path, MAX_KNOWN_PATHS)
        return best

    def values(self, arms: Mapping[int, int]) -> list[float]:
        """AUER's index of each arm: mean reward and a bonus for rarely chosen arms; mapped to 0..1 in its order."""
        log = math.log(self.version + 1.0)
        indices = []
        for arm in arms:
            pulls = self._pulls[arm]
            bonus = self.alpha * math.sqrt(log / pulls) if pulls else math.inf
            index = self._rewards[arm] / max(1, pulls) + bonus
            indices.append(1.0 if math.isinf(index) else index / (1.0 + index))
        return indices

    def target_probability(self, url: str) -> float:
        """The probability, by its URL, that a link leads to a relevant page."""
        z = float(self._weights[url_buckets(url)].sum() + self._weights[-1])
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, z))))

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        visits = [
            _PathVisit(o.lead.key, o.lead.parent, o.lead.features.decode("utf-8", "replace"), o.lead.url, o.relevant)
            for o in outcomes
            if o.analysis is not None and o.analysis.verdict is not None
        ]
        return msgspec.msgpack.encode(visits) if visits else b""

    def apply_lesson(self, lesson: bytes) -> None:
        for visit in msgspec.msgpack.decode(lesson, type=list[_PathVisit]) if lesson else ():
            arm = self._page_arms[visit.key] = self.arm(visit.path)
            self._pulls[arm] += 1
            self._rewards[arm] += visit.relevant
            parent = self._page_arms.get(visit.parent)
            if parent is not None and visit.relevant:
                self._rewards[parent] += 1.0
            self._batch.append((visit.url, visit.relevant))
            if len(self._batch) >= CLASSIFIER_BATCH:
                self._fit_batch()
            self.version += 1
        evict_oldest(self._page_arms, MAX_KNOWN_PAGES)

    def _fit_batch(self) -> None:
        for url, relevant in self._batch:
            at = url_buckets(url)
            error = float(relevant) - self.target_probability(url)
            self._weights[at] += LEARNING_RATE * error / max(1, len(at))
            self._weights[-1] += LEARNING_RATE * error / max(1, len(at))
        self._batch.clear()

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(
            _BanditState(
                visits=self.version,
                centroids=self._centroids.tobytes(),
                pulls=self._pulls,
                rewards=self._rewards,
                weights=self._weights.tobytes(),
                page_arms=self._page_arms,
                arm_of_path=self._arm_of_path,
                batch=self._batch,
            )
        )

    def worker_state(self) -> bytes:
        """No model: workers only pass on tag paths."""
        return msgspec.msgpack.encode(_BanditState(visits=self.version))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_BanditState)
        self._centroids = np.frombuffer(kept.centroids).reshape(-1, PATH_BUCKETS).copy()
        self._pulls, self._rewards, self._page_arms = kept.pulls, kept.rewards, kept.page_arms
        self._weights, self._batch = np.frombuffer(kept.weights).copy(), kept.batch
        self.version, self._arm_of_path = kept.visits, kept.arm_of_path


class TagPathRanker:
    """Passes on the tag path of each link. All links of irrelevant pages are followed."""

    def __init__(self, bandit: TagPathBandit) -> None:
        self.bandit = bandit

    def learners(self) -> dict[str, TagPathBandit]:
        """See `HasLearners`."""
        return {RANK_STATE: self.bandit}

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:  # noqa: ARG002 - a ranker's signature
        links = reading.page.links
        paths = [link.tag_path.encode("utf-8", "replace") for link in links]
        scores = np.zeros(len(links))
        return LinkScores(scores, {"arm": scores}, refused_links(reading.page), features=paths)


class TagPathLinkScorer(GroupLinkScorer):
    """Likely targets come first, then the arms in the order of AUER."""

    def __init__(self, bandit: TagPathBandit, seed: int = 0) -> None:
        super().__init__(lambda lead: bandit.arm(lead.features.decode("utf-8", "replace")), bandit.values, seed)
        self._bandit = bandit

    def _own_score(self, lead: Lead) -> float:
        chance = self._bandit.target_probability(lead.url)
        if chance > 0.5:
            self.queue.remove(lead.key)
            return 1.0 + chance
        return super()._own_score(lead)


def tag_path_ranker(_: BuildContext, *, alpha: Amount = ALPHA, similarity: Share = 0.75) -> TagPathRanker:
    return TagPathRanker(TagPathBandit(alpha, similarity))


def tag_path_link_scorer(context: LinkScorerContext) -> LinkScorer:
    scorer = TagPathLinkScorer(context.ranker.bandit)
    if context.load_queue:
        scorer.resume(context)
    return scorer
