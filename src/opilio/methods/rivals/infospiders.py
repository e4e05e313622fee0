"""InfoSpiders (S1-11; Menczer and Belew 2000): the neural net and the energy of one agent.

The net estimates links from the topic's words near them: the inputs of a link are, for each of the topic's heaviest
words, its occurrences on the page, each weighted by one over its distance to the link. One layer with a logistic output
gives the link's score. After a fetch the net learns by the delta rule; its target is the reward of the page plus a
discounted estimate of the page's best link, so that links towards relevant pages are worth something too (Q-learning).

Every request costs energy, every relevant page gives some. An agent divides when it has twice the energy it started
with, and dies without energy; `methods/agents/agent.py` does both. The offspring has half of the energy and a
mutated copy of the net. Unlike the original, all agents have the same words.
"""

import random
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import RANK_STATE, BaseLearner
from opilio.core.records import Lead, Outcome, Reading, Verdict
from opilio.core.settings import Share, TunnelDepth
from opilio.learn.logistic import sigmoid
from opilio.rank.link_scores import LinkScores, drop_all, link_spans, refused_links, tunnel_drop_reason, unpack
from opilio.text.term_arrays import term_array
from opilio.topic.evolving import EvolvingTopic, compile_table
from opilio.topic.setup import BuildContext
from opilio.topic.weights import WeightTable

WORDS = 12  # inputs of the net
# Terms on either side of a link that are seen.
WINDOW = 200
LEARNING_RATE = 0.3
DISCOUNT = 0.5
# More words near a link are better, until learned otherwise.
INITIAL_WEIGHT = 1.0
INITIAL_BIAS = -2.0
# Adds up the inverse distances of a word on the page, so an input rarely exceeds this.
MAX_INPUT = 3.0
BENEFIT = 0.2  # energy from a relevant page
# Energy for a request: an agent with a harvest of .1 keeps its energy.
COST = 0.02
START_ENERGY = 1.0
DIVISION_ENERGY = 2.0
# Largest change of a weight in the net of an offspring.
MUTATION = 0.25
Inputs = NDArray[np.float64]


class _SpiderState(msgspec.Struct):
    weights: list[float]
    bias: float
    version: int = 0
    energy: float = START_ENERGY


class _SpiderVisit(msgspec.Struct, array_like=True):
    """What a visit teaches: the inputs of the link, empty for a seed, the target of the net, and the energy gained."""

    inputs: bytes
    target: float
    gain: float


class _SpiderLesson(msgspec.Struct):
    visits: list[_SpiderVisit] = []
    # The agent divided, or was born: its new state.
    divided: _SpiderState | None = None


class InfoSpidersRanker(BaseLearner):
    """Scores links by one net, and learns from every fetched page. `cost` is the energy for a request."""

    def __init__(self, topic: EvolvingTopic, tunnel_depth: int = -1, cost: float = COST) -> None:
        self._topic = topic
        self._heaviest: tuple[WeightTable, list[int]] | None = None
        self._tunnel_depth = tunnel_depth
        self._cost = cost
        self._state = _SpiderState([INITIAL_WEIGHT] * WORDS, INITIAL_BIAS)

    def learners(self) -> dict[str, "InfoSpidersRanker"]:
        """See `HasLearners`."""
        return {RANK_STATE: self}

    @property
    def version(self) -> int:
        """Grows with every lesson."""
        return self._state.version

    @property
    def energy(self) -> float:
        """At 0 the agent dies."""
        return self._state.energy

    @property
    def can_divide(self) -> bool:
        """Has it energy for two?"""
        return self._state.energy >= DIVISION_ENERGY

    def division_lessons(self, offspring_version: int, seed: int) -> tuple[bytes, bytes]:
        """What makes this agent two: the lessons for itself and for its offspring, whose net is a mutated copy."""
        state, rng = self._state, random.Random(seed)
        half = msgspec.structs.replace(state, energy=state.energy / 2.0)
        weights = [weight + rng.uniform(-MUTATION, MUTATION) for weight in state.weights]
        born = msgspec.structs.replace(half, weights=weights, version=offspring_version)
        return msgspec.msgpack.encode(_SpiderLesson(divided=half)), msgspec.msgpack.encode(_SpiderLesson(divided=born))

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
        for place, word in enumerate(self._heaviest_terms()):
            positions = np.flatnonzero(terms == word)
            distances = np.abs(positions[None, :] - middles[:, None])
            found[:, place] = np.where(distances <= WINDOW, 1.0 / (1.0 + distances), 0.0).sum(axis=1)
        return np.minimum(found, MAX_INPUT)

    def _heaviest_terms(self) -> list[int]:
        """The words that the net sees, heaviest first."""
        table = self._topic.table
        if self._heaviest is None or self._heaviest[0] is not table:
            compiled = compile_table(table.top(WORDS))
            self._heaviest = table, compiled.terms[np.argsort(-compiled.weights, kind="stable")[:WORDS]].tolist()
        return self._heaviest[1]

    def _estimate(self, inputs: Inputs) -> NDArray[np.float64]:
        return sigmoid(inputs @ np.array(self._state.weights) + self._state.bias)

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """Inputs and target of the links that were followed, and the energy of all visits; empty without visits."""
        visits = [self._visit(outcome) for outcome in outcomes]
        return msgspec.msgpack.encode(_SpiderLesson(visits)) if visits else b""

    def _visit(self, outcome: Outcome) -> _SpiderVisit:
        analysis, features = outcome.analysis, outcome.lead.features
        if analysis is None or analysis.verdict is None:
            return _SpiderVisit(b"", 0.0, -self._cost)
        relevant = float(analysis.verdict.relevant)
        onward = np.frombuffer(unpack(analysis.links).scores, dtype=np.float32) if analysis.links else np.zeros(0)
        target = min(1.0, relevant + DISCOUNT * float(onward.max(initial=0.0)))
        return _SpiderVisit(features if len(features) == 4 * WORDS else b"", target, BENEFIT * relevant - self._cost)

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson, new or from the journal."""
        if not lesson:
            return
        taught = msgspec.msgpack.decode(lesson, type=_SpiderLesson)
        if taught.divided is not None:
            self._state = msgspec.structs.replace(taught.divided, version=taught.divided.version + 1)
        for visit in taught.visits:
            self._learn_visit(visit)

    def _learn_visit(self, visit: _SpiderVisit) -> None:
        state = self._state
        state.energy += visit.gain
        if visit.inputs:
            inputs = np.frombuffer(visit.inputs, dtype="<f4").astype(np.float64)
            error = visit.target - float(self._estimate(inputs[None, :])[0])
            state.weights = (np.array(state.weights) + LEARNING_RATE * error * inputs).tolist()
            state.bias += LEARNING_RATE * error
        state.version += 1

    def snapshot(self) -> bytes:
        """Net and energy."""
        return msgspec.msgpack.encode(self._state)

    def worker_state(self) -> bytes:
        """Workers need all of it."""
        return self.snapshot()

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        self._state = msgspec.msgpack.decode(state, type=_SpiderState)


def infospiders_ranker(
    context: BuildContext, *, tunnel_depth: TunnelDepth = -1, cost: Share = COST
) -> InfoSpidersRanker:
    return InfoSpidersRanker(context.evolving_topic, tunnel_depth, cost)
