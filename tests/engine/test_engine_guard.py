"""An error of ours never ends a crawl: it is recorded with its URL. A dying worker process takes one page with it."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from checks.engines import PageFetcher, decoded, html, plain_tree, run_engine, states
from checks.small_webs import PATIENCE_S, events, rows, stored, word
from opilio.core.clock import VirtualClock
from opilio.core.errors import CollectionError
from opilio.core.events import VisitFailed
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, UrlResult, UrlState, Verdict, url_key
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.commit import BatchCommitter, CommitTargets
from opilio.engine.learning import LearnerGroup
from opilio.engine.link_scoring import StaticLinkScorer
from opilio.engine.politeness.traps import UrlFilter
from opilio.engine.revisit.outcomes import RevisitOutcomes
from opilio.engine.visit import LeaseResult, VisitLimits
from opilio.engine.workers.pool import CRASHED, AnalysisPool, WorkerPool, WorkerStartError
from opilio.frontier.policy import refuse_nothing
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.manage.verify import verify
from opilio.store.collection import Collection
from opilio.store.writer import CollectionWriter

DONE, FAILED = 2, 3
ROOT = "http://a.example/"
PATHS = ("boom", "one", "two", "three")
SITE = {ROOT: html(ROOT, "".join(f"<a href='/{p}'>wren</a>" for p in PATHS))} | {
    ROOT + p: html(ROOT + p, f"<p>{word(n)} wren</p>") for n, p in enumerate(PATHS)
}


class Clumsy:
    """A pool that fails on one page."""

    def __init__(self, pool: AnalysisPool, error: Exception) -> None:
        self._pool = pool
        self._error = error

    async def start(self) -> None:
        await self._pool.start()

    async def wait_for_room(self) -> None:
        await self._pool.wait_for_room()

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        if lead.url.endswith("boom"):
            raise self._error
        return await self._pool.analyze(lead, fetched)

    @property
    def is_saturated(self) -> bool:
        return self._pool.is_saturated

    def update_state(self, name: str, state: bytes) -> None:
        self._pool.update_state(name, state)

    async def close(self) -> None:
        await self._pool.close()


class ClumsyFetcher(PageFetcher):
    async def fetch(self, url: str, _: object = None) -> FetchResult:
        if url.endswith("boom"):
            raise RuntimeError("a bug in the fetcher")
        return await super().fetch(url)


@pytest.mark.parametrize("error", [RuntimeError("a bug"), RecursionError(), MemoryError(), UnicodeError("x")])
def test_crawl_goes_on_when_analysis_raises(tmp_path: Path, error: Exception) -> None:
    tree = plain_tree([ROOT], frontier={"per_host": 4})
    reason, result = run_engine(tmp_path / "c", tree, PageFetcher(SITE), lambda pool: Clumsy(pool, error))
    assert reason == "nothing left to fetch"
    state, why = states(tmp_path / "c")["boom"]
    assert state == FAILED
    assert why.startswith(f"internal {type(error).__name__}")
    assert len(stored(tmp_path / "c")) == 4
    assert [e.url for e in result if isinstance(e, VisitFailed)] == [ROOT + "boom"]
    assert [decoded(e)["url"] for e in events(tmp_path / "c", "VisitFailed")] == [ROOT + "boom"]
    assert rows(tmp_path / "c", "SELECT status, failure FROM answer WHERE failure <> ''") == [(200, "internal")]
    assert verify(tmp_path / "c") == []


def test_crawl_goes_on_when_the_fetcher_raises(tmp_path: Path) -> None:
    _, result = run_engine(tmp_path / "c", plain_tree([ROOT]), ClumsyFetcher(SITE))
    assert states(tmp_path / "c")["boom"] == (FAILED, "internal RuntimeError: a bug in the fetcher")
    assert len(stored(tmp_path / "c")) == 4
    assert len([e for e in result if isinstance(e, VisitFailed)]) == 1


def test_crawl_ends_when_nothing_can_be_kept(tmp_path: Path) -> None:
    """A full disk is no failure of a page: it must not be recorded for one page after the other."""
    error = CollectionError("the disk is full")
    with pytest.raises(CollectionError, match="disk is full"):
        run_engine(tmp_path / "c", plain_tree([ROOT]), PageFetcher(SITE), lambda pool: Clumsy(pool, error))
    assert rows(tmp_path / "c", "SELECT count(*) FROM event WHERE kind = 'VisitFailed'") == [(0,)]


def test_lease_is_held_when_an_answer_takes_longer_than_it(tmp_path: Path) -> None:
    """Leases are renewed: a host never goes to a second visit, and no page is fetched or stored twice."""
    clock = VirtualClock()
    fetcher = PageFetcher(SITE, clock, takes_s=1000.0)
    reason, _ = run_engine(tmp_path / "c", plain_tree([ROOT]), fetcher, clock=clock)
    assert reason == "nothing left to fetch"
    assert sorted(fetcher.asked) == sorted(SITE)
    assert verify(tmp_path / "c") == []


def test_visit_has_not_happened_when_its_lease_was_lost(tmp_path: Path) -> None:
    """A process that slept too long (a closed laptop): its host went to another visit, whose result counts."""
    collection = Collection.create(tmp_path / "c", "", (create_frontier, create_seen))
    writer, frontier = CollectionWriter(collection, None), SqliteFrontier(collection.connection)
    again = RevisitOutcomes(collection, frontier, None, 1.0)
    books = CommitTargets(collection, writer, frontier, None, UrlFilter(refuse_nothing), again)
    committer = BatchCommitter(books, LearnerGroup({}, collection), StaticLinkScorer(), VisitLimits(), print)
    with collection.unit_of_work():
        frontier.add([Lead(url=ROOT, key=url_key(ROOT), host="a.example")], 0.0)
    outcome = Outcome(lead=lead("")[0], fetched=FetchResult(url=ROOT, status=200), analysis=Analysis(title="x"))
    served = []
    for now in (0.0, 1000.0):
        (lease,) = committer.lease(now, 1, 1, 300.0)
        result = UrlResult(key=url_key(ROOT), host="a.example", state=UrlState.DONE)
        served.append(LeaseResult(lease=lease, outcomes=[outcome], url_results=[result]))
    committer.commit(served[:1], 1001.0)
    assert writer.counts.pages == 0
    committer.commit(served[1:], 1002.0)
    assert writer.counts.pages == 1
    collection.close()


class Deadly:
    """An analyst that ends its process on some pages, and raises on others."""

    def __init__(self) -> None:
        self.told = ""

    def restore(self, name: str, state: bytes) -> None:
        self.told = f"{name} {state.decode()}"

    def analyze(self, lead: Lead, _: FetchResult) -> Analysis:
        if lead.url.endswith("boom"):
            os._exit(3)
        if lead.url.endswith("raise"):
            raise ValueError("bad page")
        return Analysis(title=f"{os.getpid()} {self.told}", verdict=Verdict(score=0.5, relevant=True))


def stillborn() -> Deadly:
    raise SystemExit(1)


def lead(path: str) -> tuple[Lead, FetchResult]:
    return Lead(url=ROOT + path, key=1, host="a.example"), FetchResult(url=ROOT + path, status=200)


async def results(pool: WorkerPool, *paths: str) -> list[Analysis | BaseException]:
    return await asyncio.gather(*(pool.analyze(*lead(path)) for path in paths), return_exceptions=True)


def with_pool(make: Callable[[], object], count: int, job: Callable[[WorkerPool], object]) -> object:
    async def main() -> object:
        pool = WorkerPool(make, count)  # type: ignore[arg-type]
        await pool.start()
        try:
            return await asyncio.wait_for(job(pool), PATIENCE_S)  # type: ignore[arg-type]
        finally:
            await pool.close()

    return asyncio.run(main())


@pytest.mark.slow
def test_worker_is_replaced_and_only_its_page_fails_when_it_dies() -> None:
    async def job(pool: WorkerPool) -> None:
        pool.update_state("topic", b"v1")
        first = await results(pool, "a", "boom", "b", "raise", "c")
        kinds = [type(r).__name__ for r in first]
        assert kinds == ["Analysis", "Analysis", "Analysis", "AnalysisError", "Analysis"], first
        assert "worker processes ended while they analyzed this page" in str(first[1])
        assert str(first[3]) == "ValueError: bad page"
        again = await results(pool, "d", "boom", "e", "boom", "f")
        assert [isinstance(r, Analysis) and r.failure is None for r in again].count(True) == 3
        titles = [r.title for r in (*first, *again) if isinstance(r, Analysis) and r.failure is None]
        assert {t.partition(" ")[2] for t in titles} == {"topic v1"}, "a replacement gets what was learnt"
        assert len({t.partition(" ")[0] for t in titles}) > 1

    with_pool(Deadly, 1, job)


@pytest.mark.slow
def test_last_answer_of_a_dead_worker_counts_when_a_write_to_it_fails_first() -> None:
    async def job(pool: WorkerPool) -> list[Analysis | BaseException]:
        await results(pool, "started")
        asked = [asyncio.ensure_future(pool.analyze(*lead(path))) for path in ("a", "boom")]
        await asyncio.sleep(0)  # both are sent; nothing is read until the worker is dead
        pool._workers[0].process.join()
        asked.append(asyncio.ensure_future(pool.analyze(*lead("b"))))
        return await asyncio.gather(*asked, return_exceptions=True)

    found = with_pool(Deadly, 1, job)
    assert isinstance(found, list)
    assert [r.failure.kind if isinstance(r, Analysis) and r.failure else "" for r in found] == ["", CRASHED, ""]


@pytest.mark.slow
def test_pool_gives_up_when_workers_die_at_their_start() -> None:
    async def job(pool: WorkerPool) -> list[Analysis | BaseException]:
        found: list[Analysis | BaseException] = []
        while not any(isinstance(r, WorkerStartError) for r in found):
            found = await results(pool, "a")
        return found

    with_pool(stillborn, 1, job)


@pytest.mark.slow
def test_crawl_goes_on_when_a_worker_dies(tmp_path: Path) -> None:
    def deadly(_: AnalysisPool) -> AnalysisPool:
        return WorkerPool(partial(Deadly), 1)  # type: ignore[arg-type]

    seeds = [f"http://{p}.example/{p}" for p in PATHS]
    site = {url: html(url, "<p>wren</p>") for url in seeds}
    reason, _ = run_engine(tmp_path / "c", plain_tree(seeds), PageFetcher(site), deadly)
    assert reason == "nothing left to fetch"
    found = states(tmp_path / "c")
    assert found["boom"] == (
        FAILED,
        "analysis-crash 2 worker processes ended while they analyzed this page (exit status 3)",
    )
    assert [found[p][0] for p in PATHS[1:]] == [DONE] * 3
