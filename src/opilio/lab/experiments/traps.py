"""How much of the budget spider traps take: replays of a synthetic web with trap hosts beside honest ones.

The crawl is polite (one request per host and second) and has more connections than honest hosts, so a trap host is
asked whenever its pause is over, however low its URLs are ranked.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from opilio.core.clock import VirtualClock
from opilio.core.events import BatchCommitted, Event
from opilio.core.settings import Settings
from opilio.dedup.stored import create_dedup_tables
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.wiring.assembly import open_analysis
from opilio.engine.wiring.build import Environment, build_engine, build_frontier, seed_leads
from opilio.engine.wiring.start import initial_states
from opilio.engine.wiring.topic import build_topic
from opilio.frontier.sqlite.schema import create_frontier_tables
from opilio.lab.experiments.replay import ReplayFetcher, lab_settings
from opilio.lab.synthetic.shape import WebShape
from opilio.lab.synthetic.traps import TRAP_KINDS, TrappedWeb
from opilio.lab.synthetic.web import SyntheticWeb
from opilio.lab.webs.topics import TopicBrief
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter

_START_TIME_S = 1_700_000_000.0
_LATENCY_S = 0.1
# The first topic of a synthetic web.
_SUBJECT = 0
ALL_KINDS = "all"


class TrapRun(msgspec.Struct, kw_only=True):
    """One crawl: how many fetches went to trap hosts, and how many pages of the topic it found."""

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
    """What can be run: no trap, each kind, all together."""
    return ["none", *TRAP_KINDS, ALL_KINDS]


def run_trap_case(traps: str, options: TrapOptions, *, control: bool) -> TrapRun:
    """One crawl beside these traps, with or without trap detection and waste control."""
    shape = WebShape(
        pages=options.pages, hosts=options.hosts, seed=options.seed, traps=(), slow_hosts=0, failing_hosts=0
    )
    honest = SyntheticWeb(shape)
    kinds: Sequence[str] = TRAP_KINDS if traps == ALL_KINDS else [kind for kind in TRAP_KINDS if kind == traps]
    web = TrappedWeb(honest, kinds, honest.plan.subjects[_SUBJECT])
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
