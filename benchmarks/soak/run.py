"""A long crawl, watched from outside: does a page cost the same late as early, and does memory stay bounded?

    python benchmarks/soak/run.py --pages 60000

A synthetic web with its traps is served on loopback and crawled without pauses by the default strategy, learning on.
A line for every few thousand pages: relevant ones so far, CPU a page since the line before, memory of the processes'
own (what they can't give back) and of mapped files (the database: the kernel takes it back when it needs it). Ends with
`verify`.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from opilio.core.errors import CollectionError
from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables
from opilio.store.collection import open_readonly

COMMAND = (sys.executable, "-m", "opilio")
_TICKS = os.sysconf("SC_CLK_TCK")


class Use(NamedTuple):
    """What a crawl's processes have used."""

    cpu_s: float
    own_mb: float
    mapped_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=60_000)
    parser.add_argument("--every", type=int, default=5_000, help="pages between two lines")
    parser.add_argument("--strategy", default="opilio")
    given = parser.parse_args()
    shape = WebShape(pages=given.pages, hosts=max(40, given.pages // 150), slow_hosts=0, failing_hosts=0)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    web = context.Process(target=_serve, args=(shape, theirs), daemon=True)
    web.start()
    proxy = ours.recv()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        folder, config = Path(place) / "collection", _config(Path(place), shape, given.strategy)
        words = [*COMMAND, "crawl", "--quiet", "--into", str(folder), "--config", str(config), "--proxy", proxy]
        crawl = subprocess.Popen(words)
        _watch(crawl, folder, given.every)
        web.terminate()
        subprocess.run([*COMMAND, "maintain", "verify", str(folder)], check=True)


def _serve(shape: WebShape, channel: Connection) -> None:
    def announce(server: LabWebServer) -> None:
        channel.send(server.proxy)

    serve_synthetic_web(shape, LabServerConfig(), announce)


def _config(folder: Path, shape: WebShape, strategy: str) -> Path:
    result: Any = topic_tables(SyntheticWeb(shape).plan)[0]
    tree = {
        "strategy": strategy,
        "topic": {"name": result["name"], "keywords": result["keywords"]},
        "seeds": {"urls": result["seeds"][0]["urls"]},
        "politeness": {"delay_s": 0.0, "max_crawl_delay_s": 0.0},
        "stop": {"pages": shape.pages},
    }
    path = folder / "crawl.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def _watch(crawl: subprocess.Popen[bytes], folder: Path, every: int) -> None:
    print("   pages  relevant  CPU ms a page  own MB  mapped MB", flush=True)
    before, result = Use(0.0, 0.0, 0.0), 0
    while crawl.poll() is None:
        time.sleep(0.5)
        use, (pages, relevant) = memory_use(crawl.pid), _pages(folder)
        if pages >= result + every and use.cpu_s:
            cpu_ms = 1000 * (use.cpu_s - before.cpu_s) / (pages - result)
            print(f"{pages:8,}  {relevant:8,}  {cpu_ms:13.2f}  {use.own_mb:6.0f}  {use.mapped_mb:9.0f}", flush=True)
            before, result = use, pages


def _pages(folder: Path) -> tuple[int, int]:
    try:
        with open_readonly(folder) as collection:
            row = collection.connection.execute("SELECT count(*), sum(relevant) FROM page").fetchone()
            return row[0], row[1] or 0
    except CollectionError:  # not made yet
        return 0, 0


def memory_use(pid: int) -> Use:
    cpu_s = own_kb = mapped_kb = 0.0
    for process in _family(pid):
        try:
            cpu_s += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[11:13])) / _TICKS
            lines = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        except OSError:  # ended meanwhile
            continue
        own_kb += float(lines.get("RssAnon", "0").split()[0])
        mapped_kb += float(lines.get("RssFile", "0").split()[0])
    return Use(cpu_s, own_kb / 1024, mapped_kb / 1024)


def _family(pid: int) -> Iterator[Path]:
    """A process and all that it started, as folders of /proc."""
    process = Path(f"/proc/{pid}")
    yield process
    try:
        children = [c for t in (process / "task").iterdir() for c in (t / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


if __name__ == "__main__":
    main()
