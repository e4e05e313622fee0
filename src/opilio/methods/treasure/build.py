"""Builds a T-Graph from pages in layers: one node per link that leads one layer down (S2-29, S2-E1). Pure.

The layers are found by back-links from the targets up, or from portals down (S2-27).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from opilio.core.page import Link, Reading
from opilio.methods.treasure.graph import GraphDocument, GraphNode, LinkDestination, TGraph, window_of_link

LinksOf = Callable[[str], Iterable[str]]
PageWorth = Callable[[str], float]  # how near a page is to the topic, 0..1
Layers = dict[str, int]


class GraphLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a graph may grow (S2-37: depth 3). `parents`: back-links followed of one page; 0: no bound."""

    depth: int = 3
    parents_per_page: int = 10
    per_level: int = 300  # pages
    links_per_page: int = 4  # nodes that a page may own (S2-29: at most 4)


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


TermsToWords = Callable[[Sequence[int]], str]  # terms to words that have the same terms
ReadPageByUrl = Callable[[str], Reading | None]
CountWords = Callable[[Reading], dict[str, int]]
Classify = Callable[[Reading], tuple[str, ...]]  # the D-numbers of a page, best first
TARGET_LEAD_TERMS = 60  # terms of a page's beginning that describe a target


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
    owned: dict[str, tuple[str, ...]] = {}  # node ids of each page
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
