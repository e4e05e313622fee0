"""Small webs served over real sockets, crawls of them by the command, and what the server's log shows."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from opilio.core.clock import Clock, SystemClock
from opilio.core.events import Event
from opilio.core.settings import Tree, merge_trees
from opilio.core.urls import host_of
from opilio.engine.wiring.session import create_crawl, resume_crawl
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry
from opilio.lab.server.server import LabServerConfig, LabWebServer
from opilio.lab.synthetic.changing import HostFaults
from opilio.store.collection import Collection, collection_exists
from opilio.topic.setup import resolve_settings

HTML = ("Content-Type", "text/html; charset=utf-8")
TEXT = ("Content-Type", "text/plain")
TOPIC = "wrens and other small birds"
BIRDS = "The wren is a small bird. Birds such as wrens and robins sing; every small bird builds nests."
TRAINS = "The locomotive pulls heavy freight wagons along the railway from one terminus to another."
PATIENCE_S = 240.0  # for what takes a second on a machine that has nothing else to do


def page(text: str = BIRDS, links: Iterable[str] = (), title: str = "", head: str = "") -> RecordedResponse:
    """A page with links, each with its own path as the anchor."""
    anchors = "".join(f'<p><a href="{escape(link)}">{escape(link.rpartition("/")[2])}</a></p>' for link in links)
    markup = (
        f"<html><head><title>{escape(title)}</title>{head}</head><body><p>{escape(text)}</p>{anchors}</body></html>"
    )
    return RecordedResponse(200, (HTML,), markup.encode())


def redirect(target: str, status: int = 301) -> RecordedResponse:
    return RecordedResponse(status, (HTML, ("Location", target)), b"")


def robots(text: str, status: int = 200) -> RecordedResponse:
    return RecordedResponse(status, (TEXT,), text.encode())


class SmallWeb:
    """Answers by URL; a function instead of an answer is called for every request."""

    def __init__(self, answers: Mapping[str, RecordedResponse | Callable[[], RecordedResponse]]) -> None:
        self.answers = dict(answers)

    @property
    def hosts(self) -> dict[str, int]:
        return dict.fromkeys(sorted({host_of(url) for url in self.answers}), 1)

    def find(self, url: str) -> RecordedResponse | None:
        found = self.answers.get(url)
        return found() if callable(found) else found


def grid(hosts: int, pages: int, text: str = BIRDS) -> dict[str, RecordedResponse]:
    """Sites with pages that are all reachable: a page links two of its own site and one of the next."""
    web = {}
    for h in range(hosts):
        for p in range(pages):
            own = [f"/{(2 * p + 1) % pages}.html", f"/{(2 * p + 2) % pages}.html"]
            other = f"http://h{(h + 1) % hosts}.example/{p}.html"
            web[f"http://h{h}.example/{p}.html"] = page(
                f"{text} {word(h)} {word(p)} {word(h * pages + p)}", [*own, other]
            )
    return web


def word(number: int) -> str:
    """A word of its own for every number: pages that differ only in figures are the same text to the seen test.

    >>> word(12)
    'zumbumcum'
    """
    return "zum" + "".join(f"{chr(97 + int(digit))}um" for digit in str(number))


@contextmanager
def served(source: Any, addresses: int = 1, slow: Mapping[str, float] | None = None) -> Iterator[LabWebServer]:
    """A web, served from a thread of its own while the block runs. Nothing is cached: answers may change."""
    faults = {host: HostFaults(name=host, delay_s=delay_s) for host, delay_s in (slow or {}).items()}
    server = LabWebServer(source, LabServerConfig(addresses=addresses, cache_bytes=0), faults)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(PATIENCE_S)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(PATIENCE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def settings_for(server: LabWebServer, seeds: Sequence[str], **more: Any) -> Tree:
    """A crawl through the server as its proxy: quick, inline, few words. `more` names sections."""
    tree: Tree = {
        "strategy": "breadth",
        "topic": {"name": TOPIC},
        "seeds": {"urls": list(seeds)},
        "politeness": {"delay_s": 0.0},
        "fetch": {"proxy": server.proxy, "retries": 0},
        "engine": {"workers": 0},
        "stop": {"patience_s": 2.0},
    }
    return merge_trees(tree, more)


def direct(server: LabWebServer) -> Tree:
    """Fetch settings that reach each host at its own loopback address, without a proxy."""
    places = {host: f"{address}:{server.port}" for host, address in server.host_addresses.items()}
    return {"proxy": "", "allow_private": True, "resolve": places}


class LaterClock(SystemClock):
    """The system's clock plus a number of seconds: a week passes between two lines of a test."""

    def __init__(self, later_s: float) -> None:
        super().__init__()
        self.later_s = later_s

    def now(self) -> float:
        return super().now() + self.later_s


def crawl(
    folder: Path,
    tree: Tree,
    listen: Callable[[Event], None] | None = None,
    later_s: float = 0.0,
    clock: Clock | None = None,
) -> str:
    """Begin or go on with a crawl in this process; returns why it stopped."""

    async def main() -> str:
        time_of = clock or LaterClock(later_s)
        made = (
            resume_crawl(folder, tree, time_of)
            if collection_exists(folder)
            else create_crawl(folder, resolve_settings(tree), clock=time_of)
        )
        async with made as running:
            if listen is not None:
                running.engine.add_listener(listen)
            return await asyncio.wait_for(running.engine.run(), PATIENCE_S)

    return asyncio.run(main())


def rows(folder: Path, query: str, *values: object) -> list[tuple[Any, ...]]:
    collection = Collection.open_for_reading(folder)
    try:
        return collection.connection.execute(query, values).fetchall()
    finally:
        collection.close()


def known(folder: Path) -> dict[str, int]:
    """Every URL the frontier knows, with its state (2 done, 3 failed, 4 dropped)."""
    return dict(rows(folder, "SELECT url, state FROM frontier_url"))


def stored(folder: Path) -> list[str]:
    """The pages that are stored, each as often as it is."""
    return sorted(url for (url,) in rows(folder, "SELECT url FROM page"))


def events(folder: Path, kind: str) -> list[bytes]:
    return [data for (data,) in rows(folder, "SELECT data FROM event WHERE kind = ? ORDER BY id", kind)]


COMMAND = (sys.executable, "-c", "from opilio.cli.main import main; main()")


# Forked from a clean process that has imported everything: a process of its own, in milliseconds.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["checks.small_webs", "opilio.cli.commands", "opilio.cli.crawl_run", "opilio.cli.collection"]
)


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def opilio(*arguments: object, cwd: Path | None = None, environment: dict[str, str] | None = None) -> Done:
    """The command in a process of its own; `environment` is merged with that of the test."""
    with TemporaryDirectory() as place:
        words = [*map(str, arguments)]
        process = CONTEXT.Process(
            target=run_command, args=(words, place, str(cwd or place), plain() | (environment or {}))
        )
        process.start()
        process.join(PATIENCE_S)
        assert process.exitcode is not None, f"still running: {arguments}"
        out, err = ((Path(place) / name).read_text() for name in ("out", "err"))
        return Done(process.exitcode, out, err)


def run_command(arguments: list[str], place: str, cwd: str, environment: dict[str, str]) -> None:
    """Run a command in a process of its own; its output goes to files in `place`."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{place}/{name}", os.O_CREAT | os.O_WRONLY), number)
    os.chdir(cwd)
    os.environ.clear()  # that of whichever test was the first to need a process
    os.environ.update(environment)
    sys.argv = ["opilio", *arguments]
    from opilio.cli.main import main

    main()


def started(*arguments: object) -> "subprocess.Popen[str]":
    """The command, running."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=plain())


def until(true: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Wait for something a running command will do."""
    while not true():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def plain() -> dict[str, str]:
    return {**os.environ, "CI": "1", "NO_COLOR": "1"}


def flags(tree: Tree) -> list[str]:
    """The `crawl` options that say the same as a tree."""
    out = [tree["topic"]["name"], "--strategy", tree["strategy"]]
    for url in tree["seeds"]["urls"]:
        out += ["--seed", url]
    for section in set(tree) - {"topic", "strategy", "seeds"}:
        for key, value in tree[section].items():
            if isinstance(value, dict):
                text = "{" + ", ".join(f'"{k}" = "{v}"' for k, v in value.items()) + "}"
            else:
                text = str(value).lower() if isinstance(value, bool) else str(value)
            out += ["--set", f"{section}.{key}={text}"]
    return out


def one_line(done: "Done | subprocess.CompletedProcess[str]") -> str:
    """The output of a failed command, which must be one clear line."""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("opilio: "), done.stderr
    return lines[0]


def by_host(log: Sequence[AccessLogEntry]) -> dict[str, list[AccessLogEntry]]:
    """In the order of the responses, which is that of the requests to one host; the times are rounded."""
    found: dict[str, list[AccessLogEntry]] = defaultdict(list)
    for access in log:
        found[access.host].append(access)
    return found


def tree_of(answers: Mapping[str, RecordedResponse]) -> list[str]:
    """Every page of a small web."""
    return sorted(url for url in answers if not url.endswith("/robots.txt"))


# The web's server logs when the system received a request, not when it reads it, so a busy machine makes none look
# early. Linux counts that time in steps of up to 10 ms (CONFIG_HZ).
LOG_RESOLUTION_S = 0.01


def least_gap(log: Sequence[AccessLogEntry]) -> float:
    """The shortest time between two requests to one host, rounded up by the resolution of the log."""
    gaps = [b.at - a.at for asked in by_host(log).values() for a, b in pairwise(asked)]
    return min(gaps, default=float("inf")) + LOG_RESOLUTION_S


def rules_first(log: Sequence[AccessLogEntry]) -> bool:
    """Was robots.txt the first thing asked of every host?"""
    return all(asked[0].target == "/robots.txt" for asked in by_host(log).values())
