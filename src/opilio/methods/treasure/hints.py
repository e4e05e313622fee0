"""The opinions of a T-Graph and a context graph on a page's links, as features of the committee (S2-46, S2-F9, S2-F10).

The graph is the one that the crawl started with: it does not grow here, the committee learns instead.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.page import Reading
from opilio.methods.treasure.context_graph import ContextGraphRanker, StaticLearner, TermsOf
from opilio.methods.treasure.graph import TGraph, link_parts
from opilio.methods.treasure.matching import LinkMatches, MatchingOptions, NodeIndex, match_links
from opilio.methods.treasure.updater import GraphState
from opilio.rank.link_scores import LinkTexts

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
