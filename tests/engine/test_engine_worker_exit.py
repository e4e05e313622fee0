"""No worker process outlives its engine, however that ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from checks import busy_worker
from opilio.engine.workers import pool
from opilio.engine.workers.pool import WorkerPool
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


def test_pool_closes_at_once_while_its_workers_still_start() -> None:
    async def run() -> list[int | None]:
        pool = WorkerPool(busy_worker.build, 2)
        await pool.start()
        processes = pool.processes
        await pool.close()
        return [process.exitcode for process in processes]

    assert asyncio.run(run()) == [-signal.SIGKILL, -signal.SIGKILL]
