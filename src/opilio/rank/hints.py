"""What a T-Graph and a context graph say of the links of a page, as features of the committee (S2-46, S2-F9, S2-F10).

The graph is the one that the crawl began with: it does not grow here, the committee learns instead.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.rank.contextgraph import ContextGraphRanker, TermsOf
from opilio.rank.given import Given
from opilio.rank.measure import LinkTexts
from opilio.tgraph.components import link_parts
from opilio.tgraph.graph import TGraph
from opilio.tgraph.matching import NodeIndex
from opilio.tgraph.priority import Matches, Matching, match
from opilio.tgraph.watchdog import State

Column = NDArray[np.float64]
HOW = Matching(rule="all", unrelated=0.0)


class GraphHints(Given):
    """Three numbers from 0 to 1 a link: T-Graph priority, OSM, nearness of the page's layer. All 0 without a graph."""

    def __init__(self, terms_of: TermsOf, layers: ContextGraphRanker) -> None:
        super().__init__()
        self._terms_of = terms_of
        self._layers = layers
        self._index = NodeIndex(TGraph(), terms_of)
        self._last: tuple[Reading, Matches] | None = None  # the three are asked about one page after the other

    def tgraph(self, reading: Reading, _: LinkTexts | None = None) -> Column:
        """The priority of each link by all nodes it matches."""
        return self._matches(reading).priority

    def osm(self, reading: Reading, _: LinkTexts | None = None) -> Column:
        """The similarity of each link to the nearest node that it matches, or to the most similar."""
        return self._matches(reading).osm

    def layer(self, reading: Reading, _: LinkTexts | None = None) -> Column:
        """1 for a page of the targets' layer, less for layers farther away, 0 for a page of none."""
        layers = self._layers.model.layers
        place = self._layers.place(reading) if layers else None
        near = 0.0 if place is None else (layers - place.layer) / layers
        return np.full(len(reading.page.links), near)

    def _matches(self, reading: Reading) -> Matches:
        if self._last is None or self._last[0] is not reading:
            self._last = reading, match(self._index, link_parts(reading, self._terms_of), HOW)
        return self._last[1]

    def restore(self, state: bytes) -> None:
        """Take a graph up."""
        self._state, self._last = state, None
        kept = msgspec.msgpack.decode(state, type=State) if state else State()
        self._index = NodeIndex(TGraph(kept.nodes), self._terms_of)
        self._layers.restore(state)
