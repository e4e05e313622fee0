"""How worker processes start and end: which signals reach them, what they import, and that none outlives the engine."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from types import ModuleType

_PR_SET_PDEATHSIG = 1  # of prctl(2)


def start_with_signals_blocked(process: BaseProcess) -> None:
    """Start a process that the signals for the engine do not reach: the engine decides when its workers stop.

    A blocked signal stays blocked in the child, from its first instruction on. The resource tracker has to run before:
    with the first process it starts too, and unblocks both signals when it has.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with without_main_module():
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_main_module() -> Iterator[None]:
    """While this is entered, a spawned process does not import the script that the user runs.

    multiprocessing imports it in every child, so a script that calls `opilio.crawl()` outside of
    `if __name__ == "__main__":` would start the same crawl again in each worker. Workers need nothing from it.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, also while it is busy with a page."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # The parent may have died before.
    if os.getppid() != parent:
        os._exit(1)
