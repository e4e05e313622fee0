"""Small parts of the other kinds: judge, senses, boost, order, expansion, topic, seed engine, fetcher, documents."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape

import numpy as np
from msgspec.structs import replace

from opilio.core.clock import Clock
from opilio.core.errors import ConfigError, ParseError
from opilio.core.protocols import Fetcher, Judge, SeedSource
from opilio.core.records import EngineAnswer, EngineHit, FetchResult, Reading, Verdict
from opilio.core.settings import Positive, Settings, Share
from opilio.engine.wiring.fetcher import build_curl_fetcher
from opilio.engine.wiring.seed_engines import EngineContext
from opilio.frontier.policy import BestFirst, Order, QueuePosition, QueueTime
from opilio.parse.documents.formats import DocumentFormat, HtmlDocument, html_page
from opilio.rank.link_graph import Boost
from opilio.topic.expansion import Expansion, ExpansionStart
from opilio.topic.setup import BuildContext
from opilio.topic.topic import Topic
from opilio.topic.weights import Counts, Idf, WeightTable, table_from_weights


class AnyWordJudge:
    """Relevant: a page that contains any word of the topic's name."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [word.lower() for word in words]

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        text = reading.page.text.lower()
        found = sum(word in text for word in self.words) / len(self.words)
        return Verdict(score=found, relevant=found > 0.0)


def any_word_judge(context: BuildContext) -> Judge:
    """The factory of `judge.kind = "any-word"`."""
    return AnyWordJudge(context.topic.name.split())


class LongPages:
    """Around another judge: a page with few words is not relevant."""

    def __init__(self, judge: Judge, words: int) -> None:
        self.inner = judge
        self.words = words

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        verdict = self.inner.judge(reading)
        long = len(reading.page.text.split()) >= self.words
        return verdict if long else replace(verdict, relevant=False)


def long_pages(judge: Judge, _: BuildContext, *, words: Positive = 3) -> Judge:
    """The factory of `senses.kind = "long-pages"`."""
    return LongPages(judge, words)


def ceiling_boost(*, most: Share = 0.5, every: Positive = 1) -> Boost:
    """The factory of `boost.kind = "ceiling"`: no link has a score above `most`, whatever the link graph says."""
    return Boost(every, lambda graph: np.zeros(len(graph)), lambda own, _: np.minimum(own, most))


def quoted_phrases(topic: Topic, _: Settings) -> Topic:
    """Words in quotation marks in the name of a topic become phrases. Called for every topic."""
    return replace(topic, phrases=(*topic.phrases, *re.findall(r'"([^"]+)"', topic.name)))


class NewestFirst(BestFirst, frozen=True, kw_only=True):
    """The URL that was found last is fetched first."""

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        """See `Order`."""
        return QueuePosition(float(seq))


def newest_first_order() -> Order:
    """The factory of `order.kind = "newest-first"`."""
    return NewestFirst()


class CommonestWords(Expansion, tag="shallow-commonest"):
    """Adds the most frequent word of each relevant page. The fields are stored, so the tag must be unique."""

    words: list[str] = []
    limit: int = 5

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Choose a word of a page."""
        new = {stem: n for stem, n in counts.items() if stem not in self.words}
        if new and len(self.words) < self.limit:
            self.words.append(max(new, key=new.__getitem__))

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table with the words chosen so far."""
        return table.next_version(table_from_weights({**dict.fromkeys(self.words, 0.5), **table.weights}))


def commonest_expansion(_: ExpansionStart, *, limit: Positive = 5) -> Expansion:
    """The factory of `expansion.kind = "commonest"`."""
    return CommonestWords(limit=limit)


class OnePage:
    """A seed engine that answers every query with one URL."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url

    async def find(self, query: str, limit: int, genre: str = "") -> Sequence[EngineAnswer]:
        """See `SeedSource`."""
        del query, limit, genre
        return [EngineAnswer(voter=self.name, hits=(EngineHit(url=self.url),))]


def one_page_engine(context: EngineContext, *, url: str = "") -> SeedSource:
    """The factory of engines with `kind = "one-page"`."""
    if not url:
        raise ConfigError(f"seeds.engines.{context.name}.url: give the URL of the page")
    return OnePage(context.name, url)


class AnnouncingFetcher:
    """The fetcher on libcurl, with a line on stderr for each request."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        """See `Fetcher`."""
        print(f"GET {url}", file=sys.stderr)
        return await self.fetcher.fetch(url, validators)

    async def close(self) -> None:
        """Close the connections."""
        await self.fetcher.close()


def announcing_fetcher(settings: Settings, clock: Clock | None = None) -> Fetcher:
    """The factory of `fetch.client = "announcing"`."""
    return AnnouncingFetcher(build_curl_fetcher(settings, clock))


def json_to_html(body: bytes) -> HtmlDocument:
    """The texts of a JSON document, one paragraph each."""
    try:
        texts = list(_texts(json.loads(body)))
    except (ValueError, RecursionError) as error:
        raise ParseError(f"document: the JSON can't be read ({error})") from error
    return HtmlDocument(
        html=html_page("".join(f"<p>{escape(text)}</p>" for text in texts), title=texts[0] if texts else "")
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)


JSON = DocumentFormat(
    name="JSON",
    types=("application/json",),
    extensions=("json",),
    to_html=json_to_html,
    recognizes=lambda body: body.lstrip()[:1] == b"{",
)
