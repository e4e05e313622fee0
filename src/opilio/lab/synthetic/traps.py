"""Spider traps beside an honest web: eight kinds, each on a host of its own, endless and made on demand.

Their anchors use words of the topic, so that a focused crawler follows them. The text is noise, a copy with small
changes, or (`farm`) the words of the topic over and over. Nothing on a trap host is worth a fetch.
"""

import random
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple
from urllib.parse import urlsplit

from opilio.fetch.recorded import RecordedResponse
from opilio.lab.synthetic.faults import hash_fraction
from opilio.lab.synthetic.prose import ProseGenerator, Subject, load_word_lists, proper_name
from opilio.lab.webs.web import ResponseSource

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


class TrapHost:
    """One trap. Every response depends only on the URL."""

    def __init__(self, kind: str, topic: Subject) -> None:
        self.name = f"www.{kind}-trap.example"
        self._make = _KINDS[kind]
        self._topic = topic

    def find(self, path: str, query: str) -> RecordedResponse:
        """The response to any URL of the host."""
        rng = random.Random(f"{self.name}{path}?{query}")
        return self._make(_TrapVisit(self._topic, path, query, rng))

    def entrance(self, rng: random.Random) -> str:
        """A link into the trap, as an honest page has it."""
        return f'<p><a href="http://{self.name}/">{escape(_anchor(self._topic, rng))}</a></p>'


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
}
TRAP_KINDS = tuple(_KINDS)


class TrappedWeb:
    """A web and some trap hosts; one honest page in ten links to a trap."""

    def __init__(self, honest: ResponseSource, kinds: Sequence[str], topic: Subject) -> None:
        self._honest = honest
        self._traps = [TrapHost(kind, topic) for kind in kinds]
        self._by_name = {trap.name: trap for trap in self._traps}

    @property
    def hosts(self) -> dict[str, int]:
        return {**self._honest.hosts, **dict.fromkeys(self._by_name, 1)}

    def is_trap(self, url: str) -> bool:
        return urlsplit(url).netloc in self._by_name

    def find(self, url: str) -> RecordedResponse | None:
        """The response of the honest web, with entrances, or of a trap."""
        parts = urlsplit(url)
        trap = self._by_name.get(parts.netloc)
        if trap is not None:
            return trap.find(parts.path, parts.query)
        found = self._honest.find(url)
        if found is None or not self._traps or b"</body>" not in found.body or hash_fraction(url) >= _ENTRANCE_SHARE:
            return found
        rng = random.Random(f"entrance {url}")
        entrances = "".join(trap.entrance(rng) for trap in self._traps)
        return RecordedResponse(
            found.status, found.headers, found.body.replace(b"</body>", entrances.encode() + b"</body>")
        )
