"""A page that takes too long, needs too much memory or ends its worker costs that page only."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from checks.costly_pages import URL, CostlyAnalyzer
from checks.small_webs import SmallWeb, crawl, page, served, settings_for
from opilio.core.records import Analysis, FetchResult, Lead
from opilio.engine.workers import pool
from opilio.engine.workers.pool import CRASHED, LIMIT_EXCEEDED, WorkerPool
from opilio.engine.workers.process import AnalysisLimits
from opilio.text.word_vectors import one_blas_thread, set_blas_threads

# On a busy machine 0.2 s of CPU time can take long on the wall clock; only a blocked page reaches that limit.
LIMITS = AnalysisLimits(cpu_s=0.2, wall_factor=1_000, memory_mb=256)
WALL_LIMITS = AnalysisLimits(cpu_s=20.0, wall_factor=0.1)
Results = list[Analysis | BaseException]


async def analyze(pool: WorkerPool, *paths: str) -> Results:
    jobs = [(Lead(url=URL + path, key=1, host="a.example"), FetchResult(url=URL + path, status=200)) for path in paths]
    return await asyncio.gather(*(pool.analyze(*job) for job in jobs), return_exceptions=True)


def with_pool(
    folder: Path, run: Callable[[WorkerPool], Awaitable[Results]], limits: AnalysisLimits = LIMITS
) -> Results:
    async def main() -> Results:
        pool = WorkerPool(partial(CostlyAnalyzer, str(folder)), 1, limits)  # type: ignore[arg-type]
        await pool.start()
        try:
            return await run(pool)
        finally:
            await pool.close()

    return asyncio.run(main())


def summary(found: Results) -> list[str]:
    kinds = []
    for result in found:
        if isinstance(result, Analysis):
            failure = result.failure
            kinds.append(f"{failure.kind}: {failure.detail}" if failure else result.title)
        else:
            kinds.append(type(result).__name__)
    return kinds


@pytest.mark.parametrize(
    ("path", "reason", "attempts"),
    [
        ("busy", "more than 0.2 s of CPU time", 1),
        ("native", "more than 0.2 s of CPU time", 1),
        ("blocked", "more than 2 s", 1),
        ("large", "more than 256 MB of memory", 2),
    ],
)
def test_page_over_a_limit_fails_with_its_reason(tmp_path: Path, path: str, reason: str, attempts: int) -> None:
    limits = WALL_LIMITS if path == "blocked" else LIMITS
    found = with_pool(tmp_path, lambda pool: analyze(pool, "a", path, "b"), limits)
    assert summary(found) == ["a", f"{LIMIT_EXCEEDED}: {reason}", "b"]
    assert len((tmp_path / path).read_text()) == attempts


def test_page_of_a_killed_worker_is_analyzed_again(tmp_path: Path) -> None:
    found = with_pool(tmp_path, lambda pool: analyze(pool, "a", "once-1", "b", "once-2"))
    assert summary(found) == ["a", "once-1", "b", "once-2"]


def test_page_that_ends_two_workers_fails(tmp_path: Path) -> None:
    found = with_pool(tmp_path, lambda pool: analyze(pool, "deadly", "b"))
    ended = "2 worker processes ended while they analyzed this page (exit status 3)"
    assert summary(found) == [f"{CRASHED}: {ended}", "b"]
    assert len((tmp_path / "deadly").read_text()) == 2


def test_pages_that_end_new_workers_do_not_end_the_crawl(tmp_path: Path) -> None:
    """They end processes that have started well: the limit on failing starts does not count them."""
    found = with_pool(tmp_path, lambda pool: analyze(pool, *(f"deadly-{n}" for n in range(4)), "b"))
    assert [text.partition(":")[0] for text in summary(found)] == [CRASHED] * 4 + ["b"]


def test_pages_sent_while_a_dead_worker_is_noticed_are_analyzed(tmp_path: Path) -> None:
    """The transport of a dead worker closes before the pool knows; a page submitted then was lost."""

    async def run(pool: WorkerPool) -> Results:
        await analyze(pool, "started")
        worker = pool.processes[0]
        worker.kill()
        worker.join()
        pending = [asyncio.ensure_future(analyze(pool, "a" * 20, "b"))]
        for number in range(20):
            await asyncio.sleep(0)
            pending.append(asyncio.ensure_future(analyze(pool, f"c{number}")))
        return [result for results in await asyncio.gather(*pending) for result in results]

    assert summary(with_pool(tmp_path, run)) == ["a" * 20, "b", *(f"c{number}" for number in range(20))]


def test_pool_has_room_again_when_large_pages_are_analyzed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_WAITING_BYTES", 100)

    async def run(pool: WorkerPool) -> Results:
        lead = Lead(url=f"{URL}a", key=1, host="a.example")
        analyses = [
            asyncio.ensure_future(pool.analyze(lead, FetchResult(url=lead.url, status=200, body=bytes(90))))
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        assert pool._waiting_bytes == 180
        await pool.wait_for_room()
        assert any(analysis.done() for analysis in analyses)
        return await asyncio.gather(*analyses)

    assert summary(with_pool(tmp_path, run)) == ["a", "a"]


def test_matrix_products_use_one_thread_during_a_crawl() -> None:
    before = set_blas_threads(2)
    if not before:
        pytest.skip("numpy has another library than OpenBLAS")
    try:
        with one_blas_thread():
            assert set_blas_threads(1) == 1
        assert set_blas_threads(2) == 2
    finally:
        set_blas_threads(before)


def test_garbage_collector_runs_rarely_during_a_crawl_only(tmp_path: Path) -> None:
    """With Python's own thresholds it takes 7 % of the CPU time of the engine's process."""
    before, during = gc.get_threshold(), set[tuple[int, int, int]]()
    with served(SmallWeb({URL: page()})) as server:
        crawl(tmp_path / "c", settings_for(server, [URL]), lambda _: during.add(gc.get_threshold()))
    assert min(threshold for threshold, _, _ in during) >= 10 * before[0]
    assert gc.get_threshold() == before
