"""The shape of a synthetic web, and its plan: hosts, pages, subjects, links, without any text."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from opilio.core.errors import OfflineWebError
from opilio.lab.synthetic.prose import Subject, load_word_lists

TRAPS = ("calendar", "facets", "session")
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
LinkCount = Annotated[int, Meta(ge=0, le=1000)]
# A bound, so that a typing error is reported and does not run for ever.
MAX_PAGES = 5_000_000


class WebShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Deterministic from `seed`: the same shape gives the same bytes on every machine."""

    seed: int = 1
    # Articles; hubs, home pages, mirrors, redirects and traps come on top.
    pages: Positive = 3000
    hosts: Positive = 40
    topics: Positive = 6
    # Names of topics, instead of the first `topics` ones.
    about: tuple[str, ...] = ()
    # Of the hosts that are newspapers, forums and blogs, a third each.
    genres: Share = 0.0
    topical_share: Share = 0.4  # of the articles, over all topics
    # Chance that a link of an article leads to its own subject.
    locality: Share = 0.75
    # Chance that an article is about its host's own subject.
    host_focus: Share = 0.7
    links: tuple[LinkCount, LinkCount] = (4, 22)  # content links of an article
    hubs: Count = 2  # pages per topic that list much of it
    hub_links: Count = 40
    # Parts of each topic that are reached only through irrelevant pages.
    tunnels: Count = 2
    tunnel_length: Count = 2  # irrelevant pages on the way
    # Of a topic's articles behind each tunnel.
    tunnel_share: Share = 0.15
    navigation: Count = 6  # boiler-plate links on every page
    mirrors: Share = 0.02
    near_mirrors: Share = 0.02
    # Complete copies of hosts, whose links stay within the copy.
    mirror_hosts: Count = 0
    dead_links: Share = 0.04
    redirects: Share = 0.02
    uninformative: Share = 0.15  # anchors such as "read more"
    # Articles about the other sense of a topic's word.
    ambiguous: Share = 0.06
    traps: tuple[str, ...] = TRAPS
    # Of each trap, in the written form; served, they never end.
    trap_pages: Count = 40
    slow_hosts: Count = 2
    failing_hosts: Count = 2
    seed_sets: Annotated[int, Meta(ge=1, le=1000)] = 3  # on-topic and generic ones, each

    def __post_init__(self) -> None:
        most = len(load_word_lists().subjects)
        known = load_word_lists().topics
        for name in self.about:
            if name not in known:
                raise OfflineWebError(f"shape.about: {name!r}: unknown; known: {', '.join(known)}")
        if self.about and self.topics != len(self.about):
            raise OfflineWebError(
                f"shape.topics: {self.topics}, but shape.about names {len(self.about)}; make them equal"
            )
        if not 1 <= self.topics <= most:
            raise OfflineWebError(f"shape.topics: {self.topics} is not in 1..{most}")
        if self.hosts < 2 or self.pages < 10 * self.topics:
            raise OfflineWebError("shape: needs at least 2 hosts and 10 pages per topic")
        if self.hosts > self.pages:
            raise OfflineWebError(f"shape.hosts: {self.hosts} hosts need as many pages or more; there are {self.pages}")
        if self.links[0] > self.links[1]:
            raise OfflineWebError(f"shape.links: from {self.links[0]} to {self.links[1]} is not a range")
        if self.mirror_hosts > self.hosts:
            raise OfflineWebError(f"shape.mirror_hosts: {self.mirror_hosts} copies of {self.hosts} hosts; lower it")
        self._check_size()
        unknown = set(self.traps) - set(TRAPS)
        if unknown:
            raise OfflineWebError(f"shape.traps: {min(unknown)!r}: unknown; known: {', '.join(TRAPS)}")
        if self.tunnels * self.tunnel_share >= 0.9:
            raise OfflineWebError(
                "shape: tunnels × tunnel_share must leave something of a topic in front of the tunnels"
            )

    def _check_size(self) -> None:
        per_topic = self.hubs + self.tunnels * self.tunnel_length
        whole = self.pages + self.topics * per_topic + len(self.traps) * self.trap_pages
        if whole > MAX_PAGES:
            raise OfflineWebError(
                f"shape: {whole:,} pages are too many, {MAX_PAGES:,} can be made; lower pages, hubs, tunnels, "
                "tunnel_length or trap_pages"
            )


ARTICLE = "article"
HUB = "hub"
HOME = "home"
NAVIGATION = "navigation"
PRIVATE = "private"  # robots.txt forbids it
TUNNEL = "tunnel"
MIRROR = "mirror"
NEAR_MIRROR = "near-mirror"
SITE_COPY = "site-copy"  # a page of a copied host
REDIRECT = "redirect"


class PlannedHost(msgspec.Struct, kw_only=True):
    name: str
    subject: int
    genre: str = ""  # of all its articles
    home: int = -1
    # The pages that every page of the host links to.
    menu: list[int] = []
    trap_entrances: list[str] = []  # paths of traps
    delay_s: float = 0.0
    error_rate: float = 0.0
    crawl_delay_s: float = 0.0


class PlannedPage(msgspec.Struct, kw_only=True):
    """One page. `links` are page numbers; `original` is what a mirror copies and a redirect leads to."""

    host: int
    path: str
    kind: str
    subject: int
    community: int = 0
    original: int = -1
    links: list[int] = []
    dead: list[str] = []


class WebPlan(msgspec.Struct):
    shape: WebShape
    subjects: list[Subject]  # topics first
    hosts: list[PlannedHost]
    pages: list[PlannedPage]

    def url(self, page: int) -> str:
        planned = self.pages[page]
        return f"http://{self.hosts[planned.host].name}{planned.path}"

    def label(self, page: int) -> str:
        """The truth: articles have their subject as label, all other pages have none."""
        planned = self.pages[page]
        name = self.subjects[planned.subject].name
        if planned.kind != ARTICLE:
            return f"_{planned.kind}"
        genre = self.genre(page)
        return (f"topic.{name}" if planned.subject < self.shape.topics else name) + (f".{genre}" if genre else "")

    def genre(self, page: int) -> str:
        """The genre of an article; empty for ordinary ones and for other pages."""
        planned = self.pages[page]
        return self.hosts[planned.host].genre if planned.kind == ARTICLE else ""

    def targets(self, page: int) -> list[int]:
        """Every page that a page leads to: its own links and its host's menu, or its redirect target."""
        planned = self.pages[page]
        if planned.kind == REDIRECT:
            return [planned.original]
        shown = self.pages[planned.original] if planned.kind in (MIRROR, NEAR_MIRROR) else planned
        return [*self.hosts[planned.host].menu, *shown.links]

    def articles(self, subject: int, community: int | None = None) -> list[int]:
        return [
            number
            for number, p in enumerate(self.pages)
            if p.kind == ARTICLE and p.subject == subject and community in (None, p.community)
        ]


def add_page(plan: WebPlan, page: PlannedPage) -> int:
    """Add a page and return its number."""
    plan.pages.append(page)
    return len(plan.pages) - 1


def add_links(page: PlannedPage, number: int, targets: Sequence[int]) -> None:
    """Add links, each target once and none to the page itself."""
    page.links = [t for t in dict.fromkeys([*page.links, *targets]) if t != number]
