"""Runs an outside crawler over a web: serve it on loopback, start the crawler, read who asked for what.

The peer is told what ours is told: brief, seeds, budget. It is stopped when it has asked for as many addresses as the
budget allows; what it asks for besides (robots.txt, the page that lists the seeds) is free.
"""

import asyncio
import json
import resource
import tempfile
import time
from collections.abc import Sequence
from html import escape
from importlib.resources import as_file, files
from pathlib import Path

from opilio.lab.accesslog import Attempt, fetch_attempts
from opilio.lab.crawls import Fetch, Trace
from opilio.lab.faults import Faults
from opilio.lab.peers.environments import python_of
from opilio.lab.server import WebServer
from opilio.lab.source import Source
from opilio.lab.topics import Brief
from opilio.lab.warcfile import Answer
from opilio.model.errors import WebError

START = "http://seeds.invalid/"
LOOK_EVERY_S = 0.02
SILENCE_S = 60.0  # a peer that asks for nothing so long is stuck


class WithStart:
    """A web with one page more: the one that links to the seeds."""

    def __init__(self, source: Source, seeds: Sequence[str]) -> None:
        self._source = source
        self.hosts = source.hosts
        items = "".join(f'<li><a href="{escape(url)}">{escape(url)}</a>' for url in seeds)
        # Whole, with a body and a paragraph: crawl4ai takes a page without them for a block by the server.
        page = (
            "<!doctype html><html><head><title>Where to begin</title></head><body><h1>Where to begin</h1>"
            f"<p>These are the pages that a person named to begin with.</p><ul>{items}</ul></body></html>"
        )
        self._start = Answer(200, (("Content-Type", "text/html; charset=utf-8"),), page.encode())

    def find(self, url: str) -> Answer | None:
        return self._start if url == START else self._source.find(url)


def crawl_by_peer(name: str, source: Source, brief: Brief, seeds: Sequence[str], budget: int, faults: Faults) -> Trace:
    """One crawl by a peer, as a trace without verdicts."""
    python = python_of(name)
    job = {"seeds": list(seeds), "keywords": list(brief.keywords or (brief.name,)), "pages": budget, "start": START}
    began, before = time.perf_counter(), _children_cpu_s()
    attempts, said = asyncio.run(_served(name, python, WebServer(WithStart(source, seeds), faults=faults), job))
    if not attempts:
        raise WebError(f"peer:{name}: asked for no page of the web; it said: {said.strip()[-300:] or 'nothing'}")
    fetches = [Fetch(a.url, 0.0, -1.0, False, a.status) for a in attempts[:budget]]
    wall_s, cpu_s = time.perf_counter() - began, _children_cpu_s() - before
    return Trace(fetches, wall_s=wall_s, cpu_s=cpu_s, judged=False)


async def _served(name: str, python: Path, server: WebServer, job: dict[str, object]) -> tuple[list[Attempt], str]:
    driver = files("opilio.lab.peers") / "drivers" / f"{name}_driver.py"
    budget = job["pages"]
    assert isinstance(budget, int)
    with tempfile.TemporaryDirectory() as folder, as_file(driver) as script:
        async with server:
            path, output = Path(folder) / "job.json", Path(folder) / "said"
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
                await _watched(peer, server, budget)
            return counted(server), output.read_text("utf-8", "replace")


async def _watched(peer: asyncio.subprocess.Process, server: WebServer, budget: int) -> None:
    """Wait until the peer ends, has spent its budget, or asks for nothing any more; then see that it is gone."""
    asked, since = 0, time.monotonic()
    while peer.returncode is None and asked < budget and time.monotonic() - since < SILENCE_S:
        await asyncio.sleep(LOOK_EVERY_S)
        if len(server.log) > asked and (now := len(counted(server))) > asked:
            asked, since = now, time.monotonic()
    if peer.returncode is None:
        peer.kill()
    await peer.wait()


def counted(server: WebServer) -> list[Attempt]:
    """What a peer is charged for."""
    return [a for a in fetch_attempts(server.log) if a.url != START]


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
