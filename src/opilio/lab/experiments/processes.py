"""The processes that the lab spreads its work over: they end silently with the command that started them."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, TypeVar

from opilio.core.errors import OfflineWebError
from opilio.engine.workers.process import without_main_module

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_unordered(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[tuple[int, Result]]:
    """(index, result) of each item as it finishes. If the caller stops early, items not yet started are dropped."""
    results: SimpleQueue[Future[Result] | None] = SimpleQueue()  # None: Ctrl-C was pressed
    with _queue_interrupts(results), _process_pool(processes) as pool:
        with without_main_module():  # submit() starts the processes
            places = {pool.submit(work, item): place for place, item in enumerate(items)}
        for future in places:
            future.add_done_callback(results.put)
        for _ in items:
            done = results.get()
            if done is None or _ended_by_interrupt(done, results):
                raise KeyboardInterrupt
            yield places[done], done.result()


def map_ordered(work: Callable[[Item], Result], items: Sequence[Item], processes: int) -> Iterator[Result]:
    """The same, in the order of the items."""
    early: dict[int, Result] = {}
    following = 0
    for place, result in map_unordered(work, items, processes):
        early[place] = result
        while following in early:
            yield early.pop(following)
            following += 1


@contextmanager
def _queue_interrupts(results: SimpleQueue[Any]) -> Iterator[None]:
    """Ctrl-C is handled between two results: raised inside the pool's own code it could leave a lock held for ever."""
    # Only the main thread receives signals.
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: results.put(None))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _ended_by_interrupt(done: Future[Any], results: SimpleQueue[Any]) -> bool:
    """Ctrl-C in a terminal ends the processes too: that may be noticed before our own signal."""
    if not isinstance(done.exception(), BrokenProcessPool):
        return False
    while not results.empty():
        if results.get() is None:
            return True
    return False


@contextmanager
def _process_pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_init_worker)
    try:
        yield pool
    except BrokenProcessPool as error:
        raise OfflineWebError("a process of the lab died (out of memory?); for 'lab run', try --processes 1") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _init_worker() -> None:
    # Ctrl-C ends all of them at once: the command reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """A killed command can't end its processes; each would wait for work for ever, with its web in memory."""
    command = parent_process()
    if command is not None:
        command.join()
        os._exit(1)
