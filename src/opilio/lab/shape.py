"""The shape of a synthetic web: every property that makes focused crawling hard, as a number one can set."""

import msgspec

from opilio.lab.prose import load_words
from opilio.model.errors import WebError

TRAPS = ("calendar", "facets", "session")


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deterministic from `seed`: the same shape gives the same bytes on every machine."""

    seed: int = 1
    pages: int = 3000  # articles; hubs, home pages, mirrors, redirects and traps come on top
    hosts: int = 40
    topics: int = 6
    topical_share: float = 0.4  # of the articles, over all topics
    locality: float = 0.75  # chance that a link of an article leads to its own subject
    host_focus: float = 0.7  # chance that an article is about its host's own subject
    links: tuple[int, int] = (4, 22)  # content links of an article
    hubs: int = 2  # pages per topic that list much of it
    hub_links: int = 40
    tunnels: int = 2  # parts of each topic that are reached only through irrelevant pages
    tunnel_length: int = 2  # irrelevant pages on the way
    tunnel_share: float = 0.15  # of a topic's articles behind each tunnel
    navigation: int = 6  # boiler-plate links on every page
    mirrors: float = 0.02
    near_mirrors: float = 0.02
    dead_links: float = 0.04
    redirects: float = 0.02
    uninformative: float = 0.15  # anchors such as "read more"
    ambiguous: float = 0.06  # articles about the other sense of a topic's word
    traps: tuple[str, ...] = TRAPS
    trap_pages: int = 40  # of each trap, in the written form; served, they never end
    slow_hosts: int = 2
    failing_hosts: int = 2
    seed_sets: int = 3  # on-topic and generic ones, each

    def __post_init__(self) -> None:
        most = len(load_words().subjects)
        if not 1 <= self.topics <= most:
            raise WebError(f"shape.topics: {self.topics} is not in 1..{most}")
        if self.hosts < 2 or self.pages < 10 * self.topics:
            raise WebError("shape: needs at least 2 hosts and 10 pages per topic")
        unknown = set(self.traps) - set(TRAPS)
        if unknown:
            raise WebError(f"shape.traps: no trap {min(unknown)!r}; there are: {', '.join(TRAPS)}")
        if self.tunnels * self.tunnel_share >= 0.9:
            raise WebError("shape: tunnels × tunnel_share must leave something of a topic in front of the tunnels")
