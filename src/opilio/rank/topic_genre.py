"""The link score of S3: topic (Eq. 6) and genre (Eq. 11), with the parents of a URL (S1-22, S3-17, X-11)."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.errors import ConfigError
from opilio.core.page import Reading
from opilio.core.records import Lead, Verdict
from opilio.rank.four_part_score import UrlTerms
from opilio.rank.link_scores import (
    LinkScores,
    LinkTextMeasure,
    LinkTexts,
    ScoreColumn,
    drop_all,
    refused_links,
    tunnel_drop_reason,
)
from opilio.topic.evolving import CompiledTable, EvolvingTopic, term_array
from opilio.topic.genre import GenreDetector

ParentAgg = Literal["sum", "mean", "max", "first"]


def aggregate_parents(values: Sequence[float], method: ParentAgg) -> float:
    """Aggregate the relevances of a link's parents (S3-E3); 0 without parents.

    >>> aggregate_parents([0.5, 1.0], "sum"), aggregate_parents([0.5, 1.0], "mean"), aggregate_parents([], "max")
    (1.5, 0.75, 0.0)
    """
    if not values:
        return 0.0
    if method == "sum":
        return sum(values)
    if method == "mean":
        return sum(values) / len(values)
    return max(values) if method == "max" else values[0]


class KnownParents(msgspec.Struct):
    """Link key -> (parent key, relevance) of its first `per_link` parents, in order of discovery.

    When more than `limit` links are known, the oldest are evicted: most of them were fetched long ago.
    """

    limit: int = 50_000
    per_link: int = 5
    known: dict[int, list[tuple[int, float]]] = {}

    def add(self, parent: int, relevance: float, links: Iterable[int]) -> None:
        """Add a page with its relevance and links."""
        for key in links:
            parents = self.known.setdefault(key, [])
            if len(parents) < self.per_link and all(p != parent for p, _ in parents):
                parents.append((parent, relevance))
        evict_oldest(self.known, self.limit)

    def relevances(self, key: int, besides: int) -> list[float]:
        """The relevances of a link's parents other than `besides`."""
        return [relevance for parent, relevance in self.known.get(key, ()) if parent != besides]


LinkTextKind = Literal["url", "anchor", "around"]


class TopicGenreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """FinalLS = topic·LS_T + genre·LS_G (S3-24): (1, 1) is the paper's simple sum.

    (½, ½) gives the same order (S3-E2); `scale="rank"` replaces both scores by their rank among the page's links, which
    makes the balance meaningful. `parents` is how many of a link's parents count, in order of discovery; the paper sums
    over all (0), but then menus win (S3-E3): .24 against .34 of the oracle on Python's manual. `form="mass"` divides by
    the sum of weights instead of the table's size (S3-E3). `texts` are the texts that count besides the parents: all in
    S3, the surrounding one alone for Hati & Kumar's division score (S0-35). `genre_text_only` scores genres on the
    surrounding text alone (S3-E4). `tunnel_depth` as in `tunnel_drop_reason`.
    """

    topic: float = 1.0
    genre: float = 0.0
    parent_agg: ParentAgg = "sum"
    parents: int = 5
    form: LinkTextMeasure = "share"
    texts: tuple[LinkTextKind, ...] = ("url", "anchor", "around")
    scale: Literal["none", "rank"] = "none"
    genre_text_only: bool = False
    tunnel_depth: int = -1


class TopicGenreRanker:
    """LS_T = anchor + URL + cohesive text + Σ relevance of the known parents (S3-17…S3-21).

    A worker knows only one parent, the current page, in the part "parent"; `engine.parent_scores` replaces it by all
    known parents, aggregated by `parent_agg` (X-11), when leads are made.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        url_terms: UrlTerms,
        genres: GenreDetector | None = None,
        options: TopicGenreOptions | None = None,
    ) -> None:
        self.topic = topic
        self.url_terms = url_terms
        self.genres = genres
        self.options = options or TopicGenreOptions()
        if self.options.genre and genres is None:
            raise ConfigError("rank.genre: a weight for genres needs topic.genres")

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        links, options = reading.page.links, self.options
        texts = LinkTexts(reading, self.url_terms([link.url for link in links]))
        own = zip(("url", "anchor", "around"), texts.score(self.topic.compiled, options.form), strict=True)
        parts: dict[str, ScoreColumn] = {name: column for name, column in own if name in options.texts}
        parts["parent"] = np.full(len(links), verdict.score)
        topical = np.sum(list(parts.values()), axis=0)
        weights = dict.fromkeys(parts, options.topic)
        scores = options.topic * self._scaled(topical)
        if options.genre:
            parts["genre"] = self._genre_scores(reading, texts)
            weights["genre"] = options.genre
            scores = scores + options.genre * self._scaled(parts["genre"])
        dropped = drop_all(
            refused_links(reading.page), len(links), tunnel_drop_reason(verdict, lead, options.tunnel_depth)
        )
        return LinkScores(scores, parts, dropped, weights)

    def topic_member_scores(self, _: Reading, texts: LinkTexts) -> ScoreColumn:
        """The S3 topic score of each link without its parents, from 0 to 1, for the committee."""
        return np.asarray(texts.score(self.topic.compiled, self.options.form).mean(axis=0))

    def genre_member_scores(self, reading: Reading, texts: LinkTexts) -> ScoreColumn:
        """The genre score of each link from 0 to 1, for the committee."""
        return np.minimum(self._genre_scores(reading, texts) / 4.0, 1.0)

    def _genre_scores(self, reading: Reading, texts: LinkTexts) -> ScoreColumn:
        """LS_G: the same formula with the genre's words; the best genre counts (S3-23)."""
        best = np.zeros(len(reading.page.links))
        for table in self.genres.compiled.values() if self.genres else ():
            url, anchor, around = texts.score(table, self.options.form)
            whole = around if self.options.genre_text_only else url + anchor + around + _cosine(reading, table)
            best = np.maximum(best, whole)
        return best

    def _scaled(self, column: ScoreColumn) -> ScoreColumn:
        if self.options.scale == "none" or column.size < 2:
            return column
        # Equal scores have equal ranks.
        places = np.searchsorted(np.sort(column), column)
        return places / (column.size - 1.0)


def _cosine(reading: Reading, table: CompiledTable) -> float:
    """Cosine of the page's counts and a genre's words (S3-16)."""
    terms, counts = np.unique(term_array(reading.terms), return_counts=True)
    length = float(np.sqrt(np.sum(counts.astype(np.float64) ** 2))) * table.norm
    return float(table.weigh(terms) @ counts) / length if length else 0.0
