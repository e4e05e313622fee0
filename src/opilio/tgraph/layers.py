"""Which page is how far from a target: by back-links from the targets up, or from portals down (S2-27). Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

Links = Callable[[str], Iterable[str]]
Layers = dict[str, int]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How large a graph may grow (S2-37: depth 3). `parents`: back-links followed of one page; 0: no bound."""

    depth: int = 3
    parents: int = 10
    per_level: int = 300  # pages
    per_page: int = 4  # nodes that a page may own (S2-29: at most 4)


def bottom_up(targets: Sequence[str], parents_of: Links, bounds: Bounds) -> Layers:
    """The targets at 0, their parents at 1, and so on; a page stays where it is nearest to a target.

    Of many parents those come first that link to most pages of the layer below: hubs lead to more than one target.
    """
    layers: Layers = dict.fromkeys(targets, 0)
    for level in range(bounds.depth):
        below = [url for url, at in layers.items() if at == level]
        found = {url: [p for p in dict.fromkeys(parents_of(url)) if p not in layers] for url in below}
        for url in _widest(found.values(), bounds):
            layers[url] = level + 1
    return layers


def top_down(portals: Sequence[str], targets: Sequence[str], links_of: Links, bounds: Bounds) -> Layers:
    """Walk from the portals forward; of what was met, pages with a way to a target, as far as they are from it."""
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
    return bottom_up(reached, lambda url: parents.get(url, ()), bounds)


def _widest(found: Iterable[Sequence[str]], bounds: Bounds) -> list[str]:
    lists = list(found)
    shared = Counter(parent for parents in lists for parent in parents)

    def order(url: str) -> tuple[int, str]:
        return -shared[url], url

    kept = {p for parents in lists for p in sorted(parents, key=order)[: bounds.parents or None]}
    return sorted(kept, key=order)[: bounds.per_level or None]


def missing_levels(layers: Mapping[str, int], depth: int) -> list[int]:
    """Levels up to `depth` that no page is in."""
    return [level for level in range(depth + 1) if level not in layers.values()]
