"""Fish-Search and Shark-Search: searching as schools of agents that live on what they find (literature.md §2)."""

import math
import struct
from collections.abc import Sequence

import numpy as np

from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.measure import LinkTexts
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.topic.living import LivingTopic

_INHERITED = struct.Struct("<d")


class FishRanker:
    """A relevant page feeds its first a·w links (potential 1), an irrelevant one its first w (½), others starve (0).

    `depth` irrelevant pages in a row end a path; the frontier keeps the better score of a URL found again.
    """

    def __init__(self, width: int = 10, bonus: float = 1.5, depth: int = 3) -> None:
        self.width = width
        self.bonus = bonus
        self.depth = depth

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """Potential by place on the page."""
        page = reading.page
        fed = math.ceil(self.width * self.bonus) if verdict.relevant else self.width
        potential = np.zeros(len(page.links))
        potential[:fed] = 1.0 if verdict.relevant else 0.5
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, self.depth))
        return LinkScores(potential, {"potential": potential}, dropped)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)


class SharkRanker:
    """potential = γ·inherited + (1−γ)·neighbourhood; the page's own inheritance comes back in `lead.features`.

    inherited = δ·sim(page), or δ·inherited(page) where the page has nothing of the topic; neighbourhood =
    β·anchor + (1−β)·context, context = 1 where the anchor has anything, else the text around.
    """

    def __init__(
        self,
        topic: LivingTopic,
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
        inherited = self.delta * (verdict.score if verdict.score > 0.0 else inheritance(lead))
        _, anchor, around = LinkTexts(reading, [()] * len(page.links)).score(self.topic.sight, "page")
        context = np.where(anchor > 0.0, 1.0, around)
        near = self.beta * anchor + (1.0 - self.beta) * context
        parts = {"inherited": np.full(len(page.links), inherited), "anchor": anchor, "context": context}
        scores = self.gamma * parts["inherited"] + (1.0 - self.gamma) * near
        weights = {"inherited": self.gamma, "anchor": (1 - self.gamma) * self.beta}
        weights["context"] = (1 - self.gamma) * (1 - self.beta)
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, self.depth))
        handed_on = [_INHERITED.pack(inherited)] * len(page.links)
        return LinkScores(scores, parts, dropped, weights, handed_on)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)


def inheritance(lead: Lead) -> float:
    """What a page inherited from the page it was found on; its own potential where that was not handed on."""
    if len(lead.features) == _INHERITED.size:
        inherited: float = _INHERITED.unpack(lead.features)[0]
        return inherited
    return min(1.0, max(0.0, lead.score))
