"""What an open page costs the crawl it shows: the same crawl alone and with the live page open, in turns.

Besides pages a second it tells processor time: what the pages' server uses beside what the crawl uses. Where the crawl
has all cores busy that share is what it can lose at most, and other users of the machine do not change it.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import tomli_w

from opilio.lab.server import Serving, WebServer
from opilio.lab.serving import serve_shape
from opilio.lab.shape import Shape
from opilio.lab.synthetic import SyntheticWeb, topic_tables
from opilio.store.collection import Collection, exists

COMMAND = (sys.executable, "-m", "opilio")


class Run(NamedTuple):
    pages_per_s: float
    crawl_cpu_s: float
    server_cpu_s: float
    looks: int


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=3000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--delay-ms", type=float, default=0.0, help="how long each answer takes")
    options.add_argument("--browser", action="store_true", help="a real Chromium looks on, instead of its stream alone")
    given = options.parse_args()
    shape = Shape(seed=7, pages=given.pages, hosts=40, topics=3, slow_hosts=0, failing_hosts=0, traps=())
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    web = context.Process(target=_serve_web, args=(shape, theirs), daemon=True)
    web.start()
    proxy = ours.recv()
    with tempfile.TemporaryDirectory() as place:
        config = _config(Path(place), shape)
        runs = {kind: list[Run]() for kind in ("alone", "open")}
        for number in range(given.rounds):
            for kind in ("alone", "open") if number % 2 == 0 else ("open", "alone"):
                runs[kind].append(_run(Path(place), config, proxy, kind == "open", given.browser))
                print(number, kind, runs[kind][-1], flush=True)
    web.terminate()
    _tell(runs)


def _serve_web(shape: Shape, channel: Connection) -> None:
    def announce(server: WebServer) -> None:
        channel.send(server.proxy)

    serve_shape(shape, Serving(), announce)


def _config(folder: Path, shape: Shape) -> Path:
    told = topic_tables(SyntheticWeb(shape).plan)[0]
    tree = {
        "topic": {"name": told["name"], "keywords": told["keywords"]},
        "seeds": {"urls": told["seeds"][0]["urls"]},
        "politeness": {"delay_s": 0.0, "max_crawl_delay_s": 0.0},
        "stop": {"pages": shape.pages},
    }
    path = folder / "crawl.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def _run(place: Path, config: Path, proxy: str, is_open: bool, browser: bool) -> Run:
    folder = place / "run"
    shutil.rmtree(folder, ignore_errors=True)
    words = ["crawl", "--config", str(config), "--into", str(folder), "--proxy", proxy, "--quiet"]
    crawl = subprocess.Popen([*COMMAND, *words], stdout=subprocess.DEVNULL)
    looker = _Looker(folder, browser) if is_open else None
    _, _, used = os.wait4(crawl.pid, 0)
    crawl.returncode = 0
    server_cpu, looks = looker.close() if looker else (0.0, 0)
    collection = Collection.open_for_reading(folder)
    took = float(collection.meta("stopped_at")) - float(collection.meta("started_at"))
    (pages,) = collection.connection.execute("SELECT count(*) FROM page").fetchone()
    collection.close()
    return Run(round(pages / took, 1), _cpu(used), server_cpu, looks)


class _Looker:
    """Serves the collection of a running crawl and looks on, as an open page does."""

    def __init__(self, folder: Path, browser: bool) -> None:
        while not exists(folder):
            time.sleep(0.02)
        words = [*COMMAND, "serve", str(folder), "--port", "0"]
        self._server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._server.stdout is not None
        self._base = self._server.stdout.readline().strip()
        self._looks = 0
        self._began = _cpu_of(self._server.pid)  # starting a server is not what an open page costs
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._browse if browser else self._stream)
        self._thread.start()

    def _stream(self) -> None:
        urllib.request.urlopen(f"{self._base}c/run", timeout=60).read()
        with urllib.request.urlopen(f"{self._base}c/run/live?parts=1", timeout=60) as stream:
            for line in stream:
                self._looks += line.startswith(b"event: parts")
                if self._over.is_set():
                    return

    def _browse(self) -> None:
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            path = shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page()
            page.goto(f"{self._base}c/run")
            while not self._over.is_set():
                page.wait_for_timeout(500)
            self._looks = int(page.evaluate("document.querySelector('[data-live]').dataset.looks ?? 0"))
            browser.close()

    def close(self) -> tuple[float, int]:
        self._over.set()
        self._thread.join()
        self._server.terminate()
        _, _, used = os.wait4(self._server.pid, 0)
        self._server.returncode = 0
        assert self._server.stdout is not None
        self._server.stdout.close()
        return round(_cpu(used) - self._began, 2), self._looks


def _cpu_of(pid: int) -> float:
    """Processor seconds of a running process (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu(used: resource.struct_rusage) -> float:
    return round(used.ru_utime + used.ru_stime, 2)


def _tell(runs: dict[str, list[Run]]) -> None:
    speeds = {kind: statistics.median(run.pages_per_s for run in found) for kind, found in runs.items()}
    share = statistics.median(run.server_cpu_s / run.crawl_cpu_s for run in runs["open"])
    print(f"pages/s: alone {speeds['alone']:.1f}, open {speeds['open']:.1f}: {speeds['open'] / speeds['alone']:.3f}")
    print(f"processor time of the pages' server to that of the crawl: {share:.3f}")


if __name__ == "__main__":
    main()
