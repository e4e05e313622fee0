"""Runs another crawler over a web: serves it on loopback, starts the crawler, reads the access log.

The peer gets the same input: brief, seeds, budget. It is stopped when it has requested as many URLs as the budget
allows; robots.txt and the page that lists the seeds are free. Each peer has an environment of its own, installed when
an experiment first needs it and kept in the cache folder.
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from html import escape
from importlib.resources import as_file, files
from pathlib import Path

from opilio.core.errors import ConfigError, OfflineWebError
from opilio.core.settings import suggest_name
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.experiments.replay import CrawlTrace, ReplayedFetch
from opilio.lab.server.http import LoggedFetch, fetch_attempts
from opilio.lab.server.server import LabWebServer
from opilio.lab.synthetic.changing import Faults
from opilio.lab.webs.resources import default_cache_folder
from opilio.lab.webs.topics import TopicBrief
from opilio.lab.webs.web import ResponseSource

PEERS = {"scrapy": "scrapy>=2.13", "crawl4ai": "crawl4ai>=0.9"}  # the requirement for pip
READY_MARKER = "ready"
PIP_TIMEOUT_S = 900


def check_peer(name: str) -> None:
    if name not in PEERS:
        raise ConfigError(f"peer:{name}: unknown{suggest_name(name, list(PEERS))}; known: {', '.join(PEERS)}")


def ensure_peer_python(name: str, cache: Path | None = None) -> Path:
    """The interpreter of a peer's environment; installs the peer if needed."""
    check_peer(name)
    folder = (cache or default_cache_folder()) / "peers" / f"{name}-py{sys.version_info.major}{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / READY_MARKER).exists():
        venv.create(folder, with_pip=True, clear=True)
        _install(python, PEERS[name])
        (folder / READY_MARKER).touch()
    return python


def _install(python: Path, requirement: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)  # noqa: S603 - our own command
    except subprocess.TimeoutExpired as error:
        raise OfflineWebError(f"pip install {requirement}: took more than {PIP_TIMEOUT_S} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise OfflineWebError(f"pip install {requirement}: {lines[-1] if lines else done.stderr[-200:]}")


START_URL = "http://seeds.invalid/"
POLL_INTERVAL_S = 0.02
# A peer without a request for this long is stuck.
IDLE_TIMEOUT_S = 60.0


class SourceWithStartPage:
    """A web with one more page, which links to the seeds."""

    def __init__(self, source: ResponseSource, seeds: Sequence[str]) -> None:
        self._source = source
        self.hosts = source.hosts
        items = "".join(f'<li><a href="{escape(url)}">{escape(url)}</a>' for url in seeds)
        # With a body and a paragraph: crawl4ai treats a page without them as a block by the server.
        page = (
            "<!doctype html><html><head><title>Where to begin</title></head><body><h1>Where to begin</h1>"
            f"<p>These are the seeds of the crawl.</p><ul>{items}</ul></body></html>"
        )
        self._start_page = RecordedResponse(200, (("Content-Type", "text/html; charset=utf-8"),), page.encode())

    def find(self, url: str) -> RecordedResponse | None:
        return self._start_page if url == START_URL else self._source.find(url)


def crawl_by_peer(
    name: str, source: ResponseSource, brief: TopicBrief, seeds: Sequence[str], budget: int, faults: Faults
) -> CrawlTrace:
    """One crawl by a peer, as a trace without verdicts."""
    python = ensure_peer_python(name)
    job = {"seeds": list(seeds), "keywords": list(brief.keywords or (brief.name,)), "pages": budget, "start": START_URL}
    began, before = time.perf_counter(), _children_cpu_s()
    attempts, printed = asyncio.run(
        _run_driver(name, python, LabWebServer(SourceWithStartPage(source, seeds), faults=faults), job)
    )
    if not attempts:
        raise OfflineWebError(f"peer:{name}: requested no page; its output: {printed.strip()[-300:] or 'none'}")
    fetches = [ReplayedFetch(a.url, 0.0, -1.0, False, a.status) for a in attempts[:budget]]
    wall_s, cpu_s = time.perf_counter() - began, _children_cpu_s() - before
    return CrawlTrace(fetches, wall_s=wall_s, cpu_s=cpu_s, has_verdicts=False)


async def _run_driver(
    name: str, python: Path, server: LabWebServer, job: dict[str, object]
) -> tuple[list[LoggedFetch], str]:
    driver = files("opilio.lab.peers") / "drivers" / f"{name}_driver.py"
    budget = job["pages"]
    assert isinstance(budget, int)
    with tempfile.TemporaryDirectory() as folder, as_file(driver) as script:
        async with server:
            path, output = Path(folder) / "job.json", Path(folder) / "output"
            path.write_text(json.dumps({**job, "proxy": server.proxy}), "utf-8")
            with output.open("wb") as sink:
                peer = await asyncio.create_subprocess_exec(
                    python,
                    str(script),
                    str(path),
                    cwd=folder,
                    stdout=sink,
                    stderr=sink,
                    stdin=asyncio.subprocess.DEVNULL,
                )
                await _wait_for_peer(peer, server, budget)
            return charged_attempts(server), output.read_text("utf-8", "replace")


async def _wait_for_peer(peer: asyncio.subprocess.Process, server: LabWebServer, budget: int) -> None:
    """Wait until the peer ends, has spent its budget, or stops making requests; then make sure that it has ended."""
    asked, since = 0, time.monotonic()
    while peer.returncode is None and asked < budget and time.monotonic() - since < IDLE_TIMEOUT_S:
        await asyncio.sleep(POLL_INTERVAL_S)
        if len(server.log) > asked and (now := len(charged_attempts(server))) > asked:
            asked, since = now, time.monotonic()
    if peer.returncode is None:
        peer.kill()
    await peer.wait()


def charged_attempts(server: LabWebServer) -> list[LoggedFetch]:
    """The requests that count against a peer's budget."""
    return [a for a in fetch_attempts(server.log) if a.url != START_URL]


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
