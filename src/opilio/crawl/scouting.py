"""Finding more seeds while crawling: when nothing is left to fetch, engines are asked by queries of our own making.

What was asked and what it brought is in the database, one commit for each query, so a crawl that is killed goes on
where it was and asks nothing twice. With sources that answer the same, a crawl is the same again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from opilio.crawl.config import Settings
from opilio.crawl.seedwish import may_be_fetched, wish_of
from opilio.frontier.order import seed_score
from opilio.model.events import Event, SeedsFound
from opilio.model.protocols import Frontier, SeedSource
from opilio.model.records import Lead, Seed, key_of
from opilio.model.urls import host_of
from opilio.seeds.finder import Found, Wish, find
from opilio.seeds.queries import IsWord, Yield, candidates, next_query, telling_words, worn_out
from opilio.store.collection import Collection
from opilio.store.enquiries import Enquiry, enquiries, judged, keep_enquiry
from opilio.store.keeper import Keeper
from opilio.text.vocabulary import Vocabulary
from opilio.topic.living import LivingTopic

DRY = "nothing left to fetch"
FRUITLESS = 3  # queries in a row that bring nothing new
PAGES_READ = 300  # relevant pages whose titles are looked at, and as many others


class Scouts(Protocol):
    """Asked when the frontier has run dry. `more` tells what was found; `reason` says why there is no more."""

    reason: str

    async def more(self, now: float) -> Sequence[Event]: ...


class NoScout:
    """Where no engine is configured: dry is dry."""

    reason = DRY

    async def more(self, now: float) -> Sequence[Event]:  # noqa: ARG002 the protocol's signature
        return ()


class Shelves:
    """What a scout reads and writes. A bundle without methods."""

    def __init__(self, collection: Collection, keeper: Keeper, frontier: Frontier, living: LivingTopic) -> None:
        self.collection = collection
        self.keeper = keeper
        self.frontier = frontier
        self.living = living


class ScoutLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop, which words may stand in a query, and which seeds are left out."""

    queries: int
    precision: float
    is_word: IsWord = str.isalpha
    may_be_fetched: Callable[[Seed], bool] = bool


class Scout:
    """Asks `sources` until a query brings something new, no query is left, or it is not worth it any more."""

    def __init__(self, shelves: Shelves, sources: Sequence[SeedSource], wish: Wish, limits: ScoutLimits) -> None:
        self._shelves = shelves
        self._sources = sources
        self._wish = wish
        self._limits = limits
        self.reason = ""

    async def more(self, now: float) -> list[Event]:
        """Queue new seeds; `reason` is empty where there are some."""
        events: list[Event] = []
        for _ in range(FRUITLESS):
            query = self._query()
            if not query:
                return events
            found = await find(self._sources, msgspec.structs.replace(self._wish, query=query))
            event = self._keep(query, found, now)
            events.append(event)
            self.reason = f"{DRY}; no engine answered" if not found.voters and found.problems else ""
            if self.reason or event.new:
                return events
        self.reason = f"{DRY}; the last {FRUITLESS} queries brought nothing new"
        return events

    def _query(self) -> str:
        """What to ask next; empty, with the reason, where nothing should be asked."""
        connection, living = self._shelves.collection.connection, self._shelves.living
        asked = enquiries(connection)
        further = [one for one in asked if one.further]
        if len(further) >= self._limits.queries:
            self.reason = f"{DRY}; all {self._limits.queries} queries (seeds.queries) were asked"
            return ""
        worn = worn_out([Yield(e.query, *judged(connection, e.keys)) for e in further], self._limits.precision)
        if worn:
            self.reason = f"{DRY}; {worn}"
            return ""
        keywords = [keyword.label for keyword in living.table.keywords]
        telling = telling_words(self._texts(relevant=True), self._texts(relevant=False), self._limits.is_word)
        query = next_query(candidates(self._wish.query, keywords, telling), [one.query for one in asked])
        self.reason = "" if query else f"{DRY}; no query is left to ask"
        return query

    def _texts(self, *, relevant: bool) -> list[str]:
        rows = self._shelves.collection.connection.execute(
            "SELECT title || ' ' || keywords FROM page WHERE relevant = ? AND duplicate_of = 0"
            " ORDER BY score DESC, seq LIMIT ?",
            (relevant, PAGES_READ),
        )
        return [str(text) for (text,) in rows]

    def _keep(self, query: str, found: Found, now: float) -> SeedsFound:
        """One commit: the new seeds, where they came from, and that this was asked."""
        shelves = self._shelves
        seeds = [seed for seed in found.seeds if self._limits.may_be_fetched(seed)]
        fresh = [seed for seed in seeds if shelves.frontier.entry(host_of(seed.url), key_of(seed.url)) is None]
        problems = tuple(map(str, found.problems))
        with shelves.collection.unit_of_work():
            added = shelves.frontier.add([lead_of(seed) for seed in fresh], now)
            event = SeedsFound(
                at=now, query=query, found=len(seeds), new=added.new, voters=found.voters, problems=problems
            )
            shelves.keeper.keep_seeds(fresh)
            if found.voters or seeds:  # who could not be reached at all was not asked
                keys = tuple(key_of(seed.url) for seed in fresh)
                keep_enquiry(shelves.collection.connection, now, Enquiry(query, keys, further=True))
            shelves.keeper.keep_events([event])
        return event


def scout_of(settings: Settings, shelves: Shelves, sources: Sequence[SeedSource], vocabulary: Vocabulary) -> Scouts:
    """Who is asked when nothing is left to fetch."""
    if not sources or not settings.seeds.queries:
        return NoScout()
    limits = ScoutLimits(
        queries=settings.seeds.queries,
        precision=settings.seeds.precision,
        is_word=lambda word: bool(vocabulary[word]) and not word.isdigit(),
        may_be_fetched=partial(may_be_fetched, settings),
    )
    return Scout(shelves, sources, wish_of(settings), limits)


def lead_of(seed: Seed) -> Lead:
    """A seed as the frontier holds it: before all links, by its priority (S0-E12)."""
    return Lead(url=seed.url, key=key_of(seed.url), host=host_of(seed.url), score=seed_score(seed.priority))
