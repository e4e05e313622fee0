"""The committee's ranker: packs the members' scores, the words and the meaning of every link of a page for the learner.

Runs in the workers and does not learn: its score is the cold start, and `learn.committee` scores the packed features
again as it learns. The words at a link (URL, anchor, context, heading above) become indices of the word model. What
does not depend on the page is cached, because the same URLs and headings occur on many pages.

The meaning of a link is a vector, from its anchor or the last part of its URL, with its similarity to the topic. Words
are looked up in the shipped table (`text.word_vectors`); rare words count more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from struct import Struct
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.errors import ConfigError
from opilio.core.protocols import Learns, Ranker
from opilio.core.records import Lead, Link, Reading, Verdict
from opilio.core.registry import COMMITTEE_MEMBERS, load_plugin
from opilio.core.settings import Settings, Share, TunnelDepth
from opilio.learn.logistic import FEATURE_NAMES, MEANING_FEATURES
from opilio.learn.scoring import DEFAULT_EXPLORATION, CommitteeOptions
from opilio.learn.word_model import (
    ANCHOR_TEXT,
    AROUND_TEXT,
    DENSE_FIELDS,
    HEADING_TEXT,
    LINK_FEATURES_DTYPE,
    PREFIX_COUNT,
    URL_TEXT,
    WORD_SLOTS,
    hash_first_terms,
    hash_terms,
    hash_text,
    hash_to_word,
    url_prefixes,
)
from opilio.rank.baselines import TermsOfUrls
from opilio.rank.link_scores import LinkScores, LinkTexts, drop_all, refused_links, tunnel_drop_reason
from opilio.rank.topic_genre import TopicGenreRanker
from opilio.text.term_arrays import distinct, term_array
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.text.word_vectors import (
    BYTE_SCALE,
    DIMENSIONS,
    Vectors,
    WordVectors,
    load_word_vectors,
    to_bytes,
    unit_vectors,
)
from opilio.topic.evolving import CompiledTable, EvolvingTopic
from opilio.topic.page_terms import Idf
from opilio.topic.setup import BuildContext

_URL_CACHE_SIZE = 1 << 14
# Anchors of the last few hundred pages, about 200 bytes each.
_ANCHOR_CACHE_SIZE = 1 << 14
# The rest of a longer anchor does not count.
MAX_ANCHOR_TERMS = 32
MIN_DIRECTION_TERMS = 50
DIRECTION_RIDGE = 30.0  # words
_NOTHING = bytes(DIMENSIONS)


class LinkMeanings:
    """The vectors of links and their similarities to the topic."""

    def __init__(self, words: WordVectors, topic: EvolvingTopic, idf: Idf, url_terms: UrlTerms) -> None:
        self._words = words
        self._topic = topic
        self._idf = idf
        self._url_terms = url_terms
        self._url_vector = lru_cache(_URL_CACHE_SIZE)(self._last_part_vector)
        # Terms of an anchor -> its vector: most links of a site have an anchor that earlier pages had.
        self._anchor_vectors: dict[bytes, bytes] = {}
        self._direction: tuple[CompiledTable, Vectors] | None = None

    def vectors(self, links: Sequence[Link], texts: LinkTexts) -> NDArray[np.int8]:
        """One vector per link as bytes; zeros if no word is known."""
        terms, size = texts.page_terms.tobytes(), texts.page_terms.itemsize
        starts, ends = texts.anchors.T
        spans = zip(
            (starts * size).tolist(), (np.minimum(ends, starts + MAX_ANCHOR_TERMS) * size).tolist(), strict=True
        )
        anchors = [terms[start:end] for start, end in spans]
        known = self._anchor_vectors
        if unknown := [anchor for anchor in dict.fromkeys(anchors) if anchor not in known]:
            self._add_anchors(unknown, texts.page_terms.dtype)
        found = [known[anchor] for anchor in anchors]
        evict_oldest(known, _ANCHOR_CACHE_SIZE)
        for at, vector in enumerate(found):
            if vector == _NOTHING:
                found[at] = self._url_vector(links[at].url)
        return np.frombuffer(b"".join(found), dtype=np.int8).reshape(-1, DIMENSIONS)

    def similarities(self, vectors: NDArray[np.int8]) -> NDArray[np.float64]:
        """The similarity of each vector to the topic, from 0 to 1."""
        products = vectors.astype(np.float32) @ (self.direction / BYTE_SCALE)
        return np.clip(products, 0.0, 1.0).astype(np.float64)

    @property
    def direction(self) -> Vectors:
        """The vector of the topic's current table."""
        table = self._topic.compiled
        if self._direction is None or self._direction[0] is not table:
            self._direction = table, self._words.mean(table.terms, table.weights)
        return self._direction[1]

    def word_direction(self, terms: NDArray[np.int64], values: NDArray[np.float64]) -> Vectors | None:
        """The direction along which words gain value: a ridge regression of the values of terms on their vectors.

        A word that no page had so far is worth what words of a similar meaning are worth. None for too few terms.
        """
        rows = self._words.rows(terms.astype(np.uint32))
        known = np.flatnonzero(rows >= 0)
        if len(known) < MIN_DIRECTION_TERMS:
            return None
        vectors = self._words.vectors(rows[known], np.ones(len(known))).astype(np.float64)
        centered = values[known] - values[known].mean()
        gram = vectors.T @ vectors + DIRECTION_RIDGE * np.eye(DIMENSIONS)
        return np.linalg.solve(gram, vectors.T @ centered).astype(np.float32)

    def _add_anchors(self, anchors: Sequence[bytes], dtype: np.dtype[np.generic]) -> None:
        """Add the vectors of anchors: the sum of their distinct words, rare ones counting more, as a unit vector."""
        lengths = [len(anchor) // dtype.itemsize for anchor in anchors]
        owners = np.repeat(np.arange(len(anchors), dtype=np.int64), lengths)
        pairs = distinct((owners << 32) | np.frombuffer(b"".join(anchors), dtype=dtype).astype(np.int64))
        terms, owners = pairs.astype(np.uint32), pairs >> 32
        rows = self._words.rows(terms)
        known = np.flatnonzero(rows >= 0)
        sums = np.zeros((len(anchors), DIMENSIONS), dtype=np.float32)
        if known.size:
            rows, terms, owners = rows[known], terms[known], owners[known]
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            sums[owners[starts]] = np.add.reduceat(self._words.vectors(rows, self._idf(terms)), starts)
        data = to_bytes(unit_vectors(sums)).tobytes()
        for at, anchor in enumerate(anchors):
            self._anchor_vectors[anchor] = data[at * DIMENSIONS : (at + 1) * DIMENSIONS]

    def _last_part_vector(self, url: str) -> bytes:
        terms = self._url_terms.terms(url.rstrip("/").rpartition("/")[2])
        return to_bytes(self._words.mean(term_array(terms))).tobytes() if terms else _NOTHING


LinkWordIndices = NDArray[np.uint32]

ADDRESS_DTYPE = np.dtype(
    [
        ("words", np.uint32, (WORD_SLOTS[URL_TEXT],)),
        ("prefixes", np.uint32, (PREFIX_COUNT,)),
        ("depth", np.float32),
        ("query", "?"),
    ]
)
# URLs and headings of the last few hundred pages. A URL takes 450 bytes, and a hostile page has thousands of new ones.
_ADDRESS_CACHE_SIZE, _HEADING_CACHE_SIZE = 1 << 15, 1 << 14
_ADDRESS_STRUCT = Struct(f"={WORD_SLOTS[URL_TEXT]}I{PREFIX_COUNT}If?")
_HEADING_STRUCT = Struct(f"={WORD_SLOTS[HEADING_TEXT]}I")
_TEXT_KIND_COLUMNS = np.repeat(
    np.array([ANCHOR_TEXT, AROUND_TEXT], dtype=np.uint64), (WORD_SLOTS[ANCHOR_TEXT], WORD_SLOTS[AROUND_TEXT])
)
_SLOT_RANGES = {kind: np.arange(slots) for kind, slots in WORD_SLOTS.items()}


class AddressFeatures(NamedTuple):
    """The features of a URL that do not depend on the linking page."""

    terms: Sequence[int]
    row: bytes  # of ADDRESS_DTYPE


class LinkWords:
    """Finds and hashes the words at links."""

    def __init__(self, vocabulary: Vocabulary, url_terms: TermsOfUrls) -> None:
        self.vocabulary = vocabulary
        self._url_terms = url_terms
        self.address_features = lru_cache(_ADDRESS_CACHE_SIZE)(self._address)
        self._heading = lru_cache(_HEADING_CACHE_SIZE)(self._hashed_heading)

    def hash_words(self, links: Sequence[Link], texts: LinkTexts, addresses: NDArray[np.void]) -> LinkWordIndices:
        """One row of indices per link, the kinds of text in the order of WORD_SLOTS; 0: no word."""
        above = b"".join([self._heading(link.headings[0]) for link in links])
        headings = np.frombuffer(above, dtype=np.uint32).reshape(-1, WORD_SLOTS[HEADING_TEXT])
        return np.concatenate(
            (addresses["words"], hash_terms(_TEXT_KIND_COLUMNS, _first_terms(texts)), headings), axis=1
        )

    def word_terms(self, link: Link, texts: LinkTexts, place: int) -> dict[int, tuple[int, int]]:
        """The words of one link by index: the kind of text and the term."""
        near = _first_terms(texts)[place].tolist()
        kinds = {
            URL_TEXT: self.address_features(link.url).terms,
            ANCHOR_TEXT: near[: WORD_SLOTS[ANCHOR_TEXT]],
            AROUND_TEXT: near[WORD_SLOTS[ANCHOR_TEXT] :],
            HEADING_TEXT: self.vocabulary.terms(link.headings[0]),
        }
        found: dict[int, tuple[int, int]] = {}
        for kind, terms in kinds.items():
            for index, term in zip(hash_first_terms(kind, terms, WORD_SLOTS[kind]), terms, strict=False):
                if index:
                    found.setdefault(index, (kind, term))
        return found

    def _address(self, url: str) -> AddressFeatures:
        terms = self._url_terms([url])[0]
        words, depth = hash_first_terms(URL_TEXT, terms, WORD_SLOTS[URL_TEXT]), min(url.count("/") - 3, 6) / 6.0
        return AddressFeatures(terms, _ADDRESS_STRUCT.pack(*words, *url_prefixes(url), depth, "?" in url))

    def _hashed_heading(self, heading: str) -> bytes:
        return _HEADING_STRUCT.pack(
            *hash_first_terms(HEADING_TEXT, self.vocabulary.terms(heading), WORD_SLOTS[HEADING_TEXT])
        )


def _first_terms(texts: LinkTexts) -> NDArray[np.int64]:
    """The first terms of each anchor and context, one row per link, padded with 0. One lookup finds all of them."""
    (anchor, anchor_end), (around, around_end) = texts.anchors.T, texts.arounds.T
    # Start a few terms before the anchor.
    before = np.maximum(around, anchor - WORD_SLOTS[AROUND_TEXT] // 2)
    at_anchor, at_around = anchor[:, None] + _SLOT_RANGES[ANCHOR_TEXT], before[:, None] + _SLOT_RANGES[AROUND_TEXT]
    nowhere = len(texts.page_terms)
    at = np.concatenate(
        (
            np.where(at_anchor < anchor_end[:, None], at_anchor, nowhere),
            np.where(at_around < around_end[:, None], at_around, nowhere),
        ),
        axis=1,
    )
    terms = np.zeros(nowhere + 1, dtype=np.int64)
    terms[:-1] = texts.page_terms
    return terms.take(at)


TEXT_KIND_LABELS = {
    URL_TEXT: "in the URL",
    ANCHOR_TEXT: "in the anchor",
    AROUND_TEXT: "around it",
    HEADING_TEXT: "in the heading above",
}


LinkOpinion = Callable[[Reading, LinkTexts], NDArray[np.float64]]
"""Scores the links of a page from 0 to 1."""


@dataclass(frozen=True, slots=True)
class CommitteeMember:
    """Opinions by the names they have in DENSE_FIELDS, and the learners behind them by the names of their states."""

    opinions: Mapping[str, LinkOpinion]
    learners: Mapping[str, Learns] = field(default_factory=dict)


def no_start_states(_: Settings) -> dict[str, bytes]:
    """For a member that starts without a file."""
    return {}


@dataclass(frozen=True, slots=True)
class MemberKind:
    """A member that another package registers for the committee.

    `start_states` reads the files that the settings name, before the crawl starts; ConfigError where one is invalid.
    """

    build: Callable[[BuildContext], CommitteeMember]
    start_states: Callable[[Settings], dict[str, bytes]] = no_start_states


class CommitteeRanker:
    """Computes the features of links. `tunnel_depth` as in `tunnel_drop_reason`; by default there is no limit.

    `opinions` are further scores by their name in DENSE_FIELDS; a feature without one is 0.
    """

    def __init__(
        self, topic: EvolvingTopic, words: LinkWords, tunnel_depth: int = -1, options: CommitteeOptions | None = None
    ) -> None:
        self.topic = topic
        self.words = words
        self.tunnel_depth = tunnel_depth
        self.options = options or CommitteeOptions()
        self.meanings: LinkMeanings | None = None
        self.opinions: dict[str, LinkOpinion] = {}
        self._learners: dict[str, Learns] = {}

    def add_member(self, member: CommitteeMember) -> None:
        """Add the opinions of a member; ConfigError if one has not the name of a feature."""
        if unknown := set(member.opinions) - set(DENSE_FIELDS):
            raise ConfigError(f"rank.members: unknown feature '{min(unknown)}'; known: {', '.join(DENSE_FIELDS)}")
        self.opinions |= member.opinions
        self._learners |= member.learners

    def learners(self) -> Mapping[str, Learns]:
        """The learners of its members; the committee itself learns in the writing process."""
        return self._learners

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        links = page.links
        addresses = [self.words.address_features(link.url) for link in links]
        texts = LinkTexts(reading, [address.terms for address in addresses])
        url, anchor, around = texts.score(self.topic.compiled, "page")
        parent = np.full(len(links), verdict.score)
        parts = {"url": url, "anchor": anchor, "parent": parent, "around": around}
        dropped = drop_all(refused_links(page), len(links), tunnel_drop_reason(verdict, lead, self.tunnel_depth))
        rows = np.zeros(len(links), dtype=LINK_FEATURES_DTYPE)
        self._fill_link_features(
            rows, reading, texts, np.frombuffer(b"".join([a.row for a in addresses]), dtype=ADDRESS_DTYPE)
        )
        known = parts | {name: member(reading, texts) for name, member in self.opinions.items()}
        if self.meanings:
            rows["meaning"] = self.meanings.vectors(links, texts)
            known["meaning"] = self.meanings.similarities(rows["meaning"])
        for name, column in known.items():
            rows["dense"][:, DENSE_FIELDS.index(name)] = column
        return LinkScores((url + anchor + parent + around) / 4.0, parts, dropped, features=_rows_as_bytes(rows))

    def _fill_link_features(
        self, rows: NDArray[np.void], reading: Reading, texts: LinkTexts, addresses: NDArray[np.void]
    ) -> None:
        """Fill in the features of the link itself."""
        links, dense = reading.page.links, rows["dense"]
        rows["path"] = [hash_text(link.tag_path) for link in links]
        rows["prefixes"] = addresses["prefixes"]
        words = self.words.hash_words(links, texts, addresses)
        rows["words"][:, :-2] = words
        rows["words"][:, -2], rows["words"][:, -1] = hash_to_word(rows["path"]), hash_to_word(rows["prefixes"][:, -1])
        here = reading.page.url.partition("://")[2].partition("/")[0]
        dense[:, DENSE_FIELDS.index("same_host")] = [link.host == here for link in links]
        dense[:, DENSE_FIELDS.index("textless")] = texts.anchors[:, 1] <= texts.anchors[:, 0]
        dense[:, DENSE_FIELDS.index("path_depth")] = addresses["depth"]
        dense[:, DENSE_FIELDS.index("query")] = addresses["query"]

    def word_labels(self, reading: Reading, place: int) -> dict[int, str]:
        """The words of one link as displayed to users, by hashed index."""
        links, book = reading.page.links, self.words.vocabulary
        texts = LinkTexts(reading, [self.words.address_features(link.url).terms for link in links])
        found = self.words.word_terms(links[place], texts, place)
        names = {
            index: f"“{book.surface_of(term) or term}” {TEXT_KIND_LABELS[kind]}"
            for index, (kind, term) in found.items()
        }
        path, directory = hash_text(links[place].tag_path), url_prefixes(links[place].url)[-1]
        for text, index in zip(
            ("its place on the page", "its path"), hash_to_word(np.array([path, directory])), strict=True
        ):
            names.setdefault(int(index), text)
        return names


def _rows_as_bytes(rows: NDArray[np.void]) -> list[bytes]:
    """The bytes of each row."""
    data = rows.tobytes()
    return [data[i : i + LINK_FEATURES_DTYPE.itemsize] for i in range(0, len(data), LINK_FEATURES_DTYPE.itemsize)]


def committee_ranker(
    context: BuildContext,
    *,
    tunnel_depth: TunnelDepth = -1,
    learn: bool = True,
    shrinkage: Annotated[float, Meta(gt=0, le=1e9)] = 2.0,
    credit: Share = 0.4,
    explore: Share = DEFAULT_EXPLORATION,
    siblings: bool = True,
    words: bool = True,
    statistics: bool = True,
    rescore: bool = True,
    without: tuple[str, ...] = (),
    galaxy: bool = False,
    hints: bool = False,
    meaning: bool = True,
    tswt: bool = False,
    trained: str = "",
    members: tuple[str, ...] = (),
    graph: str = "",
    model: str = "",
) -> Ranker:
    # Start files: read once, by the start states of this kind.
    del model, graph
    options = CommitteeOptions(
        learn=learn,
        shrinkage=shrinkage,
        credit=credit,
        explore=explore,
        siblings=siblings,
        words=words,
        statistics=statistics,
        rescore=rescore,
        without=without,
    )
    names = [name for name in FEATURE_NAMES if name not in MEANING_FEATURES]
    if unknown := set(without) - set(names):
        raise ConfigError(f"rank.without: unknown feature '{min(unknown)}'; known: {', '.join(names)}")
    topic, url_terms = context.evolving_topic, context.url_terms.terms_batch
    ranker = CommitteeRanker(topic, LinkWords(context.vocabulary, url_terms), tunnel_depth, options)
    if meaning:
        vectors = load_word_vectors(context.vocabulary)
        ranker.meanings = LinkMeanings(vectors, topic, context.page_words.idf, context.url_terms)
    if context.topic.genres:
        by_genre = TopicGenreRanker(topic, url_terms, context.genres)
        ranker.add_member(CommitteeMember({"genre": by_genre.genre_member_scores}))
    wanted = {"trained": trained, "galaxy": galaxy, "hints": hints, "tswt": tswt}
    for name in (*(name for name, value in wanted.items() if value), *members):
        kind: MemberKind = load_plugin(COMMITTEE_MEMBERS, name, "rank.members")
        ranker.add_member(kind.build(context))
    return ranker
