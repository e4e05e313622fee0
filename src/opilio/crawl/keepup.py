"""Keeps indexes up to date in a process of its own, for as long as somebody serves them.

    with KeepUp([Path("birds")]):
        ...

The process runs only when a processor has nothing else to do (SCHED_IDLE, or the lowest priority where there is no
such thing), so that a crawl on the same machine hardly feels it. It ends with the process that began it.
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

EVERY_S = 2.0
PORTION = 250  # pages between two looks at whether to stop


class KeepUp:
    """The process and its end."""

    def __init__(self, folders: Sequence[Path], every_s: float = EVERY_S) -> None:
        context = get_context("spawn")  # a fork would share the sockets and the locks of whoever serves
        self._stop = context.Event()
        self._process = context.Process(
            target=_keep_up, args=(tuple(folders), every_s, self._stop, os.getpid()), name="opilio-index", daemon=True
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


def _keep_up(folders: Sequence[Path], every_s: float, stop: Event, parent: int) -> None:
    _step_back()
    while not stop.is_set() and os.getppid() == parent:
        for folder in folders:
            with suppress(OpilioError):  # a collection that can't be read now may be readable the next time
                while not stop.is_set() and catch_up(folder, most=PORTION).waiting:
                    pass
        stop.wait(every_s)


def _step_back() -> None:
    """Run only when nobody else wants to."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):  # not Linux, or not allowed here
        with suppress(OSError):
            os.nice(19)
