"""The four-part link score: URL words, anchor, parent page, surrounding text (S0-25, S4-19)."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from opilio.core.errors import ConfigError
from opilio.core.page import Reading
from opilio.core.records import Lead, Verdict
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
from opilio.topic.evolving import EvolvingTopic

UrlTerms = Callable[[Sequence[str]], Sequence[Sequence[int]]]
LINK_SCORE_PARTS = ("url", "anchor", "parent", "around")


class LinkScoreRanker:
    """LinkScore = α + β + γ + ω, each part in [0, 1], so a score in [0, 4]; `weights` change the balance.

    A link passes at score ≥ threshold, or > if `strict` (X-02). The papers give no threshold (S0-26); the default 0
    follows every link in the order of its score. `tunnel_depth` as in `tunnel_drop_reason`: −1 is S0-28, 0 is S4-18.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        url_terms: UrlTerms,
        form: LinkTextMeasure = "page",
        threshold: float = 0.0,
        strict: bool = False,
        tunnel_depth: int = 3,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        if unknown := set(weights or ()) - set(LINK_SCORE_PARTS):
            raise ConfigError(f"rank.weights.{min(unknown)}: is unknown; known: {', '.join(LINK_SCORE_PARTS)}")
        self.topic = topic
        self.url_terms = url_terms
        self.form: LinkTextMeasure = form
        self.threshold = threshold
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
        dropped = dict.fromkeys(below_threshold(scores, self.threshold, self.strict).tolist(), "below the threshold")
        dropped = drop_all(
            dropped | refused_links(page), len(page.links), tunnel_drop_reason(verdict, lead, self.tunnel_depth)
        )
        return LinkScores(scores, parts, dropped, self.weights)
