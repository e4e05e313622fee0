"""Builds a T-Graph from pages in layers, one node per link that leads one layer nearer; reads and stores T-Graphs.

The layers are found by back-links from the targets up, or from portals down (S2-27).

Pages are read as a crawl with the same settings would read them; the caller finds the pages and their back-links.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from opilio.core.errors import ConfigError, UsageError
from opilio.core.protocols import RANK_STATE
from opilio.core.records import Link, Page, Reading
from opilio.core.settings import Settings
from opilio.methods.dewey.detect import LexiconMatcher, main_galaxy
from opilio.methods.dewey.judge import load_lexicon
from opilio.methods.treasure.context_graph import HINTS_STATE
from opilio.methods.treasure.graph import (
    GraphDocument,
    GraphNode,
    LinkDestination,
    TGraph,
    decode_graph,
    window_of_link,
)
from opilio.methods.treasure.updater import GraphState
from opilio.store.collection import open_readonly
from opilio.store.learner_states import latest_snapshot
from opilio.text.vocabulary import Vocabulary
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, build_reader, build_vocabulary

LinksOf = Callable[[str], Iterable[str]]
PageWorth = Callable[[str], float]  # how near a page is to the topic, 0..1
Layers = dict[str, int]


class GraphLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a graph may grow (S2-37: depth 3). `parents`: back-links followed of one page; 0: no bound."""

    depth: int = 3
    parents_per_page: int = 10
    per_level: int = 300  # pages
    # Nodes that a page may own (S2-29: at most 4).
    links_per_page: int = 4


def _equal_worth(_: str) -> float:
    return 1.0


def bottom_up(
    targets: Sequence[str], parents_of: LinksOf, bounds: GraphLimits, worth: PageWorth = _equal_worth
) -> Layers:
    """The targets at 0, their parents at 1, and so on; a page stays in the layer nearest to a target.

    Parents that link to most pages of the layer below and are nearest to the topic come first: hubs lead to more than
    one target, and an unrelated page that mentions a target says little about paths to it.
    """
    layers: Layers = dict.fromkeys(targets, 0)
    for level in range(bounds.depth):
        below = [url for url, at in layers.items() if at == level]
        found = {url: [p for p in dict.fromkeys(parents_of(url)) if p not in layers] for url in below}
        for url in _limit_level(found.values(), bounds, worth):
            layers[url] = level + 1
    return layers


def top_down(
    portals: Sequence[str],
    targets: Sequence[str],
    links_of: LinksOf,
    bounds: GraphLimits,
    worth: PageWorth = _equal_worth,
) -> Layers:
    """Walk from the portals forward; of the pages found, those with a path to a target, by their distance from it."""
    met: dict[str, list[str]] = {}
    front = list(dict.fromkeys(portals))
    for _ in range(bounds.depth):
        met.update({url: list(dict.fromkeys(links_of(url))) for url in front})
        front = list(dict.fromkeys(link for url in front for link in met[url] if link not in met))
    parents: dict[str, list[str]] = {}
    for url, links in met.items():
        for link in links:
            parents.setdefault(link, []).append(url)
    reached = [url for url in targets if url in parents or url in met]
    return bottom_up(reached, lambda url: parents.get(url, ()), bounds, worth)


def _limit_level(found: Iterable[Sequence[str]], bounds: GraphLimits, worth: PageWorth) -> list[str]:
    lists = list(found)
    shared = Counter(parent for parents in lists for parent in parents)
    value = {url: count * worth(url) for url, count in shared.items()} if _exceeds_limits(lists, bounds) else {}

    def order(url: str) -> tuple[float, str]:
        return -value.get(url, 0.0), url

    kept = {p for parents in lists for p in sorted(parents, key=order)[: bounds.parents_per_page or None]}
    return sorted(kept, key=order)[: bounds.per_level or None]


def _exceeds_limits(lists: Sequence[Sequence[str]], bounds: GraphLimits) -> bool:
    """Must anything be left out? Reading every parent is the expensive part."""
    most, all_of_them = max(map(len, lists), default=0), len({p for parents in lists for p in parents})
    return 0 < bounds.parents_per_page < most or 0 < bounds.per_level < all_of_them


# Terms to words that have the same terms.
TermsToWords = Callable[[Sequence[int]], str]
ReadPageByUrl = Callable[[str], Reading | None]
CountWords = Callable[[Reading], dict[str, int]]
Classify = Callable[[Reading], tuple[str, ...]]  # the D-numbers of a page, best first
# Terms of a page's beginning that describe a target.
TARGET_LEAD_TERMS = 60


def build_graph(
    layers: Layers,
    read: ReadPageByUrl,
    words: TermsToWords,
    bounds: GraphLimits,
    counted: CountWords | None = None,
    classify: Classify | None = None,
) -> TGraph:
    """A graph of all pages that can be read; levels from the targets up, so that every node leads to known ones.

    `counted` gives the distinctive words of a page: with it the graph has the documents of each layer (S2-46).
    `classify` gives the D-numbers of a page: with it each node has those of its destination (S2-E1).
    """
    nodes: list[GraphNode] = []
    documents: list[GraphDocument] = []
    # Node ids of each page.
    owned: dict[str, tuple[str, ...]] = {}
    classes: dict[str, tuple[str, ...]] = {}
    for url, level in sorted(layers.items(), key=lambda item: item[1]):
        reading = read(url)
        if reading is None:
            continue
        classes[url] = classify(reading) if classify is not None else ()
        below = _LowerLayers(layers, owned, words, bounds, len(nodes))
        made = [_with_classes(node, classes) for node in _page_nodes(reading, url, level, below)]
        if made:
            owned[url] = tuple(node.id for node in made)
            nodes += made
            if counted is not None:
                documents.append(GraphDocument(url=url, level=level, words=counted(reading)))
    return TGraph(nodes, documents)


def _with_classes(node: GraphNode, classes: Mapping[str, tuple[str, ...]]) -> GraphNode:
    found = classes.get(node.dic.url or node.url, ())
    return replace(node, dic=replace(node.dic, classes=found)) if found else node


class _LowerLayers:
    """The layers nearer to the targets while a layer is built."""

    def __init__(
        self, layers: Layers, owned: Mapping[str, tuple[str, ...]], words: TermsToWords, bounds: GraphLimits, count: int
    ) -> None:
        self.layers = layers
        self.node_ids = owned
        self.words = words
        self.bounds = bounds
        self.count = count

    def node_id(self, level: int, number: int) -> str:
        return f"{level}-{self.count + number + 1}"


def _page_nodes(reading: Reading, url: str, level: int, below: _LowerLayers) -> Iterator[GraphNode]:
    if level == 0:
        yield target_node(reading, below.node_id(0, 0), below.words, url)
        return
    page = reading.page
    for number, link in enumerate(_links_down(reading, level, below)):
        start, end = window_of_link(reading, link)
        ish, sh, mh = link.headings
        yield GraphNode(
            id=below.node_id(level, number),
            url=url,
            level=level,
            ish=ish,
            sh=sh,
            mh=mh or page.title,
            dc=below.words(reading.terms[start:end]),
            anchor=below.words(reading.terms[slice(*reading.anchors[link.index])]) if end > start else "",
            dic=LinkDestination(leads_to=below.node_ids[link.url], url=link.url),
        )


def target_node(reading: Reading, name: str, words: TermsToWords, url: str = "") -> GraphNode:
    """A node of level 0, filled from the page itself: its headings, and its beginning."""
    page = reading.page
    main = page.main_heading
    section, *more = [text for _, text in page.headings if text != main] or [""]
    begin = [term for start, end in reading.main_slices for term in reading.terms[start:end]][:TARGET_LEAD_TERMS]
    return GraphNode(
        id=name, url=url or page.url, level=0, ish=more[0] if more else "", sh=section, mh=main, dc=words(begin)
    )


def _links_down(reading: Reading, level: int, below: _LowerLayers) -> list[Link]:
    """The links that lead one layer down, each page once: from the main text rather than from navigation."""
    main = reading.main_slices
    best: dict[str, tuple[bool, Link]] = {}
    for link in reading.page.links:
        if below.layers.get(link.url) != level - 1 or link.url not in below.node_ids:
            continue
        at = reading.anchors[link.index][0] if 0 <= link.index < len(reading.anchors) else -1
        in_main = any(start <= at < end for start, end in main)
        if link.url not in best or (in_main and not best[link.url][0]):
            best[link.url] = in_main, link
    ordered = sorted(best.values(), key=lambda found: not found[0])
    return [link for _, link in ordered][: below.bounds.links_per_page or None]


# Distinctive words of a page that a graph keeps; the context graph (S2-46) uses forty of them.
MAX_DOCUMENT_WORDS = 100
ReadPage = Callable[[Page], Reading]
ReaderFactory = Callable[[Settings, Vocabulary], ReadPage]
# Terms by which a page is compared with the targets.
MAX_DISTINCTIVE_TERMS = 100
MAX_NODE_CLASSES = 3


def read_graph(path: Path, option: str = "") -> TGraph:
    """The T-Graph in a file; ConfigError in one line where it can't be used."""
    source = f"{option} {path}".strip()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{source}: can't be read: {error.strerror}; 'opilio lab tgraph build' makes one") from error
    return decode_graph(data, source)


def graph_state_name(settings: Settings) -> str:
    """The state that holds the T-Graph: of the ranker, of the committee's members, or none."""
    kind = settings.rank.get("kind")
    if kind in ("tgraph", "context-graph"):
        return RANK_STATE
    return HINTS_STATE if kind == "committee" and settings.rank.get("hints") else ""


def encode_graph_state(graph: TGraph) -> bytes:
    """A graph as the state that rankers begin from."""
    return msgspec.msgpack.encode(GraphState(nodes=list(graph.nodes.values()), documents=list(graph.documents)))


def load_collection_graph(folder: Path) -> tuple[TGraph, int]:
    """The graph of a collection as its updater left it, with its version."""
    with open_readonly(folder) as collection:
        snapshot = latest_snapshot(collection.connection, RANK_STATE)
    try:
        state = msgspec.msgpack.decode(snapshot.state, type=GraphState) if snapshot else None
    except msgspec.DecodeError:
        state = None
    if snapshot is None or state is None:
        raise UsageError(f"{folder}: contains no T-Graph; crawl with '--strategy s2-treasure' to make one")
    return TGraph(state.nodes, state.documents), snapshot.version


class GraphBuilder:
    """Reads pages and builds graphs from them, with the vocabulary of one language."""

    def __init__(self, read: ReadPage, matcher: LexiconMatcher, page_of: Callable[[str], Page | None]) -> None:
        vocabulary = matcher.vocabulary
        self._read = read
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._page_of = page_of
        self._words = PageTerms(vocabulary.terms, CachedIdf(background_frequencies().__getitem__), weights="tfidf")

    def read(self, url: str) -> Reading | None:
        """A page as a crawl would read it."""
        page = self._page_of(url)
        return None if page is None else self._read(page)

    def build(self, layers: Layers, bounds: GraphLimits) -> TGraph:
        """The graph of pages in layers."""
        return build_graph(layers, self.read, self.words, bounds, self._distinctive_words, self._classes)

    def similarity_to(self, targets: Sequence[str]) -> Callable[[str], float]:
        """How similar a page is to the targets: cosine of its tf·idf with their sum."""
        together: Counter[int] = Counter()
        for url in targets:
            together.update(self._weights(url))

        @cache
        def near(url: str) -> float:
            mine = self._weights(url)
            lengths = sqrt(sum(w * w for w in mine.values()) * sum(w * w for w in together.values()))
            return sum(w * together[term] for term, w in mine.items()) / lengths if lengths else 0.0

        return near

    def _weights(self, url: str) -> dict[int, float]:
        """The most distinctive terms of a page as a unit vector."""
        page = self.read(url)
        if page is None:
            return {}
        terms, weights = self._words.weighted_terms(page)
        best = np.argsort(-weights, kind="stable")[:MAX_DISTINCTIVE_TERMS]
        length = float(np.sqrt((weights[best] ** 2).sum())) or 1.0
        return dict(zip(terms[best].tolist(), (weights[best] / length).tolist(), strict=True))

    def terms(self, text: str) -> Sequence[int]:
        """The terms of a text."""
        return self._vocabulary.terms(text)

    def words(self, terms: Sequence[int]) -> str:
        """Terms as words that give the same terms again."""
        return self._vocabulary.text_of(terms)

    def _classes(self, page: Reading) -> tuple[str, ...]:
        return tuple(cell.code for cell in main_galaxy(page, self._matcher).ranked[:MAX_NODE_CLASSES])

    def _distinctive_words(self, page: Reading) -> dict[str, int]:
        """The most distinctive words of a page with their counts: highest tf·idf first."""
        terms, counts = self._words.counts(page)
        best = np.argsort(-counts * self._words.idf(terms), kind="stable")[:MAX_DOCUMENT_WORDS]
        named = [(self._vocabulary.surface_of(int(terms[i])), int(counts[i])) for i in best]
        return {word: count for word, count in named if word}


def build_graph_builder(
    settings: Settings, page_of: Callable[[str], Page | None], reads: ReaderFactory | None = None
) -> GraphBuilder:
    """A builder that reads pages as a crawl with these settings would; `reads` replaces the page reader."""
    vocabulary = build_vocabulary(settings)
    read = reads(settings, vocabulary) if reads else build_reader(settings, vocabulary).read
    return GraphBuilder(read, LexiconMatcher(load_lexicon(settings), vocabulary, background_frequencies()), page_of)
