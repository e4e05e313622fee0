"""The scores of all links of a page as columns, how much of the topic is in a link, and the encoded form of columns.

Rankers compute on NumPy columns. `LinkColumns` is the record of a whole page, without a Python object per link.
`LinkTexts` counts the words of all link texts with one sort of (text, term) pairs; words of
link texts are weighted by count alone, because the texts are short. Also here: the links that every ranker drops.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Literal

import msgspec
import numpy as np
from isal import isal_zlib
from isal.igzip_lib import IsalError
from numpy.typing import NDArray

from opilio.core.records import Lead, Link, LinkColumns, Page, Reading, Verdict
from opilio.text.term_arrays import Terms, count_distinct, term_array
from opilio.topic.evolving import CompiledTable
from opilio.topic.topic import OTHER_SENSE, is_other_sense

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LinkColumns).decode


def pack(columns: LinkColumns) -> bytes:
    """The columns of a page's links, encoded and compressed."""
    if not columns.urls:
        return b""
    packed: bytes = isal_zlib.compress(_encode(columns), 1)
    return packed


def unpack(blob: bytes) -> LinkColumns:
    """The columns of an encoded blob; a damaged one raises ValueError.

    >>> unpack(b"").urls
    []
    """
    if not blob:
        return LinkColumns(urls=[], hosts=[], anchors=[], keys=b"", scores=b"", names=[], parts=b"", dropped={})
    try:
        return _decode(isal_zlib.decompress(blob))
    except IsalError as error:  # type: ignore[misc]  # the stub takes the class for an instance
        raise ValueError(f"the links of a page are damaged: {error}") from error


def build_leads(columns: LinkColumns, page: Lead, relevant: bool, scores: Sequence[float] | None = None) -> list[Lead]:
    """The links worth following as leads, each URL once with its best score."""
    tunnel = 0 if relevant else page.tunnel + 1
    values = np.frombuffer(columns.scores, dtype=np.float32).tolist() if scores is None else scores
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    best: dict[int, Lead] = {}
    dropped, features = columns.dropped, columns.features
    for index, (url, host, key, score) in enumerate(zip(columns.urls, columns.hosts, keys, values, strict=True)):
        if index in dropped or key == page.key:
            continue
        known = best.get(key)
        if known is None or score > known.score:
            best[key] = Lead(
                url=url,
                key=key,
                host=host,
                score=score,
                depth=page.depth + 1,
                tunnel=tunnel,
                parent=page.key,
                features=features[index] if features else b"",
            )
    return list(best.values())


ScoreColumn = NDArray[np.float64]


class LinkScores:
    """Scores and their named parts, one row per link of the page."""

    __slots__ = ("dropped", "features", "parts", "scores", "weights")

    def __init__(
        self,
        scores: ScoreColumn,
        parts: Mapping[str, ScoreColumn],
        dropped: Mapping[int, str] | None = None,
        weights: Mapping[str, float] | None = None,
        features: Sequence[bytes] = (),
    ) -> None:
        self.scores = scores
        self.parts = parts
        self.dropped = dropped or {}
        self.weights = weights or {}
        self.features = features

    def columns(self, links: Sequence[Link]) -> LinkColumns:
        """All links as one record, without an object per link and part."""
        parts = np.column_stack(list(self.parts.values())) if self.parts else np.zeros((len(links), 0))
        return LinkColumns(
            urls=[link.url for link in links],
            hosts=[link.host for link in links],
            anchors=[link.anchor for link in links],
            keys=np.array([link.key for link in links], dtype=np.int64).tobytes(),
            scores=self.scores.astype(np.float32).tobytes(),
            names=list(self.parts),
            parts=parts.astype(np.float32).tobytes(),
            dropped=dict(self.dropped),
            features=list(self.features),
        )


# Extensions of files that are not pages: a fetch would be wasted. Documents that can be read are pages; `UrlFilter`
# refuses those that can't. Extensions that are also common in names of things
# (Node.js, Main.class) are not listed: there the content type of the response decides.
NON_PAGE_EXTENSIONS = frozenset(
    """
    7z aac apk avi bmp bz2 deb dmg doc dvi eps exe flac flv gif gz gzip hqx ico iso jar jpeg jpg lzh
    m4a m4v mid midi mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf png ppt pptx ps psd ram rar rpm
    rtf svg swf tar tgz tif tiff ttf wav webm webp wma wmv woff woff2 xls xlsx xpm xz zip zst
    """.split()
)


def refused_links(page: Page) -> dict[int, str]:
    """The links that no ranker follows, with the reason: nofollow, and files that are not pages."""
    if page.nofollow:
        return dict.fromkeys(range(len(page.links)), "nofollow page")
    dropped: dict[int, str] = {}
    for at, link in enumerate(page.links):
        if link.rel and "nofollow" in link.rel.lower():
            dropped[at] = "nofollow"
        elif (extension := file_extension(link.url)) in NON_PAGE_EXTENSIONS:
            dropped[at] = f"not a page: .{extension}"
    return dropped


# The same URLs occur on many pages.
@lru_cache(maxsize=1 << 14)
def file_extension(url: str) -> str:
    """The file extension of a URL's path, in lower case, or nothing; a page about a file (`File:Wren.jpg`) has none.

    >>> file_extension("http://example.org/wiki/File:Wren.jpg"), file_extension("http://example.org/Wren.jpg")
    ('', 'jpg')
    >>> file_extension("http://example.org/a/Paper.PS?x=1.html"), file_extension("http://example.ps/"), file_extension("http://x.org/a.b/c")
    ('ps', '', '')
    """
    name = url.partition("?")[0].rpartition("/")[2]
    is_title = ":" in name or "%3a" in name.lower()
    return name.rpartition(".")[2].lower() if "." in name and not is_title and url.count("/") > 2 else ""


def tunnel_drop_reason(verdict: Verdict, lead: Lead, tunnel_depth: int) -> str:
    """Why the links of an irrelevant page are not followed (X-05), or "".

    `tunnel_depth` is the number of consecutive irrelevant pages that may be crossed: 0 is the hard focus of S4-18, −1
    is unlimited (S0-28), other values are bounded tunnelling (Pal et al.).
    """
    if is_other_sense(verdict):
        return OTHER_SENSE
    if verdict.relevant or tunnel_depth < 0 or lead.tunnel < tunnel_depth:
        return ""
    return "irrelevant page" if tunnel_depth == 0 else f"tunnel longer than {tunnel_depth}"


def drop_all(dropped: dict[int, str], links: int, reason: str) -> dict[int, str]:
    """Drop all links for one reason; links dropped before keep their reason."""
    return {**dict.fromkeys(range(links), reason), **dropped} if reason else dropped


def below_threshold(scores: ScoreColumn, threshold: float, strict: bool) -> NDArray[np.intp]:
    """The indices of scores below the threshold; if strict, also of those equal to it (X-02)."""
    return np.flatnonzero(scores <= threshold if strict else scores < threshold)


LinkTextMeasure = Literal["page", "topic", "masked", "share", "mass"]
"""How a text is scored against the table (X-01, X-09), always within 0..1:

page    cosine, the text's norm over all its words (S4-17)
topic   cosine, the text's norm over the topic's words in it (S0-23 as printed)
masked  cosine of the table with its own masked copy, √(Σ matched w² / Σ w²) (S1-21)
share   Σ matched w / table size (S3-18…S3-20)
mass    Σ matched w / Σ w: the same without the dependence on size (S3-E3, Hati & Kumar)
"""


class LinkTexts:
    """The words of the links' URLs, anchors and surroundings as one bag of (text, term) pairs.

    Text number = kind · links + link, with kinds 0 URL, 1 anchor, 2 context. `page_terms` are the terms of the whole
    page, `anchors` and `arounds` the (start, end) slices of each link in them. The context includes the anchor unless
    `anchor_in_context` is false: then it is the text before and after it.
    """

    __slots__ = ("_matched", "anchors", "arounds", "counts", "links", "page_terms", "terms", "texts")

    def __init__(self, reading: Reading, url_words: Sequence[Sequence[int]], *, anchor_in_context: bool = True) -> None:
        self.links = len(reading.page.links)
        self.page_terms = term_array(reading.terms)
        index = np.array([link.index for link in reading.page.links], dtype=np.int64)
        self.anchors, self.arounds = link_spans(reading.anchors, index), link_spans(reading.link_contexts, index)
        contexts = (self.arounds,) if anchor_in_context else outside_spans(self.arounds, self.anchors)
        link_terms, in_text = flatten_slices(self.page_terms, np.concatenate((self.anchors, *contexts)))
        # The slices after the anchors belong to the same texts as those before.
        in_text = np.where(in_text < 2 * self.links, in_text, in_text - self.links)
        lengths = list(map(len, url_words))
        urls = term_array([*chain.from_iterable(url_words)])
        in_url = np.repeat(np.arange(self.links), lengths)
        keys = np.concatenate((in_url, in_text + self.links)) << 32
        keys |= np.concatenate((urls, link_terms))
        distinct, counts = count_distinct(keys)
        self.counts: NDArray[np.float64] = counts.astype(np.float64)
        # The low half of each key.
        self.terms: Terms = distinct.astype(np.uint32)
        self.texts: NDArray[np.int64] = distinct >> 32
        self._matched: tuple[CompiledTable, NDArray[np.float64]] | None = None

    @property
    def lengths(self) -> NDArray[np.float64]:
        """The number of words; rows URL, anchor, context; one column per link."""
        return self._sum(self.texts, self.counts).reshape(3, self.links)

    def score(self, table: CompiledTable, form: LinkTextMeasure) -> NDArray[np.float64]:
        """The scores against a table; rows URL, anchor, context; one column per link."""
        # Cached because one table is used in several forms.
        if self._matched is None or self._matched[0] is not table:
            self._matched = table, table.weigh(self.terms)
        weights = self._matched[1]
        if not table.size or not table.norm:
            # S3-E9: the score with an empty table is 0.
            return np.zeros((3, self.links))
        hit = np.flatnonzero(weights)
        weights, texts, counts = weights[hit], self.texts[hit], self.counts[hit]
        if form == "share":
            scores = self._sum(texts, weights) / table.size
        elif form == "mass":
            scores = self._sum(texts, weights) / table.total_weight
        elif form == "masked":
            scores = np.sqrt(self._sum(texts, weights * weights)) / table.norm
        else:
            own = self._sum(self.texts, self.counts**2) if form == "page" else self._sum(texts, counts**2)
            scores = self._sum(texts, weights * counts) / (np.sqrt(np.maximum(own, 1.0)) * table.norm)
        # Rounding may exceed 1.
        bounded: NDArray[np.float64] = np.minimum(scores, 1.0).reshape(3, self.links)
        return bounded

    def matched(self, table: CompiledTable) -> list[tuple[int, int]]:
        """The (text, term) pairs that are in the table."""
        hit = np.flatnonzero(table.weigh(self.terms))
        return list(zip(self.texts[hit].tolist(), self.terms[hit].tolist(), strict=True))

    def _sum(self, texts: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.bincount(texts, values, minlength=3 * self.links), dtype=np.float64)


def link_spans(spans: Sequence[tuple[int, int]], index: NDArray[np.int64]) -> NDArray[np.int64]:
    """The (start, end) of each link by its `Link.index`; an empty slice for a link that is not in the flow."""
    last = len(spans)
    bounds = np.fromiter(chain.from_iterable(spans), np.int64, 2 * last).reshape(-1, 2)
    bounds = np.concatenate((bounds, np.zeros((1, 2), dtype=np.int64)))
    return bounds[np.where((index < 0) | (index > last), last, index)]


def outside_spans(
    arounds: NDArray[np.int64], anchors: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The slices of the text before and after each anchor; empty for links that are not in the flow."""
    before = np.column_stack((arounds[:, 0], np.maximum(arounds[:, 0], anchors[:, 0])))
    after = np.column_stack((np.minimum(anchors[:, 1], arounds[:, 1]), arounds[:, 1]))
    return before, after


def flatten_slices(words: Terms, bounds: NDArray[np.int64]) -> tuple[Terms, NDArray[np.int64]]:
    """The concatenated words of many slices, with the number of the slice of each word."""
    starts, lengths = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
    ends = np.cumsum(lengths)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    at = np.arange(owners.size) + np.repeat(starts - ends + lengths, lengths)
    return words[at], owners
