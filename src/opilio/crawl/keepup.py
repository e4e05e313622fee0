"""Keeps indexes up to date in a process of its own, for as long as somebody serves them.

    with KeepUp([Path("birds")]):
        ...

The process has a low priority, so that a crawl on the same machine hardly feels it: beside one that keeps a core busy
it gets some three hundredths of that core. (Lower still, and on a machine that is always busy it would hardly come to
its turn.) It ends with the process that began it, and, where told so, when there is nothing left to do.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from types import TracebackType

from opilio.crawl.indexing import catch_up
from opilio.model.errors import OpilioError
from opilio.store.collection import being_written

EVERY_S = 2.0
NICE = 15
PORTION = 250  # pages between two looks at whether to stop


class KeepUp:
    """The process and its end."""

    def __init__(self, folders: Sequence[Path], every_s: float = EVERY_S, *, until_quiet: bool = False) -> None:
        context = get_context("spawn")  # a fork would share the sockets and the locks of whoever serves
        self._stop = context.Event()
        self._process = context.Process(
            target=_keep_up, args=(tuple(folders), every_s, until_quiet, self._stop), name="opilio-index", daemon=True
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

    def __enter__(self) -> "KeepUp":
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def _keep_up(folders: Sequence[Path], every_s: float, until_quiet: bool, stop: Event) -> None:
    parent = os.getppid()
    _step_back()
    while not stop.is_set() and os.getppid() == parent:
        quiet = not any(map(being_written, folders))  # asked first: what is written meanwhile is seen the next time
        for folder in folders:
            with suppress(OpilioError):  # a collection that can't be read now may be readable the next time
                while not stop.is_set() and catch_up(folder, most=PORTION).waiting:
                    pass
        if quiet and until_quiet:
            return
        stop.wait(every_s)


def _step_back() -> None:
    """Give way to everybody else: a low priority, in a scheduling group of its own where the system makes groups by
    session (they share the processors evenly, whatever the priority of what runs in them)."""
    with suppress(OSError):
        os.setsid()
        os.nice(NICE)
        Path("/proc/self/autogroup").write_text(str(NICE), encoding="ascii")
