"""A worker pool whose worker never finishes its page. `main` prints the worker's process id and waits."""

import sys
from typing import cast

from opilio.core.records import Analysis, FetchResult, Lead
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.workers.pool import WorkerPool


class BusyAnalyzer:
    def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:  # noqa: ARG002 the signature of an analyzer
        while True:
            pass


def build() -> PageAnalyzer:
    return cast(PageAnalyzer, BusyAnalyzer())


async def main() -> None:
    pool = WorkerPool(build, 1)
    await pool.start()
    sys.stdout.write(f"{pool.processes[0].pid}\n")
    sys.stdout.flush()
    url = "http://a.example/"
    await pool.analyze(Lead(url=url, key=1, host="a.example"), FetchResult(url=url, status=200, body=b"<html></html>"))
