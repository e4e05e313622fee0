"""The plan of a synthetic web: hosts, pages, subjects, links, without any text. Pure.

Communities make the truth about locality and tunnels exact: articles of a topic are in community 0 or behind a
tunnel, and only the tunnel's last page links into a community behind one.
"""

import random
from collections.abc import Sequence

import msgspec

from opilio.lab.synthetic.prose import Subject, load_word_lists
from opilio.lab.synthetic.shape import WebShape

ARTICLE = "article"
HUB = "hub"
HOME = "home"
NAVIGATION = "navigation"
PRIVATE = "private"  # robots.txt forbids it
TUNNEL = "tunnel"
MIRROR = "mirror"
NEAR_MIRROR = "near-mirror"
REDIRECT = "redirect"

_SECTIONS = (
    "about",
    "contact",
    "news",
    "events",
    "people",
    "help",
    "shop",
    "press",
    "jobs",
    "terms",
    "links",
    "search",
)


class PlannedHost(msgspec.Struct, kw_only=True):
    name: str
    subject: int
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
        topical = planned.subject < self.shape.topics
        return (f"topic.{name}" if topical else name) if planned.kind == ARTICLE else f"_{planned.kind}"

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


def make_plan(shape: WebShape) -> WebPlan:
    """Everything in a synthetic web except the text."""
    rng = random.Random(f"plan {shape.seed}")
    plan = WebPlan(shape, _subjects(shape), [], [])
    _add_hosts(plan, rng)
    _add_articles(plan, rng)
    _link_articles(plan, rng)
    _link_homes(plan, rng)
    _add_hubs(plan, rng)
    _add_tunnels(plan, rng)
    _add_mirrors(plan, rng)
    _add_redirects(plan, rng)
    _add_dead_links(plan, rng)
    return plan


def _subjects(shape: WebShape) -> list[Subject]:
    words = load_word_lists()
    topics = words.subjects[: shape.topics]
    return [*topics, *words.senses]


def _add_hosts(plan: WebPlan, rng: random.Random) -> None:
    shape = plan.shape
    count = len(plan.subjects)
    for number in range(shape.hosts):
        subject = number % count if number < count else rng.randrange(count)
        word = rng.choice(plan.subjects[subject].nouns)
        host = PlannedHost(name=f"www.{word}-{number}.example", subject=subject, trap_entrances=[])
        host.crawl_delay_s = 1.0 if rng.random() < 0.1 else 0.0
        plan.hosts.append(host)
        host.home = _add_page(plan, PlannedPage(host=number, path="/", kind=HOME, subject=subject))
        host.menu = [host.home, *_add_sections(plan, number, subject)]
    for number, trap in enumerate(shape.traps):
        plan.hosts[-1 - number % shape.hosts].trap_entrances.append(f"/{trap}/")
    odd = rng.sample(plan.hosts[1:], min(len(plan.hosts) - 1, shape.slow_hosts + shape.failing_hosts))
    for host in odd[: shape.slow_hosts]:
        host.delay_s = 0.5
    for host in odd[shape.slow_hosts :]:
        host.error_rate = 0.5


def _add_sections(plan: WebPlan, host: int, subject: int) -> list[int]:
    sections = _SECTIONS[: max(0, plan.shape.navigation - 2)]
    pages = [PlannedPage(host=host, path=f"/{name}.html", kind=NAVIGATION, subject=subject) for name in sections]
    pages.append(PlannedPage(host=host, path="/private/members.html", kind=PRIVATE, subject=subject))
    return [_add_page(plan, page) for page in pages]


def _add_page(plan: WebPlan, page: PlannedPage) -> int:
    plan.pages.append(page)
    return len(plan.pages) - 1


def _add_articles(plan: WebPlan, rng: random.Random) -> None:
    shape = plan.shape
    # Hosts differ in size as on the web.
    sizes = [1 / (rank + 4) for rank in range(shape.hosts)]
    order = list(range(shape.hosts))
    rng.shuffle(order)
    by_subject: dict[int, list[int]] = {}
    for host in order:
        by_subject.setdefault(plan.hosts[host].subject, []).append(host)
    for number in range(shape.pages):
        subject = _draw_subject(plan, number, rng)
        focused = by_subject.get(subject, [])
        host = rng.choice(focused) if focused and rng.random() < shape.host_focus else rng.choices(order, sizes)[0]
        word = rng.choice(plan.subjects[subject].nouns) if rng.random() < 0.5 else "item"
        path = f"/{rng.choice(('articles', 'notes', str(rng.randint(1998, 2024))))}/{word}-{number}.html"
        community = _draw_community(shape, subject, rng)
        _add_page(plan, PlannedPage(host=host, path=path, kind=ARTICLE, subject=subject, community=community))


def _draw_subject(plan: WebPlan, number: int, rng: random.Random) -> int:
    """Topics share `topical_share` of the articles, the other senses of their words `ambiguous`."""
    shape = plan.shape
    if number < 10 * shape.topics:
        # Every topic has a few articles, whatever is drawn.
        return number % shape.topics
    dice = rng.random()
    if dice < shape.topical_share:
        return rng.randrange(shape.topics)
    names = [s.name for s in plan.subjects]
    if dice < shape.topical_share + shape.ambiguous:
        return names.index(plan.subjects[rng.randrange(shape.topics)].other_sense)
    return rng.randrange(shape.topics, len(plan.subjects))


def _draw_community(shape: WebShape, subject: int, rng: random.Random) -> int:
    if subject >= shape.topics:
        return 0
    dice = int(rng.random() / shape.tunnel_share) if shape.tunnel_share > 0 else shape.tunnels
    return dice + 1 if dice < shape.tunnels else 0


def _link_articles(plan: WebPlan, rng: random.Random) -> None:
    """Each article links to its own community, and each but the first is linked to by an earlier one."""
    groups: dict[tuple[int, int], list[int]] = {}
    # Articles that any other article may link to.
    open_pages: list[int] = []
    for number, page in enumerate(plan.pages):
        if page.kind == ARTICLE:
            groups.setdefault((page.subject, page.community), []).append(number)
            if page.community == 0:
                open_pages.append(number)
    for members in groups.values():
        for place, number in enumerate(members[1:], start=1):
            # Early pages are linked to more often.
            parent = members[int(rng.random() ** 2 * place)]
            plan.pages[parent].links.append(number)
        for number in members:
            wanted = rng.randint(*plan.shape.links)
            local = sum(rng.random() < plan.shape.locality for _ in range(wanted))
            picks = rng.choices(members, k=local) + rng.choices(open_pages, k=wanted - local)
            _add_links(plan.pages[number], number, picks)


def _add_links(page: PlannedPage, number: int, targets: Sequence[int]) -> None:
    page.links = [t for t in dict.fromkeys([*page.links, *targets]) if t != number]


def _link_homes(plan: WebPlan, rng: random.Random) -> None:
    """A home page shows some of its host's articles and a few other hosts; every home page can be reached."""
    by_host: dict[int, list[int]] = {}
    for number, page in enumerate(plan.pages):
        if page.kind == ARTICLE and page.community == 0:
            by_host.setdefault(page.host, []).append(number)
    homes = [host.home for host in plan.hosts]
    for place, home in enumerate(homes):
        own = by_host.get(place, [])
        shown = rng.sample(own, min(len(own), 25))
        _add_links(plan.pages[home], home, [*shown, *rng.sample(homes, min(3, len(homes)))])
        if place:
            parent = homes[rng.randrange(place)]
            _add_links(plan.pages[parent], parent, [home])


def _add_hubs(plan: WebPlan, rng: random.Random) -> None:
    """Pages that list much of a topic; articles of the topic point to them now and then."""
    for subject in range(plan.shape.topics):
        members = plan.articles(subject, community=0)
        for number in range(plan.shape.hubs):
            listed = rng.sample(members, min(len(members), plan.shape.hub_links))
            host = plan.pages[rng.choice(members)].host
            path = f"/index/{plan.subjects[subject].name}-{number}.html"
            hub = _add_page(plan, PlannedPage(host=host, path=path, kind=HUB, subject=subject, links=listed))
            for article in rng.sample(members, max(1, len(members) // 12)):
                _add_links(plan.pages[article], article, [hub])


def _add_tunnels(plan: WebPlan, rng: random.Random) -> None:
    """A chain of pages about other subjects, from the open part of a topic to the part behind it."""
    for subject in range(plan.shape.topics):
        for community in range(1, plan.shape.tunnels + 1):
            hidden = plan.articles(subject, community)
            if not hidden:
                continue
            step = rng.choice(plan.articles(subject, community=0))
            for number in range(plan.shape.tunnel_length):
                about = rng.randrange(plan.shape.topics, len(plan.subjects))
                path = f"/passage/{subject}-{community}-{number}.html"
                page = PlannedPage(host=rng.randrange(plan.shape.hosts), path=path, kind=TUNNEL, subject=about)
                following = _add_page(plan, page)
                _add_links(plan.pages[step], step, [following])
                step = following
            _add_links(plan.pages[step], step, rng.sample(hidden, min(3, len(hidden))))


def _add_mirrors(plan: WebPlan, rng: random.Random) -> None:
    articles = [n for n, p in enumerate(plan.pages) if p.kind == ARTICLE and p.community == 0]
    for kind, share in ((MIRROR, plan.shape.mirrors), (NEAR_MIRROR, plan.shape.near_mirrors)):
        for original in rng.sample(articles, int(share * len(articles))):
            source = plan.pages[original]
            host = rng.randrange(plan.shape.hosts)
            copy = PlannedPage(
                host=host,
                path=f"/{kind}{source.path.removesuffix('.html')}-{original}.html",
                kind=kind,
                subject=source.subject,
                original=original,
            )
            number = _add_page(plan, copy)
            linker = rng.choice(articles)
            _add_links(plan.pages[linker], linker, [number])


def _add_redirects(plan: WebPlan, rng: random.Random) -> None:
    """Old addresses of articles: one link in two to such an article uses the old one."""
    articles = [n for n, p in enumerate(plan.pages) if p.kind == ARTICLE]
    old_of: dict[int, int] = {}
    for original in rng.sample(articles, int(plan.shape.redirects * len(articles))):
        page = plan.pages[original]
        path = f"/old/{original}.php"
        moved = PlannedPage(host=page.host, path=path, kind=REDIRECT, subject=page.subject, original=original)
        old_of[original] = _add_page(plan, moved)
    for page in plan.pages:
        if page.kind == ARTICLE:
            page.links = [old_of[t] if t in old_of and rng.random() < 0.5 else t for t in page.links]


def _add_dead_links(plan: WebPlan, rng: random.Random) -> None:
    for number, page in enumerate(plan.pages):
        if page.kind == ARTICLE:
            lost = sum(rng.random() < plan.shape.dead_links for _ in page.links)
            host = plan.hosts[rng.randrange(plan.shape.hosts)].name
            page.dead = [f"http://{host}/gone/{number}-{i}.html" for i in range(lost)]
