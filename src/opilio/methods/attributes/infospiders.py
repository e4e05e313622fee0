"""InfoSpiders (S1-11; Menczer and Belew): a neural net estimates links from the topic's words near them.

The inputs of a link are, for each of the topic's heaviest words, its occurrences on the page, each weighted by one over
its distance to the link. One layer with a logistic output gives the estimate, which is the link's score. After a fetch
the net learns by the delta rule; its target is the reward of the page plus a discounted estimate of the page's best
link, so that links towards relevant pages are worth something too (Q-learning). In the strategy each of three agents
has its own net, path and words, and learns from its own pages only. Unlike the original, agents have no energy and do
not reproduce: their number is fixed.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.page import Reading
from opilio.core.protocols import RANK_STATE, BaseLearner
from opilio.core.records import Lead, Outcome, Verdict
from opilio.methods.attributes.features import LinkRows
from opilio.methods.attributes.learner import logistic
from opilio.rank.link_scores import LinkScores, drop_all, link_spans, refused_links, tunnel_drop_reason, unpack
from opilio.topic.evolving import term_array

WORDS = 12  # inputs of the net
WINDOW = 200  # terms on either side of a link that are seen
LEARNING_RATE = 0.3
DISCOUNT = 0.5
INITIAL_WEIGHT = 1.0  # more words near a link are better, until learnt otherwise
INITIAL_BIAS = -2.0
# Adds up the inverse distances of a word on the page, so an input rarely exceeds this.
MAX_INPUT = 3.0
Inputs = NDArray[np.float64]


class _SpiderState(msgspec.Struct):
    weights: list[float]
    bias: float
    version: int = 0


class InfoSpidersRanker(BaseLearner):
    """Scores links by one net, and learns from every fetched page."""

    def __init__(self, links: LinkRows, tunnel_depth: int = -1) -> None:
        self._links = links
        self._tunnel_depth = tunnel_depth
        self._net = _SpiderState([INITIAL_WEIGHT] * WORDS, INITIAL_BIAS)

    def learners(self) -> dict[str, "InfoSpidersRanker"]:
        """See `HasLearners`."""
        return {RANK_STATE: self}

    @property
    def version(self) -> int:
        """Grows with every lesson."""
        return self._net.version

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once; the inputs travel with each link, to learn from later."""
        page = reading.page
        inputs = self.inputs(reading)
        estimates = self._estimate(inputs)
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self._tunnel_depth))
        features = [row.tobytes() for row in inputs.astype("<f4")]
        return LinkScores(estimates, {"net": estimates}, dropped, features=features)

    def inputs(self, reading: Reading) -> Inputs:
        """One row per link: each of the words by its nearness to the link."""
        index = np.array([link.index for link in reading.page.links], dtype=np.int64)
        middles = link_spans(reading.anchors, index).mean(axis=1)
        terms, found = term_array(reading.terms), np.zeros((len(index), WORDS))
        compiled = self._links.compiled_table
        heaviest = compiled.terms[np.argsort(-compiled.weights, kind="stable")[:WORDS]]
        for place, word in enumerate(heaviest.tolist()):
            positions = np.flatnonzero(terms == word)
            distances = np.abs(positions[None, :] - middles[:, None])
            found[:, place] = np.where(distances <= WINDOW, 1.0 / (1.0 + distances), 0.0).sum(axis=1)
        return np.minimum(found, MAX_INPUT)

    def _estimate(self, inputs: Inputs) -> NDArray[np.float64]:
        return logistic(inputs @ np.array(self._net.weights) + self._net.bias)

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """Inputs and target of the links that were followed; empty if there are none."""
        lessons: list[tuple[bytes, float]] = []
        for outcome in outcomes:
            analysis, features = outcome.analysis, outcome.lead.features
            if analysis is None or analysis.verdict is None or len(features) != 4 * WORDS:
                continue
            onward = np.frombuffer(unpack(analysis.links).scores, dtype=np.float32) if analysis.links else np.zeros(0)
            reward = float(analysis.verdict.relevant) + DISCOUNT * float(onward.max(initial=0.0))
            lessons.append((features, min(1.0, reward)))
        return msgspec.msgpack.encode(lessons) if lessons else b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson, new or from the journal."""
        for features, target in msgspec.msgpack.decode(lesson, type=list[tuple[bytes, float]]) if lesson else ():
            inputs = np.frombuffer(features, dtype="<f4").astype(np.float64)
            error = target - float(self._estimate(inputs[None, :])[0])
            weights = np.array(self._net.weights) + LEARNING_RATE * error * inputs
            self._net = _SpiderState(weights.tolist(), self._net.bias + LEARNING_RATE * error, self._net.version + 1)

    def snapshot(self) -> bytes:
        """The net."""
        return msgspec.msgpack.encode(self._net)

    def worker_state(self) -> bytes:
        """Workers need all of it."""
        return self.snapshot()

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        self._net = msgspec.msgpack.decode(state, type=_SpiderState)
