"""The committee's eyes: every member's score and the words of every link of a page, packed for the learner.

Runs in the workers and knows nothing of what was learnt: the score it gives is the cold start, the features are what
`learn.committee` scores again whenever it has learnt something.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.learn.committee import Options
from opilio.learn.linkfeatures import (
    ANCHOR,
    AROUND,
    DENSE,
    HEADING,
    PACKED,
    URL,
    hashed,
    prefixes_of,
    text_hash,
)
from opilio.learn.wordmodel import BUCKETS
from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.linkscore import UrlTerms
from opilio.rank.measure import LinkTexts, spans_of
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.text.vocabulary import Vocabulary
from opilio.topic.genre import Genres
from opilio.topic.living import LivingTopic

KINDS = {URL: "in the URL", ANCHOR: "in the anchor", AROUND: "around it", HEADING: "in the heading above"}
SLOTS = {URL: 8, ANCHOR: 6, AROUND: 10, HEADING: 4}


class CommitteeRanker:
    """Features of links. `tunnel_depth` as in `out_of_reach`: by default irrelevant pages end no path."""

    def __init__(
        self,
        topic: LivingTopic,
        vocabulary: Vocabulary,
        url_terms: UrlTerms,
        genres: Genres,
        tunnel_depth: int = -1,
        options: Options | None = None,
    ) -> None:
        self.topic = topic
        self.vocabulary = vocabulary
        self.url_terms = url_terms
        self.genres = genres
        self.tunnel_depth = tunnel_depth
        self.options = options or Options()

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        links = page.links
        url_words = self.url_terms([link.url for link in links])
        texts = LinkTexts(reading, url_words)
        url, anchor, around = texts.score(self.topic.sight, "page")
        parent = np.full(len(links), verdict.score)
        parts = {"url": url, "anchor": anchor, "parent": parent, "around": around}
        dropped = drop_all(refused(page), len(links), out_of_reach(verdict, lead, self.tunnel_depth))
        scores = (url + anchor + parent + around) / 4.0
        features = self._packed(reading, url_words, parts) if links else []
        return LinkScores(scores, parts, dropped, features=features)

    def _packed(
        self, reading: Reading, url_words: Sequence[Sequence[int]], parts: dict[str, NDArray[np.float64]]
    ) -> list[bytes]:
        links = reading.page.links
        rows = np.zeros(len(links), dtype=PACKED)
        index = np.array([link.index for link in links], dtype=np.int64)
        anchors = spans_of(reading.anchors, index)
        at = 0
        for kind, words in self._words(reading, url_words):
            rows["words"][:, at : at + SLOTS[kind]] = hashed(kind, words)
            at += SLOTS[kind]
        rows["path"] = [text_hash(link.tag_path) for link in links]
        rows["prefixes"] = [prefixes_of(link.url) for link in links]
        for place, part in enumerate((rows["path"], rows["prefixes"][:, -1]), start=at):
            rows["words"][:, place] = part % np.uint32(BUCKETS - 1) + np.uint32(1)
        here = reading.page.url.partition("://")[2].partition("/")[0]
        parts = parts | {
            "same_host": np.array([link.host == here for link in links], dtype=np.float64),
            "textless": (anchors[:, 1] <= anchors[:, 0]).astype(np.float64),
            "path_depth": np.array([min(link.url.count("/") - 3, 6) / 6.0 for link in links]),
            "query": np.array(["?" in link.url for link in links], dtype=np.float64),
        }
        rows["dense"] = np.column_stack([parts[name] for name in DENSE])
        data = rows.tobytes()
        return [data[i : i + PACKED.itemsize] for i in range(0, len(data), PACKED.itemsize)]

    def _words(self, reading: Reading, url_words: Sequence[Sequence[int]]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The first words of each kind of text, one row per link."""
        links = reading.page.links
        index = np.array([link.index for link in links], dtype=np.int64)
        terms = np.array([*reading.terms, 0], dtype=np.int64)
        anchors, arounds = spans_of(reading.anchors, index), spans_of(reading.arounds, index)
        for kind, words, bounds in (
            (URL, *_laid_end_to_end(url_words)),
            (ANCHOR, terms, anchors),
            (AROUND, terms, _beside(anchors, arounds)),
            (HEADING, *_laid_end_to_end(self._headings([link.headings[0] for link in links]))),
        ):
            yield kind, _first(words, bounds, SLOTS[kind])

    def named(self, reading: Reading, place: int) -> dict[int, str]:
        """The words of one link of a page as a person reads them, by the index they are hashed to."""
        link = reading.page.links[place]
        names: dict[int, str] = {}
        for kind, words in self._words(reading, self.url_terms([one.url for one in reading.page.links])):
            for term, index in zip(words[place].tolist(), hashed(kind, words[place]).tolist(), strict=True):
                if index:
                    names.setdefault(index, f"“{self.vocabulary.surface_of(term) or term}” {KINDS[kind]}")
        for text, index in (
            ("its place on the page", text_hash(link.tag_path)),
            ("its path", prefixes_of(link.url)[-1]),
        ):
            names.setdefault(index % (BUCKETS - 1) + 1, text)
        return names

    def _headings(self, headings: list[str]) -> list[list[int]]:
        """The first terms of each heading; the links of a section share theirs."""
        terms = {
            text: self.vocabulary.terms(text)[: SLOTS[HEADING]] if text else [] for text in dict.fromkeys(headings)
        }
        return [terms[text] for text in headings]


def _laid_end_to_end(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Many lists as one array with an empty slot at its end, and the (start, end) of each."""
    ends = np.cumsum([0, *map(len, lists)])
    flat = np.fromiter((t for words in lists for t in words), np.int64, int(ends[-1]))
    return np.append(flat, 0), np.column_stack((ends[:-1], ends[1:]))


def _beside(anchors: NDArray[np.int64], arounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The part of the surroundings that begins a little before the anchor."""
    starts = np.maximum(arounds[:, 0], anchors[:, 0] - SLOTS[AROUND] // 2)
    return np.column_stack((starts, arounds[:, 1]))


def _first(words: NDArray[np.int64], bounds: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    """The first words of each slice, 0 where there are fewer."""
    at = bounds[:, :1] + np.arange(slots)
    return np.where(at < bounds[:, 1:], words[np.minimum(at, len(words) - 1)], 0)
