"""The plan of a synthetic web: hosts, pages, subjects, links, without any text; `planning` makes it. Pure."""

from collections.abc import Sequence

import msgspec

from opilio.lab.synthetic.prose import Subject
from opilio.lab.synthetic.shape import WebShape

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
    menu: list[int] = []  # the pages that every page of the host links to
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
