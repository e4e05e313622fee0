"""Construction from targets up and from portals down (S2-27 to S2-30): the paper's Table 1, 50 nodes of 28 URLs.

The pages of 2011 are lost: those here link as the table counts. Everything else is real: addresses as printed, HTML,
parser, reader, layers by back-links and pruning.
"""

from collections import Counter
from functools import cache

from opilio.core.records import FetchResult, Reading
from opilio.core.urls import canonicalize_url
from opilio.methods.dewey.detect import LexiconMatcher, builtin_lexicon, main_galaxy
from opilio.methods.treasure.build import GraphLimits, bottom_up, build_graph, top_down
from opilio.methods.treasure.graph import TGraph, decode_graph, encode_graph
from opilio.parse.html import HtmlParser
from opilio.text.reading import PageReader, ParagraphContext
from opilio.text.vocabulary import Vocabulary

# Table 1 as printed (S2-29, S2-E13), with the number of nodes; the levels of those behind the targets are ours.
TABLE = """
0 en.wikipedia.org/wiki/Language 1
0 en.wikipedia.org/wiki/Grammar 1
0 www.reference.com/browse/language 1
0 www.reference.com/browse/grammar 1
1 en.wikipedia.org/wiki/Linguistics 2
1 en.wikipedia.org/wiki/Translation 1
1 en.wikipedia.org/wiki/Natural_language 2
1 en.wikipedia.org/wiki/Sentence_(linguistics) 2
1 en.wikipedia.org/wiki/Word 2
1 en.wikipedia.org/wiki/Poetry 2
1 www.reference.com/browse/linguistics 1
1 www.reference.com/browse/speech 1
2 en.wikipedia.org/wiki/Syntax 2
2 en.wikipedia.org/wiki/Drama 2
2 en.wikipedia.org/wiki/Literature 2
2 en.wikipedia.org/wiki/Writing 2
2 en.wikipedia.org/wiki/Etymology 2
2 en.wikipedia.org/wiki/Philosophyoflanguage 2
2 www.reference.com/browse/anthropology 1
2 www.reference.com/browse/mouth 1
3 en.wikipedia.org/wiki/Communication 4
3 en.wikipedia.org/wiki/Sign_language 4
3 en.wikipedia.org/wiki/The_arts 2
3 en.wikipedia.org/wiki/Programming_langua 3
3 en.wikipedia.org/wiki/Anthropology 2
3 en.wikipedia.org/wiki/Genre 2
3 www.reference.com/browse/ethnology 1
3 www.reference.com/browse/dentistry 1
"""
PRINTED_TARGETS = [
    "http://en.wikipedia.org/wiki/Language",
    "http://en.wikipedia.org/wiki/Grammar",
    "http://www.reference.com/browse/language",
    "http://www.reference.com/browse/grammar",
]
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def url(printed: str) -> str:
    found = canonicalize_url(f"http://{printed}")
    assert found is not None
    return found


LEVELS = {url(printed): int(level) for level, printed, _ in ROWS}
COUNTS = {url(printed): int(count) for _, printed, count in ROWS}
TARGETS = [address for address, level in LEVELS.items() if level == 0]
ELSEWHERE = "http://elsewhere.example/"
VOCABULARY = Vocabulary(normalizer="porter")


def out_links() -> dict[str, list[str]]:
    """Each page links one level down as often as it has nodes, and up, across and out, which makes no node.

    The two pages with four nodes link to all eight pages below: four edges each are discarded (S2-30).
    """
    links = {}
    for number, (page, level) in enumerate(LEVELS.items()):
        below = [other for other, at in LEVELS.items() if at == level - 1]
        wanted = len(below) if COUNTS[page] == 4 else COUNTS[page]
        picked = [below[(number + i) % len(below)] for i in range(wanted)] if below else []
        across = [other for other, at in LEVELS.items() if at >= level and other != page][:2]
        links[page] = [*across, *picked, ELSEWHERE]
    return links


LINKS = out_links()
PARENTS = {page: [parent for parent, links in LINKS.items() if page in links] for page in LEVELS}


def title_of(address: str) -> str:
    return address.rpartition("/")[2].replace("_", " ")


@cache
def read(address: str) -> Reading | None:
    if address not in LINKS:
        return None
    items = "".join(f"<li>some words on <a href='{link}'>{title_of(link)}</a>" for link in LINKS[address])
    menu = "".join(f"<a href='{link}'>menu</a> " for link in LINKS[address])
    body = f"<title>{title_of(address)}</title><nav>{menu}</nav><h1>{title_of(address)}</h1><p>Of it.<ul>{items}</ul>"
    page = HtmlParser(lists=True).parse(FetchResult(url=address, status=200, body=body.encode()))
    return PageReader(VOCABULARY, ParagraphContext()).read(page)


def built(bounds: GraphLimits | None = None) -> TGraph:
    bounds = bounds or GraphLimits(parents_per_page=0)
    layers = bottom_up(TARGETS, lambda page: PARENTS.get(page, ()), bounds)
    matcher = LexiconMatcher(builtin_lexicon(), VOCABULARY)

    def classify(page: Reading) -> tuple[str, ...]:
        return tuple(cell.code for cell in main_galaxy(page, matcher).ranked[:1])

    return build_graph(layers, read, VOCABULARY.text_of, bounds, classify=classify)


def test_fifty_nodes_come_from_the_28_urls_of_table_1_s2_28_s2_29() -> None:
    graph = built()
    assert (len(ROWS), sum(COUNTS.values())) == (28, 50)
    assert Counter(node.url for node in graph.nodes.values()) == COUNTS
    assert {node.url: node.level for node in graph.nodes.values()} == LEVELS
    assert [node.url for node in graph.at_level(0)] == PRINTED_TARGETS
    assert Counter(node.level for node in graph.nodes.values()) == {0: 4, 1: 13, 2: 14, 3: 19}


def test_edges_only_lead_down_and_the_file_is_valid_s2_30() -> None:
    graph = built()
    assert all(graph.nodes[a].level == graph.nodes[b].level + 1 for a, b in graph.edges)
    assert graph.distances == {node.id: node.level for node in graph.nodes.values()}
    assert decode_graph(encode_graph(graph), "x").nodes == graph.nodes


def test_node_holds_the_link_and_where_it_leads_s2_e1() -> None:
    graph = built()
    node = next(n for n in graph.nodes.values() if n.url.endswith("browse/speech"))
    assert node.mh == "speech"
    assert node.dic.url in TARGETS
    # The whole list, not the menu.
    assert "grammar" in node.dc and "translation" in node.dc and "menu" not in node.dc
    assert node.anchor and node.anchor in node.dc
    assert graph.nodes[node.dic.leads_to[0]].dic.classes[0].startswith("4")
    assert node.dic.classes == graph.nodes[node.dic.leads_to[0]].dic.classes


def test_bounds_are_kept() -> None:
    graph = built(GraphLimits(depth=2, parents_per_page=2, per_level=5, links_per_page=1))
    owned = Counter((node.level, node.url) for node in graph.nodes.values() if node.level)
    assert graph.depth == 2
    assert max(owned.values()) == 1
    assert max(Counter(level for level, _ in owned).values()) <= 5


def test_pages_that_cannot_be_read_are_left_out() -> None:
    layers = bottom_up(TARGETS, lambda u: [ELSEWHERE] if u == TARGETS[1] else [], GraphLimits())
    graph = build_graph(layers, read, VOCABULARY.text_of, GraphLimits())
    assert {node.url for node in graph.nodes.values()} == set(TARGETS)


def test_documents_are_kept_with_their_layer_where_asked_s2_46() -> None:
    bounds, target = GraphLimits(), TARGETS[1]
    graph = build_graph({target: 0}, read, VOCABULARY.text_of, bounds, lambda reading: {"word": len(reading.terms)})
    assert [(d.url, d.level) for d in graph.documents] == [(target, 0)]


def test_top_down_keeps_ways_that_end_in_a_target_s2_27() -> None:
    web = {"portal": ["a", "b", "x"], "a": ["t"], "b": ["c"], "c": ["t"], "x": ["y"], "t": ["portal"]}
    layers = top_down(["portal"], ["t"], lambda u: web.get(u, []), GraphLimits())
    assert layers == {"t": 0, "a": 1, "c": 1, "portal": 2, "b": 2}
    near = top_down(["portal"], ["t"], lambda u: web.get(u, []), GraphLimits(depth=2))
    assert near == {"t": 0, "a": 1, "portal": 2}  # c lies beyond two steps


def test_targets_out_of_reach_leave_nothing() -> None:
    assert top_down(["portal"], ["t"], lambda _: [], GraphLimits()) == {}


def test_hubs_come_first_where_parents_are_bounded() -> None:
    parents = {"t1": ["a", "hub"], "t2": ["b", "hub"], "t3": ["c", "hub"]}
    layers = bottom_up(list(parents), lambda u: parents.get(u, ()), GraphLimits(depth=1, parents_per_page=1))
    assert layers == {"t1": 0, "t2": 0, "t3": 0, "hub": 1}
