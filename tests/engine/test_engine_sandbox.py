"""Code of a page that runs in a worker, by a flaw of a native library, can't write, connect or start programs."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from checks.confined import ConfinedAnalyzer
from opilio.core.records import FetchResult, Lead
from opilio.engine.workers.pool import WorkerPool
from opilio.engine.workers.process import AnalysisLimits
from opilio.engine.workers.sandbox import sandbox_available

REFUSED = "write append delete rename folder mode connect datagram program fork kill".split()
ALLOWED = "read thread import".split()
needs_filter = pytest.mark.skipif(not sandbox_available(), reason="Linux on x86-64 only")


def titles(folder: Path, attempts: list[str], *, sandbox: bool) -> list[str]:
    async def main() -> list[str]:
        pool = WorkerPool(partial(ConfinedAnalyzer, str(folder)), 1, AnalysisLimits(sandbox=sandbox))  # type: ignore[arg-type]
        await pool.start()
        try:
            urls = [f"http://a.example/{name}" for name in attempts]
            jobs = [(Lead(url=url, key=1, host="a.example"), FetchResult(url=url, status=200)) for url in urls]
            return [(await pool.analyze(*job)).title for job in jobs]
        finally:
            await pool.close()

    (folder / "stored").write_text("x")
    return asyncio.run(main())


@needs_filter
def test_worker_can_only_read_and_compute(tmp_path: Path) -> None:
    found = titles(tmp_path, REFUSED + ALLOWED, sandbox=True)
    assert found == ["PermissionError"] * len(REFUSED) + ["done"] * len(ALLOWED)
    assert [path.name for path in tmp_path.iterdir()] == ["stored"]


def test_worker_is_not_restricted_when_the_sandbox_is_off(tmp_path: Path) -> None:
    assert titles(tmp_path, ["write", "datagram", "program"], sandbox=False) == ["done"] * 3
