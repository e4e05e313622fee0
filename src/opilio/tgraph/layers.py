"""Which page is how far from a target: by back-links from the targets up, or from portals down (S2-27). Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

Links = Callable[[str], Iterable[str]]
Worth = Callable[[str], float]  # how near a page is to the topic, 0..1
Layers = dict[str, int]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """How large a graph may grow (S2-37: depth 3). `parents`: back-links followed of one page; 0: no bound."""

    depth: int = 3
    parents: int = 10
    per_level: int = 300  # pages
    per_page: int = 4  # nodes that a page may own (S2-29: at most 4)


def _same(_: str) -> float:
    return 1.0


def bottom_up(targets: Sequence[str], parents_of: Links, bounds: Bounds, worth: Worth = _same) -> Layers:
    """The targets at 0, their parents at 1, and so on; a page stays where it is nearest to a target.

    Of many parents those come first that link to most pages of the layer below and are nearest to the topic: hubs
    lead to more than one target, and a page on anything else that mentions a target says little about ways there.
    """
    layers: Layers = dict.fromkeys(targets, 0)
    for level in range(bounds.depth):
        below = [url for url, at in layers.items() if at == level]
        found = {url: [p for p in dict.fromkeys(parents_of(url)) if p not in layers] for url in below}
        for url in _widest(found.values(), bounds, worth):
            layers[url] = level + 1
    return layers


def top_down(
    portals: Sequence[str], targets: Sequence[str], links_of: Links, bounds: Bounds, worth: Worth = _same
) -> Layers:
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
    return bottom_up(reached, lambda url: parents.get(url, ()), bounds, worth)


def _widest(found: Iterable[Sequence[str]], bounds: Bounds, worth: Worth) -> list[str]:
    lists = list(found)
    shared = Counter(parent for parents in lists for parent in parents)
    value = {url: count * worth(url) for url, count in shared.items()} if _is_bounded(lists, bounds) else {}

    def order(url: str) -> tuple[float, str]:
        return -value.get(url, 0.0), url

    kept = {p for parents in lists for p in sorted(parents, key=order)[: bounds.parents or None]}
    return sorted(kept, key=order)[: bounds.per_level or None]


def _is_bounded(lists: Sequence[Sequence[str]], bounds: Bounds) -> bool:
    """Does anything have to be left out? Reading every parent is the dear part."""
    most, all_of_them = max(map(len, lists), default=0), len({p for parents in lists for p in parents})
    return 0 < bounds.parents < most or 0 < bounds.per_level < all_of_them
