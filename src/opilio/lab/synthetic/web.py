"""Synthetic webs with exact truth: any page on demand, or the whole web written as an ordinary folder.

    write(Shape(pages=3000, hosts=40), folder)      # WARC, labels, topics, faults
    SyntheticWeb(Shape()).find(url)                 # one answer; traps never end here

A page is prose with links in it, lists, a menu and a footer. Traps are endless pages made on demand: a calendar whose
months link to the next ones, a shop whose facets combine without bound, and a catalogue whose every link has a new
session id.
"""

import random
import re
from collections.abc import Iterator
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import tomli_w
import xxhash

from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.synthetic.changing import HostFaults
from opilio.lab.synthetic.plan import (
    ARTICLE,
    HOME,
    HUB,
    MIRROR,
    NEAR_MIRROR,
    REDIRECT,
    SITE_COPY,
    TUNNEL,
    WebPlan,
    WebShape,
)
from opilio.lab.synthetic.plan_builder import make_plan
from opilio.lab.synthetic.prose import GENRES, ProseGenerator, dress_article, load_word_lists, proper_name
from opilio.lab.webs.pages import WebLinkGraph
from opilio.lab.webs.resources import default_cache_folder
from opilio.store.warc import info_record, response_record

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


# A fixed moment: the same shape gives the same file.
_RECORDED_AT = 1_700_000_000.0
_HTML = (("Content-Type", "text/html; charset=utf-8"),)


class SyntheticWeb:
    """Responds for every URL of a synthetic web, with pages made on demand."""

    def __init__(self, shape: WebShape) -> None:
        self.shape = shape

    @cached_property
    def plan(self) -> WebPlan:
        return make_plan(self.shape)

    @cached_property
    def _writer(self) -> HtmlWriter:
        return HtmlWriter(self.plan)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {self.plan.url(number): number for number in range(len(self.plan.pages))}

    @cached_property
    def _host_numbers(self) -> dict[str, int]:
        return {host.name: number for number, host in enumerate(self.plan.hosts)}

    @property
    def hosts(self) -> dict[str, int]:
        """How many planned pages each host has (traps have no number)."""
        counts = dict.fromkeys(self._host_numbers, 0)
        for page in self.plan.pages:
            counts[self.plan.hosts[page.host].name] += 1
        return counts

    @property
    def faults(self) -> dict[str, HostFaults]:
        odd = (h for h in self.plan.hosts if h.delay_s or h.error_rate)
        return {h.name: HostFaults(name=h.name, delay_s=h.delay_s, error_rate=h.error_rate) for h in odd}

    def find(self, url: str) -> RecordedResponse | None:
        """The server's response, or None where there is no page (404)."""
        number = self._numbers.get(url)
        if number is not None:
            return self._page(number)
        parts = urlsplit(url)
        host = self._host_numbers.get(parts.netloc)
        if host is None:
            return None
        if parts.path == "/robots.txt":
            return RecordedResponse(200, (("Content-Type", "text/plain"),), self._robots(host).encode())
        root = "/" + parts.path.split("/")[1] + "/"
        links = trap_links(parts.path, parts.query) if root in self.plan.hosts[host].trap_entrances else None
        return None if links is None else RecordedResponse(200, _HTML, self._writer.trap_page(host, url, links))

    def _page(self, number: int) -> RecordedResponse:
        page = self.plan.pages[number]
        if page.kind == REDIRECT:
            return RecordedResponse(301, (("Location", self.plan.url(page.original)), *_HTML), b"")
        body = self._writer.page(page.original if page.kind in (MIRROR, SITE_COPY) else number)
        if page.kind == SITE_COPY:
            own, copied = (self.plan.hosts[self.plan.pages[n].host].name for n in (number, page.original))
            body = body.replace(f'href="http://{copied}/'.encode(), f'href="http://{own}/'.encode())
        return RecordedResponse(200, _HTML, body)

    def _robots(self, host: int) -> str:
        delay = self.plan.hosts[host].crawl_delay_s
        return "User-agent: *\nDisallow: /private/\n" + (f"Crawl-delay: {delay:g}\n" if delay else "")

    def urls_with_labels(self) -> Iterator[tuple[str, str]]:
        """Every URL of the written form with its label: all pages, robots.txt files, the entrances of traps."""
        for number in range(len(self.plan.pages)):
            yield self.plan.url(number), self.plan.label(number)
        for host in self.plan.hosts:
            yield f"http://{host.name}/robots.txt", "_robots"
            for entrance in host.trap_entrances:
                yield from ((url, "_trap") for url in self._trap_entry_urls(f"http://{host.name}{entrance}"))

    def _trap_entry_urls(self, entrance: str) -> list[str]:
        """The first pages of a trap."""
        found = [entrance]
        for url in found:
            parts = urlsplit(url)
            for href, _ in trap_links(parts.path, parts.query) or ():
                target = canonicalize_url(href, url)
                if len(found) >= self.shape.trap_pages:
                    return found
                if target and target not in found:
                    found.append(target)
        return found


def write_synthetic_web(shape: WebShape, folder: Path) -> Path:
    """Write a synthetic web as an ordinary web; returns the folder."""
    web = SyntheticWeb(shape)
    folder.mkdir(parents=True, exist_ok=True)
    labels: list[str] = []
    with (folder / "web.warc.gz").open("wb") as warc:
        warc.write(info_record("web.warc.gz", "opilio synthetic web", _RECORDED_AT))
        for url, label in web.urls_with_labels():
            answer = web.find(url)
            assert answer is not None, url
            fetched = FetchResult(
                url=url, status=answer.status, headers=answer.headers, body=answer.body, started_at=_RECORDED_AT
            )
            warc.write(response_record(fetched))
            labels.append(f"{url}\t{label}\n")
    (folder / "labels.tsv").write_text("".join(labels), "utf-8")
    (folder / "topics.toml").write_text(tomli_w.dumps({"topic": topic_tables(web.plan)}), "utf-8")
    faults = [msgspec.to_builtins(fault) for fault in web.faults.values()]
    (folder / "hosts.toml").write_text(tomli_w.dumps({"host": faults}), "utf-8")
    return folder


def topic_tables(plan: WebPlan) -> list[dict[str, object]]:
    """The topics of a synthetic web in the format of topics.toml, with the pages each seed set reaches."""
    graph = WebLinkGraph.from_rows([plan.targets(n) for n in range(len(plan.pages))])
    kinds = ("", *GENRES) if plan.shape.genres else ("",)
    return [_topic_table(plan, graph, subject, genre) for subject in range(plan.shape.topics) for genre in kinds]


def _topic_table(plan: WebPlan, graph: WebLinkGraph, subject: int, genre: str) -> dict[str, object]:
    """A topic, or the part of it that one genre has."""
    rng = random.Random(f"seeds {plan.shape.seed} {subject}")
    words = plan.subjects[subject]
    inside = plan.articles(subject, community=0)
    outside = [
        number
        for number, p in enumerate(plan.pages)
        if p.subject >= plan.shape.topics and p.kind in (ARTICLE, TUNNEL) and p.community == 0
    ]
    relevant = [n for n in plan.articles(subject) if genre in ("", plan.genre(n))]
    inside = [n for n in inside if genre in ("", plan.genre(n))]
    sets: list[dict[str, object]] = []
    for name, pool in (("on-topic", inside), ("generic", outside)):
        for number in range(1, plan.shape.seed_sets + 1):
            picks = rng.sample(pool, min(3, len(pool)))
            reaches = int((graph.depths(picks)[relevant] >= 0).sum())
            sets.append({"name": f"{name}-{number}", "reaches": reaches, "urls": [plan.url(p) for p in picks]})
    table: dict[str, object] = {
        "name": f"{words.name} {genre}".strip(),
        "description": f"Everything about {words.name}: {', '.join(words.nouns[:6])} and {words.nouns[6]}",
        "keywords": [words.name, *words.nouns[:7]],
        "relevant": [f"topic.{words.name}" + (f".{genre}" if genre else "")],
        "seeds": sets,
    }
    if words.contexts:
        table["contexts"] = list(words.contexts)
    return table | ({"genres": [genre]} if genre else {})


def open_synthetic_web(shape: WebShape, name: str) -> Path:
    """The folder of a synthetic web in the cache, written if it is missing."""
    digest = xxhash.xxh3_64(msgspec.json.encode(shape))
    for file in sorted(files("opilio.lab.synthetic").iterdir(), key=lambda file: file.name):
        if file.is_file():
            digest.update(file.read_bytes())
    folder = default_cache_folder() / "synthetic" / digest.hexdigest() / name
    # Written last.
    if not (folder / "hosts.toml").is_file():
        write_synthetic_web(shape, folder)
    return folder
