"""Crawls, commands and servers of this version, or of the one that `OPILIO_COMMAND` names, by the command line only."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from checks.small_webs import SmallWeb, served
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry

ROOT = "http://a.example/"
TOPIC = "wrens and other small birds"
COMMAND = os.environ.get("OPILIO_COMMAND", "").split() or [sys.executable, "-m", "opilio"]
# Another version must not import this one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or len(COMMAND) > 1}
OPTIONS = ("--quiet", "--workers", "1", "--set", "stop.patience_s=1")
CPU_S = 25  # of each process of a crawl; the kernel ends it
# In a small process of its own: the highest memory of a process counts that of the one it was forked from.
MEASURE = f"""
import resource, subprocess, sys
resource.setrlimit(resource.RLIMIT_CPU, ({CPU_S}, {CPU_S}))
subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def crawl_command(folder: Path, proxy: str, seeds: Sequence[str] = (ROOT,), *settings: str) -> list[str]:
    """The command of a crawl without pauses; `settings` as for `--set`."""
    options = [part for setting in ("politeness.delay_s=0", *settings) for part in ("--set", setting)]
    urls = [part for url in seeds for part in ("--seed", url)]
    return [*COMMAND, "crawl", TOPIC, "--into", str(folder), "--proxy", proxy, *OPTIONS, *options, *urls]


def crawl_through(folder: Path, proxy: str, *seeds: str) -> int:
    """Crawl through a proxy; returns the highest memory of a process of the crawl in MB."""
    command = [sys.executable, "-c", MEASURE, *crawl_command(folder, proxy, seeds or (ROOT,))]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return int(done.stdout.split()[-1]) // 1024


def crawl(folder: Path, web: Mapping[str, RecordedResponse], *seeds: str) -> tuple[list[AccessLogEntry], int]:
    """Crawl a web; returns the requests and the highest memory of a process of the crawl in MB."""
    with served(SmallWeb(dict(web))) as server:
        megabytes = crawl_through(folder, server.proxy, *seeds)
        return list(server.log), megabytes


def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Another command."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)


@contextmanager
def running(command: Sequence[str], **environment: str) -> Iterator["subprocess.Popen[str]"]:
    """A command in a session of its own; it is killed at the end."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT | environment,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def query(folder: Path, sql: str) -> list[Any]:
    """Rows of the database of a crawl, which may be running; none if it has no tables yet."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'crawl.db'}?mode=ro", uri=True)) as connection:
            return connection.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return []
