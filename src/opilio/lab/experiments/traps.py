"""How much of the budget spider traps take: replays of a synthetic web with traps, without and with waste control.

Nine kinds of traps stand beside an honest web, each on a host of its own; two more (`views`, `diary`) are among the
pages of the honest hosts. Their anchors use words of the topic, so that a focused crawler follows them. Their text is
noise, a copy with small changes, or (`farm`) the words of the topic over and over. Nothing in a trap is worth a fetch.

The crawl is polite (one request per host and second) and has more connections than honest hosts, so a trap host is
asked whenever its pause is over, however low its URLs are ranked.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from opilio.core.clock import VirtualClock
from opilio.core.events import BatchCommitted, Event
from opilio.core.settings import Settings
from opilio.dedup import create_dedup_tables
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.wiring.assembly import open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, seed_leads
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.fetch.decoding import RecordedResponse
from opilio.frontier.schema import create_frontier_tables
from opilio.lab.experiments.replay import ReplayFetcher, lab_settings
from opilio.lab.synthetic.changing import hash_fraction
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.prose import ProseGenerator, Subject, load_word_lists, proper_name
from opilio.lab.synthetic.web import SyntheticWeb
from opilio.lab.webs.topics import TopicBrief
from opilio.lab.webs.web import ResponseSource
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter

_HTML = ("Content-Type", "text/html; charset=utf-8")
_LINKS_PER_PAGE = 8
# Share of the honest pages that link to a trap.
_ENTRANCE_SHARE = 0.1


class _TrapVisit(NamedTuple):
    """A request to a trap; `rng` depends only on the URL."""

    topic: Subject
    path: str
    query: str
    rng: random.Random
    # The honest page at this path.
    page: RecordedResponse | None


class Trap:
    """One trap. Every response depends only on the URL."""

    def __init__(self, kind: str, topic: Subject) -> None:
        self._kind = kind
        self.name = f"www.{kind}-trap.example"
        self._make = _KINDS[kind]
        self._topic = topic

    @property
    def domain(self) -> str:
        return self.name.removeprefix("www.")

    def owns(self, host: str, path: str, query: str) -> bool:
        """Is this a URL of the trap?"""
        mark = _AMONG_GOOD_PAGES.get(self._kind)
        return host.partition(".")[2] == self.domain if mark is None else mark in f"{path}?{query}"

    def find(self, url: SplitResult, page: RecordedResponse | None) -> RecordedResponse:
        """The response to any URL of the trap; `page`: what the honest web has there."""
        rng = random.Random(f"{url.netloc}{url.path}?{url.query}")
        return self._make(_TrapVisit(self._topic, url.path, url.query, rng, page))

    def entrance(self, rng: random.Random) -> str:
        """A link into the trap, as an honest page has it."""
        href = _ENTRANCES.get(self._kind, f"http://{self.name}/")
        return f'<p><a href="{href}">{escape(_anchor(self._topic, rng))}</a></p>'


def _anchor(topic: Subject, rng: random.Random) -> str:
    return f"{rng.choice(topic.adjectives or ('new',))} {rng.choice(topic.nouns)} {rng.choice(topic.nouns)}"


def _page(title: str, text: str, links: Sequence[tuple[str, str]]) -> RecordedResponse:
    items = "".join(f'<li><a href="{escape(href)}">{escape(anchor)}</a>' for href, anchor in links)
    markup = (
        f"<html><head><title>{escape(title)}</title></head><body><p>{escape(text)}</p><ul>{items}</ul></body></html>"
    )
    return RecordedResponse(200, (_HTML,), markup.encode())


def _noise(rng: random.Random, sentences: int = 12) -> str:
    """Prose without a subject."""
    general = load_word_lists().general
    author = ProseGenerator(general, general, 0.0, rng)
    return " ".join(author.sentence() for _ in range(sentences))


def _words(rng: random.Random, count: int) -> str:
    return "-".join(proper_name(rng).lower() for _ in range(count))


def _calendar(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    day = int(visit.path.rpartition("/")[2] or 0) if visit.path.rpartition("/")[2].isdecimal() else 0
    links = [
        (f"/events/{2000 + (day + n) // 365}/{(day + n) // 30 % 12 + 1}/{day + n}", _anchor(visit.topic, rng))
        for n in range(1, _LINKS_PER_PAGE + 1)
    ]
    return _page(f"Events on day {day}", f"There are no events on this day. {proper_name(rng)}", links)


def _sessions(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    items = [rng.randrange(40) for _ in range(_LINKS_PER_PAGE)]
    links = [(f"/shop/item-{item}?visit={rng.getrandbits(64):016x}", _anchor(visit.topic, rng)) for item in items]
    return _page("Shop", _noise(random.Random(f"item {visit.path}")), links)


def _facets(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    names = ("colour", "size", "maker", "year", "sort", "view", "page")
    chosen = dict(part.partition("=")[::2] for part in visit.query.split("&") if part)
    links = []
    for _ in range(_LINKS_PER_PAGE):
        ways = {**chosen, rng.choice(names): str(rng.randrange(50))}
        links.append(("/list?" + "&".join(f"{n}={v}" for n, v in sorted(ways.items())), _anchor(visit.topic, rng)))
    return _page("All offers", _noise(rng, 4), links)


def _path(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    base = "/maze" if visit.path == "/" else visit.path.rstrip("/") if visit.path.count("/") < 12 else "/maze"
    links = [(f"{base}/{_words(rng, 1)}", _anchor(visit.topic, rng)) for _ in range(_LINKS_PER_PAGE)]
    return _page(_words(rng, 3), _noise(rng), links)


def _soft_404(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    links = [(f"/{_words(rng, 2)}.html", _anchor(visit.topic, rng)) for _ in range(_LINKS_PER_PAGE)]
    return _page("Our pages", f"Is this what was asked for? {_noise(rng, 8)}", links)


def _copies(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    author = ProseGenerator(load_word_lists().general, visit.topic, 0.5, random.Random(f"copies {visit.topic.name}"))
    text = " ".join(author.sentence() for _ in range(30))
    links = [(f"/print/{rng.randrange(10**6)}/{rng.randrange(10**6)}", _anchor(visit.topic, rng)) for _ in range(8)]
    return _page(author.title(), f"{text} {proper_name(rng)} {proper_name(rng)}", links)


def _redirects(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    if visit.path != "/" and rng.random() < 0.75:
        return RecordedResponse(302, (_HTML, ("Location", f"/go/{_words(rng, 2)}")), b"")
    links = [(f"/go/{_words(rng, 2)}", _anchor(visit.topic, rng)) for _ in range(_LINKS_PER_PAGE)]
    return _page("Redirects", _noise(rng), links)


def _farm(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    words = [*visit.topic.nouns, *visit.topic.adjectives, *visit.topic.verbs]
    text = " ".join(rng.choice(words) for _ in range(200))
    links = [
        (f"/best/{rng.choice(visit.topic.nouns)}-{rng.randrange(10**6)}", _anchor(visit.topic, rng)) for _ in range(8)
    ]
    return _page(_anchor(visit.topic, rng), text, links)


def _hosts(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    links = [
        (
            f"http://{rng.choice(visit.topic.nouns)}-{rng.randrange(10**6)}.hosts-trap.example/",
            _anchor(visit.topic, rng),
        )
        for _ in range(_LINKS_PER_PAGE)
    ]
    return _page(_words(rng, 3), _noise(rng), links)


def _views(visit: _TrapVisit) -> RecordedResponse:
    """Other views of an honest page: its text, one more word, and links to further views."""
    rng, page = visit.rng, visit.page
    if page is None:
        return RecordedResponse(404, (_HTML,), b"")
    links = "".join(
        f'<li><a href="?view={rng.randrange(10**6)}">{escape(_anchor(visit.topic, rng))}</a>'
        for _ in range(_LINKS_PER_PAGE)
    )
    end = f"<p>{proper_name(rng)}</p><ul>{links}</ul></body>"
    return RecordedResponse(200, (_HTML,), page.body.replace(b"</body>", end.encode()))


def _diary(visit: _TrapVisit) -> RecordedResponse:
    rng = visit.rng
    number = visit.path.rpartition("-")[2]
    day = int(number) if number.isdecimal() else 0
    links = [(f"/diary/{day % 7}/of/day-{day + n}", _anchor(visit.topic, rng)) for n in range(1, _LINKS_PER_PAGE + 1)]
    return _page(f"Day {day}", _noise(rng), links)


_Maker = Callable[[_TrapVisit], RecordedResponse]
_KINDS: dict[str, _Maker] = {
    "calendar": _calendar,
    "sessions": _sessions,
    "facets": _facets,
    "path": _path,
    "soft-404": _soft_404,
    "copies": _copies,
    "redirects": _redirects,
    "farm": _farm,
    "hosts": _hosts,
    "views": _views,
    "diary": _diary,
}
# What the URLs of a trap have in common that has no host of its own, and the links to it.
_AMONG_GOOD_PAGES = {"views": "?view=", "diary": "/of/day-"}
_ENTRANCES = {"views": "?view=1", "diary": "/diary/0/of/day-1"}
TRAP_KINDS = tuple(_KINDS)


class TrappedWeb:
    """A web and some traps; one honest page in ten links to them."""

    def __init__(self, honest: ResponseSource, kinds: Sequence[str], topic: Subject) -> None:
        self._honest = honest
        self._traps = [Trap(kind, topic) for kind in kinds]

    @property
    def hosts(self) -> dict[str, int]:
        return {**self._honest.hosts, **{trap.name: 1 for trap in self._traps}}

    def is_trap(self, url: str) -> bool:
        return self._trap(urlsplit(url)) is not None

    def _trap(self, url: SplitResult) -> Trap | None:
        return next((trap for trap in self._traps if trap.owns(url.netloc, url.path, url.query)), None)

    def find(self, url: str) -> RecordedResponse | None:
        """The response of the honest web, with entrances, or of a trap."""
        parts = urlsplit(url)
        trap = self._trap(parts)
        if trap is not None:
            return trap.find(parts, self._honest.find(urlunsplit(parts._replace(query=""))))
        found = self._honest.find(url)
        if found is None or not self._traps or b"</body>" not in found.body or hash_fraction(url) >= _ENTRANCE_SHARE:
            return found
        rng = random.Random(f"entrance {url}")
        entrances = "".join(trap.entrance(rng) for trap in self._traps)
        return RecordedResponse(
            found.status, found.headers, found.body.replace(b"</body>", entrances.encode() + b"</body>")
        )


_START_TIME_S = 1_700_000_000.0
_LATENCY_S = 0.1
# The first topic of a synthetic web.
_SUBJECT = 0
ALL_KINDS = "all"
# All kinds that have hosts of their own.
SEPARATE_KINDS = "separate"


class TrapRun(msgspec.Struct, kw_only=True):
    """One crawl: how many fetches went to traps, and how many pages of the topic it found."""

    traps: str
    control: bool
    fetches: int = 0
    wasted: int = 0
    relevant: int = 0

    @property
    def waste(self) -> float:
        return self.wasted / self.fetches if self.fetches else 0.0


class TrapOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The web and the crawl of a trap experiment."""

    strategy: str = "opilio"
    budget: int = 2_000
    pages: int = 5_000
    hosts: int = 8
    seed: int = 1


def trap_names() -> list[str]:
    """What can be run: no trap, each kind, those with hosts of their own together, all together."""
    return ["none", *TRAP_KINDS, SEPARATE_KINDS, ALL_KINDS]


def _kinds_named(name: str) -> list[str]:
    if name == SEPARATE_KINDS:
        return [kind for kind in TRAP_KINDS if kind not in _AMONG_GOOD_PAGES]
    return [kind for kind in TRAP_KINDS if name in (kind, ALL_KINDS)]


def run_trap_case(traps: str, options: TrapOptions, *, control: bool) -> TrapRun:
    """One crawl beside these traps, with or without trap detection and waste control."""
    shape = WebShape(
        pages=options.pages, hosts=options.hosts, seed=options.seed, traps=(), slow_hosts=0, failing_hosts=0
    )
    honest = SyntheticWeb(shape)
    web = TrappedWeb(honest, _kinds_named(traps), honest.plan.subjects[_SUBJECT])
    run = TrapRun(traps=traps, control=control)
    asyncio.run(_crawl(web, _settings(honest, options, control), run, _relevant_urls(honest)))
    return run


def _settings(honest: SyntheticWeb, options: TrapOptions, control: bool) -> Settings:
    subject = honest.plan.subjects[_SUBJECT]
    brief = TopicBrief(name=subject.name, description="", keywords=(subject.name, *subject.nouns[:7]))
    seeds = [honest.plan.url(page) for page in honest.plan.articles(_SUBJECT, community=0)[:3]]
    more = {
        "politeness": {"delay_s": 1.0},
        "engine": {"connections": 2 * options.hosts},
        "frontier": {"traps": control},
    }
    return lab_settings(options.strategy, brief, seeds, options.budget, more)


def _relevant_urls(honest: SyntheticWeb) -> frozenset[str]:
    return frozenset(honest.plan.url(page) for page in honest.plan.articles(_SUBJECT))


async def _crawl(web: TrappedWeb, settings: Settings, run: TrapRun, relevant: frozenset[str]) -> None:
    clock = VirtualClock(_START_TIME_S)
    collection = Collection.in_memory()
    create_frontier_tables(collection.connection)
    create_dedup_tables(collection.connection)
    topic = build_topic(settings)

    def count(event: Event) -> None:
        for outcome in event.outcomes if isinstance(event, BatchCommitted) else ():
            run.fetches += 1
            run.wasted += web.is_trap(outcome.lead.url)
            run.relevant += outcome.lead.url in relevant

    try:
        async with open_analysis(settings, topic, initial_states(settings, topic)) as analysis:
            url_filter = build_url_filter(settings, collection, resumed=False)
            frontier = build_frontier(settings, collection, url_filter)
            frontier.add(seed_leads(settings), clock.now())
            fetcher = ReplayFetcher(web, clock, _LATENCY_S)
            writer = CollectionWriter(collection, None)
            environment = Environment(collection, writer, frontier, fetcher, clock, url_filter)
            engine = build_engine(settings, environment, analysis, resumed=False)
            engine.add_listener(count)
            await engine.run()
    finally:
        collection.close()


def format_trap_table(runs: Sequence[TrapRun]) -> str:
    """A Markdown table: one line for each set of traps, without and with waste control."""
    lines = [
        "| traps | wasted without control | wasted with control | relevant without | relevant with |",
        "|---|---|---|---|---|",
    ]
    by_case = {(run.traps, run.control): run for run in runs}
    for name in dict.fromkeys(run.traps for run in runs):
        before, after = (
            by_case.get((name, control), TrapRun(traps=name, control=control)) for control in (False, True)
        )
        lines.append(f"| {name} | {before.waste:.1%} | {after.waste:.1%} | {before.relevant} | {after.relevant} |")
    return "\n".join(lines)
