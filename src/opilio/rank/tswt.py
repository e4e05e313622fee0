"""The link score of S3: topic (Eq. 6) and genre (Eq. 11), with the parents a URL is known from."""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from opilio.model.errors import ConfigError
from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.linkscore import UrlTerms
from opilio.rank.measure import Form, LinkTexts
from opilio.rank.parents import ParentAgg
from opilio.rank.scores import Column, LinkScores, drop_all, out_of_reach, refused
from opilio.topic.genre import Genres
from opilio.topic.living import LivingTopic, Sight, array_of

Text = Literal["url", "anchor", "around"]


class TswtOptions(msgspec.Struct, frozen=True, kw_only=True):
    """FinalLS = topic·LS_T + genre·LS_G (S3-24): (1, 1) is the paper's simple sum.

    (½, ½) gives the same order (S3-E2); `scale="rank"` makes the balance mean something, by replacing both scores
    by their place among the page's links. `parents` is how many of a link's parents count, the first ones; the paper
    sums over all (0), but then menus win (S3-E3): .24 against .34 of the oracle on Python's manual. `form="mass"`
    divides by what can match instead of the table's size (S3-E3). `texts` are those that count beside the parents: all
    in S3, the surrounding one alone for Hati & Kumar's division score (S0-35). `genre_text_only` scores genres on the
    surrounding text alone (S3-E4). `tunnel_depth` as everywhere.
    """

    topic: float = 1.0
    genre: float = 0.0
    parent_agg: ParentAgg = "sum"
    parents: int = 5
    form: Form = "share"
    texts: tuple[Text, ...] = ("url", "anchor", "around")
    scale: Literal["none", "rank"] = "none"
    genre_text_only: bool = False
    tunnel_depth: int = -1


class TswtRanker:
    """LS_T = anchor + URL + cohesive text + Σ relevance of the known parents (S3-17…S3-21).

    The page at hand is the one parent known here, in the part named "parent"; `crawl.parents` puts all that are known
    in its place, by `parent_agg` (X-11), where leads are made: a worker does not see what others found.
    """

    def __init__(
        self,
        topic: LivingTopic,
        url_terms: UrlTerms,
        genres: Genres | None = None,
        options: TswtOptions | None = None,
    ) -> None:
        self.topic = topic
        self.url_terms = url_terms
        self.genres = genres
        self.options = options or TswtOptions()
        if self.options.genre and genres is None:
            raise ConfigError("rank.genre: a weight for genres needs topic.genres")

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        links, options = reading.page.links, self.options
        texts = LinkTexts(reading, self.url_terms([link.url for link in links]))
        own = zip(("url", "anchor", "around"), texts.score(self.topic.sight, options.form), strict=True)
        parts: dict[str, Column] = {name: column for name, column in own if name in options.texts}
        parts["parent"] = np.full(len(links), verdict.score)
        topical = np.sum(list(parts.values()), axis=0)
        weights = dict.fromkeys(parts, options.topic)
        scores = options.topic * self._scaled(topical)
        if options.genre:
            parts["genre"] = self._genre(reading, texts)
            weights["genre"] = options.genre
            scores = scores + options.genre * self._scaled(parts["genre"])
        dropped = drop_all(refused(reading.page), len(links), out_of_reach(verdict, lead, options.tunnel_depth))
        return LinkScores(scores, parts, dropped, weights)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def topical(self, _: Reading, texts: LinkTexts) -> Column:
        """What S3 says of each link without its parents, from 0 to 1: a member's opinion."""
        return np.asarray(texts.score(self.topic.sight, self.options.form).mean(axis=0))

    def generic(self, reading: Reading, texts: LinkTexts) -> Column:
        """How much of the wanted genres is at each link, from 0 to 1: a member's opinion."""
        return np.minimum(self._genre(reading, texts) / 4.0, 1.0)

    def _genre(self, reading: Reading, texts: LinkTexts) -> Column:
        """LS_G: the same construction with the genre's words, the best genre counts (S3-23)."""
        best = np.zeros(len(reading.page.links))
        for sight in self.genres.sights.values() if self.genres else ():
            url, anchor, around = texts.score(sight, self.options.form)
            whole = around if self.options.genre_text_only else url + anchor + around + _cosine(reading, sight)
            best = np.maximum(best, whole)
        return best

    def _scaled(self, column: Column) -> Column:
        if self.options.scale == "none" or column.size < 2:
            return column
        places = np.searchsorted(np.sort(column), column)  # equal scores keep equal places
        return places / (column.size - 1.0)


def _cosine(reading: Reading, sight: Sight) -> float:
    """Cosine of the page's counts and a genre's words (S3-16)."""
    terms, counts = np.unique(array_of(reading.terms), return_counts=True)
    length = float(np.sqrt(np.sum(counts.astype(np.float64) ** 2))) * sight.norm
    return float(sight.weigh(terms) @ counts) / length if length else 0.0
