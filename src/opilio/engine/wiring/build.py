"""Builds an engine over an environment: frontier, commit, politeness, revisits, commands and reseeding.

The composition root of every crawl. A live crawl (`session`), a replay of the lab, the revisit study and tests differ
only in their `Environment` and in the `AnalysisOptions` of `open_analysis`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from opilio.core.clock import Clock
from opilio.core.protocols import DuplicateDetector, Fetcher, Frontier, LooksUpNames, SeedSource
from opilio.core.records import Lead, Seed
from opilio.core.registry import build_component
from opilio.core.settings import Settings
from opilio.dedup import StoredDuplicateDetector
from opilio.engine.commands import CommandInbox, CommandTargets
from opilio.engine.commit import BatchCommitter, CommitTargets
from opilio.engine.discovered_urls import SiteDiscovery
from opilio.engine.in_flight import LeaseSize
from opilio.engine.loop import Engine, EngineParts
from opilio.engine.politeness.host_gate import AddressResolver, HostGate, HostThrottle, ReservesStarts
from opilio.engine.politeness.traps import HostRules, UrlFilter, build_url_filter
from opilio.engine.rendering import BrowserTools, HostHistory, RenderingPool, ResourceLoader
from opilio.engine.reseeding import Reseeding, ReseedTargets, build_reseeder, seed_lead
from opilio.engine.revisit.outcomes import RevisitOutcomes
from opilio.engine.revisit.scheduler import RevisitScheduler, with_conditional_requests
from opilio.engine.visit import VisitLimits, Visitor
from opilio.engine.wiring.assembly import AnalysisParts, CrawlAnalysis, CrawlWriters, WriterContext, crawl_assembly
from opilio.engine.wiring.fetcher import ARCHIVE_URLS_PER_LEASE, visiting_fetcher
from opilio.frontier.policy import FrontierLimits, FrontierPolicy, MergePolicy, refuse_nothing
from opilio.frontier.postgres.frontier import open_frontier
from opilio.frontier.sqlite.queries import longest_delay
from opilio.store.collection import Collection
from opilio.store.pages import rendered_hosts
from opilio.store.writer import CollectionWriter, stored_robots
from opilio.topic.setup import build_vocabulary

# URLs per lease where a host has no delay: enough to keep its connection busy.
LEASE_URLS_WITHOUT_DELAY = 4


@dataclass(frozen=True, slots=True)
class Environment:
    """What a crawl runs on: its collection and queue, the web, and the clock."""

    collection: Collection
    writer: CollectionWriter
    frontier: Frontier
    fetcher: Fetcher
    clock: Clock
    url_filter: UrlFilter = field(default_factory=lambda: UrlFilter(refuse_nothing))
    browser: BrowserTools | None = None


class WritingParts(NamedTuple):
    """What turns results into pages, links and lessons, and applies commands."""

    committer: BatchCommitter
    commands: CommandInbox
    reseeder: Reseeding


def build_frontier(settings: Settings, collection: Collection, url_filter: UrlFilter | None = None) -> Frontier:
    """The frontier of a collection."""
    return open_frontier(collection.connection, build_frontier_policy(settings, collection, url_filter))


def build_frontier_policy(
    settings: Settings, collection: Collection, url_filter: UrlFilter | None = None
) -> FrontierPolicy:
    """How a frontier orders, merges, limits and refuses URLs."""
    limits = FrontierLimits(queued=settings.frontier.max_queued, host_total=settings.frontier.max_per_host)
    url_filter = url_filter or build_url_filter(settings, collection, resumed=False)
    return FrontierPolicy(
        order=build_component("order", settings.order),
        merge=MergePolicy(settings.frontier.merge),
        limits=limits,
        refusal_reason=url_filter.refusal_reason,
        boosted=url_filter.host_rules.boosted_hosts,
        delay_s=settings.politeness.delay_s,
        patience=effective_patience(settings),
    )


def effective_patience(settings: Settings) -> float:
    """The share of `frontier.patience`; 0 where no link waits for better ones.

    Without a limit of requests time is what counts, and without delays every host can be asked again at once.
    """
    limited = settings.stop.pages > 0 or settings.stop.fetches > 0
    return settings.frontier.patience if limited and settings.politeness.delay_s > 0 else 0.0


def configured_seeds(settings: Settings) -> list[Seed]:
    """The seeds of the settings with their priorities."""
    urls = settings.seeds.urls
    priorities = urls if isinstance(urls, dict) else dict.fromkeys(urls, 1)
    return [Seed(url=url, priority=priority, sources=("given",)) for url, priority in priorities.items()]


def seed_leads(settings: Settings) -> list[Lead]:
    """The seeds of the settings as the frontier holds them."""
    return [seed_lead(seed) for seed in configured_seeds(settings)]


def build_engine(
    settings: Settings,
    environment: Environment,
    analysis: CrawlAnalysis,
    resumed: bool,
    sources: Sequence[SeedSource] = (),
) -> Engine:
    """The engine of a crawl; `sources` are asked for more seeds when the queue is empty."""
    collection, clock, pool = environment.collection, environment.clock, analysis.pool
    limits = visit_limits(settings)
    writing = build_writing_parts(settings, environment, analysis.parts, pool.update_state, sources)
    host_gate = _build_host_gate(settings, environment, writing.committer, resumed)
    visiting = visiting_fetcher(environment.fetcher, settings)
    fetcher = with_conditional_requests(settings, visiting, collection.connection)
    if environment.browser is not None:
        loader = ResourceLoader(environment.browser.fetcher, host_gate, clock)
        history = HostHistory(rendered_hosts(collection.connection))
        pool = RenderingPool(pool, environment.browser, loader, settings.browser, history)
    visitor = Visitor(fetcher, pool, host_gate, clock, limits, random.Random(settings.engine.random_seed))
    counts = environment.writer.counts
    parts = EngineParts(visitor, writing.committer, writing.commands, counts, clock, writing.reseeder)
    gradual = effective_patience(settings) > 0
    return Engine(parts, settings.engine, settings.stop, lease_size(settings), gradual=gradual)


def build_writing_parts(
    settings: Settings,
    environment: Environment,
    parts: AnalysisParts,
    publish: Callable[[str, bytes], None],
    sources: Sequence[SeedSource],
) -> WritingParts:
    """What turns results into pages, links and lessons; `publish` gets new states of learners, for the workers."""
    collection, now = environment.collection, environment.clock.now()
    context = WriterContext(settings, collection, environment.writer, environment.frontier, now)
    writers = crawl_assembly(settings).build_writers(context, parts)
    targets = _build_commit_targets(settings, environment, writers.frontier)
    for name, state in writers.learning.resume().items():
        publish(name, state)
    committer = BatchCommitter(targets, writers.learning, writers.link_scorer, visit_limits(settings), publish)
    commands = _build_command_inbox(environment, parts, writers, committer)
    commands.apply_stored(now)
    reseed_targets = ReseedTargets(collection, environment.writer, writers.frontier, parts.evolving_topic)
    reseeder = build_reseeder(settings, reseed_targets, sources, build_vocabulary(settings))
    return WritingParts(committer, commands, reseeder)


def visit_limits(settings: Settings) -> VisitLimits:
    """How far links are followed, and how often a URL is tried."""
    return VisitLimits(
        max_depth=settings.frontier.max_depth,
        max_redirects=settings.fetch.hops,
        max_retries=settings.fetch.retries,
        follow_copies=settings.seen.follow,
    )


def lease_size(settings: Settings) -> LeaseSize:
    """How many URLs of a host a lease hands out."""
    if settings.frontier.per_host:
        return LeaseSize(settings.frontier.per_host)
    if settings.fetch.archives:
        connections = settings.engine.connections
        return LeaseSize(min(ARCHIVE_URLS_PER_LEASE, connections), connections)
    return LeaseSize(1 if settings.politeness.delay_s > 0 else LEASE_URLS_WITHOUT_DELAY)


def _build_commit_targets(settings: Settings, environment: Environment, frontier: Frontier) -> CommitTargets:
    """What a commit writes to; the revisit scheduler only where stored pages are fetched again."""
    collection, now = environment.collection, environment.clock.now()
    detector: DuplicateDetector | None = None
    if settings.seen.content:
        detector = StoredDuplicateDetector(collection.connection, settings.seen.near, settings.seen.distance)
    outcomes = RevisitOutcomes(collection, frontier, detector, settings.revisit.second_look_s)
    scheduler: RevisitScheduler | None = None
    if settings.revisit.on and settings.revisit.share > 0:
        scheduler = RevisitScheduler(collection, frontier, outcomes, settings.revisit)
        scheduler.load(now)
    discovery = SiteDiscovery(settings, collection.connection) if settings.frontier.discover else None
    return CommitTargets(
        collection, environment.writer, frontier, detector, environment.url_filter, outcomes, scheduler, discovery
    )


def _build_command_inbox(
    environment: Environment, parts: AnalysisParts, writers: CrawlWriters, committer: BatchCommitter
) -> CommandInbox:
    return CommandInbox(
        CommandTargets(
            environment.collection,
            environment.writer,
            writers.frontier,
            environment.url_filter.host_rules,
            lambda: parts.topics,
            writers.learning.retire_agent,
            committer.apply_labels,
        ),
        lambda: environment.clock.suspended_s,
    )


def _build_host_gate(
    settings: Settings, environment: Environment, committer: BatchCommitter, resumed: bool
) -> HostGate:
    politeness, clock, connection = settings.politeness, environment.clock, environment.collection.connection
    not_before = 0.0
    if resumed:
        # A host that the last run requested just before its end may share an address with any other.
        not_before = clock.now() + max(politeness.delay_s, longest_delay(connection, clock.now()))
    fetcher, rules = environment.fetcher, environment.url_filter.host_rules
    throttle = build_throttle(settings, fetcher, clock, rules, not_before=not_before)
    load_robots = partial(stored_robots, connection)
    return HostGate(politeness, fetcher, clock, throttle, load_robots, committer.store_robots)


def build_throttle(
    settings: Settings,
    fetcher: Fetcher,
    clock: Clock,
    rules: HostRules,
    reservations: ReservesStarts | None = None,
    not_before: float = 0.0,
) -> HostThrottle:
    """The delays of hosts and addresses; `reservations` keeps the requests to one address apart."""
    # Behind a proxy, only the proxy knows the addresses of hosts.
    shares_addresses = settings.politeness.share_address and not settings.fetch.proxy
    names = fetcher if isinstance(fetcher, LooksUpNames) else None
    resolver = AddressResolver(settings.fetch.resolve, names) if shares_addresses else None
    throttle = HostThrottle(clock, resolver, not_before, reservations)
    throttle.shared_delay_s = settings.politeness.delay_s
    throttle.host_delays_s = rules.host_delays_s
    return throttle
