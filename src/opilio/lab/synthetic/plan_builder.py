"""Makes the plan of a synthetic web from its shape. Pure.

Communities make the truth about locality and tunnels exact: articles of a topic are in community 0 or behind a
tunnel, and only the tunnel's last page links into a community behind one.
"""

import random
from collections import Counter

from opilio.lab.synthetic.plan import (
    ARTICLE,
    HOME,
    HUB,
    MIRROR,
    NAVIGATION,
    NEAR_MIRROR,
    PRIVATE,
    REDIRECT,
    SITE_COPY,
    TUNNEL,
    PlannedHost,
    PlannedPage,
    WebPlan,
    WebShape,
    add_links,
    add_page,
)
from opilio.lab.synthetic.prose import Subject, genre_host_name, genre_path, host_genre, load_word_lists

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


_COPIED_KINDS = (ARTICLE, HOME, NAVIGATION, HUB, TUNNEL)


def make_plan(shape: WebShape) -> WebPlan:
    """Everything in a synthetic web except the text."""
    rng = random.Random(f"plan {shape.seed}")
    plan = WebPlan(shape, _subjects(shape), [], [])
    _add_hosts(plan, rng)
    _add_articles(plan, rng)
    _link_articles(plan, rng)
    _link_genres(plan)
    _link_homes(plan, rng)
    _add_hubs(plan, rng)
    _add_tunnels(plan, rng)
    _add_mirrors(plan, rng)
    _add_redirects(plan, rng)
    _add_dead_links(plan, rng)
    _add_mirror_hosts(plan)
    return plan


def _subjects(shape: WebShape) -> list[Subject]:
    words = load_word_lists()
    topics = [words.topics[name] for name in shape.about] or words.subjects[: shape.topics]
    replaced = {topic.replaces for topic in topics}
    own_senses = [sense for sense in words.paper_senses if sense.name in {topic.other_sense for topic in topics}]
    return [*topics, *(sense for sense in words.senses if sense.name not in replaced), *own_senses]


def _add_hosts(plan: WebPlan, rng: random.Random) -> None:
    shape = plan.shape
    count = len(plan.subjects)
    for number in range(shape.hosts):
        subject = number % count if number < count else rng.randrange(count)
        word = rng.choice(plan.subjects[subject].nouns)
        genre = host_genre(number, shape.genres)
        name = genre_host_name(f"www.{word}-{number}.example", genre)
        host = PlannedHost(name=name, subject=subject, genre=genre, trap_entrances=[])
        host.crawl_delay_s = 1.0 if rng.random() < 0.1 else 0.0
        plan.hosts.append(host)
        host.home = add_page(plan, PlannedPage(host=number, path="/", kind=HOME, subject=subject))
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
    return [add_page(plan, page) for page in pages]


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
        if genre := plan.hosts[host].genre:
            path = genre_path(genre, word, number)
        community = _draw_community(shape, subject, rng)
        add_page(plan, PlannedPage(host=host, path=path, kind=ARTICLE, subject=subject, community=community))


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
            add_links(plan.pages[number], number, picks)


def _link_genres(plan: WebPlan) -> None:
    """Newspapers, forums and blogs link to their own kind: other reports, threads and entries, half on the subject."""
    rng = random.Random(f"genres {plan.shape.seed}")
    open_pages: dict[tuple[str, int], list[int]] = {}
    for number, page in enumerate(plan.pages):
        genre = plan.genre(number)
        if genre and page.community == 0:
            open_pages.setdefault((genre, page.subject), []).append(number)
    for (genre, subject), members in open_pages.items():
        others = [n for (kind, _), pages in open_pages.items() if kind == genre for n in pages]
        for number in members:
            wanted = rng.randint(2, 6)
            same = [rng.choice(open_pages[genre, subject]) for _ in range(wanted)]
            add_links(plan.pages[number], number, [*same, *rng.choices(others, k=wanted)])


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
        add_links(plan.pages[home], home, [*shown, *rng.sample(homes, min(3, len(homes)))])
        if place:
            parent = homes[rng.randrange(place)]
            add_links(plan.pages[parent], parent, [home])


def _add_hubs(plan: WebPlan, rng: random.Random) -> None:
    """Pages that list much of a topic; articles of the topic point to them now and then."""
    for subject in range(plan.shape.topics):
        members = plan.articles(subject, community=0)
        for number in range(plan.shape.hubs):
            listed = rng.sample(members, min(len(members), plan.shape.hub_links))
            host = plan.pages[rng.choice(members)].host
            path = f"/index/{plan.subjects[subject].name.replace(' ', '-')}-{number}.html"
            hub = add_page(plan, PlannedPage(host=host, path=path, kind=HUB, subject=subject, links=listed))
            for article in rng.sample(members, max(1, len(members) // 12)):
                add_links(plan.pages[article], article, [hub])


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
                following = add_page(plan, page)
                add_links(plan.pages[step], step, [following])
                step = following
            add_links(plan.pages[step], step, rng.sample(hidden, min(3, len(hidden))))


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
            number = add_page(plan, copy)
            linker = rng.choice(articles)
            add_links(plan.pages[linker], linker, [number])


def _add_mirror_hosts(plan: WebPlan) -> None:
    """Copies of the largest hosts. A few articles link to pages of a copy; its own links stay within it."""
    rng = random.Random(f"mirror hosts {plan.shape.seed}")
    sizes = Counter(page.host for page in plan.pages if page.kind == ARTICLE)
    articles = [n for n, p in enumerate(plan.pages) if p.kind == ARTICLE and p.community == 0]
    for number, (source, _) in enumerate(sizes.most_common(plan.shape.mirror_hosts)):
        original = plan.hosts[source]
        copied = [n for n, p in enumerate(plan.pages) if p.host == source and p.kind in _COPIED_KINDS]
        first = len(plan.pages)
        copies = {page: first + place for place, page in enumerate(copied)}
        plan.hosts.append(PlannedHost(name=f"mirror-{number}.{original.name}", subject=original.subject))
        plan.hosts[-1].menu = [copies[page] for page in original.menu if page in copies]
        for page in copied:
            planned = plan.pages[page]
            outside = [target for target in planned.links if target in copies or plan.pages[target].host != source]
            links = [copies.get(target, target) for target in outside]
            place = PlannedPage(host=len(plan.hosts) - 1, path=planned.path, kind=SITE_COPY, subject=planned.subject)
            place.original, place.links = page, links
            add_page(plan, place)
        for linker in rng.sample(articles, min(len(articles), 5)):
            add_links(plan.pages[linker], linker, [rng.choice(list(copies.values()))])


def _add_redirects(plan: WebPlan, rng: random.Random) -> None:
    """Old addresses of articles: one link in two to such an article uses the old one."""
    articles = [n for n, p in enumerate(plan.pages) if p.kind == ARTICLE]
    old_of: dict[int, int] = {}
    for original in rng.sample(articles, int(plan.shape.redirects * len(articles))):
        page = plan.pages[original]
        path = f"/old/{original}.php"
        moved = PlannedPage(host=page.host, path=path, kind=REDIRECT, subject=page.subject, original=original)
        old_of[original] = add_page(plan, moved)
    for page in plan.pages:
        if page.kind == ARTICLE:
            page.links = [old_of[t] if t in old_of and rng.random() < 0.5 else t for t in page.links]


def _add_dead_links(plan: WebPlan, rng: random.Random) -> None:
    for number, page in enumerate(plan.pages):
        if page.kind == ARTICLE:
            lost = sum(rng.random() < plan.shape.dead_links for _ in page.links)
            host = plan.hosts[rng.randrange(plan.shape.hosts)].name
            page.dead = [f"http://{host}/gone/{number}-{i}.html" for i in range(lost)]
