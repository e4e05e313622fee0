"""The back-links of an offline web or a collection: who links to a page, and T-Graphs built from that (S2-27).

On the live web a search service would be asked; here the link graph is known. No label is read.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opilio.crawl.tgraphs import Maker
from opilio.lab.pages import ParsedPages
from opilio.lab.web import Web
from opilio.model.errors import UsageError
from opilio.model.records import Page
from opilio.model.urls import canonical
from opilio.tgraph.graph import TGraph
from opilio.tgraph.layers import Bounds, bottom_up, top_down


class WebLinks:
    """Pages of a web by address, with the links between them both ways."""

    def __init__(self, web: Web, pages: ParsedPages) -> None:
        self._web = web
        self._pages = pages

    def page(self, url: str) -> Page | None:
        number = self._web.number_of(url)
        return None if number is None else self._pages.page(number)

    def parents_of(self, url: str) -> list[str]:
        """The pages that link to a page."""
        number = self._web.number_of(url)
        return [] if number is None else [self._web.urls[p] for p in self._sources_of(number)]

    def links_of(self, url: str) -> list[str]:
        """The pages of the web that a page links to."""
        number = self._web.number_of(url)
        found = [] if number is None else self._pages.graph.out(number).tolist()
        return [self._web.urls[n] for n in found if n < len(self._web)]

    def _sources_of(self, number: int) -> list[int]:
        order, starts, sources = self._reverse
        return [int(source) for source in sources[order[starts[number] : starts[number + 1]]]]

    @cached_property
    def _reverse(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        graph = self._pages.graph
        order = np.argsort(graph.targets, kind="stable")
        starts = np.searchsorted(graph.targets[order], np.arange(graph.nodes + 1))
        return order, starts, np.repeat(np.arange(graph.pages), np.diff(graph.starts))


def usable(targets: Sequence[str], links: WebLinks) -> tuple[list[str], list[str]]:
    """Targets as canonical addresses, and those that are not there. UsageError where none is."""
    found, missing = [], []
    for target in targets:
        url = canonical(target) if "://" in target else None
        if url is not None and links.page(url) is not None:
            found.append(url)
        else:
            missing.append(target)
    if not found:
        raise UsageError(f"--target {missing[0]}: is not among the pages; give the address of a page that is there")
    return list(dict.fromkeys(found)), missing


def graph_from(
    links: WebLinks, maker: Maker, targets: Sequence[str], bounds: Bounds, portals: Sequence[str] = ()
) -> TGraph:
    """Bottom-up from the targets, or top-down where portals are given."""
    worth = maker.nearness(targets)
    if portals:
        layers = top_down(portals, targets, links.links_of, bounds, worth)
    else:
        layers = bottom_up(targets, links.parents_of, bounds, worth)
    return maker.make(layers, bounds)
