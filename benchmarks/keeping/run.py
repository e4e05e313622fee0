"""Verify, compact and merge collections of many pages: time and memory (`--pages 100000`).

    python benchmarks/keeping/run.py --pages 100000

Makes two collections that share a third of their pages, one page in ten with an older version, in a folder of its own,
then runs each command in a process of its own and prints seconds and peak memory.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import tomli_w

from opilio.core.records import Analysis, FetchResult, Lead, Outcome, PageChange, UrlResult, UrlState, Verdict, url_key
from opilio.core.urls import host_of
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.wiring.settings import complete_settings
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.store.collection import Collection
from opilio.store.warc import WarcWriter, response_record
from opilio.store.writer import CollectionWriter
from opilio.topic.setup import resolve_settings

BATCH = 500
WORDS = [f"word{n}" for n in range(5000)]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(dir=options.dir or None) as place:
        began = time.perf_counter()
        third = options.pages // 3
        made(Path(place) / "a", range(options.pages), 1.7e9)
        made(Path(place) / "b", range(options.pages - third, 2 * options.pages - third), 1.71e9)
        size = sum(path.stat().st_size for path in (Path(place) / "a").iterdir())
        took_s = time.perf_counter() - began
        print(f"two collections of {options.pages} pages, {size >> 20} MB each, made in {took_s:.0f} s", flush=True)
        for words in (["verify", "a"], ["compact", "a"], ["merge", "a", "b", "--into", "c"], ["verify", "c"]):
            seconds, peak = timed(["maintain", *words], Path(place))
            print(f"{' '.join(words):24} {seconds:7.1f} s   peak {peak:6.0f} MB", flush=True)


# Runs a command and prints how much memory it had at most.
WEIGHED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=2).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def timed(words: list[str], place: Path) -> tuple[float, float]:
    """Seconds and megabytes of a command."""
    command = [sys.executable, "-c", WEIGHED, sys.executable, "-c", "from opilio.cli.main import main; main()", *words]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=place, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - began, int(done.stdout.split()[-1]) / 1024


def made(folder: Path, numbers: range, start: float) -> None:
    """A collection as a crawl would have left it."""
    settings = complete_settings(
        resolve_settings({"topic": {"name": "wrens"}, "seeds": {"urls": ["http://h0.example/"]}})
    )
    collection = Collection.create(folder, tomli_w.dumps(msgspec.to_builtins(settings)), (create_frontier, create_seen))
    store_writer = CollectionWriter(collection, WarcWriter(folder, "benchmark", 256 << 20))
    store_writer.resume()
    frontier = SqliteFrontier(collection.connection)
    for batch in portions(numbers):
        with collection.unit_of_work():
            now = start + batch[0]
            outcomes = [visit(n, now) for n in batch]
            frontier.add([o.lead for o in outcomes], now)
            for lease in frontier.lease(now, BATCH, BATCH, 60.0):
                results = [UrlResult(key=x.key, host=x.host, state=UrlState.DONE) for x in lease.leads]
                frontier.complete(lease, results, 0.0)
            store_writer.write_outcomes(outcomes)
            again = [visit(n, now + 9e5, 1) for n in batch if n % 10 == 0]
            store_writer.write_outcomes([msgspec.structs.replace(o, change=PageChange.CHANGED) for o in again])
            collection.connection.executemany(
                "INSERT OR REPLACE INTO texts VALUES (?, ?)",
                [(o.analysis.fingerprint, o.lead.key) for o in (*outcomes, *again) if o.analysis],
            )
            collection.connection.executemany(
                "DELETE FROM texts WHERE fingerprint = ?", [(1 + n * 2,) for n in batch if n % 10 == 0]
            )
    with collection.unit_of_work():
        store_writer.sync(start, at_once=True)
        collection.set_meta(state="stopped")
    store_writer.close()
    collection.close()


def portions(numbers: range) -> Iterator[range]:
    for at in range(numbers.start, numbers.stop, BATCH):
        yield range(at, min(at + BATCH, numbers.stop))


def visit(number: int, at: float, version: int = 0) -> Outcome:
    url = f"http://h{number % 400}.example/{number}.html"
    text = " ".join(random.Random(number * 2 + version).choices(WORDS, k=700))
    fetched = FetchResult(url=url, status=200, body=f"<title>{number}</title><p>{text}".encode(), started_at=at)
    analysis = Analysis(
        title=str(number),
        words=700,
        fingerprint=1 + number * 2 + version,
        verdict=Verdict(score=0.5, relevant=number % 3 == 0),
        links=b"x" * 300,
        warc_record=response_record(fetched),
    )
    light = msgspec.structs.replace(fetched, body=b"", size_bytes=len(fetched.body))
    return Outcome(lead=Lead(url=url, key=url_key(url), host=host_of(url)), fetched=light, analysis=analysis)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--dir", default="", help="where to make them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
