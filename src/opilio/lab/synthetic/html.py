"""The HTML of synthetic pages: prose with links in it, lists, a menu and a footer on every page. Pure.

Also its traps, endless pages made on demand: a calendar whose months link to the next ones, a shop whose facets combine
without bound, and a catalogue whose every link has a new session id.
"""

import random
import re
from html import escape
from urllib.parse import parse_qsl, urlencode

from opilio.lab.synthetic.plan import HOME, HUB, NEAR_MIRROR, WebPlan
from opilio.lab.synthetic.prose import ProseGenerator, dress_article, load_word_lists, proper_name

_UNINFORMATIVE = ("read more", "here", "this page", "click here", "more", "next", "link", "details")


class HtmlWriter:
    """Writes any page of a plan. Every page has its own random generator, so pages don't depend on each other."""

    def __init__(self, plan: WebPlan) -> None:
        self._plan = plan
        self._titles: dict[int, str] = {}

    def page(self, number: int) -> bytes:
        """One page of the plan."""
        planned = self._plan.pages[number]
        source = planned.original if planned.kind == NEAR_MIRROR else number
        rng = self._rng(f"page {source}")
        author = self._prose_generator(planned.subject, rng)
        blocks = self._listing(number, author) if planned.kind in (HUB, HOME) else self._article(source, author, rng)
        if genre := self._plan.genre(source):
            blocks = dress_article(blocks, genre, author, self._rng(f"genre {source}"))
        if planned.kind == NEAR_MIRROR:
            blocks = _alter_paragraphs(blocks, self._rng(f"retouch {number}"))
        return self._render_document(planned.host, self.title(source), author.sentence(), blocks)

    def trap_page(self, host: int, url: str, links: list[tuple[str, str]]) -> bytes:
        """One page of a trap, in the words of its host: traps look like other pages there."""
        rng = self._rng(f"trap {url}")
        author = self._prose_generator(self._plan.hosts[host].subject, rng)
        items = "".join(f'<li><a href="{escape(href)}">{escape(text)}</a>' for href, text in links)
        return self._render_document(
            host, author.title(), author.sentence(), [_paragraph(author.paragraph()), f"<ul>{items}</ul>"]
        )

    def title(self, number: int) -> str:
        """The title of a page: anchors on other pages are made from it."""
        if number not in self._titles:
            planned = self._plan.pages[number]
            source = planned.original if planned.original >= 0 else number
            author = self._prose_generator(self._plan.pages[source].subject, self._rng(f"title {source}"))
            self._titles[number] = author.title()
        return self._titles[number]

    def _rng(self, name: str) -> random.Random:
        return random.Random(f"{self._plan.shape.seed} {name}")

    def _prose_generator(self, subject: int, rng: random.Random) -> ProseGenerator:
        return ProseGenerator(load_word_lists().general, self._plan.subjects[subject], rng.uniform(0.25, 0.6), rng)

    def _article(self, number: int, author: ProseGenerator, rng: random.Random) -> list[str]:
        links = self._anchors(number, rng)
        paragraphs = max(4, min(28, int(rng.lognormvariate(2.2, 0.6))))
        blocks: list[str] = []
        for place in range(paragraphs):
            if place % 4 == 2:
                blocks.append(f"<h2>{escape(author.title())}</h2>")
            text = escape(author.paragraph())
            for _ in range(rng.randint(0, 2)):
                if links and place < paragraphs - 1:
                    text += f" On the {escape(author.phrase())} see {links.pop(0)}, with the {escape(author.phrase())}."
            blocks.append(f"<p>{text}</p>")
        if links:
            blocks.append("<h2>See also</h2><ul>" + "".join(f"<li>{a}" for a in links) + "</ul>")
        return blocks

    def _listing(self, number: int, author: ProseGenerator) -> list[str]:
        """A hub or home page: a list of links, some with a line about them, and the entrances of traps."""
        planned = self._plan.pages[number]
        rng = self._rng(f"list {number}")
        entrances = self._plan.hosts[planned.host].trap_entrances if planned.kind == HOME else []
        extra = [f'<a href="{path}">{path.strip("/").capitalize()}</a>' for path in entrances]
        items = [
            f"<li>{a}" + (f": {escape(author.sentence())}" if rng.random() < 0.3 else "")
            for a in [*self._anchors(number, rng), *extra]
        ]
        return [_paragraph(author.sentence()), "<ul>" + "".join(items) + "</ul>"]

    def _anchors(self, number: int, rng: random.Random) -> list[str]:
        planned = self._plan.pages[number]
        anchors = [self._anchor(target, rng) for target in planned.links]
        anchors += [f'<a href="{escape(url)}">{escape(proper_name(rng))} archive</a>' for url in planned.dead]
        rng.shuffle(anchors)
        return anchors

    def _anchor(self, target: int, rng: random.Random) -> str:
        title = escape(self.title(target))
        href = escape(self._plan.url(target))
        if rng.random() < self._plan.shape.uninformative:
            return f'<a href="{href}">{rng.choice(_UNINFORMATIVE)}</a>'
        words = title.split()
        shown = title if rng.random() < 0.5 else " ".join(words[-4:-2])
        hint = f' title="{title}"' if rng.random() < 0.2 else ""
        return f'<a href="{href}"{hint}>{shown}</a>'

    def _render_document(self, host: int, title: str, description: str, blocks: list[str]) -> bytes:
        site = self._plan.hosts[host]
        menu = "".join(
            f'<li><a href="{self._plan.pages[p].path}">{_menu_name(self._plan.pages[p].path)}</a>' for p in site.menu
        )
        return (
            f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
            f'<meta name="description" content="{escape(description)}"></head>\n<body><header>'
            f"<p>{escape(site.name)}</p><nav><ul>{menu}</ul></nav></header>\n<main><h1>{escape(title)}</h1>\n"
            + "\n".join(blocks)
            + f"\n</main><footer><p>All pages of {escape(site.name)} may be copied. Last change by the editors.</p>"
            "</footer></body></html>\n"
        ).encode()


def _menu_name(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".html").capitalize() or "Home"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _alter_paragraphs(blocks: list[str], rng: random.Random) -> list[str]:
    """Near-mirror: one paragraph in eight gets another word at its end."""
    return [b.replace("</p>", f" {proper_name(rng)}.</p>") if rng.random() < 0.125 else b for b in blocks]


_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{1,2})/(?:(\d{1,2})\.html)?")
_FACETS = {"colour": ("red", "green", "blue"), "size": ("small", "large"), "sort": ("price", "name"), "view": ("list",)}
_FACET_ITEM_COUNT = 30


def trap_links(path: str, query: str) -> list[tuple[str, str]] | None:
    """The links (URL, anchor) of a trap's page, or None where the URL is in no trap."""
    if path.startswith("/calendar/"):
        return _calendar(path)
    if path == "/facets/":
        return _facets(query)
    if path.startswith("/session/"):
        return _session(path, query)
    return None


def _calendar(path: str) -> list[tuple[str, str]] | None:
    if path == "/calendar/":
        return [("/calendar/2024/1/", "This month")]
    found = _MONTH.fullmatch(path)
    if found is None or not 1 <= int(found[2]) <= 12:
        return None
    months = int(found[1]) * 12 + int(found[2]) - 1
    if found[3]:
        return [(f"/calendar/{found[1]}/{found[2]}/", "Back to the month")]
    later, earlier = (f"/calendar/{m // 12}/{m % 12 + 1}/" for m in (months + 1, max(0, months - 1)))
    days = [(f"{path}{day}.html", f"Events on day {day}") for day in range(1, 29)]
    return [(later, "Next month"), (earlier, "Previous month"), *days]


def _facets(query: str) -> list[tuple[str, str]]:
    chosen = dict(parse_qsl(query))
    page = int(chosen.get("page", "1")) if chosen.get("page", "1").isdecimal() else 1
    ways = [{**chosen, name: value} for name, values in _FACETS.items() for value in values]
    ways.append({**chosen, "page": str(page + 1)})
    return [(f"/facets/?{urlencode(way)}", f"Only {list(way.values())[-1]}") for way in ways]


def _session(path: str, query: str) -> list[tuple[str, str]]:
    rng = random.Random(f"{path} {query}")
    items = rng.sample(range(_FACET_ITEM_COUNT), 6)
    return [(f"/session/item-{item}?sid={rng.getrandbits(48):012x}", f"Item {item}") for item in items]
