"""Construction from targets up and from portals down (S2-27 to S2-30): the paper's 50 nodes of 28 URLs."""

from collections import Counter

from opilio.core.page import Reading
from opilio.methods.treasure.build import GraphLimits, bottom_up, build_graph, top_down
from opilio.methods.treasure.graph import TGraph, decode_graph, encode_graph
from opilio.testing.readings import reading_of

# Table 1 (S2-29): 28 URLs with their number of nodes; the levels of those behind the targets are ours.
TABLE = """
0 Language 1 | 0 Grammar 1 | 0 ref/language 1 | 0 ref/grammar 1
1 Linguistics 2 | 1 Translation 1 | 1 Natural_language 2 | 1 Sentence_linguistics 2 | 1 Word 2 | 1 Poetry 2
1 ref/linguistics 1 | 1 ref/speech 1
2 Syntax 2 | 2 Drama 2 | 2 Literature 2 | 2 Writing 2 | 2 Etymology 2 | 2 Philosophyoflanguage 2
2 ref/anthropology 1 | 2 ref/mouth 1
3 Communication 4 | 3 Sign_language 4 | 3 The_arts 2 | 3 Programming_langua 3 | 3 Anthropology 2 | 3 Genre 2
3 ref/ethnology 1 | 3 ref/dentistry 1
"""
ROWS = [row.split() for line in TABLE.lower().strip().splitlines() for row in line.split("|")]
LEVELS = {name: int(level) for level, name, _ in ROWS}
COUNTS = {name: int(count) for _, name, count in ROWS}
TARGETS = [name for name, level in LEVELS.items() if level == 0]


def url(name: str) -> str:
    return f"http://en.example/{name}"  # reading_of writes small letters


def out_links() -> dict[str, list[str]]:
    """Each page links to as many pages of the level below as it owns nodes; also up, across and out: dropped."""
    links = {}
    for name, level in LEVELS.items():
        below = [n for n, at in LEVELS.items() if at == level - 1]
        start = list(COUNTS).index(name)
        picked = [below[(start + i) % len(below)] for i in range(COUNTS[name])] if below else []
        across = [n for n, at in LEVELS.items() if at >= level and n != name][:2]
        links[name] = [*picked, *across, "elsewhere"]
    return links


LINKS = out_links()
PARENTS = {name: [parent for parent, links in LINKS.items() if name in links] for name in LEVELS}


def read(address: str) -> Reading | None:
    name = address.removeprefix("http://en.example/")
    if name not in LINKS:
        return None
    lines = [f"some words on {link} [{link}]({url(link)})" for link in LINKS[name]]
    return reading_of("\n".join(lines), title=name, url=address)


def words(terms: object) -> str:
    return " ".join(f"w{term}" for term in terms)  # type: ignore[attr-defined]


def built(bounds: GraphLimits | None = None) -> TGraph:
    bounds = bounds or GraphLimits(parents_per_page=0)
    layers = bottom_up(
        [url(t) for t in TARGETS], lambda u: [url(p) for p in PARENTS[u.removeprefix("http://en.example/")]], bounds
    )
    return build_graph(layers, read, words, bounds)


def test_fifty_nodes_come_from_28_urls_s2_29() -> None:
    graph = built()
    owned = Counter(node.url.removeprefix("http://en.example/") for node in graph.nodes.values())
    assert (len(graph), len(owned)) == (50, 28)
    assert owned == COUNTS
    assert graph.depth == 3


def test_edges_only_lead_down_and_the_file_is_valid_s2_30() -> None:
    graph = built()
    assert all(graph.nodes[a].level == graph.nodes[b].level + 1 for a, b in graph.edges)
    assert graph.distances == {node.id: node.level for node in graph.nodes.values()}
    assert decode_graph(encode_graph(graph), "x").nodes == graph.nodes


def test_node_holds_the_link_and_where_it_leads_s2_e1() -> None:
    node = next(n for n in built().nodes.values() if n.url == url("ref/speech"))
    assert node.mh == "ref/speech"
    assert node.dic.url in {url(t) for t in TARGETS}
    assert len(node.dc.split()) > 3


def test_bounds_are_kept() -> None:
    graph = built(GraphLimits(depth=2, parents_per_page=2, per_level=5, links_per_page=1))
    owned = Counter((node.level, node.url) for node in graph.nodes.values() if node.level)
    assert graph.depth == 2
    assert max(owned.values()) == 1
    assert max(Counter(level for level, _ in owned).values()) <= 5


def test_pages_that_cannot_be_read_are_left_out() -> None:
    layers = bottom_up(
        [url(t) for t in TARGETS], lambda u: [url("nowhere")] if u == url("grammar") else [], GraphLimits()
    )
    graph = build_graph(layers, read, words, GraphLimits())
    assert {node.url for node in graph.nodes.values()} == {url(t) for t in TARGETS}


def test_documents_are_kept_with_their_layer_where_asked_s2_46() -> None:
    bounds = GraphLimits()
    graph = build_graph({url("grammar"): 0}, read, words, bounds, counted=lambda reading: {"word": len(reading.terms)})
    assert [(d.url, d.level) for d in graph.documents] == [(url("grammar"), 0)]


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
