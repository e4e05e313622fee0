"""A ranker that prefers links close to the root of their host."""

import numpy as np

from opilio.core.protocols import Ranker
from opilio.core.records import Lead, Reading, Verdict
from opilio.core.settings import Share
from opilio.rank.link_scores import LinkScores, refused_links
from opilio.topic.setup import BuildContext


class ShallowRanker:
    """The relevance of the page, less for every step of a link's path."""

    def __init__(self, fade: float) -> None:
        self.fade = fade

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """See `Ranker`."""
        del lead
        steps = np.array([max(0, link.url.count("/") - 3) for link in reading.page.links], dtype=np.float64)
        scores = verdict.score * self.fade**steps
        return LinkScores(scores, {"shallow": scores}, refused_links(reading.page))


def shallow_ranker(_: BuildContext, *, fade: Share = 0.8) -> Ranker:
    """The factory: its keyword-only arguments are the options of `rank.kind = "shallow"`."""
    return ShallowRanker(fade)
