"""The processes that the lab spreads its work over: they end with the command that started them, without a word."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from threading import Thread

from opilio.model.errors import WebError


@contextmanager
def process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Work that has not begun when the block is left early is not begun."""
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise WebError("a process of the lab died (out of memory?); for 'lab run', try --processes 1") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends all of them at once: the command reports
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    Thread(target=_end_with_command, daemon=True).start()


def _end_with_command() -> None:
    """A command that is killed can't end its processes; each would wait for work for ever, with its web in memory."""
    command = parent_process()
    if command is not None:
        command.join()
        os._exit(1)
