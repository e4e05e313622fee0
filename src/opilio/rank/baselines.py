"""Baseline rankers: breadth-first, best-first (S1-11), Fish-Search, Shark-Search and the four-part link score."""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

import numpy as np
from msgspec import Meta

from opilio.core.errors import ConfigError
from opilio.core.protocols import Ranker
from opilio.core.records import Lead, Reading, Verdict
from opilio.core.settings import Amount, Count, Share, TunnelDepth
from opilio.rank.link_scores import (
    LinkScores,
    LinkTextMeasure,
    LinkTexts,
    ScoreColumn,
    below_threshold,
    drop_all,
    refused_links,
    tunnel_drop_reason,
)
from opilio.topic.evolving import EvolvingTopic, sized_threshold
from opilio.topic.setup import BuildContext

TermsOfUrls = Callable[[Sequence[str]], Sequence[Sequence[int]]]
LINK_SCORE_PARTS = ("url", "anchor", "parent", "around")


class LinkScoreRanker:
    """LinkScore = α + β + γ + ω, each part in [0, 1], so a score in [0, 4]; `weights` change the balance.

    A link passes at score ≥ threshold, or > if `strict` (X-02). The papers give no threshold (S0-26); the default 0
    follows every link in the order of its score. `threshold_words`: see `sized_threshold`. `tunnel_depth` as in
    `tunnel_drop_reason`: −1 is S0-28, 0 is S4-18.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        url_terms: TermsOfUrls,
        form: LinkTextMeasure = "page",
        threshold: float = 0.0,
        strict: bool = False,
        tunnel_depth: int = 3,
        *,
        weights: Mapping[str, float] | None = None,
        threshold_words: int = 0,
    ) -> None:
        if unknown := set(weights or ()) - set(LINK_SCORE_PARTS):
            raise ConfigError(f"rank.weights.{min(unknown)}: unknown; known: {', '.join(LINK_SCORE_PARTS)}")
        self.topic = topic
        self.url_terms = url_terms
        self.form: LinkTextMeasure = form
        self.threshold = threshold
        self.threshold_words = threshold_words
        self.strict = strict
        self.tunnel_depth = tunnel_depth
        self.weights = dict.fromkeys(LINK_SCORE_PARTS, 1.0) | dict(weights or {})

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page, weigh = reading.page, self.weights
        # The anchor has its own part: the surrounding text is what stands before and after it.
        url_words = self.url_terms([link.url for link in page.links])
        texts = LinkTexts(reading, url_words, anchor_in_context=False)
        url, anchor, around = rows = texts.score(self.topic.compiled, self.form)
        scores = np.array((weigh["url"], weigh["anchor"], weigh["around"])) @ rows + weigh["parent"] * verdict.score
        parent = np.full(len(page.links), verdict.score)
        parts: dict[str, ScoreColumn] = {"url": url, "anchor": anchor, "parent": parent, "around": around}
        threshold = sized_threshold(self.threshold, self.threshold_words, self.topic.compiled.size)
        dropped = dict.fromkeys(below_threshold(scores, threshold, self.strict).tolist(), "below the threshold")
        dropped = drop_all(
            dropped | refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.tunnel_depth)
        )
        return LinkScores(scores, parts, dropped, self.weights)


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


# A link score is the sum of four parts within 0..1 (S0-25).
LinkThreshold = Annotated[float, Meta(ge=0, le=4)]


def breadth_ranker(_: BuildContext) -> Ranker:
    return BreadthRanker()


def parent_ranker(_: BuildContext, *, tunnel_depth: TunnelDepth = -1) -> Ranker:
    return ParentRanker(tunnel_depth)


def linkscore_ranker(
    context: BuildContext,
    *,
    form: LinkTextMeasure = "page",
    threshold: LinkThreshold = 0.0,
    strict: bool = False,
    tunnel_depth: TunnelDepth = 3,
    threshold_words: Count = 0,
) -> Ranker:
    topic, url_terms = context.evolving_topic, context.url_terms.terms_batch
    return LinkScoreRanker(topic, url_terms, form, threshold, strict, tunnel_depth, threshold_words=threshold_words)


def shark_ranker(
    context: BuildContext, *, gamma: Share = 0.5, delta: Share = 0.5, beta: Share = 0.8, depth: Count = 3
) -> Ranker:
    return SharkRanker(context.evolving_topic, gamma, delta, beta, depth)


def fish_ranker(_: BuildContext, *, width: Count = 10, bonus: Amount = 1.5, depth: Count = 3) -> Ranker:
    return FishRanker(width, bonus, depth)
