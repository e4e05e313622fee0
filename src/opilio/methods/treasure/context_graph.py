"""The context graph (Diligenti et al. 2000, S2-46), and hints of it and of a T-Graph for the committee.

The documents of each layer are back-links of the targets. The vocabulary is that of the targets and of the first layer;
a page is represented by its forty words of highest tf·idf, of which those in the vocabulary count. The classifier is
one multinomial naive Bayes with a model per layer and equal priors: a layer's size says how many pages were found, not
how likely it is.

The order has one queue per layer, the nearest first, each in the order of likelihood: as one number, so that any
frontier can use it. The ranker is a learner that keeps its first state and learns nothing.

`GraphHints` are features of the committee (S2-F9, S2-F10). Their graph is the one that the crawl started with: it does
not grow here, the committee learns instead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import RANK_STATE, BaseLearner
from opilio.core.records import Lead, Reading, Verdict
from opilio.methods.treasure.graph import TGraph, link_parts
from opilio.methods.treasure.matching import LinkMatches, MatchingOptions, NodeIndex, match_links
from opilio.methods.treasure.updater import GraphState
from opilio.rank.link_scores import LinkScores, LinkTexts, drop_all, refused_links, tunnel_drop_reason

TermArray = NDArray[np.int64]
ValueArray = NDArray[np.float64]
CONTEXT_PAGE_TERMS = 40  # words that represent a page
VOCABULARY_LAYERS = 2  # the targets and the first layer


class LayeredDocument(NamedTuple):
    """One document: its layer and its words with counts, most distinctive first."""

    layer: int
    words: Mapping[int, int]


class LayerEstimate(NamedTuple):
    """The most likely layer of a page, with its probability. `layer` == number of layers: none of them."""

    layer: int
    likelihood: float


class ContextGraphModel:
    """Word probabilities per layer. Without documents every page belongs to no layer.

    `least` is the likelihood below which a page belongs to no layer: the winning posterior times the share of the
    page's words that the vocabulary knows. An unrelated page shares few words, whatever the posterior is.
    """

    def __init__(self, documents: Iterable[LayeredDocument] = (), least: float = 0.5) -> None:
        kept = list(documents)
        self.min_likelihood = least
        self.layers = 1 + max((d.layer for d in kept), default=-1)
        known = {term for d in kept if d.layer < VOCABULARY_LAYERS for term in d.words}
        self._terms: TermArray = np.array(sorted(known), dtype=np.int64)
        self._logs: ValueArray = np.log(self._probabilities(kept))

    def _probabilities(self, documents: Sequence[LayeredDocument]) -> ValueArray:
        """P(word | layer) with one count given to every word (Laplace)."""
        counts = np.ones((self.layers, len(self._terms)))
        place = {term: at for at, term in enumerate(self._terms.tolist())}
        for document in documents:
            occurrences = [(place[term], count) for term, count in document.words.items() if term in place][
                :CONTEXT_PAGE_TERMS
            ]
            for at, count in occurrences:
                # Logarithmic: a word that occurs fifty times is not fifty words.
                counts[document.layer, at] += np.log1p(count)
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))

    def classify(self, terms: TermArray, counts: ValueArray) -> LayerEstimate:
        """The layer of a page by its most distinctive words (already reduced)."""
        if not self.layers or not len(terms) or not len(self._terms):
            return LayerEstimate(self.layers, 0.0)
        at = np.minimum(np.searchsorted(self._terms, terms), len(self._terms) - 1)
        known = self._terms[at] == terms
        weights = np.log1p(counts)
        logs = self._logs[:, at[known]] @ weights[known]
        chances = np.exp(logs - logs.max())
        winner = int(chances.argmax())
        likelihood = float(chances[winner] / chances.sum() * weights[known].sum() / weights.sum())
        return LayerEstimate(winner if likelihood >= self.min_likelihood else self.layers, likelihood)


def layered_documents(
    documents: Iterable[tuple[int, Mapping[str, int]]], terms_of: Callable[[str], Sequence[int]]
) -> list[LayeredDocument]:
    """Documents given as words, converted to terms."""
    found = []
    for layer, words in documents:
        counted: dict[int, int] = {}
        for word, count in words.items():
            for term in terms_of(word):
                counted[term] = counted.get(term, 0) + count
        found.append(LayeredDocument(layer, counted))
    return found


class StaticLearner(BaseLearner):
    """Keeps its first state and learns nothing; subclasses use the state in `restore`."""

    version = 0

    def __init__(self) -> None:
        self._state = b""

    def worker_state(self) -> bytes:
        """The first state."""
        return self._state

    def snapshot(self) -> bytes:
        """The first state."""
        return self._state


TermsOf = Callable[[str], Sequence[int]]
WeighPage = Callable[[Reading], tuple[TermArray, ValueArray, ValueArray]]  # terms, counts, tf·idf


class ContextGraphRanker(StaticLearner):
    """Gives all links of a page the same score, by its layer. Starts from a graph's documents; learns nothing."""

    def __init__(self, terms_of: TermsOf, weigh: WeighPage, least: float = 0.5, tunnel_depth: int = -1) -> None:
        super().__init__()
        self.model = ContextGraphModel(least=least)
        self.tunnel_depth = tunnel_depth
        self._min_likelihood = least
        self._terms_of = terms_of
        self._weigh = weigh

    def learners(self) -> dict[str, "ContextGraphRanker"]:
        """See `HasLearners`."""
        return {RANK_STATE: self}

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """The same score for all links of the page."""
        page = reading.page
        place = self.classify(reading)
        # The last one: pages of no layer.
        queues = self.model.layers + 1
        within = place.likelihood if place.layer < self.model.layers else verdict.score
        value = (self.model.layers - place.layer + min(within, 0.999)) / queues
        count = len(page.links)
        parts = {"layer": np.full(count, float(place.layer)), "likelihood": np.full(count, place.likelihood)}
        dropped = drop_all(refused_links(page), count, tunnel_drop_reason(verdict, lead, self.tunnel_depth))
        return LinkScores(np.full(count, value), parts, dropped)

    def classify(self, reading: Reading) -> LayerEstimate:
        """The layer of a page, by its forty most distinctive words."""
        terms, counts, weights = self._weigh(reading)
        best = np.argsort(-weights, kind="stable")[:CONTEXT_PAGE_TERMS]
        return self.model.classify(terms[best].astype(np.int64), counts[best])

    def restore(self, state: bytes) -> None:
        """Train with the documents of a graph."""
        self._state = state
        documents = msgspec.msgpack.decode(state, type=GraphState).documents if state else []
        self.model = ContextGraphModel(
            layered_documents(((d.level, d.words) for d in documents), self._terms_of), self._min_likelihood
        )


# The name of their state, the graph, among the snapshots.
HINTS_STATE = "hints"
HintColumn = NDArray[np.float64]
HINT_MATCHING = MatchingOptions(rule="all", unrelated=0.0)


class GraphHints(StaticLearner):
    """Three numbers from 0 to 1 a link: T-Graph priority, OSM, nearness of the page's layer. All 0 without a graph."""

    def __init__(self, terms_of: TermsOf, layers: ContextGraphRanker) -> None:
        super().__init__()
        self._terms_of = terms_of
        self._layers = layers
        self._index = NodeIndex(TGraph(), terms_of)
        # The three features are asked for one after the other for each page.
        self._last_matches: tuple[Reading, LinkMatches] | None = None

    def tgraph(self, reading: Reading, _: LinkTexts | None = None) -> HintColumn:
        """The priority of each link by all nodes it matches."""
        return self._matches(reading).priority

    def osm(self, reading: Reading, _: LinkTexts | None = None) -> HintColumn:
        """The similarity of each link to the nearest node that it matches, or to the most similar."""
        return self._matches(reading).osm

    def layer(self, reading: Reading, _: LinkTexts | None = None) -> HintColumn:
        """1 for a page of the targets' layer, less for layers farther away, 0 for a page of none."""
        layers = self._layers.model.layers
        place = self._layers.classify(reading) if layers else None
        near = 0.0 if place is None else (layers - place.layer) / layers
        return np.full(len(reading.page.links), near)

    def _matches(self, reading: Reading) -> LinkMatches:
        if self._last_matches is None or self._last_matches[0] is not reading:
            self._last_matches = reading, match_links(self._index, link_parts(reading, self._terms_of), HINT_MATCHING)
        return self._last_matches[1]

    def restore(self, state: bytes) -> None:
        """Load a graph."""
        self._state, self._last_matches = state, None
        kept = msgspec.msgpack.decode(state, type=GraphState) if state else GraphState()
        self._index = NodeIndex(TGraph(kept.nodes), self._terms_of)
        self._layers.restore(state)
