"""No worker process outlives its engine, however that ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from checks import busy_worker
from checks.small_webs import PATIENCE_S
from opilio.core.records import FetchResult, Lead
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.workers import pool
from opilio.engine.workers.pool import WorkerPool, WorkerStartError
from opilio.engine.workers.process import start_with_signals_blocked

TESTS = Path(__file__).parents[1]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_busy_worker_ends_when_its_engine_is_killed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", "import asyncio; from checks.busy_worker import main; asyncio.run(main())"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as engine:
        assert engine.stdout is not None
        worker = int(engine.stdout.readline())
        assert is_running(worker)
        engine.kill()
    wait_until(lambda: not is_running(worker))


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError])
def test_interrupted_start_of_a_worker_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """A pending SIGINT is delivered when the worker has started and no other part knows it yet."""
    seen: list[BaseProcess] = []
    start = start_with_signals_blocked

    def interrupted(process: BaseProcess) -> None:
        start(process)
        seen.append(process)
        raise error

    monkeypatch.setattr(pool, "start_with_signals_blocked", interrupted)

    async def begin() -> None:
        with pytest.raises(error):
            await WorkerPool(busy_worker.build, 1).start()

    asyncio.run(begin())
    assert [process.exitcode for process in seen] == [-signal.SIGKILL]


class EndsProcess:
    """Ends the process that reads it."""

    def __reduce__(self) -> tuple[Callable[[int], object], tuple[int]]:
        return os._exit, (3,)


def build_with(_: EndsProcess, __: bytes) -> PageAnalyzer:
    raise AssertionError


def test_worker_that_ends_before_it_has_read_everything_does_not_stop_the_engine() -> None:
    """What a crawl has learnt is larger than the buffer of a pipe, so a blocking write to the worker would not end."""

    async def run() -> None:
        pool = WorkerPool(partial(build_with, EndsProcess(), bytes(1 << 20)), 1)
        await pool.start()
        lead = Lead(url="http://a.example/", key=1, host="a.example")
        with pytest.raises(WorkerStartError):
            await asyncio.wait_for(pool.analyze(lead, FetchResult(url=lead.url, status=200)), PATIENCE_S)
        await pool.close()

    asyncio.run(run())


def test_pool_closes_at_once_while_its_workers_still_start() -> None:
    async def run() -> list[int | None]:
        pool = WorkerPool(busy_worker.build, 2)
        await pool.start()
        processes = pool.processes
        await pool.close()
        return [process.exitcode for process in processes]

    assert asyncio.run(run()) == [-signal.SIGKILL, -signal.SIGKILL]
