"""What the rivals are made of: queued links in groups, and a Q-network.

Both rivals choose a group and then any link of it. Here the chosen link of each group, its representative, has the
group's score in the frontier, and all others a score below, so a choice costs as many updates as there are groups. The
double deep Q-network in NumPy has two hidden layers, Adam, replay of past fetches and a slowly following target.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.records import Lead, Outcome
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.store.versions import newest_linked_pages

MAX_GROUPED_LINKS = 200_000  # queued links that are grouped; others keep their score
WAITING_SCORE = 0.01  # highest score of a link that is not a representative
MAX_ROUNDS = 100  # batches of visits for which a link represents its group
MIN_SCORE_STEP = 1e-3


class GroupedQueue:
    """Queued links by group, with a representative of each group that has links.

    The frontier drops links without notice (a host that is given up), so a representative is replaced after a while.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._groups: dict[int, list[int]] = {}
        self._links: dict[int, tuple[str, int]] = {}  # key -> host, group
        self._representatives: dict[int, tuple[int, int]] = {}  # group -> key, round in which it was drawn
        self._fetched: set[int] = set()
        self._round = 0

    def add(self, key: int, host: str, group: int) -> None:
        """Add a link that was never fetched; ignored if the link is known or the queue is full."""
        if key not in self._links and key not in self._fetched and len(self._links) < MAX_GROUPED_LINKS:
            self._links[key] = (host, group)
            self._groups.setdefault(group, []).append(key)

    def remove(self, key: int) -> None:
        """Remove a link for good: it was fetched, refused, or gets a score of its own."""
        self._fetched.add(key)
        found = self._links.pop(key, None)
        if found is not None and self._representatives.get(found[1], (0, 0))[0] == key:
            del self._representatives[found[1]]

    def take_group(self, group: int) -> list[tuple[int, str]]:
        """Empty a group; returns (key, host) of its links, to be added to other groups."""
        keys = [key for key in self._groups.pop(group, ()) if key in self._links]
        self._representatives.pop(group, None)
        return [(key, self._links.pop(key)[0]) for key in keys]

    def representatives(self) -> Iterator[tuple[int, int, str]]:
        """(group, key, host) of each group with links. A group without one gets a random link."""
        self._round += 1
        for group, keys in list(self._groups.items()):
            key, drawn = self._representatives.get(group, (None, 0))
            if key is None or self._round - drawn > MAX_ROUNDS:
                key = self._draw(keys)
                if key is None:
                    del self._groups[group]
                    continue
                self._representatives[group] = (key, self._round)
            yield group, key, self._links[key][0]

    def _draw(self, keys: list[int]) -> int | None:
        """A random link of these; links that are no longer queued are removed on the way."""
        while keys:
            at = self._random.randrange(len(keys))
            if keys[at] in self._links:
                return keys[at]
            keys[at] = keys[-1]
            keys.pop()
        return None


class GroupLinkScorer(StaticLinkScorer):
    """Scores representatives by their group. A rival gives `group_of` (of a lead) and `values` (of representatives)."""

    learns_from_labels = False

    def __init__(
        self, group_of: Callable[[Lead], int], values: Callable[[Mapping[int, int]], Sequence[float]], seed: int = 0
    ) -> None:
        self.queue = GroupedQueue(seed)
        self._group_of = group_of
        self._values = values
        self._random = random.Random(seed)
        self._sent: dict[int, float] = {}  # scores of representatives in the frontier

    def resume(self, context: LinkScorerContext) -> None:
        """Group the queued links of a collection."""
        for page in newest_linked_pages(context.collection.connection, MAX_GROUPED_LINKS):
            self.queue.remove(page.key)
        for entry in context.queued(MAX_GROUPED_LINKS):
            if entry.lead.parent:
                self.queue.add(entry.lead.key, entry.lead.host, self._group_of(entry.lead))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self.discard([outcome.lead.key])

    def discard(self, keys: Sequence[int]) -> None:
        for key in keys:
            self.queue.remove(key)
            self._sent.pop(key, None)

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        leads = []
        for lead in super()._score_page_links(outcome):
            self.queue.add(lead.key, lead.host, self._group_of(lead))
            leads.append(replace(lead, score=self._own_score(lead)))
        return leads

    def _own_score(self, lead: Lead) -> float:  # noqa: ARG002 - for subclasses
        """The score of a link that does not represent its group: any order."""
        return WAITING_SCORE * self._random.random()

    def rescored(self) -> list[tuple[str, int, float]]:
        chosen = {group: (key, host) for group, key, host in self.queue.representatives()}
        scores = self._values({group: key for group, (key, _) in chosen.items()})
        moved = []
        for (key, host), score in zip(chosen.values(), scores, strict=True):
            if abs(self._sent.get(key, -1.0) - score) > MIN_SCORE_STEP:
                self._sent[key] = score
                moved.append((host, key, score))
        return moved


Rows = NDArray[np.float64]
HIDDEN = 32
BATCH = 32
MAX_REPLAY = 500
LEARNING_RATE = 1e-3
TARGET_INTERVAL = 100  # updates between two copies of the weights to the target network
ADAM_MEAN, ADAM_SQUARE, ADAM_SMALL = 0.9, 0.999, 1e-8


class QState(msgspec.Struct, frozen=True):
    """The weights of both networks, the moments of Adam, and the replay as (row, reward, candidates)."""

    weights: list[bytes]
    updates: int
    replay: list[tuple[bytes, float, bytes]]


class _Layers:
    """The weights of a network, as views of one vector."""

    def __init__(self, inputs: int, seed: int) -> None:
        sizes = ((inputs, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 1), (1,))
        self.vector: Rows = np.zeros(sum(int(np.prod(size)) for size in sizes))
        self.parts: list[Rows] = []
        start, rng = 0, np.random.default_rng(seed)
        for size in sizes:
            part = self.vector[start : start + int(np.prod(size))].reshape(size)
            if len(size) > 1:
                part[:] = rng.normal(0.0, np.sqrt(2.0 / size[0]), size)
            self.parts.append(part)
            start += part.size

    def forward(self, rows: Rows) -> tuple[Rows, Rows, Rows]:
        """The activations of both hidden layers, and the values."""
        w1, b1, w2, b2, w3, b3 = self.parts
        first = np.maximum(rows @ w1 + b1, 0.0)
        second = np.maximum(first @ w2 + b2, 0.0)
        return first, second, (second @ w3 + b3)[:, 0]

    def gradient(self, rows: Rows, wanted: Rows) -> Rows:
        """Of half the mean squared error."""
        first, second, values = self.forward(rows)
        _, _, w2, _, w3, _ = self.parts
        error = ((values - wanted) / len(rows))[:, None]
        back2 = (error @ w3.T) * (second > 0.0)
        back1 = (back2 @ w2.T) * (first > 0.0)
        parts = (rows.T @ back1, back1.sum(0), first.T @ back2, back2.sum(0), second.T @ error, error.sum(0))
        return np.concatenate([part.ravel() for part in parts])


class DoubleQLearner:
    """Learns the value of following a link: its reward, and the discounted value of the best link that competes next.

    The online network chooses that link, the target network values it (van Hasselt et al. 2016).
    """

    def __init__(self, inputs: int, discount: float, seed: int = 0) -> None:
        self._discount = discount
        self._online, self._target = _Layers(inputs, seed), _Layers(inputs, seed)
        self._mean, self._square = np.zeros_like(self._online.vector), np.zeros_like(self._online.vector)
        self._replay: list[tuple[Rows, float, Rows]] = []
        self._seed = seed
        self._updates = 0

    def values(self, rows: Rows) -> Rows:
        """The value of each row."""
        return self._online.forward(rows)[2]

    def learn(self, row: Rows, reward: float, candidates: Rows) -> None:
        """Remember one fetch and the links that competed after it; learn from a sample of such memories."""
        self._replay.append((row, reward, candidates))
        del self._replay[:-MAX_REPLAY]
        if len(self._replay) < BATCH:
            return
        rng = np.random.default_rng((self._seed, self._updates))
        sample = [self._replay[at] for at in rng.integers(0, len(self._replay), BATCH)]
        wanted = np.array([reward + self._discount * self._next_value(found) for _, reward, found in sample])
        self._step(self._online.gradient(np.array([one[0] for one in sample]), wanted))

    def _next_value(self, candidates: Rows) -> float:
        if not len(candidates):
            return 0.0
        best = int(np.argmax(self.values(candidates)))
        return float(self._target.forward(candidates[best : best + 1])[2][0])

    def _step(self, gradient: Rows) -> None:
        self._updates += 1
        self._mean += (1.0 - ADAM_MEAN) * (gradient - self._mean)
        self._square += (1.0 - ADAM_SQUARE) * (gradient**2 - self._square)
        mean = self._mean / (1.0 - ADAM_MEAN**self._updates)
        square = self._square / (1.0 - ADAM_SQUARE**self._updates)
        self._online.vector -= LEARNING_RATE * mean / (np.sqrt(square) + ADAM_SMALL)
        if self._updates % TARGET_INTERVAL == 0:
            self._target.vector[:] = self._online.vector

    def state(self) -> QState:
        """Everything that learning depends on."""
        replay = [(_pack(row), reward, _pack(candidates)) for row, reward, candidates in self._replay]
        return QState([vector.tobytes() for vector in self._vectors()], self._updates, replay)

    def restore(self, state: QState) -> None:
        for vector, data in zip(self._vectors(), state.weights, strict=True):
            vector[:] = np.frombuffer(data)
        self._updates, inputs = state.updates, self._online.parts[0].shape[0]
        self._replay = [
            (_unpack(row), reward, _unpack(found).reshape(-1, inputs)) for row, reward, found in state.replay
        ]

    def _vectors(self) -> tuple[Rows, ...]:
        return self._online.vector, self._target.vector, self._mean, self._square


def _pack(rows: Rows) -> bytes:
    """Rows come from lessons, which hold four bytes per number."""
    return rows.astype(np.float32).tobytes()


def _unpack(data: bytes) -> Rows:
    return np.frombuffer(data, dtype=np.float32).astype(np.float64)
