"""A crawl of the pages of `run.py` from a WARC file instead of a web server.

python benchmarks/throughput/archive.py                                  strategies breadth and opilio, three rounds
python benchmarks/throughput/archive.py --strategy breadth --set engine.workers=0
python benchmarks/throughput/archive.py --archive web.warc.gz --pages 2500     pages of another archive

The whole command is measured, from start to exit, and a crawl of 400 pages for the cost of starting. From the CPU time
of the engine process and of the workers follows how many pages per second a machine with more cores can crawl.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

from measured import measure
from sites import HOSTS, address_of, collect

from opilio.core.records import FetchResult
from opilio.fetch.archive import ArchiveWeb
from opilio.store.warc import info_record, response_record

TOPIC = "database queries, indexes and transactions"
RECORDED_AT = 1_700_000_000.0
START_PAGES = 400  # a shorter crawl ends before the last worker has started
CORES = (2, 4, 8, 16)
# Runs the command and writes the CPU seconds of its process and of its workers into a file.
COUNT_CPU = """
import json, resource, sys
from opilio.cli.main import main
file = sys.argv.pop(1)
try:
    main()
finally:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    open(file, "w").write(json.dumps([usage.ru_utime + usage.ru_stime for usage in usages]))
"""


class ArchiveRun(NamedTuple):
    """A crawl: its pages and speed, and the CPU seconds of the engine process and of the workers."""

    pages: int
    pages_per_s: float
    engine_s: float
    workers_s: float


class PageCost(NamedTuple):
    """CPU ms per page, without the start."""

    engine: float
    workers: float

    def pages_per_s(self, cores: int) -> float:
        """Pages per second on this number of cores; the engine process uses one at most."""
        return 1000 / max(self.engine, (self.engine + self.workers) / cores)


def write_archive(folder: Path) -> Path:
    """All pages of the sites in one WARC file, written once."""
    path = folder / "sites.warc.gz"
    if not path.exists():
        with path.open("wb") as out:
            out.write(info_record(path.name, "benchmark", RECORDED_AT))
            for page in sorted((folder / "sites").rglob("*.html")):
                host, _, name = page.relative_to(folder / "sites").as_posix().partition("/")
                out.write(_record(f"http://{host}/{'' if name == 'index.html' else name}", page.read_bytes()))
    return path


def _record(url: str, body: bytes) -> bytes:
    headers = (("Content-Type", "text/html"),)
    return response_record(FetchResult(url=url, status=200, headers=headers, body=body, started_at=RECORDED_AT))


def site_seeds() -> list[str]:
    """The first page of every site."""
    return [x for n in range(HOSTS) for x in ("--seed", f"http://{address_of(n)}/")]


def all_seeds(archive: Path, folder: Path) -> list[str]:
    """Every page of an archive, in one file: many archives have few links that lead to their own pages."""
    web, file = ArchiveWeb([archive]), folder / "seeds.txt"
    file.write_text("\n".join(web.page_urls()))
    sizes = [found.size_bytes for url in web.page_urls() if (found := web.find_packed(url))]
    print(f"{archive}: {len(sizes)} pages of {sum(sizes) / len(sizes) / 1000:.1f} KB with headers")
    return ["--seeds", str(file)]


class Crawls(NamedTuple):
    """What the crawls of one run of this program have in common."""

    archive: Path
    into: Path
    seeds: list[str]
    settings: list[str]


def crawl(common: Crawls, strategy: str, pages: int) -> ArchiveRun:
    archive, into, seeds, settings = common
    shutil.rmtree(into, ignore_errors=True)
    options = ["--strategy", strategy, "--into", str(into), "--pages", str(pages), "--json", "--quiet"]
    chosen = [x for s in ("stop.harvest_below=0", "frontier.traps=false", *settings) for x in ("--set", s)]
    costs = into.with_suffix(".cpu")
    program = [sys.executable, "-c", COUNT_CPU, str(costs), "crawl", TOPIC, "--from", str(archive)]
    run = measure([*program, *options, *chosen, *seeds])
    return ArchiveRun(run.pages, run.pages_per_s, *json.loads(costs.read_text()))


def cost_of(run: ArchiveRun, start: ArchiveRun) -> PageCost:
    pages = run.pages - start.pages
    return PageCost(*(1000 * (a - b) / pages for a, b in zip(run[2:], start[2:], strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "opilio-throughput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strategy", action="append", help="may be given several times (default: breadth and opilio)")
    parser.add_argument("--archive", type=Path, help="an archive to crawl instead of the sites of run.py")
    parser.add_argument("--pages", type=int, default=0, help="pages of a crawl (default: all)")
    parser.add_argument("--set", action="append", default=[], help="a setting: engine.workers=0")
    arguments = parser.parse_args()
    arguments.folder.mkdir(exist_ok=True)
    if arguments.archive:
        archive, seeds = arguments.archive, all_seeds(arguments.archive, arguments.folder)
    else:
        print(collect(arguments.folder))
        archive, seeds = write_archive(arguments.folder), site_seeds()
    common = Crawls(archive, arguments.folder / "collection", seeds, arguments.set)
    for strategy in arguments.strategy or ["breadth", "opilio"]:
        start = crawl(common, strategy, START_PAGES)
        runs = []
        for _ in range(arguments.rounds):
            runs.append(run := crawl(common, strategy, arguments.pages))
            cost = cost_of(run, start)
            print(
                f"{strategy}: {run.pages} pages, {run.pages_per_s:.0f}/s with the start of {sum(start[2:]):.1f} s,"
                f" CPU ms per page: engine {cost.engine:.2f}, workers {cost.workers:.2f}",
                flush=True,
            )
        every = [cost_of(run, start) for run in runs]
        cost = PageCost(median(c.engine for c in every), median(c.workers for c in every))
        by_cores = ", ".join(f"{cores}: {cost.pages_per_s(cores):.0f}" for cores in CORES)
        print(
            f"{strategy}: {median(run.pages_per_s for run in runs):.0f} pages/s, engine {cost.engine:.2f} ms, workers"
            f" {cost.workers:.2f} ms (medians); pages/s by cores: {by_cores}; Python {sys.version.split()[0]}"
        )


if __name__ == "__main__":
    main()
