"""Synthetic webs with exact truth: any page on demand, or the whole web written as an ordinary folder.

write(Shape(pages=3000, hosts=40), folder)      # WARC, labels, topics, faults
SyntheticWeb(Shape()).find(url)                 # one answer; traps never end here
"""

import random
from collections.abc import Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import tomli_w
import xxhash

from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.synthetic.changing import HostFaults
from opilio.lab.synthetic.html import HtmlWriter, trap_links
from opilio.lab.synthetic.plan import ARTICLE, MIRROR, REDIRECT, SITE_COPY, TUNNEL, WebPlan, WebShape
from opilio.lab.synthetic.planning import make_plan
from opilio.lab.synthetic.prose import GENRES
from opilio.lab.webs.pages import WebLinkGraph
from opilio.lab.webs.resources import default_cache_folder
from opilio.store.warc import info_record, response_record

_RECORDED_AT = 1_700_000_000.0  # a fixed moment: the same shape gives the same file
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
