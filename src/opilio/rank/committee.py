"""The committee's eyes: every member's score and the words of every link of a page, packed for the learner.

Runs in the workers and knows nothing of what was learnt: the score it gives is the cold start, the features are what
`learn.committee` scores again whenever it has learnt something.
"""

from collections.abc import Callable, Sequence
from itertools import chain

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
from opilio.rank.hints import GraphHints
from opilio.rank.linkscore import UrlTerms
from opilio.rank.measure import LinkTexts, spans_of
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.text.vocabulary import Vocabulary
from opilio.topic.genre import Genres
from opilio.topic.living import LivingTopic

KINDS = {URL: "in the URL", ANCHOR: "in the anchor", AROUND: "around it", HEADING: "in the heading above"}
SLOTS = {URL: 8, ANCHOR: 6, AROUND: 10, HEADING: 4}
KIND_OF_SLOT = np.repeat(np.array(list(SLOTS), dtype=np.uint64), list(SLOTS.values()))
PLACE_IN_SLOT = np.concatenate([np.arange(n) for n in SLOTS.values()])


Member = Callable[[Reading], NDArray[np.float64]]
"""Another opinion on the links of a page: one number from 0 to 1 for each."""


class CommitteeRanker:
    """Features of links. `tunnel_depth` as in `out_of_reach`: by default irrelevant pages end no path.

    `members` are further opinions, by the names they have in DENSE; a feature without one is 0.
    """

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
        self.members: dict[str, Member] = {}
        self.hints: GraphHints | None = None  # the members that begin with a graph

    def heed(self, hints: GraphHints) -> None:
        """Let a T-Graph and a context graph be members."""
        self.hints = hints
        self.members |= {"tgraph": hints.tgraph, "osm": hints.osm, "layer": hints.layer}

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
        words, anchors = self._words(reading, url_words)
        rows["words"][:, : len(KIND_OF_SLOT)] = hashed(KIND_OF_SLOT, words)
        rows["path"] = [text_hash(link.tag_path) for link in links]
        rows["prefixes"] = [prefixes_of(link.url) for link in links]
        for place, part in enumerate((rows["path"], rows["prefixes"][:, -1]), start=len(KIND_OF_SLOT)):
            rows["words"][:, place] = part % np.uint32(BUCKETS - 1) + np.uint32(1)
        here = reading.page.url.partition("://")[2].partition("/")[0]
        parts = parts | {
            "same_host": np.array([link.host == here for link in links], dtype=np.float64),
            "textless": (anchors[:, 1] <= anchors[:, 0]).astype(np.float64),
            "path_depth": np.array([min(link.url.count("/") - 3, 6) / 6.0 for link in links]),
            "query": np.array(["?" in link.url for link in links], dtype=np.float64),
        }
        parts |= {name: member(reading) for name, member in self.members.items()}
        for place, name in enumerate(DENSE):
            rows["dense"][:, place] = parts.get(name, 0.0)
        data = rows.tobytes()
        return [data[i : i + PACKED.itemsize] for i in range(0, len(data), PACKED.itemsize)]

    def _words(
        self, reading: Reading, url_words: Sequence[Sequence[int]]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first words of each kind of text, one row per link, and the (start, end) of each anchor.

        All texts stand in one array, so that one look-up finds all words of all links.
        """
        links = reading.page.links
        index = np.array([link.index for link in links], dtype=np.int64)
        anchors, arounds = spans_of(reading.anchors, index), spans_of(reading.arounds, index)
        headings = self._headings([link.headings[0] for link in links])
        said, urls, above = len(reading.terms), list(map(len, url_words)), list(map(len, headings))
        flat = np.array([*reading.terms, *chain(*url_words), *chain(*headings), 0], dtype=np.int64)
        ends = said + np.cumsum([*urls, *above])
        ends_url, ends_above = ends[: len(links)], ends[len(links) :]
        starts_around = np.maximum(arounds[:, 0], anchors[:, 0] - SLOTS[AROUND] // 2)  # a little before the anchor
        bounds = (
            (ends_url - urls, ends_url),
            (anchors[:, 0], anchors[:, 1]),
            (starts_around, arounds[:, 1]),
            (ends_above - above, ends_above),
        )
        starts, stops = (
            np.repeat(np.column_stack(side), tuple(SLOTS.values()), axis=1) for side in zip(*bounds, strict=True)
        )
        at = starts + PLACE_IN_SLOT
        return np.where(at < stops, flat[np.minimum(at, len(flat) - 1)], 0), anchors

    def named(self, reading: Reading, place: int) -> dict[int, str]:
        """The words of one link of a page as a person reads them, by the index they are hashed to."""
        link = reading.page.links[place]
        names: dict[int, str] = {}
        words = self._words(reading, self.url_terms([one.url for one in reading.page.links]))[0][place]
        indices = hashed(KIND_OF_SLOT, words)
        for kind, term, index in zip(KIND_OF_SLOT.tolist(), words.tolist(), indices.tolist(), strict=True):
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
