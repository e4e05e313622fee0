"""TRES (Kontogiannis et al., arXiv 2112.07620): reinforcement learning over a frontier that is a regression tree.

A link is described by nine numbers (`FEATURES`). The tree splits the frontier where it best separates the rewards of
fetched links; one random link per leaf competes, and a double deep Q-network chooses among them (in NumPy: two hidden
layers, Adam, replay of past fetches and a slowly following target). The first fetches are random. The reward is 1 for a
relevant page. The paper trains its classifier of pages and its keywords on example pages; here the crawl's judge and
topic table take their place, so that all strategies know equally much.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.protocols import RANK_STATE, BaseLearner, LinkScorer
from opilio.core.records import Lead, Outcome, Reading, Verdict
from opilio.core.settings import Count, Share
from opilio.engine.link_scoring import LinkScorerContext
from opilio.methods.rivals.groups import MAX_GROUPED_LINKS, GroupLinkScorer
from opilio.rank.link_scores import LinkScores, LinkTexts, refused_links
from opilio.text.tokens import UrlTerms
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.setup import BuildContext

Rows = NDArray[np.float64]
HIDDEN = 32
BATCH = 32
MAX_REPLAY = 500
LEARNING_RATE = 1e-3
# Updates between two copies of the weights to the target network.
TARGET_INTERVAL = 100
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


FEATURES = (
    "page relevance",
    "1 / distance to a relevant page",
    "relevant share of the path",
    "topic in URL",
    "topic in anchor",
    "topic around",
    "score of the texts",
    "relevant share of the host",
    "unknown host",
)
HOST_SHARE, HOST_UNKNOWN = 7, 8
# Fetched links in a leaf before it splits.
MIN_LEAF_ROWS = 20
MIN_VARIANCE_GAIN = 0.01
MAX_LEAVES = 64
MAX_TREE_ROWS = 5_000
_LINK_DTYPE = np.dtype([("values", "<f4", (len(FEATURES),)), ("pages", "<u2"), ("relevant", "<u2")])


class PathState(msgspec.Struct, frozen=True):
    """How many pages led to a page, and how many of them were relevant."""

    pages: int = 0
    relevant: int = 0


def read_link(features: bytes) -> tuple[Rows, PathState]:
    """The numbers of a link and the path to it; zeros for a seed."""
    if len(features) != _LINK_DTYPE.itemsize:
        return np.zeros(len(FEATURES)), PathState()
    row = np.frombuffer(features, dtype=_LINK_DTYPE)[0]
    return row["values"].astype(np.float64), PathState(int(row["pages"]), int(row["relevant"]))


class TresRanker:
    """Describes the links of a page; the scorer adds what is known of their hosts."""

    def __init__(self, topic: EvolvingTopic, url_terms: UrlTerms, agent: "TresAgent") -> None:
        self._topic = topic
        self._url_terms = url_terms
        self.agent = agent

    def learners(self) -> dict[str, "TresAgent"]:
        """See `HasLearners`."""
        return {RANK_STATE: self.agent}

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        page, count = reading.page, len(reading.page.links)
        _, before = read_link(lead.features)
        path = PathState(min(before.pages + 1, 65_535), min(before.relevant + verdict.relevant, 65_535))
        texts = LinkTexts(reading, self._url_terms.terms_batch([link.url for link in page.links]))
        url, anchor, around = texts.score(self._topic.compiled, "page")
        links = np.zeros(count, dtype=_LINK_DTYPE)
        links["pages"], links["relevant"] = path.pages, path.relevant
        distance = 1 if verdict.relevant else lead.tunnel + 2
        columns = (
            np.full(count, verdict.score),
            np.full(count, 1.0 / distance),
            np.full(count, path.relevant / path.pages),
            url > 0.0,
            anchor > 0.0,
            around > 0.0,
            np.maximum(url, anchor),
        )
        links["values"][:, : len(columns)] = np.column_stack(columns)
        data, size = links.tobytes(), _LINK_DTYPE.itemsize
        features = [data[at : at + size] for at in range(0, len(data), size)]
        parts = dict(zip(FEATURES, columns, strict=False))
        return LinkScores(
            np.zeros(count), {n: np.asarray(c, float) for n, c in parts.items()}, refused_links(page), features=features
        )


class TreeNode(msgspec.Struct):
    """A node of the tree: a leaf (`group` ≥ 0), or a split by one feature."""

    group: int = 0
    feature: int = -1
    threshold: float = 0.0
    low: "TreeNode | None" = None
    high: "TreeNode | None" = None

    def leaf(self, row: Rows) -> "TreeNode":
        node = self
        while node.low is not None and node.high is not None:
            node = node.low if row[node.feature] <= node.threshold else node.high
        return node


def best_split(rows: Rows, rewards: Rows) -> tuple[float, int, float]:
    """(reduction of variance, feature, threshold) of the best split of these rows."""
    best = (0.0, -1, 0.0)
    total = float(rewards.var()) * len(rewards)
    for feature in range(rows.shape[1]):
        order = np.argsort(rows[:, feature], kind="stable")
        values, sums = rows[order, feature], np.cumsum(rewards[order])
        squares = np.cumsum(rewards[order] ** 2)
        count = np.arange(1, len(values))
        low = squares[:-1] - sums[:-1] ** 2 / count
        high = (squares[-1] - squares[:-1]) - (sums[-1] - sums[:-1]) ** 2 / (len(values) - count)
        gain = np.where(values[1:] > values[:-1], total - low - high, 0.0)
        at = int(np.argmax(gain)) if len(gain) else 0
        if len(gain) and gain[at] / len(values) > best[0]:
            best = (float(gain[at]) / len(values), feature, float((values[at] + values[at + 1]) / 2.0))
    return best


class _TresLesson(msgspec.Struct, array_like=True, frozen=True):
    """A batch of fetched links: their rows and rewards, hosts, and the links that competed afterwards."""

    rows: bytes
    rewards: list[float]
    hosts: list[str]
    candidates: bytes


class _TresState(msgspec.Struct, kw_only=True):
    visits: int
    tree: TreeNode = msgspec.field(default_factory=TreeNode)
    leaves: int = 1
    rows: bytes = b""
    rewards: list[float] = []
    hosts: dict[str, tuple[int, int]] = {}
    q: QState | None = None


class TresAgent(BaseLearner):
    """Tree, host statistics and Q-network."""

    def __init__(self, warm_up: int = 300, discount: float = 0.99, seed: int = 0) -> None:
        self.warm_up = warm_up
        self.version = 0
        self.tree = TreeNode()
        self.candidates: Rows = np.zeros((0, len(FEATURES)))
        # The leaf that was split last, until the scorer has regrouped its links.
        self.split_group = -1
        self._leaves = 1
        self._rows: list[Rows] = []
        self._rewards: list[float] = []
        self._hosts: dict[str, tuple[int, int]] = {}
        self._q = DoubleQLearner(len(FEATURES), discount, seed)
        self._seed = seed

    def row(self, lead: Lead) -> Rows:
        """All numbers of a link, its host's as they are now."""
        values, _ = read_link(lead.features)
        return self.with_host(values, lead.host)

    def with_host(self, values: Rows, host: str) -> Rows:
        fetched, relevant = self._hosts.get(host, (0, 0))
        values[HOST_SHARE], values[HOST_UNKNOWN] = relevant / max(1, fetched), float(not fetched)
        return values

    def values(self, rows: Rows) -> list[float]:
        """The score of each representative within 0..1: random at first, then in the order of the Q-values."""
        self.candidates = rows
        if self.version < self.warm_up:
            chances = np.random.default_rng((self._seed, self.version)).uniform(0.1, 1.0, len(rows))
            return [float(chance) for chance in chances]
        return [float(value) for value in 0.1 + 0.9 / (1.0 + np.exp(-self._q.values(rows)))]

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        visits = [o for o in outcomes if o.analysis is not None and o.analysis.verdict is not None and o.lead.parent]
        if not visits:
            return b""
        rows = np.array([self.row(o.lead) for o in visits], dtype=np.float32)
        rewards, hosts = [float(o.relevant) for o in visits], [o.lead.host for o in visits]
        candidates = self.candidates.astype(np.float32).tobytes()
        return msgspec.msgpack.encode(_TresLesson(rows.tobytes(), rewards, hosts, candidates))

    def apply_lesson(self, lesson: bytes) -> None:
        if not lesson:
            return
        found = msgspec.msgpack.decode(lesson, type=_TresLesson)
        rows, candidates = _unpack_rows(found.rows), _unpack_rows(found.candidates)
        for row, reward, host in zip(rows, found.rewards, found.hosts, strict=True):
            fetched, relevant = self._hosts.get(host, (0, 0))
            self._hosts[host] = (fetched + 1, relevant + int(reward > 0.0))
            self._rows.append(row)
            self._rewards.append(reward)
            self._q.learn(row, reward, candidates)
            self.version += 1
        evict_oldest(self._hosts, MAX_GROUPED_LINKS)
        del self._rows[:-MAX_TREE_ROWS], self._rewards[:-MAX_TREE_ROWS]
        if self.split_group < 0 and self._leaves < MAX_LEAVES and len(self._rows):
            self._split(self.tree.leaf(self._rows[-1]))

    def _split(self, leaf: TreeNode) -> None:
        """Split a leaf in two if that separates the rewards of its fetched links."""
        inside = [at for at, row in enumerate(self._rows) if self.tree.leaf(row) is leaf]
        if len(inside) < MIN_LEAF_ROWS:
            return
        gain, feature, threshold = best_split(
            np.array([self._rows[at] for at in inside]), np.array([self._rewards[at] for at in inside])
        )
        if gain >= MIN_VARIANCE_GAIN:
            self.split_group = leaf.group
            leaf.feature, leaf.threshold = feature, threshold
            leaf.low, leaf.high = TreeNode(group=leaf.group), TreeNode(group=self._leaves)
            self._leaves += 1

    def snapshot(self) -> bytes:
        rows = np.array(self._rows, dtype=np.float32).tobytes()
        return msgspec.msgpack.encode(
            _TresState(
                visits=self.version,
                tree=self.tree,
                leaves=self._leaves,
                rows=rows,
                rewards=self._rewards,
                hosts=self._hosts,
                q=self._q.state(),
            )
        )

    def worker_state(self) -> bytes:
        """No model: workers only describe links."""
        return msgspec.msgpack.encode(_TresState(visits=self.version))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_TresState)
        self.tree, self._leaves, self.version = kept.tree, kept.leaves, kept.visits
        self._rows, self._rewards, self._hosts = list(_unpack_rows(kept.rows)), kept.rewards, kept.hosts
        if kept.q is not None:
            self._q.restore(kept.q)


def _unpack_rows(data: bytes) -> Rows:
    return np.frombuffer(data, dtype=np.float32).astype(np.float64).reshape(-1, len(FEATURES))


class TresLinkScorer(GroupLinkScorer):
    """Groups are the leaves of the tree. Keeps the numbers of all grouped links."""

    def __init__(self, agent: TresAgent, seed: int = 0) -> None:
        super().__init__(self._leaf_of, self._representative_values, seed)
        self._agent = agent
        self._links: dict[int, tuple[str, NDArray[np.float32]]] = {}

    def resume(self, context: LinkScorerContext) -> None:
        super().resume(context)
        self._agent.split_group = -1

    def discard(self, keys: Sequence[int]) -> None:
        super().discard(keys)
        for key in keys:
            self._links.pop(key, None)

    def rescored(self) -> list[tuple[str, int, float]]:
        agent = self._agent
        if agent.split_group >= 0:
            for key, host in self.queue.take_group(agent.split_group):
                self.queue.add(key, host, agent.tree.leaf(self._row(key)).group)
            agent.split_group = -1
        return super().rescored()

    def _leaf_of(self, lead: Lead) -> int:
        row = self._agent.row(lead)
        if lead.key not in self._links and len(self._links) < MAX_GROUPED_LINKS:
            self._links[lead.key] = (lead.host, row.astype(np.float32))
        return self._agent.tree.leaf(row).group

    def _representative_values(self, chosen: Mapping[int, int]) -> list[float]:
        rows = [self._row(key) for key in chosen.values()]
        return self._agent.values(np.array(rows).reshape(-1, len(FEATURES)))

    def _row(self, key: int) -> Rows:
        host, row = self._links[key]
        return self._agent.with_host(row.astype(np.float64), host)


def tres_ranker(context: BuildContext, *, warm_up: Count = 300, discount: Share = 0.99) -> TresRanker:
    agent = TresAgent(warm_up, discount, context.settings.engine.random_seed)
    return TresRanker(context.evolving_topic, context.url_terms, agent)


def tres_link_scorer(context: LinkScorerContext) -> LinkScorer:
    scorer = TresLinkScorer(context.ranker.agent)
    if context.load_queue:
        scorer.resume(context)
    return scorer
