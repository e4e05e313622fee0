"""Finds more seeds while crawling: when nothing is left to fetch, engines are queried.

Queries and their results are in the database, one commit for each query, so a killed crawl resumes and sends no query
twice. With sources that respond the same, a crawl is reproducible. Also here: the seed request of the settings (the
query, and which URLs may be used), and the check whether the seeds were visited (S3-12). That check reads only stored
data, so it is right after a kill, for seeds that redirect or are refused, and for every agent.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from opilio.core.events import Event, SeedsFound
from opilio.core.protocols import Frontier, SeedSource
from opilio.core.records import Lead, Seed, Tier, UrlState, url_key
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.fetch.addresses import is_private_host
from opilio.frontier.sqlite.queries import host_wakes_at
from opilio.seeds.finder import FoundSeeds, SeedRequest, find_seeds
from opilio.seeds.queries import IsWord, QueryYield, candidate_queries, distinctive_words, exhaustion_reason, next_query
from opilio.store.collection import Collection
from opilio.store.pages import sample_texts
from opilio.store.run_tables import SeedQuery, count_judged, last_location, read_seed_queries, write_seed_query
from opilio.store.writer import CollectionWriter
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import EvolvingTopic

MAX_QUERY_WORDS = 5  # of the keywords, where a topic has no name


def build_seed_request(settings: Settings, genres: Sequence[str] = ()) -> SeedRequest:
    """What engines are asked: the topic as it was named, or its keywords (S4-12); each genre by itself (S3-02)."""
    topic, seeds = settings.topic, settings.seeds
    query = topic.name or " ".join(list(topic.keywords)[:MAX_QUERY_WORDS])
    wanted = tuple(dict.fromkeys("" if genre == "web" else genre for genre in (genres or topic.genres)))
    return SeedRequest(query=query, genres=wanted or ("",), limit=seeds.limit, agree=seeds.agree)


def is_allowed_seed(settings: Settings, seed: Seed) -> bool:
    """Engines may return private addresses: a user's seed would be an error, this one is dropped."""
    return settings.fetch.allow_private or not is_private_host(urlsplit(seed.url).hostname or "")


NOTHING_LEFT = "nothing left to fetch"
MAX_FRUITLESS_QUERIES = 3  # queries in a row that bring nothing new
MAX_SAMPLED_PAGES = 300  # relevant pages whose titles are looked at, and as many others


class Reseeding(Protocol):
    """Called when the frontier is empty. `more` reports the seeds found; `reason` is why there are no more."""

    stop_reason: str

    async def find_more_seeds(self, now: float) -> Sequence[Event]: ...


class NoReseeding:
    """Where no engine is configured: dry is dry."""

    stop_reason = NOTHING_LEFT

    async def find_more_seeds(self, now: float) -> Sequence[Event]:  # noqa: ARG002 the protocol's signature
        return ()


class ReseedTargets:
    """What a scout reads and writes. A bundle without methods."""

    def __init__(
        self, collection: Collection, writer: CollectionWriter, frontier: Frontier, evolving_topic: EvolvingTopic
    ) -> None:
        self.collection = collection
        self.writer = writer
        self.frontier = frontier
        self.evolving_topic = evolving_topic


class ReseedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop, which words may stand in a query, and which seeds are left out."""

    max_queries: int
    min_precision: float
    is_word: IsWord = str.isalpha
    is_allowed_seed: Callable[[Seed], bool] = bool


class Reseeder:
    """Asks `sources` until a query brings something new, no query is left, or it is not worth it any more."""

    def __init__(
        self, shelves: ReseedTargets, sources: Sequence[SeedSource], wish: SeedRequest, limits: ReseedLimits
    ) -> None:
        self._targets = shelves
        self._sources = sources
        self._request = wish
        self._limits = limits
        self.stop_reason = ""

    async def find_more_seeds(self, now: float) -> list[Event]:
        """Queue new seeds; `reason` is empty where there are some."""
        events: list[Event] = []
        for _ in range(MAX_FRUITLESS_QUERIES):
            query = self._next_query()
            if not query:
                return events
            found = await find_seeds(self._sources, msgspec.structs.replace(self._request, query=query))
            event = self._commit_seeds(query, found, now)
            events.append(event)
            self.stop_reason = f"{NOTHING_LEFT}; no engine answered" if not found.voters and found.problems else ""
            if self.stop_reason or event.new:
                return events
        self.stop_reason = f"{NOTHING_LEFT}; the last {MAX_FRUITLESS_QUERIES} queries brought nothing new"
        return events

    def _next_query(self) -> str:
        """What to ask next; empty, with the reason, where nothing should be asked."""
        connection, evolving_topic = self._targets.collection.connection, self._targets.evolving_topic
        asked = read_seed_queries(connection)
        further = [one for one in asked if one.while_crawling]
        if len(further) >= self._limits.max_queries:
            self.stop_reason = f"{NOTHING_LEFT}; all {self._limits.max_queries} queries (seeds.queries) were asked"
            return ""
        worn = exhaustion_reason(
            [QueryYield(e.query, *count_judged(connection, e.keys)) for e in further], self._limits.min_precision
        )
        if worn:
            self.stop_reason = f"{NOTHING_LEFT}; {worn}"
            return ""
        keywords = [keyword.label for keyword in evolving_topic.table.keywords]
        telling = distinctive_words(
            self._sample_texts(relevant=True), self._sample_texts(relevant=False), self._limits.is_word
        )
        query = next_query(candidate_queries(self._request.query, keywords, telling), [one.query for one in asked])
        self.stop_reason = "" if query else f"{NOTHING_LEFT}; no query is left to ask"
        return query

    def _sample_texts(self, *, relevant: bool) -> list[str]:
        return sample_texts(self._targets.collection.connection, relevant, MAX_SAMPLED_PAGES)

    def _commit_seeds(self, query: str, found: FoundSeeds, now: float) -> SeedsFound:
        """One commit: the new seeds, where they came from, and that this was asked."""
        shelves = self._targets
        seeds = [seed for seed in found.seeds if self._limits.is_allowed_seed(seed)]
        fresh = [seed for seed in seeds if shelves.frontier.entry(host_of(seed.url), url_key(seed.url)) is None]
        problems = tuple(map(str, found.problems))
        with shelves.collection.unit_of_work():
            added = shelves.frontier.add([seed_lead(seed) for seed in fresh], now)
            event = SeedsFound(
                at=now, query=query, found=len(seeds), new=added.new, voters=found.voters, problems=problems
            )
            shelves.writer.write_seeds(fresh)
            if found.voters or seeds:  # who could not be reached at all was not asked
                keys = tuple(url_key(seed.url) for seed in fresh)
                write_seed_query(shelves.collection.connection, now, SeedQuery(query, keys, while_crawling=True))
            shelves.writer.write_events([event])
        return event


def build_reseeder(
    settings: Settings, shelves: ReseedTargets, sources: Sequence[SeedSource], vocabulary: Vocabulary
) -> Reseeding:
    """Who is asked when nothing is left to fetch."""
    if not sources or not settings.seeds.queries:
        return NoReseeding()
    limits = ReseedLimits(
        max_queries=settings.seeds.queries,
        min_precision=settings.seeds.precision,
        is_word=lambda word: bool(vocabulary[word]) and not word.isdigit(),
        is_allowed_seed=partial(is_allowed_seed, settings),
    )
    return Reseeder(shelves, sources, build_seed_request(settings), limits)


def seed_lead(seed: Seed) -> Lead:
    """A seed as the frontier holds it: before all links, in the order of the priorities 1, 2, 3 (S0-E12).

    >>> [seed_lead(Seed(url="http://a.example/", priority=number)).score for number in (1, 2, 3)]
    [1.0, 0.75, 0.5]
    """
    score = (5 - min(max(seed.priority, 1), 3)) / 4
    return Lead(url=seed.url, key=url_key(seed.url), host=host_of(seed.url), score=score, tier=Tier.FIRST)


MAX_SEED_WAIT_S = 60.0  # a host that rests longer (no robots.txt, Retry-After) is not waited for; a Crawl-delay is


class SeedProgress:
    """Seeds of which some may still be open: never tried, in flight, or redirected to a page that is."""

    def __init__(self, seeds: Iterable[str], frontier: Frontier, collection: Collection, hops: int) -> None:
        self._pending = list(seeds)
        self._frontier = frontier
        self._collection = collection
        self._max_redirects = hops

    def is_finished(self, now: float) -> bool:
        """None is open. Asked with every commit, so it looks no further than to the first that is."""
        while self._pending and not self._is_pending(self._pending[-1], now):
            self._pending.pop()
        return not self._pending

    def _is_pending(self, url: str, now: float) -> bool:
        for _ in range(self._max_redirects + 1):
            entry = self._frontier.entry(host_of(url), url_key(url))
            if entry is None or entry.state in (UrlState.FAILED, UrlState.DROPPED):
                return False
            if entry.state is UrlState.LEASED:
                return True
            if entry.state is UrlState.QUEUED:  # one that failed once was visited all the same
                wakes_at = host_wakes_at(self._collection.connection, entry.lead.host)
                return not entry.lead.retries and wakes_at <= now + MAX_SEED_WAIT_S
            url = last_location(self._collection.connection, entry.lead.key)
            if not url:
                return False
        return False


def seeds_finished_check(settings: Settings, frontier: Frontier, collection: Collection) -> Callable[[float], bool]:
    """Whether the seeds of these settings are settled, to be asked at a time."""
    return SeedProgress(settings.seeds.urls, frontier, collection, settings.fetch.hops).is_finished
