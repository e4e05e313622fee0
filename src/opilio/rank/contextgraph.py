"""The context graph's order: links go into the queue of the layer that their page belongs to (Diligenti, S2-46).

One queue per layer, the nearest first, each in the order of likelihood: as one number, so that any frontier can do it.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from opilio.learn.contextgraph import REDUCED, ContextModel, Place, Terms, Values, layered
from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.given import Given
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.tgraph.watchdog import State

TermsOf = Callable[[str], Sequence[int]]
Weigh = Callable[[Reading], tuple[Terms, Values, Values]]  # terms, counts, tf·idf


class ContextGraphRanker(Given):
    """Scores the links of a page alike, by its layer. Begins from a graph's documents; learns nothing on the way."""

    def __init__(self, terms_of: TermsOf, weigh: Weigh, least: float = 0.5, tunnel_depth: int = -1) -> None:
        super().__init__()
        self.model = ContextModel(least=least)
        self.tunnel_depth = tunnel_depth
        self._least = least
        self._terms_of = terms_of
        self._weigh = weigh

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """The same for all links of the page."""
        page = reading.page
        place = self.place(reading)
        queues = self.model.layers + 1  # the last one: pages of no layer
        within = place.likelihood if place.layer < self.model.layers else verdict.score
        value = (self.model.layers - place.layer + min(within, 0.999)) / queues
        count = len(page.links)
        parts = {"layer": np.full(count, float(place.layer)), "likelihood": np.full(count, place.likelihood)}
        dropped = drop_all(refused(page), count, out_of_reach(verdict, lead, self.tunnel_depth))
        return LinkScores(np.full(count, value), parts, dropped)

    def place(self, reading: Reading) -> Place:
        """The layer of a page, by its forty most telling words."""
        terms, counts, weights = self._weigh(reading)
        best = np.argsort(-weights, kind="stable")[:REDUCED]
        return self.model.place(terms[best].astype(np.int64), counts[best])

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def restore(self, state: bytes) -> None:
        """Train with the documents of a graph."""
        self._state = state
        documents = msgspec.msgpack.decode(state, type=State).documents if state else []
        self.model = ContextModel(layered(((d.level, d.words) for d in documents), self._terms_of), self._least)
