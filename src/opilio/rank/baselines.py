"""Baseline rankers: breadth-first, best-first (S1-11), Fish-Search and Shark-Search (literature.md §2)."""

import math
import struct

import numpy as np

from opilio.core.page import Reading
from opilio.core.records import Lead, Verdict
from opilio.rank.link_scores import LinkScores, LinkTexts, drop_all, refused_links, tunnel_drop_reason
from opilio.topic.evolving import EvolvingTopic


class BreadthRanker:
    """Breadth-first: the score falls with depth, ties keep the order of discovery."""

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """1 / (1 + depth of the link). Links of irrelevant pages are followed, except for other senses (S3-09)."""
        page = reading.page
        scores = np.full(len(page.links), 1.0 / (2.0 + lead.depth))
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, tunnel_depth=-1))
        return LinkScores(scores, {"depth": scores}, dropped)


class ParentRanker:
    """Best-first: a link has the score of its page.

    N-best-first (S1-11) is this ranker with a frontier that leases N URLs at a time.
    """

    def __init__(self, tunnel_depth: int = -1) -> None:
        self.tunnel_depth = tunnel_depth

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """The page's score for every link."""
        page = reading.page
        scores = np.full(len(page.links), verdict.score)
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.tunnel_depth))
        return LinkScores(scores, {"parent": scores}, dropped)


_POTENTIAL_STRUCT = struct.Struct("<d")


class FishRanker:
    """The first a·w links of a relevant page have potential 1, the first w of an irrelevant one ½, others 0.

    `depth` consecutive irrelevant pages end a path; the frontier keeps the better score of a URL that is found again.
    """

    def __init__(self, width: int = 10, bonus: float = 1.5, depth: int = 3) -> None:
        self.width = width
        self.bonus = bonus
        self.depth = depth

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """The potential by position on the page."""
        page = reading.page
        fed = math.ceil(self.width * self.bonus) if verdict.relevant else self.width
        potential = np.zeros(len(page.links))
        potential[:fed] = 1.0 if verdict.relevant else 0.5
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.depth))
        return LinkScores(potential, {"potential": potential}, dropped)


class SharkRanker:
    """potential = γ·inherited + (1−γ)·neighbourhood; the page's own inheritance is stored in `lead.features`.

    inherited = δ·sim(page), or δ·inherited(page) if the page has no topic words; neighbourhood =
    β·anchor + (1−β)·context; context = 1 if the anchor has topic words, else the score of the text around.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        gamma: float = 0.5,
        delta: float = 0.5,
        beta: float = 0.8,
        depth: int = 3,
    ) -> None:
        self.topic = topic
        self.gamma = gamma
        self.delta = delta
        self.beta = beta
        self.depth = depth

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        inherited = self.delta * (verdict.score if verdict.score > 0.0 else inherited_potential(lead))
        _, anchor, around = LinkTexts(reading, [()] * len(page.links)).score(self.topic.compiled, "page")
        context = np.where(anchor > 0.0, 1.0, around)
        near = self.beta * anchor + (1.0 - self.beta) * context
        parts = {"inherited": np.full(len(page.links), inherited), "anchor": anchor, "context": context}
        scores = self.gamma * parts["inherited"] + (1.0 - self.gamma) * near
        weights = {"inherited": self.gamma, "anchor": (1 - self.gamma) * self.beta}
        weights["context"] = (1 - self.gamma) * (1 - self.beta)
        dropped = drop_all(refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.depth))
        handed_on = [_POTENTIAL_STRUCT.pack(inherited)] * len(page.links)
        return LinkScores(scores, parts, dropped, weights, handed_on)


def inherited_potential(lead: Lead) -> float:
    """The potential that a page inherited from its parent; its own score if none is stored."""
    if len(lead.features) == _POTENTIAL_STRUCT.size:
        inherited: float = _POTENTIAL_STRUCT.unpack(lead.features)[0]
        return inherited
    return min(1.0, max(0.0, lead.score))
