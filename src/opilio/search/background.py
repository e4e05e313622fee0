"""Keeps indexes up to date in a process of its own, for as long as somebody serves them.

    with KeepUp([Path("birds")]):
        ...

A crawl on the same machine must hardly feel it. So it has a low priority, and while somebody writes to one of its
collections it rests after each portion until it has used only a small share of one core: a fast crawl is followed at a
distance, a polite one within seconds. When nobody writes any more it takes in the rest at full speed. It ends with the
process that began it, and, where told so, when there is nothing left to do.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType

from opilio.core.errors import OpilioError
from opilio.search.indexer import update_index
from opilio.store.locks import has_writer

POLL_INTERVAL_S = 2.0
# What it may use beside a crawl is bounded; without one it is to come to an end on a busy machine, too
NICE = 5
BATCH_PAGES = 250  # pages between two looks at whether to stop
CPU_SHARE = 0.03  # of one core, while somebody crawls: a fast crawl keeps all of them busy
# What is worked out from all pages is rare and long: new pages must not wait for its sake
MAX_PAUSE_S = 30.0


class BackgroundIndexer:
    """The process and its end."""

    def __init__(self, folders: Sequence[Path], every_s: float = POLL_INTERVAL_S, *, until_quiet: bool = False) -> None:
        # A fork would share the sockets and the locks of whoever serves
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
        """End it: at the next batch of its own accord, else at once; an index survives either."""
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
    """How long to do nothing after so many seconds of processor time beside a crawl.

    >>> pause_duration_s(0.0), pause_duration_s(0.03), pause_duration_s(20.0)
    (0.0, 1.0, 30.0)
    """
    return min(used_s / CPU_SHARE, MAX_PAUSE_S)


class CpuBudget:
    """The rests that work beside a crawl takes. Starting the process counts as work, too."""

    def __init__(
        self,
        crawling: Callable[[], bool],
        wait: Callable[[float], bool],
        used_s: Callable[[], float] = time.process_time,
        every_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._crawling = crawling
        # For so many seconds; true where all is to end
        self._wait = wait
        self._used_s = used_s
        # How often to ask whether somebody still crawls
        self._every_s = every_s
        # Processor time that was rested for
        self._accounted_s = 0.0

    def pause(self) -> None:
        """Wait for as long as the work since the last rest asks for, but not longer than somebody crawls."""
        now_s = self._used_s()
        left_s, self._accounted_s = pause_duration_s(now_s - self._accounted_s), now_s
        while left_s > 0.0 and self._crawling() and not self._wait(min(left_s, self._every_s)):
            left_s -= self._every_s


def _run_indexer(folders: Sequence[Path], every_s: float, until_quiet: bool, stop: Event) -> None:
    parent = os.getppid()

    def wanted() -> bool:
        return not stop.is_set() and os.getppid() == parent

    def crawling() -> bool:
        return wanted() and any(map(has_writer, folders))

    _lower_priority()
    rests = CpuBudget(crawling, stop.wait)
    while wanted():
        # Asked first: what is written meanwhile is seen the next time
        quiet = not crawling()
        for folder in folders:
            # A collection that can't be read now may be readable the next time
            with suppress(OpilioError):
                while wanted() and update_index(folder, most=BATCH_PAGES).waiting:
                    rests.pause()
        if quiet and until_quiet:
            return
        rests.pause()
        stop.wait(every_s)


def _lower_priority() -> None:
    """Give way to everybody else: a low priority, in a scheduling group of its own where the system makes groups by
    session (they share the processors evenly, whatever the priority of what runs in them)."""
    with suppress(OSError):
        os.setsid()
        os.nice(NICE)
        Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")
