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

# Of the keywords, where a topic has no name.
MAX_QUERY_WORDS = 5


def build_seed_request(settings: Settings, genres: Sequence[str] = ()) -> SeedRequest:
    """The query for search engines: the topic's name, or its keywords (S4-12); one query per genre (S3-02)."""
    topic, seeds = settings.topic, settings.seeds
    query = topic.name or " ".join(list(topic.keywords)[:MAX_QUERY_WORDS])
    wanted = tuple(dict.fromkeys("" if genre == "web" else genre for genre in (genres or topic.genres)))
    return SeedRequest(query=query, genres=wanted or ("",), limit=seeds.limit, agree=seeds.agree)


def is_allowed_seed(settings: Settings, seed: Seed) -> bool:
    """Whether a seed found by an engine may be fetched; private addresses are dropped without an error."""
    return settings.fetch.allow_private or not is_private_host(urlsplit(seed.url).hostname or "")


NOTHING_LEFT = "nothing left to fetch"
# Queries in a row that bring nothing new.
MAX_FRUITLESS_QUERIES = 3
# Relevant pages whose titles are read, and the same number of others.
MAX_SAMPLED_PAGES = 300


class Reseeding(Protocol):
    """Called when the frontier is empty. `stop_reason` says why no more seeds were found."""

    stop_reason: str

    async def find_more_seeds(self, now: float) -> Sequence[Event]: ...


class NoReseeding:
    """For crawls without an engine: the crawl ends when nothing is queued."""

    stop_reason = NOTHING_LEFT

    async def find_more_seeds(self, now: float) -> Sequence[Event]:  # noqa: ARG002 the protocol's signature
        return ()


class ReseedTargets:
    """What a `Reseeder` reads and writes."""

    def __init__(
        self, collection: Collection, writer: CollectionWriter, frontier: Frontier, evolving_topic: EvolvingTopic
    ) -> None:
        self.collection = collection
        self.writer = writer
        self.frontier = frontier
        self.evolving_topic = evolving_topic


class ReseedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop, which words a query may contain, and which seeds are allowed."""

    max_queries: int
    min_precision: float
    is_word: IsWord = str.isalpha
    is_allowed_seed: Callable[[Seed], bool] = bool


class Reseeder:
    """Queries `sources` until one returns a new seed, no query is left, or the results are too poor."""

    def __init__(
        self, targets: ReseedTargets, sources: Sequence[SeedSource], request: SeedRequest, limits: ReseedLimits
    ) -> None:
        self._targets = targets
        self._sources = sources
        self._request = request
        self._limits = limits
        self.stop_reason = ""

    async def find_more_seeds(self, now: float) -> list[Event]:
        """Queue new seeds; `stop_reason` is empty if there are some."""
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
        """The next query; empty, with `stop_reason` set, if no query should be sent."""
        connection, evolving_topic = self._targets.collection.connection, self._targets.evolving_topic
        sent = read_seed_queries(connection)
        while_crawling = [one for one in sent if one.while_crawling]
        if len(while_crawling) >= self._limits.max_queries:
            self.stop_reason = f"{NOTHING_LEFT}; all {self._limits.max_queries} queries (seeds.queries) were sent"
            return ""
        exhausted = exhaustion_reason(
            [QueryYield(e.query, *count_judged(connection, e.keys)) for e in while_crawling], self._limits.min_precision
        )
        if exhausted:
            self.stop_reason = f"{NOTHING_LEFT}; {exhausted}"
            return ""
        keywords = [keyword.label for keyword in evolving_topic.table.keywords]
        distinctive = distinctive_words(
            self._sample_texts(relevant=True), self._sample_texts(relevant=False), self._limits.is_word
        )
        query = next_query(candidate_queries(self._request.query, keywords, distinctive), [one.query for one in sent])
        self.stop_reason = "" if query else f"{NOTHING_LEFT}; no query is left"
        return query

    def _sample_texts(self, *, relevant: bool) -> list[str]:
        return sample_texts(self._targets.collection.connection, relevant, MAX_SAMPLED_PAGES)

    def _commit_seeds(self, query: str, found: FoundSeeds, now: float) -> SeedsFound:
        """Store the new seeds, their sources and the query in one commit."""
        targets = self._targets
        seeds = [seed for seed in found.seeds if self._limits.is_allowed_seed(seed)]
        fresh = [seed for seed in seeds if targets.frontier.entry(host_of(seed.url), url_key(seed.url)) is None]
        problems = tuple(map(str, found.problems))
        with targets.collection.unit_of_work():
            added = targets.frontier.add([seed_lead(seed) for seed in fresh], now)
            event = SeedsFound(
                at=now, query=query, found=len(seeds), new=added.new, voters=found.voters, problems=problems
            )
            targets.writer.write_seeds(fresh)
            # A query that reached no engine is not recorded, so it can be sent again.
            if found.voters or seeds:
                keys = tuple(url_key(seed.url) for seed in fresh)
                write_seed_query(targets.collection.connection, now, SeedQuery(query, keys, while_crawling=True))
            targets.writer.write_events([event])
        return event


def build_reseeder(
    settings: Settings, targets: ReseedTargets, sources: Sequence[SeedSource], vocabulary: Vocabulary
) -> Reseeding:
    """The reseeder of a crawl."""
    if not sources or not settings.seeds.queries:
        return NoReseeding()
    limits = ReseedLimits(
        max_queries=settings.seeds.queries,
        min_precision=settings.seeds.precision,
        is_word=lambda word: bool(vocabulary[word]) and not word.isdigit(),
        is_allowed_seed=partial(is_allowed_seed, settings),
    )
    return Reseeder(targets, sources, build_seed_request(settings), limits)


def seed_lead(seed: Seed) -> Lead:
    """A seed as the frontier holds it: before all links, in the order of the priorities 1, 2, 3 (S0-E12).

    >>> [seed_lead(Seed(url="http://a.example/", priority=number)).score for number in (1, 2, 3)]
    [1.0, 0.75, 0.5]
    """
    score = (5 - min(max(seed.priority, 1), 3)) / 4
    return Lead(url=seed.url, key=url_key(seed.url), host=host_of(seed.url), score=score, tier=Tier.FIRST)


# A seed whose host is throttled for longer (no robots.txt, Retry-After) counts as visited; a Crawl-delay is waited for.
MAX_SEED_WAIT_S = 60.0


class SeedProgress:
    """Whether all seeds were visited. A pending seed is queued, in flight, or redirects to such a page."""

    def __init__(self, seeds: Iterable[str], frontier: Frontier, collection: Collection, max_redirects: int) -> None:
        self._pending = list(seeds)
        self._frontier = frontier
        self._collection = collection
        self._max_redirects = max_redirects

    def is_finished(self, now: float) -> bool:
        """Whether no seed is pending. Called with every commit, so it stops at the first pending one."""
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
            # A seed that failed once was visited.
            if entry.state is UrlState.QUEUED:
                wakes_at = host_wakes_at(self._collection.connection, entry.lead.host)
                return not entry.lead.retries and wakes_at <= now + MAX_SEED_WAIT_S
            url = last_location(self._collection.connection, entry.lead.key)
            if not url:
                return False
        return False


def seeds_finished_check(settings: Settings, frontier: Frontier, collection: Collection) -> Callable[[float], bool]:
    """A function from the time to whether all seeds of these settings were visited."""
    return SeedProgress(settings.seeds.urls, frontier, collection, settings.fetch.hops).is_finished
