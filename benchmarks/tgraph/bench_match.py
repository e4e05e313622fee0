"""How long the links of one page take against all nodes of a T-Graph, on one core, beside one pair at a time.

Words are drawn by a Zipf law, so that some stand in most nodes: real T-Graphs of one topic are like that.
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import random
import time
from collections import Counter
from collections.abc import Callable
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np

from opilio.core.settings import Settings
from opilio.lab.experiments.preparation import build_tgraph, resolve_targets
from opilio.lab.webs.pages import ParsedPages, WebLinks
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.methods.treasure.build import GraphLimits, build_graph_builder
from opilio.methods.treasure.graph import GraphNode, LinkDestination, LinkParts, TGraph, link_parts
from opilio.methods.treasure.matching import MatchingOptions, NodeIndex, match_links
from opilio.text.vocabulary import Vocabulary

SIZES = (3, 3, 3, 40)  # terms of ISH, SH, MH, DC
VOCABULARY = 8_000


def made(nodes: int, links: int, rng: random.Random) -> tuple[NodeIndex, LinkParts, dict[str, list[int]]]:
    words = [rng.getrandbits(32) for _ in range(VOCABULARY)]
    weights = [1 / (rank + 5) for rank in range(VOCABULARY)]
    texts: dict[str, list[int]] = {}

    def said(size: int) -> str:
        name = f"t{len(texts)}"
        texts[name] = rng.choices(words, weights, k=size)
        return name

    made_nodes = []
    nearer = {1: 0, 2: 21, 3: 22}  # a node of the level below
    for number in range(nodes):
        level = 0 if number < 20 else 1 + number % 3
        ish, sh, mh, dc = map(said, SIZES)
        dic = LinkDestination(leads_to=(f"n{nearer[level]}",) if level else ())
        made_nodes.append(GraphNode(id=f"n{number}", url="", level=level, ish=ish, sh=sh, mh=mh, dc=dc, dic=dic))
    heads: list[tuple[Sequence[int], Sequence[int], Sequence[int]]] = [
        (texts[said(3)], texts[said(3)], texts[said(3)]) for _ in range(8)
    ]
    windows: list[Sequence[int]] = [texts[said(40)] for _ in range(links)]
    places = np.arange(links)
    return NodeIndex(TGraph(made_nodes), texts.__getitem__), LinkParts(heads, windows, places % 8, places), texts


def pair_by_pair(index: NodeIndex, links: LinkParts, texts: dict[str, list[int]], pairs: int) -> None:
    """The plain way, for some pairs only."""
    for number in range(pairs):
        node = index.nodes[number % len(index)]
        for mine, name in zip(links.of(number % len(links.head_of)), node.parts, strict=True):
            a, b = Counter(mine), Counter(texts[name])
            sum(v * b[w] for w, v in a.items()) / sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))


def cpu_ms(run: Callable[[], object], times: int) -> float:
    """The best of forty short lots: a shared machine only ever adds."""
    run()
    lots = []
    for _ in range(40):
        began = time.process_time()
        for _ in range(times):
            run()
        lots.append((time.process_time() - began) / times * 1000)
    return min(lots)


def _seeds(folder: Path) -> list[str]:
    """On-topic pages of the web's first topics, where no targets are named."""
    topics, _ = load_topics(folder)
    sets = [seeds for topic in topics[:3] for seeds in topic.seed_sets if seeds.name.startswith("on-topic")]
    return [url for seeds in sets for url in seeds.urls]


def real(folder: Path, targets: list[str], nodes: int, most: int) -> None:
    """The same on a T-Graph of a real web, over two hundred of its pages, each with its first links."""
    web = WarcWeb.open(folder)
    links = WebLinks(web, ParsedPages.open(web))
    targets, _ = resolve_targets(targets or _seeds(folder), links)
    settings = Settings()
    settings.topic.around = "paragraph"
    maker = build_graph_builder(settings, links.page)
    graph = build_tgraph(
        links, maker, targets, GraphLimits(parents_per_page=40, per_level=nodes // 2, links_per_page=6)
    )
    kept = TGraph(sorted(graph.nodes.values(), key=lambda n: n.level)[:nodes])
    terms_of = Vocabulary().terms
    index = NodeIndex(kept, terms_of)
    pages = []
    for url in web.urls[:: max(1, len(web) // 200)]:
        reading = maker.read(url)
        if reading is not None and len(reading.page.links) >= most:
            page = msgspec.structs.replace(reading.page, links=reading.page.links[:most])
            pages.append(link_parts(msgspec.structs.replace(reading, page=page), terms_of))
    print(f"{len(index)} nodes, {len(pages)} pages of {most} links")
    for rule in ("least", "all", "soft"):
        how = MatchingOptions(rule=rule)
        ms = sum(cpu_ms(partial(match_links, index, page, how), 1) for page in pages) / len(pages)
        print(f"{rule:6} {ms:8.2f} ms a page")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--links", type=int, default=50)
    parser.add_argument("--web", type=Path, help="a real web instead: its links and pages")
    parser.add_argument("--target", action="append", default=[], help="with --web: a page to build the graph from")
    options = parser.parse_args()
    if options.web:
        real(options.web, options.target, options.nodes, options.links)
        return
    index, links, texts = made(options.nodes, options.links, random.Random(1))
    for rule in ("least", "all", "soft"):
        how = MatchingOptions(rule=rule)
        print(f"{rule:6} {cpu_ms(partial(match_links, index, links, how), 10):8.2f} ms a page")
    plain = cpu_ms(lambda: pair_by_pair(index, links, texts, 500), 1) / 500 * options.nodes * options.links
    print(f"plain  {plain:8.2f} ms a page, one pair at a time (from 500 pairs)")


if __name__ == "__main__":
    main()
