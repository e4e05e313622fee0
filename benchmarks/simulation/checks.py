"""What must be true of a simulated crawl: after every step and commit, when a process ends, and at the end."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from benchmarks.simulation.network import SimulatedNetwork, SimulatedWeb
from benchmarks.simulation.processes import SimulatedPool

from opilio.core.errors import CollectionError
from opilio.core.protocols import Database
from opilio.core.urls import host_of
from opilio.engine.commit import BatchCommitter
from opilio.engine.loop import Engine
from opilio.engine.politeness.robots import RobotsRules
from opilio.engine.workers.pool import MAX_WAITING_PER_WORKER
from opilio.frontier.schema import DONE, FAILED
from opilio.manage.verify import verify
from opilio.store import seal
from opilio.store.collection import open_readonly
from opilio.store.connection import DATABASE, log_of


def step_problems(engine: Engine, connections: int, pool: SimulatedPool | None) -> Iterator[str]:
    """After every step: one lease per host, and no more in flight and in memory than allowed."""
    held = [lease.host for lease in engine._in_flight.leases]
    if len(held) > connections:
        yield f"{len(held)} leases in flight, {connections} allowed"
    if len(held) != len(set(held)):
        yield f"a host is leased twice: {sorted(held)}"
    # A visit fetches further pages while some are analyzed, until every worker has enough to do.
    if pool is not None and pool.waiting_pages > connections + MAX_WAITING_PER_WORKER * pool.size:
        yield f"{pool.waiting_pages} pages wait for analysis, {connections} connections, {pool.size} workers"


def commit_problems(engine: Engine, db: Database) -> Iterator[str]:
    """After every commit: the database knows the leases that are held."""
    held = len(engine._in_flight.leases)
    stored = db.execute("SELECT count(*) FROM frontier_lease").fetchone()[0]
    if stored < held:
        yield f"{held} leases in flight, but {stored} in the database"


def page_problems(db: Database, web: SimulatedWeb, all_links: bool, before: set[str]) -> Iterator[str]:
    """After every commit and restart: no page is stored twice, no page, link or URL of `before` is lost; adds to it."""
    states = dict(db.execute("SELECT url, state FROM frontier_url"))
    stored = [url for (url,) in db.execute("SELECT url FROM page")]
    if len(stored) != len(set(stored)):
        yield "a page is stored twice"
    if lost := before - states.keys():
        yield f"URLs are lost: {sorted(lost)}"
    before |= states.keys()
    pages = set(stored)
    for url, state in states.items():
        answer = web.pages.get(url)
        if state == DONE and answer is not None and answer.is_page and url not in pages:
            yield f"{url} is done, but its page is missing"
    for url in stored:
        if states.get(url) != DONE:
            yield f"{url} is stored, but its state is {states.get(url)}"
        missing = [link for link in web.pages[url].links if all_links and link not in states]
        if missing:
            yield f"links of {url} are lost: {missing}"


def stored_pages_and_rules(db: Database) -> tuple[set[str], set[str]]:
    """The URLs of stored pages, and the hosts whose robots.txt is stored."""
    pages = {url for (url,) in db.execute("SELECT url FROM page")}
    rules = msgspec.msgpack.Decoder(RobotsRules).decode
    robots = db.execute("SELECT origin, rules FROM robots")
    return pages, {host_of(origin) for origin, data in robots if not rules(data).unreachable}


def learner_states(engine: Engine) -> dict[str, bytes]:
    """The states of all learners."""
    committer = engine._parts.committer
    assert isinstance(committer, BatchCommitter)
    states = {name: j.learner.snapshot() for name, j in committer._learning._learners.items()}
    learner = getattr(committer._link_scorer, "_learner", None)
    return states | ({"committee": learner.snapshot()} if learner is not None else {})


def end_problems(engine: Engine, pool: SimulatedPool | None) -> Iterator[str]:
    """When a process has ended cleanly: nothing is held any more."""
    if engine._in_flight.leases:
        yield f"leases are held after the end: {[lease.host for lease in engine._in_flight.leases]}"
    busy = engine._parts.visitor._host_gate._throttle._busy_hosts
    if busy:
        yield f"hosts are busy after the end: {sorted(busy)}"
    if pool is not None:
        yield from pool.leftovers()


def checksum_problems(folder: Path, lost_power: bool) -> Iterator[str]:
    """What a process leaves, however it ended, agrees with its checksums, and these cover the database."""
    yield from (f"checksums: {problem.message}" for problem in seal.seal_problems(folder))
    database = folder / DATABASE
    if lost_power and not log_of(database).exists():
        # The name of a new log is lost with its folder; only later logs are known to the checksums.
        return
    found = seal._load(folder)
    if found is None or not found.blocks or seal._log_beside(database, found.log) is None:
        yield "the database has no checksums"


def is_damaged(folder: Path) -> bool:
    """Whether `opilio maintain verify` reports damage; any other error is a finding."""
    try:
        return verify(folder) != []
    except CollectionError:
        return True


def integrity_problems(folder: Path) -> Iterator[str]:
    """Problems that `opilio maintain verify` finds."""
    yield from (f"verify: {problem}" for problem in verify(folder))


def final_problems(folder: Path, network: SimulatedNetwork, all_links: bool, poisoned: set[str]) -> Iterator[str]:
    """When nothing is left to fetch: every known URL has its result, every result its reason, no page is missing."""
    with open_readonly(folder) as collection:
        db = collection.connection
        known = {
            url: (state, reason or "")
            for url, state, reason in db.execute("SELECT url, state, reason FROM frontier_url")
        }
        yield from page_problems(db, network.web, all_links, set())
        failed_visits = [data for (data,) in db.execute("SELECT data FROM event WHERE kind = 'VisitFailed'")]
    web = network.web
    for url, (state, reason) in sorted(known.items()):
        answer = web.pages.get(url)
        if state < DONE:
            yield f"{url} has no result"
        elif state == FAILED and reason.startswith(("internal", "analysis-limit")) and url not in poisoned:
            yield f"{url} failed without a cause: {reason}"
        elif state == FAILED and answer is not None and answer.is_page and network.requests[url] < 1:
            yield f"{url} failed without a request: {reason}"
    yield from (
        f"an error of the engine: {data!r}" for data in failed_visits if not any(u.encode() in data for u in poisoned)
    )
