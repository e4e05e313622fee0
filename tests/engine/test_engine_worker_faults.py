"""Worker processes that are killed at each step of their start and of their end: no page is lost, none is left."""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from checks.costly_pages import URL, CostlyAnalyzer
from checks.killing import still_alive
from checks.small_webs import PATIENCE_S, SmallWeb, crawl, grid, served, settings_for, stored
from opilio.core.records import FetchResult, Lead
from opilio.engine.workers import pool
from opilio.manage.verify import verify

SEED = "http://h0.example/0.html"
WEB = grid(hosts=2, pages=5)
VICTIMS = 2  # worker processes that are killed, one after the other
# Steps of the worker's own process, each of them a name in its module. The last two have a page in hand, which may not
# end a second worker.
START_STEPS = ["run_worker", "die_with_parent", "return_free_memory", "enter_sandbox"]
PAGE_STEPS = ["_decode_message", "_encode"]
# Python runs this file when it starts. A worker is a victim if it can take one of the turns. In its sandbox a process
# can't send signals, not even to itself.
FAULT = """
import os, sys
step = os.environ.get("OPILIO_FAULT_STEP")
if step and "--multiprocessing-fork" in sys.orig_argv:
    for turn in range(int(os.environ["OPILIO_FAULT_VICTIMS"])):
        try:
            os.mkdir(os.path.join(os.environ["OPILIO_FAULT_TURNS"], str(turn)))
        except FileExistsError:
            continue
        import opilio.engine.workers.process as process
        if not hasattr(process, step):
            raise AttributeError(step)
        setattr(process, step, lambda *values, **named: os._exit(137))
        break
"""


def crawled(folder: Path) -> None:
    """A crawl with two workers is complete, although some of them were killed."""
    with served(SmallWeb(WEB)) as server:
        crawl(folder, settings_for(server, [SEED], engine={"workers": 2}))
    assert stored(folder) == sorted(WEB)
    assert verify(folder) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "victims"), [*((step, VICTIMS) for step in START_STEPS), *((step, 1) for step in PAGE_STEPS)]
)
def test_worker_that_ends_at_a_step_of_its_start_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, victims: int
) -> None:
    turns = tmp_path / "turns"
    turns.mkdir()
    (tmp_path / "sitecustomize.py").write_text(FAULT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("OPILIO_FAULT_STEP", step)
    monkeypatch.setenv("OPILIO_FAULT_VICTIMS", str(victims))
    monkeypatch.setenv("OPILIO_FAULT_TURNS", str(turns))
    crawled(tmp_path / "c")
    assert len(list(turns.iterdir())) == victims


def killed_around(step: Callable[..., Any], victims: list[int], when: str) -> Callable[..., Any]:
    """A function of the pool whose first argument has a process, which is killed before or after the first call."""

    def faulty(first: Any, *values: Any) -> Any:
        def hit() -> None:
            process = getattr(first, "process", first)
            if len(victims) < VICTIMS and process.pid:
                victims.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)
                if when == "after":
                    process.join()

        if when == "before":
            hit()
        result = step(first, *values)
        if when == "after":
            hit()
        return result

    return faulty


@pytest.mark.parametrize(
    ("owner", "name", "when"),
    [
        (pool, "start_with_signals_blocked", "after"),
        (pool._WorkerConnection, "connection_made", "before"),
        (pool._WorkerConnection, "connection_made", "after"),
        (pool._WorkerConnection, "submit", "before"),
        (pool._WorkerConnection, "close", "before"),
        (pool._WorkerConnection, "close", "after"),
    ],
)
def test_worker_that_is_killed_while_the_engine_starts_or_ends_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, when: str
) -> None:
    victims: list[int] = []
    monkeypatch.setattr(owner, name, killed_around(getattr(owner, name), victims, when))
    crawled(tmp_path / "c")
    assert len(victims) == VICTIMS
    assert still_alive(victims) == []


def test_worker_that_ends_while_it_is_connected_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss may be reported before the pool knows the worker; which comes first is up to the event loop."""
    spawn = pool.WorkerPool._spawn_worker
    early: list[pool._WorkerConnection] = []

    async def lost_early(self: pool.WorkerPool) -> pool._WorkerConnection:
        worker = await spawn(self)
        if len(early) < VICTIMS:
            early.append(worker)
            worker.process.kill()
            while not worker._channel._closed:  # type: ignore[attr-defined] # the loss is reported
                await asyncio.sleep(0)
        return worker

    monkeypatch.setattr(pool.WorkerPool, "_spawn_worker", lost_early)
    crawled(tmp_path / "c")
    assert len(early) == VICTIMS


def test_pages_of_a_worker_that_is_not_replaced_go_to_the_others(tmp_path: Path) -> None:
    """After too many failed starts a worker is given up; what it was to analyze must not wait for ever."""

    async def run() -> list[str]:
        workers = pool.WorkerPool(partial(CostlyAnalyzer, str(tmp_path)), 2)  # type: ignore[arg-type]
        await workers.start()
        workers._startup_failures = pool.MAX_STARTUP_FAILURES
        jobs = [
            (Lead(url=f"{URL}{n}", key=int(n), host="a.example"), FetchResult(url=f"{URL}{n}", status=200))
            for n in "12"
        ]
        analyses = [asyncio.ensure_future(workers.analyze(*job)) for job in jobs]
        await asyncio.sleep(0)
        workers.processes[1].kill()
        try:
            return [analysis.title for analysis in await asyncio.wait_for(asyncio.gather(*analyses), PATIENCE_S)]
        finally:
            await workers.close()

    assert len(asyncio.run(run())) == 2
