"""The processes that the server starts: crawls and the demo, which continue when it ends, and the background indexer.

The indexer keeps the indexes up to date. It must not slow down a crawl on the same machine, so it has a low priority,
and while a crawl writes to one of its collections it pauses after each batch until it has used only a small share of
one core: it lags behind a fast crawl and follows a polite one within seconds. Without a crawl it runs at full speed. It
ends with its parent process or, with `until_quiet`, when there is nothing left to do.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

from opilio.core.errors import CollectionError, OpilioError
from opilio.search.indexer import update_index
from opilio.store.connection import has_writer

POLL_INTERVAL_S = 2.0
# Moderate: beside a crawl the CPU share is limited anyway, and without one it should finish on a busy machine.
NICE = 5
# Pages between two checks whether to stop.
BATCH_PAGES = 250
# Of one core during a crawl, which may use all cores.
CPU_SHARE = 0.03
# Recomputing derived data takes long but is rare; new pages should not wait for it.
MAX_PAUSE_S = 30.0


class BackgroundIndexer:
    """Starts and stops the background process."""

    def __init__(self, folders: Sequence[Path], every_s: float = POLL_INTERVAL_S, *, until_quiet: bool = False) -> None:
        # A fork would share the sockets and locks of the serving process.
        context = get_context("spawn")
        self._stop = context.Event()
        self._process = context.Process(
            target=_run_indexer,
            args=(tuple(folders), every_s, until_quiet, self._stop),
            name="opilio-index",
            daemon=True,
        )

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def start(self) -> None:
        self._process.start()

    def stop(self) -> None:
        """Stop after the current batch, or kill the process after a timeout; an index survives either."""
        self._stop.set()
        self._process.join(timeout=5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> "BackgroundIndexer":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def pause_duration_s(used_s: float) -> float:
    """The pause after `used_s` seconds of CPU time beside a crawl.

    >>> pause_duration_s(0.0), pause_duration_s(0.03), pause_duration_s(20.0)
    (0.0, 1.0, 30.0)
    """
    return min(used_s / CPU_SHARE, MAX_PAUSE_S)


class CpuBudget:
    """Pauses that keep the CPU share low during a crawl. Starting the process counts as work."""

    def __init__(
        self,
        crawling: Callable[[], bool],
        wait: Callable[[float], bool],
        used_s: Callable[[], float] = time.process_time,
        every_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._crawling = crawling
        # Waits for some seconds; True to stop.
        self._wait = wait
        self._used_s = used_s
        # Interval of checks whether a crawl is still running.
        self._every_s = every_s
        # CPU time that was already compensated.
        self._accounted_s = 0.0

    def pause(self) -> None:
        """Pause in proportion to the work since the last pause, at most until the crawl ends."""
        now_s = self._used_s()
        left_s, self._accounted_s = pause_duration_s(now_s - self._accounted_s), now_s
        while left_s > 0.0 and self._crawling() and not self._wait(min(left_s, self._every_s)):
            left_s -= self._every_s


def _run_indexer(folders: Sequence[Path], every_s: float, until_quiet: bool, stop: Event) -> None:
    parent = os.getppid()

    def wanted() -> bool:
        return not stop.is_set() and os.getppid() == parent

    def crawling() -> bool:
        try:
            return wanted() and any(map(has_writer, folders))
        except OpilioError:
            # A database that can't be reached now may be reachable next time.
            return True

    _lower_priority()
    budget = CpuBudget(crawling, stop.wait)
    while wanted():
        # Checked first: what is written meanwhile is indexed next time.
        quiet = not crawling()
        for folder in folders:
            # A collection that can't be read now may be readable next time.
            with suppress(OpilioError):
                while wanted() and update_index(folder, limit=BATCH_PAGES).waiting:
                    budget.pause()
        if quiet and until_quiet:
            return
        budget.pause()
        stop.wait(every_s)


def _lower_priority() -> None:
    """Lower the priority, in a new session: Linux groups processes by session for scheduling and shares the CPU evenly
    between groups, whatever the priorities inside."""
    with suppress(OSError):
        os.setsid()
        os.nice(NICE)
        Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")


LOG = "crawl.log"
COMMAND = (sys.executable, "-m", "opilio")
LOG_TAIL_BYTES = 4_000
LOG_TAIL_LINES = 3


class _Launch(NamedTuple):
    process: "subprocess.Popen[bytes]"
    at: float


_launches: dict[Path, _Launch] = {}  # the last one for each collection


def launch_crawl(folder: Path, limits: Mapping[str, float] | None = None) -> None:
    """Start the crawl of an existing collection. `limits` replace stored stop rules, for example pages: 2000."""
    more = [part for name, value in (limits or {}).items() for part in ("--set", f"stop.{name}={value:g}")]
    at = time.time()
    process = start_command(["crawl", "--quiet", "--into", str(folder.resolve()), *more], folder / LOG)
    _launches[folder.resolve()] = _Launch(process, at)


def launch_state(folder: Path, started_at: float) -> Literal["", "starting", "failed"]:
    """Whether the last launched process has not begun to crawl yet, or has ended without doing so. `started_at`: the
    start of the collection's last crawl."""
    launch = _launches.get(folder.resolve())
    if launch is None or started_at >= launch.at:
        return ""
    code = launch.process.poll()
    return "starting" if code is None else "failed" if code else ""


def start_command(words: Sequence[str], log_file: Path) -> "subprocess.Popen[bytes]":
    """Start a command of Opilio that continues when the server ends; its output goes to a file."""
    try:
        with log_file.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 our own command, no shell
                [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
    except OSError as error:
        raise CollectionError(f"{log_file.parent}: cannot start a crawl: {error.strerror}") from error
    # Reaps it when it has ended.
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def read_log_tail(folder: Path) -> str:
    """The last lines of a crawl's log."""
    try:
        text = (folder / LOG).read_bytes()[-LOG_TAIL_BYTES:]
    except OSError:
        return ""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])
