"""From pages in layers to a T-Graph: one node per link that leads one layer down (S2-29, S2-E1). Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from opilio.model.records import Link, Reading
from opilio.tgraph.components import window_of_link
from opilio.tgraph.graph import TGraph
from opilio.tgraph.layers import Bounds, Layers
from opilio.tgraph.node import Destination, Document, Node

Words = Callable[[Sequence[int]], str]  # terms to words that have the same terms
Read = Callable[[str], Reading | None]
Counted = Callable[[Reading], dict[str, int]]
LEAD = 60  # terms of a page's beginning that describe a target


def build(layers: Layers, read: Read, words: Words, bounds: Bounds, counted: Counted | None = None) -> TGraph:
    """A graph of all pages that can be read; levels from the targets up, so that every node leads to known ones.

    `counted` gives the telling words of a page: with it the graph carries the documents of each layer (S2-46).
    """
    nodes: list[Node] = []
    documents: list[Document] = []
    owned: dict[str, tuple[str, ...]] = {}  # node ids of each page
    for url, level in sorted(layers.items(), key=lambda item: item[1]):
        reading = read(url)
        if reading is None:
            continue
        made = list(_nodes(reading, url, level, _Below(layers, owned, words, bounds, len(nodes))))
        if made:
            owned[url] = tuple(node.id for node in made)
            nodes += made
            if counted is not None:
                documents.append(Document(url=url, level=level, words=counted(reading)))
    return TGraph(nodes, documents)


class _Below:
    """What is known of the layers nearer to the targets while a layer is made."""

    def __init__(
        self, layers: Layers, owned: Mapping[str, tuple[str, ...]], words: Words, bounds: Bounds, count: int
    ) -> None:
        self.layers = layers
        self.owned = owned
        self.words = words
        self.bounds = bounds
        self.count = count

    def id(self, level: int, number: int) -> str:
        return f"{level}-{self.count + number + 1}"


def _nodes(reading: Reading, url: str, level: int, below: _Below) -> Iterator[Node]:
    if level == 0:
        yield target_node(reading, below.id(0, 0), below.words, url)
        return
    page = reading.page
    for number, link in enumerate(_leading(reading, level, below)):
        start, end = window_of_link(reading, link)
        ish, sh, mh = link.headings
        yield Node(
            id=below.id(level, number),
            url=url,
            level=level,
            ish=ish,
            sh=sh,
            mh=mh or page.title,
            dc=below.words(reading.terms[start:end]),
            dic=Destination(leads_to=below.owned[link.url], url=link.url),
        )


def target_node(reading: Reading, name: str, words: Words, url: str = "") -> Node:
    """Level 0 is filled from the page itself: its headings, and how it begins."""
    page = reading.page
    main = page.main_heading
    section, *more = [text for _, text in page.headings if text != main] or [""]
    begin = [term for start, end in reading.main for term in reading.terms[start:end]][:LEAD]
    return Node(
        id=name, url=url or page.url, level=0, ish=more[0] if more else "", sh=section, mh=main, dc=words(begin)
    )


def _leading(reading: Reading, level: int, below: _Below) -> list[Link]:
    """The links that lead one layer down, each page once: from the main text rather than from navigation."""
    main = reading.main
    best: dict[str, tuple[bool, Link]] = {}
    for link in reading.page.links:
        if below.layers.get(link.url) != level - 1 or link.url not in below.owned:
            continue
        at = reading.anchors[link.index][0] if 0 <= link.index < len(reading.anchors) else -1
        in_main = any(start <= at < end for start, end in main)
        if link.url not in best or (in_main and not best[link.url][0]):
            best[link.url] = in_main, link
    ordered = sorted(best.values(), key=lambda found: not found[0])
    return [link for _, link in ordered][: below.bounds.per_page or None]
