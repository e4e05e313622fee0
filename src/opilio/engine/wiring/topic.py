"""Builds a topic from its settings: its example pages from files or URLs, its first table, the reader of its query log.

A query log is a file with one query per line, or a table with a column `query` and perhaps `time` (S4-03). It is only
read here; `topic.weights` makes a table from it.
"""

import csv
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import groupby, islice
from math import isfinite
from pathlib import Path
from typing import Literal

import msgspec

from opilio.core.errors import ConfigError, ParseError, TopicError
from opilio.core.protocols import Fetcher
from opilio.core.records import FetchResult, Page
from opilio.core.registry import TOPIC_EXTENSIONS, build_component, load_plugin, plugin_names
from opilio.core.settings import Settings, TopicSettings
from opilio.engine.wiring.fetcher import build_fetcher
from opilio.fetch.http import follow_redirects
from opilio.parse.html import HtmlParser
from opilio.text.languages import guess_language
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.expansion import Expansion, ExpansionStart, QueryLogReader
from opilio.topic.page_terms import example_texts
from opilio.topic.setup import background_idf, build_genres, build_vocabulary, check_language
from opilio.topic.topic import SourceWeights, Topic, build_topic_table, make_stemmer, make_topic
from opilio.topic.weights import TfDf, TfIdf, WeightScheme, stem_query


async def read_examples(places: list[str], fetcher: Fetcher, option: str) -> tuple[str, ...]:
    """Title and main text of each example, without what examples of one site share.

    ConfigError names an example that can't be read.
    """
    return example_texts([await read_page(place, fetcher, option) for place in places])


async def detect_example_language(settings: Settings) -> str:
    """Language detected from the example pages; empty if English or uncertain."""
    fetcher = build_fetcher(settings)
    try:
        return guess_language(" ".join(await read_examples(settings.topic.examples, fetcher, "topic.examples")))
    finally:
        await fetcher.close()


def check_example_files(topic: TopicSettings) -> None:
    """ConfigError for example files that are not pages, before anything is created; URLs are fetched later."""
    for option in ("examples", "counterexamples"):
        for place in getattr(topic, option):
            if not _is_web_url(place):
                _parse_page(_read_file(Path(place), f"topic.{option}"), place, f"topic.{option}")


async def read_page(place: str, fetcher: Fetcher, option: str) -> Page:
    """A page from a file or a URL; ConfigError where it can't be read."""
    fetched = await follow_redirects(fetcher, place) if _is_web_url(place) else _read_file(Path(place), option)
    return _parse_page(fetched, place, option)


def _is_web_url(place: str) -> bool:
    return "://" in place


def _parse_page(fetched: FetchResult, place: str, option: str) -> Page:
    if fetched.failure is not None or not 200 <= fetched.status < 300:
        cause = fetched.failure.kind if fetched.failure else f"status {fetched.status}"
        raise ConfigError(f"{option} '{place}': can't be fetched ({cause}); save the page and name the file instead")
    try:
        return HtmlParser(lists=True).parse(fetched)
    except ParseError as error:
        raise ConfigError(f"{option} '{place}': this page can't be read: {error}") from error


def _read_file(path: Path, option: str) -> FetchResult:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} '{path}': can't be read: {error.strerror}") from error
    kind = "text/html" if path.suffix.lower() in (".html", ".htm", ".xhtml") else ""
    headers = (("Content-Type", kind),) if kind else ()
    return FetchResult(url="https://example.invalid/", status=200, headers=headers, body=body)


QUERY_COLUMNS = ("query", "q", "keywords", "text")
TIME_COLUMNS = ("time", "timestamp", "date", "at", "querytime")
SEPARATORS = (",", ";", "\t")
_QUERY_COLUMN_SET = frozenset(QUERY_COLUMNS)
# Empty intervals in a row after which nothing asked before is left: memory is at most a half.
MAX_EMPTY_INTERVALS = 64


class LoggedQuery(msgspec.Struct, frozen=True):
    """A query of a log with its time (seconds since 1970, 0 if the log has none)."""

    text: str
    at: float = 0.0


def read_query_log(path: Path) -> list[LoggedQuery]:
    """All queries of a log in their order; TopicError names the file and what is wrong with it."""
    text = _read_text(path)
    first = text.partition("\n")[0]
    for separator in SEPARATORS:
        header = _parse_header(first, separator)
        if len(header) > 1 and not _QUERY_COLUMN_SET.isdisjoint(header):
            return _parse_table(path, text, header, separator)
        # Queries may hold commas; but not where the file is a table by its name or has a column for the time.
        if len(header) > 1 and (path.suffix.lower() in (".csv", ".tsv") or not set(TIME_COLUMNS).isdisjoint(header)):
            raise TopicError(f"query log {path}: has the columns {', '.join(header)}; call that of the queries 'query'")
    lines = [line.strip() for line in text.splitlines()]
    return [
        LoggedQuery(line) for line in (lines[1:] if lines and lines[0].lower() in _QUERY_COLUMN_SET else lines) if line
    ]


def _read_text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TopicError(f"query log {path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TopicError(f"query log {path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if "\0" in text[:2]:
        raise TopicError(f"query log {path}: is not UTF-8 text, perhaps UTF-16; save it as UTF-8")
    return text


def _parse_header(line: str, separator: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in line.split(separator)]


def split_intervals(queries: Iterable[LoggedQuery], length_s: float) -> list[list[str]]:
    """The queries of each interval, oldest first; without a length they are one interval.

    Intervals without a query count too: what was asked before fades (S4-E8). Queries without a time are of the first.
    """
    asked = sorted(queries, key=lambda q: q.at)
    if not asked or length_s <= 0:
        return [[q.text for q in asked]]
    first = next((q.at for q in asked if q.at), 0.0)
    found: list[list[str]] = []
    last = 0.0
    for number, same in groupby(asked, key=lambda q: max(0.0, q.at - first) // length_s):
        found += [[] for _ in range(int(min(number - last - 1, MAX_EMPTY_INTERVALS)))]
        found.append([q.text for q in same])
        last = number
    return found


def _parse_table(path: Path, text: str, header: list[str], separator: str) -> list[LoggedQuery]:
    """Quotes hold a cell together, but for tables with tabs: there they are a part of the query."""
    asked = next(header.index(name) for name in QUERY_COLUMNS if name in header)
    timed = next((header.index(name) for name in TIME_COLUMNS if name in header), None)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    rows = csv.reader(StringIO(text, newline=""), delimiter=separator, quoting=quoting)
    queries = []
    try:
        for row in islice(rows, 1, None):
            query, time = (row[at].strip() if at is not None and at < len(row) else "" for at in (asked, timed))
            if query:
                queries.append(LoggedQuery(query, _parse_time_s(time, path, rows.line_num)))
    except csv.Error as error:
        raise TopicError(f"query log {path}: line {rows.line_num}: {error}; perhaps a quote is left open") from error
    return queries


def _parse_time_s(text: str, path: Path, line: int) -> float:
    """A time as seconds: a number, or ISO 8601 (UTC where it names no zone)."""
    if not text:
        return 0.0
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise TopicError(
            f"query log {path}: line {line}: '{text}' is not a time; write 2026-01-31T12:00 or seconds since 1970"
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


TERM_WEIGHTINGS: dict[str, WeightScheme] = {"tf-idf": TfIdf(), "tf-df": TfDf(), "corpus": TfIdf(idf_source="corpus")}


def build_topic(settings: Settings, positive: tuple[str, ...] = (), negative: tuple[str, ...] = ()) -> Topic:
    """The topic that the settings describe, with the texts of example pages."""
    s = settings.topic
    topic = make_topic(
        s.name,
        s.keywords,
        description=s.description,
        positive=positive,
        negative=negative,
        phrases=tuple(s.phrases),
        contexts=tuple(s.contexts),
        genres=tuple(s.genres),
        language=s.language,
    )
    for name in plugin_names(TOPIC_EXTENSIONS):
        topic = load_plugin(TOPIC_EXTENSIONS, name)(topic, settings)
    check_topic_settings(settings, topic)
    return topic


def initial_topic_state(settings: Settings, topic: Topic) -> bytes:
    """The snapshot of the topic's table before the first page."""
    return build_initial_topic(settings, topic).snapshot()


def build_initial_topic(settings: Settings, topic: Topic) -> EvolvingTopic:
    """The topic before the first page: its table, and how it expands."""
    vocabulary = build_vocabulary(settings)
    mixture = SourceWeights(
        sentence=settings.topic.name_weight,
        size=settings.topic.table_size,
        weighing=TERM_WEIGHTINGS[settings.topic.weighing],
    )
    table = build_topic_table(topic, vocabulary, background_idf, mixture)
    expansion = initial_expansion(settings, table.weights)
    evolving = EvolvingTopic(table, expansion, background_idf, build_query_log_reader(settings, vocabulary))
    if expansion.start_from_log():
        evolving.grow()
        table = msgspec.structs.replace(evolving.table, version=0, added=())
        return EvolvingTopic(table, expansion, background_idf)
    return evolving


def initial_expansion(settings: Settings, weights: Mapping[str, float] | None = None) -> Expansion:
    """How the topic's table grows, before the first page. Without weights: the type for a stored state."""
    start = ExpansionStart(weights or {}, len(settings.seeds.urls), searched=bool(settings.seeds.engines))
    expansion: Expansion = build_component("expansion", settings.expansion, start)
    return expansion


def check_topic_settings(settings: Settings, topic: Topic) -> None:
    """ConfigError or TopicError for a topic that can't be used."""
    # The lemmatizer checks its languages itself.
    if not settings.topic.normaliser.startswith("lemma"):
        check_language(settings.topic.language)
    vocabulary = build_vocabulary(settings)
    build_genres(settings, vocabulary, topic.genres)
    initial_expansion(settings)
    build_component("boost", settings.boost)
    build_component("order", settings.order)
    if settings.senses["kind"] == "contexts" and not any(map(vocabulary.terms, topic.contexts)):
        raise TopicError("senses.kind = 'contexts' needs topic.contexts: words of the meanings to exclude")
    if settings.expansion.get("log"):
        read_query_log(Path(settings.expansion["log"]))


def build_query_log_reader(settings: Settings, vocabulary: Vocabulary) -> QueryLogReader | None:
    """A function that reads the next queries of the log; None where the expansion uses no log."""
    if not settings.expansion.get("log"):
        return None
    name, step = str(settings.expansion["log"]), int(settings.expansion["per_interval"])
    stem_word, phrases = make_stemmer(vocabulary), settings.topic.phrases

    def read_on(position: int) -> tuple[list[list[str]], int, dict[str, str]]:
        log = _read_queries(Path(name), first=not position)
        # A log that became shorter was replaced: read it from its start.
        position = position if log is None or position <= len(log) else 0
        texts = (log or [])[position : position + step if step else None]
        queries = [stem_query(text, stem_word, phrases) for text in texts]
        shown = {stem: vocabulary.surface_of(term_id(stem)) or stem for query in queries for stem in query}
        return queries, position + len(texts), shown

    return read_on


def _read_queries(log: Path, first: bool) -> list[str] | None:
    try:
        return [query.text for query in read_query_log(log)]
    except TopicError:
        if first:
            raise
        # A log that is being replaced must not end the crawl: the table stays until the next interval.
        return None
