"""The link score of S3: topic (Eq. 6) and genre (Eq. 11), with the parents of a URL (S1-22, S3-17, X-11)."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.errors import ConfigError
from opilio.core.protocols import Ranker
from opilio.core.records import Lead, Reading, Verdict
from opilio.core.settings import Amount, Count, TunnelDepth
from opilio.rank.baselines import TermsOfUrls
from opilio.rank.link_scores import (
    LinkScores,
    LinkTextMeasure,
    LinkTexts,
    ScoreColumn,
    drop_all,
    refused_links,
    tunnel_drop_reason,
)
from opilio.text.term_arrays import term_array
from opilio.topic.evolving import CompiledTable, EvolvingTopic
from opilio.topic.genre import GenreDetector
from opilio.topic.setup import BuildContext

ParentAgg = Literal["sum", "mean", "max", "first"]
# Names of the parts "genre NAME" and "genre NAME page" of a link's score.
GENRE_PART = "genre "
PAGE_PART = " page"


ParentValues = tuple[float, ...]
"""What a page contributes to the scores of its links: its relevance, and its cosine with each genre's words."""


class LinkParents(msgspec.Struct):
    """The values of a link's parents: their number, sums, maxima, and those of the first parent."""

    count: int
    total: ParentValues
    largest: ParentValues
    first: ParentValues


class KnownParents:
    """Aggregates the values of each link's parents (S3-17, S3-23) without a list of them, which menus make long.

    Only the first `per_link` parents count, in order of discovery; 0: all. When more than `limit` links are known, the
    oldest are evicted: most of them were fetched long ago.
    """

    def __init__(self, limit: int = 50_000, per_link: int = 0) -> None:
        self.known: dict[int, LinkParents] = {}
        self._limit = limit
        self._per_link = per_link
        # Page -> its values and the links that they were added to, for pages that are fetched again.
        self._added: dict[int, tuple[ParentValues, list[int]]] = {}

    def add(self, page: int, values: ParentValues, links: Iterable[int]) -> None:
        """Add a page with its links, each of them once."""
        self.forget(page)
        counted = []
        for key in links:
            parents = self.known.get(key)
            if parents is None:
                self.known[key] = LinkParents(1, values, values, values)
            elif self._per_link and parents.count >= self._per_link:
                continue
            else:
                parents.count += 1
                parents.total = tuple(map(float.__add__, parents.total, values))
                parents.largest = tuple(map(max, parents.largest, values))
            counted.append(key)
        self._added[page] = values, counted
        evict_oldest(self._added, self._limit)
        evict_oldest(self.known, self._limit)

    def forget(self, page: int) -> None:
        """Remove a page that is fetched again from sums and means; a maximum or a first value may stay the old one."""
        values, links = self._added.pop(page, ((), []))
        for key in links:
            parents = self.known.get(key)
            if parents is not None and parents.count > 1:
                parents.count -= 1
                parents.total = tuple(map(float.__sub__, parents.total, values))
            elif parents is not None:
                del self.known[key]

    def aggregate(self, key: int, page: ParentValues, method: ParentAgg) -> ParentValues:
        """The values of a link's known parents and of the page at hand, aggregated (S3-E3)."""
        parents = self.known.get(key)
        if parents is None:
            return page
        if method == "first":
            values = parents.first
        elif method == "max":
            values = tuple(map(max, parents.largest, page))
        else:
            count = 1 if method == "sum" else parents.count + 1
            values = tuple(value / count for value in map(float.__add__, parents.total, page))
        # Pages that an older version stored have no values of genres.
        return (*values, *page[len(values) :])


LinkTextKind = Literal["url", "anchor", "around"]


class TopicGenreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """FinalLS = topic·LS_T + genre·LS_G (S3-24): (1, 1) is the paper's simple sum.

    (½, ½) gives the same order (S3-E2); `scale="rank"` replaces both scores by their rank among the page's links, which
    makes the balance meaningful. `parents` is how many of a link's parents count, in order of discovery; 0, as in the
    paper: all, so that pages which every menu names win (S3-E3): .24 against .34 of the oracle with five on Python's
    manual. `form="mass"` divides by the sum of weights instead of the table's size (S3-E3). `texts` are the texts that
    count besides the parents: all in S3, the surrounding one alone for Hati & Kumar's division score (S0-35).
    `genre_text_only` scores genres on the surrounding text alone (S3-E4). `tunnel_depth` as in `tunnel_drop_reason`.
    """

    topic: float = 1.0
    genre: float = 0.0
    parent_agg: ParentAgg = "sum"
    parents: int = 0
    form: LinkTextMeasure = "share"
    texts: tuple[LinkTextKind, ...] = ("url", "anchor", "around")
    scale: Literal["none", "rank"] = "none"
    genre_text_only: bool = False
    tunnel_depth: int = -1


class TopicGenreRanker:
    """LS_T = anchor + URL + cohesive text + Σ relevance of the known parents (S3-17…S3-21); LS_G likewise (S3-23).

    A worker knows only one parent, the current page: its relevance is the part "parent", its cosine with a genre's
    words the part "genre NAME page". `ParentLinkScorer` replaces both by those of all known parents, aggregated by
    `parent_agg` (X-11), when leads are made.
    """

    def __init__(
        self,
        topic: EvolvingTopic,
        url_terms: TermsOfUrls,
        genres: GenreDetector | None = None,
        options: TopicGenreOptions | None = None,
    ) -> None:
        self.topic = topic
        self.url_terms = url_terms
        self.genres = genres
        self.options = options or TopicGenreOptions()
        if self.options.genre and genres is None:
            raise ConfigError("rank.genre: a weight for genres needs the words of genres")

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
            by_genre = self._genre_parts(reading, texts)
            parts["genre"] = best_genre(by_genre, len(links))
            weights["genre"] = options.genre
            scores = scores + options.genre * self._scaled(parts["genre"])
            parts |= by_genre
        dropped = drop_all(
            refused_links(reading.page), len(links), tunnel_drop_reason(verdict, lead, options.tunnel_depth)
        )
        return LinkScores(scores, parts, dropped, weights)

    def topic_member_scores(self, _: Reading, texts: LinkTexts) -> ScoreColumn:
        """The S3 topic score of each link without its parents, from 0 to 1, for the committee."""
        return np.asarray(texts.score(self.topic.compiled, self.options.form).mean(axis=0))

    def genre_member_scores(self, reading: Reading, texts: LinkTexts) -> ScoreColumn:
        """The genre score of each link from 0 to 1, for the committee."""
        return np.minimum(best_genre(self._genre_parts(reading, texts), texts.links) / 4.0, 1.0)

    def _genre_parts(self, reading: Reading, texts: LinkTexts) -> dict[str, ScoreColumn]:
        """For each genre the score of the link's texts and that of the page, by the same formulas as the topic's."""
        parts: dict[str, ScoreColumn] = {}
        for name, table in self.genres.compiled.items() if self.genres else ():
            url, anchor, around = texts.score(table, self.options.form)
            if self.options.genre_text_only:
                parts[f"{GENRE_PART}{name}"] = around
            else:
                parts[f"{GENRE_PART}{name}"] = url + anchor + around
                parts[f"{GENRE_PART}{name}{PAGE_PART}"] = np.full(texts.links, _cosine(reading, table))
        return parts

    def _scaled(self, column: ScoreColumn) -> ScoreColumn:
        if self.options.scale == "none" or column.size < 2:
            return column
        # Equal scores have equal ranks.
        places = np.searchsorted(np.sort(column), column)
        return places / (column.size - 1.0)


def best_genre(parts: Mapping[str, ScoreColumn], links: int) -> ScoreColumn:
    """LS_G of each link: the best genre counts (S3-23)."""
    best = np.zeros(links)
    for name, texts in parts.items():
        if not name.endswith(PAGE_PART):
            best = np.maximum(best, texts + parts.get(f"{name}{PAGE_PART}", 0.0))
    return best


def _cosine(reading: Reading, table: CompiledTable) -> float:
    """Cosine of the page's counts and a genre's words (S3-16)."""
    terms, counts = np.unique(term_array(reading.terms), return_counts=True)
    length = float(np.sqrt(np.sum(counts.astype(np.float64) ** 2))) * table.norm
    return float(table.weigh(terms) @ counts) / length if length else 0.0


_TSWT_DEFAULTS = TopicGenreOptions()


def tswt_ranker(
    context: BuildContext,
    *,
    topic: Amount = _TSWT_DEFAULTS.topic,
    genre: Amount = _TSWT_DEFAULTS.genre,
    parent_agg: ParentAgg = _TSWT_DEFAULTS.parent_agg,
    parents: Count = _TSWT_DEFAULTS.parents,
    form: LinkTextMeasure = _TSWT_DEFAULTS.form,
    texts: tuple[LinkTextKind, ...] = _TSWT_DEFAULTS.texts,
    scale: Literal["none", "rank"] = _TSWT_DEFAULTS.scale,
    genre_text_only: bool = _TSWT_DEFAULTS.genre_text_only,
    tunnel_depth: TunnelDepth = _TSWT_DEFAULTS.tunnel_depth,
) -> Ranker:
    options = TopicGenreOptions(
        topic=topic,
        genre=genre,
        parent_agg=parent_agg,
        parents=parents,
        form=form,
        texts=texts,
        scale=scale,
        genre_text_only=genre_text_only,
        tunnel_depth=tunnel_depth,
    )
    return TopicGenreRanker(context.evolving_topic, context.url_terms.terms_batch, context.genres, options)
