"""What looking on costs a crawl: the same crawl alone, beside the process that keeps its index, and with pages open.

    python benchmarks/web/ui_cost.py --pages 4000 --rounds 5

A synthetic web is served on loopback and crawled without pauses, so that all cores are busy. Each run begins with a
few pages; then the server is started and waited for, and the rest is crawled and measured, in turns. `open` is a live
page that stays open and a search every five seconds, with the index that this needs. Besides pages a second it prints
which share of all cores was used beside the crawl: where the crawl has all of them busy that is what it can lose, and
other users of the machine do not change it.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import tomli_w

from opilio.lab.server.server import LabServerConfig, LabWebServer, serve_synthetic_web
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables
from opilio.search.indexer import count_unindexed
from opilio.store.collection import Collection
from opilio.web.processes import BackgroundIndexer

COMMAND = (sys.executable, "-m", "opilio")
FIRST_PAGES = 50
SEARCH_EVERY_S = 5.0
# Counts the updates that change the live page.
COUNT_UPDATES = """() => {
  window.updates = 0;
  const watched = {subtree: true, childList: true, characterData: true};
  new MutationObserver(() => window.updates++).observe(document.querySelector("main"), watched);
}"""


class Run(NamedTuple):
    pages_per_s: float
    took_s: float
    crawl_cpu_s: float  # of the engine and its workers
    crawl_mib: float  # peak memory of the largest of them
    other_cpu_s: float  # of whatever looked on
    looks: int
    not_indexed: int  # pages when the crawl ended


class Looking(Protocol):
    """An observer; `close` ends it and returns its CPU seconds and the number of its requests."""

    def begin(self) -> None: ...
    def close(self) -> tuple[float, int]: ...


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--browser", action="store_true", help="a real Chromium looks on, instead of its stream alone")
    given = parser.parse_args()
    shape = WebShape(seed=7, pages=given.pages, hosts=40, topics=3, slow_hosts=0, failing_hosts=0, traps=())
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    web = context.Process(target=_serve_web, args=(shape, theirs), daemon=True)
    web.start()
    proxy = ours.recv()
    kinds: dict[str, Callable[[Path], Looking]] = {
        "alone": _Nobody,
        "index": _Indexing,
        "open": partial(_Pages, browser=given.browser),
    }
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        options = [str(_config(Path(place), shape)), "--proxy", proxy, "--workers", str(given.workers)]
        runs = {kind: list[Run]() for kind in kinds}
        for number in range(given.rounds):
            for kind in sorted(kinds, reverse=number % 2 == 1):
                folder = Path(place) / f"{kind}-{number}"
                runs[kind].append(_run(folder, options, kinds[kind]))
                print(number, kind, runs[kind][-1], flush=True)
    web.terminate()
    _tell(runs)


def _serve_web(shape: WebShape, channel: Connection) -> None:
    def announce(server: LabWebServer) -> None:
        channel.send(server.proxy)

    serve_synthetic_web(shape, LabServerConfig(), announce)


def _config(folder: Path, shape: WebShape) -> Path:
    result: Any = topic_tables(SyntheticWeb(shape).plan)[0]
    tree = {
        "topic": {"name": result["name"], "keywords": result["keywords"]},
        "seeds": {"urls": result["seeds"][0]["urls"]},
        "politeness": {"delay_s": 0.0, "max_crawl_delay_s": 0.0},
        "stop": {"pages": shape.pages},
    }
    path = folder / "crawl.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def _run(folder: Path, options: list[str], looking: Callable[[Path], Looking]) -> Run:
    words = [*COMMAND, "crawl", "--quiet", "--into", str(folder), "--config", *options]
    subprocess.run([*words, "--pages", str(FIRST_PAGES)], stdout=subprocess.DEVNULL, check=True)
    looker = looking(folder)
    crawl = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    looker.begin()
    _, _, used = os.wait4(crawl.pid, 0)
    crawl.returncode = 0
    missing = count_unindexed(folder)
    other_cpu, looks = looker.close()
    speed, took_s = _speed(folder)
    return Run(speed, took_s, _cpu(used), round(used.ru_maxrss / 1024, 1), other_cpu, looks, missing)


def _speed(folder: Path) -> tuple[float, float]:
    """Pages a second, and seconds, from the first page of the measured crawl to its last."""
    collection = Collection.open_for_reading(folder)
    times = sorted(at for (at,) in collection.connection.execute("SELECT fetched_at FROM page"))[FIRST_PAGES:]
    collection.close()
    took_s = times[-1] - times[0]
    return round((len(times) - 1) / took_s, 1), round(took_s, 1)


class _Nobody:
    def __init__(self, folder: Path) -> None:
        pass

    def begin(self) -> None:
        pass

    def close(self) -> tuple[float, int]:
        return 0.0, 0


class _Indexing:
    """The process that keeps the index, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self._indexer = BackgroundIndexer([folder])

    def begin(self) -> None:
        self._indexer.start()

    def close(self) -> tuple[float, int]:
        used = _cpu_of(self._indexer._process.pid or 0)
        self._indexer.stop()
        return used, 0


class _Pages:
    """Serves the collection and looks on, as an open page does."""

    def __init__(self, folder: Path, *, browser: bool) -> None:
        words = [*COMMAND, "serve", str(folder), "--port", "0"]
        self._server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._server.stdout is not None
        self._base = self._server.stdout.readline().strip()
        self._page = f"{self._base}c/{folder.name}"
        _read(self._page)
        self._looks = 0
        self._began = _cpu_of(self._server.pid)  # starting a server is not what an open page costs
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=target) for target in (self._browse if browser else self._stream, self._search)
        ]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def _stream(self) -> None:
        with urllib.request.urlopen(f"{self._page}/live?parts=1", timeout=60) as stream:
            for line in stream:
                self._looks += line.startswith(b"event: parts")
                if self._over.is_set():
                    return

    def _search(self) -> None:
        while not self._over.wait(SEARCH_EVERY_S):
            _read(f"{self._base}search?q=the")

    def _browse(self) -> None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(self._page)
            page.evaluate(COUNT_UPDATES)
            while not self._over.is_set():
                page.wait_for_timeout(500)
            self._looks = int(page.evaluate("window.updates"))
            browser.close()

    def close(self) -> tuple[float, int]:
        self._over.set()
        children = _children_of(self._server.pid)
        index = sum(map(_cpu_of, children))
        for thread in self._threads:
            thread.join()
        used = _cpu_of(self._server.pid) - self._began
        self._server.send_signal(signal.SIGINT)
        self._server.communicate()
        return round(used + index, 2), self._looks


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return bytes(answer.read())


def _children_of(pid: int) -> list[int]:
    return [
        int(child)
        for children in Path(f"/proc/{pid}/task").glob("*/children")
        for child in children.read_text(encoding="ascii").split()
    ]


def _cpu_of(pid: int) -> float:
    """Processor seconds of a running process (proc(5), fields 14 and 15)."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _cpu(used: resource.struct_rusage) -> float:
    return round(used.ru_utime + used.ru_stime, 2)


def _tell(runs: dict[str, list[Run]]) -> None:
    alone = statistics.median(run.pages_per_s for run in runs["alone"])
    for kind, found in runs.items():
        speed = statistics.median(run.pages_per_s for run in found)
        share = statistics.median(run.other_cpu_s / run.took_s / (os.cpu_count() or 1) for run in found)
        cpu = statistics.median(run.crawl_cpu_s for run in found)
        mib = statistics.median(run.crawl_mib for run in found)
        print(
            f"{kind}: {speed:.1f} pages/s, {speed / alone:.3f} of alone; CPU of the crawl {cpu:.1f} s, memory {mib:.0f}"
            f" MiB; beside it {share:.4f} of all cores were used"
        )


if __name__ == "__main__":
    main()
