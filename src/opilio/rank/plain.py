"""The two yardsticks: breadth-first and best-first (S1-11). They read no link text at all."""

from collections.abc import Sequence

import numpy as np

from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused


class BreadthRanker:
    """First found, first fetched: the score only falls with depth, so ties keep the order of discovery."""

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """1 / (1 + depth of the link). Irrelevant pages have no end here, but one of another sense has (S3-09)."""
        page = reading.page
        scores = np.full(len(page.links), 1.0 / (2.0 + lead.depth))
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, tunnel_depth=-1))
        return LinkScores(scores, {"depth": scores}, dropped)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)


class ParentRanker:
    """Best-first: a link is as promising as the page it stands on.

    N-best-first (S1-11) is this ranker with a frontier that leases N at a time.
    """

    def __init__(self, tunnel_depth: int = -1) -> None:
        self.tunnel_depth = tunnel_depth

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """The page's own score for every link."""
        page = reading.page
        scores = np.full(len(page.links), verdict.score)
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, self.tunnel_depth))
        return LinkScores(scores, {"parent": scores}, dropped)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)
