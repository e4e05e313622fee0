"""A crawl of the pages of `run.py` from a WARC file instead of a web server.

python benchmarks/throughput/archive.py                                  strategies breadth and opilio, three rounds
python benchmarks/throughput/archive.py --strategy breadth --set engine.workers=0

The whole command is measured, from start to exit. Parsing, judging and ranking are the same as on the live web, so the
difference to `run.py` is what a crawl of the web spends on requests, robots.txt and waiting.
"""

import argparse
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from statistics import median

from measured import Run, measure
from sites import HOSTS, address_of, collect

from opilio.core.records import FetchResult
from opilio.store.warc import info_record, response_record

TOPIC = "database queries, indexes and transactions"
RECORDED_AT = 1_700_000_000.0


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


def crawl_command(archive: Path, into: Path, strategy: str, settings: list[str]) -> list[str]:
    program = str(Path(sysconfig.get_path("scripts")) / "opilio")
    options = ["--strategy", strategy, "--into", str(into), "--pages", "0", "--json", "--quiet"]
    chosen = [x for s in ("stop.harvest_below=0", "frontier.traps=false", *settings) for x in ("--set", s)]
    seeds = [x for n in range(HOSTS) for x in ("--seed", f"http://{address_of(n)}/")]
    return [program, "crawl", TOPIC, "--from", str(archive), *options, *chosen, *seeds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "opilio-throughput")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--strategy", action="append", help="may be given several times (default: breadth and opilio)")
    parser.add_argument("--set", action="append", default=[], help="a setting: engine.workers=0")
    arguments = parser.parse_args()
    arguments.folder.mkdir(exist_ok=True)
    print(collect(arguments.folder))
    archive, into = write_archive(arguments.folder), arguments.folder / "collection"
    runs: dict[str, list[Run]] = {}
    for _ in range(arguments.rounds):
        for strategy in arguments.strategy or ["breadth", "opilio"]:
            shutil.rmtree(into, ignore_errors=True)
            run = measure(crawl_command(archive, into, strategy, arguments.set))
            runs.setdefault(strategy, []).append(run)
            print(f"{strategy}: {run.pages} pages, {run.pages_per_s:.0f}/s, {run.cpu_ms:.2f} ms CPU", flush=True)
    for strategy, each in runs.items():
        speed, cpu_ms = median(r.pages_per_s for r in each), median(r.cpu_ms for r in each)
        print(
            f"{strategy}: {speed:.0f} pages/s, {cpu_ms:.2f} ms CPU per page (median), Python {sys.version.split()[0]}"
        )


if __name__ == "__main__":
    main()
