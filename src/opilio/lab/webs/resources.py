"""What makes the lab fast: its cache in the user's cache folder, and the processes it spreads its work over.

Losing the cache costs time, never results. The processes end silently with the command that started them.
"""

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from multiprocessing import get_context, parent_process
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from typing import Any, BinaryIO, TypeVar

import msgspec
import xxhash
from platformdirs import user_cache_path

from opilio.core.errors import OfflineWebError
from opilio.engine.workers.process import without_main_module

T = TypeVar("T")
RECENTLY_USED_S = 24 * 3600.0


def default_cache_folder() -> Path:
    """The lab's part of the user's cache folder.

    If that can't be written to, a folder of the user among the temporary files, the same for every process.
    """
    folder = user_cache_path("opilio") / "lab"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _fallback_folder()
    return folder if os.access(folder, os.W_OK | os.X_OK) else _fallback_folder()


def _fallback_folder() -> Path:
    """Peers are installed and started there, so no other user may own it or write to it."""
    try:
        folder = Path(tempfile.gettempdir()) / f"opilio-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise OfflineWebError(
            f"no folder for a cache: {error}; set XDG_CACHE_HOME to one that can be written"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OfflineWebError(
            f"{folder}: other users can write to it; set XDG_CACHE_HOME to a folder that can be written"
        )
    return folder / "lab"


def load_cached(path: Path, kind: type[T]) -> T | None:
    """The saved value, or None when there is no usable one."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def save_cached(path: Path, value: object) -> None:
    """Save atomically; if the folder can't be written to, nothing is cached."""
    save_bytes(path, msgspec.msgpack.encode(value))


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file that is complete after the block, and does not exist if the block fails."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise OfflineWebError(f"{path.parent}: no cache: {why}; set XDG_CACHE_HOME to a folder with room") from error
    finally:
        with suppress(OSError):
            part.unlink()


def is_complete(path: Path, size: int) -> bool:
    """Does the file exist with the size it was written with? A crash may have truncated it."""
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def prune(used: Path, pattern: str, keep: int) -> None:
    """Mark a folder as used, and remove matching siblings except the newest and recently used ones.

    Results of older code would accumulate for ever; an experiment may use more than `keep` folders.
    """
    with suppress(OSError):
        os.utime(used)
        times = {path: path.stat().st_mtime for path in used.parent.glob(pattern)}
        newest_first = sorted(times, key=lambda path: times[path], reverse=True)
        for old in newest_first[keep:]:
            if times[old] < times[used] - RECENTLY_USED_S:
                shutil.rmtree(old, ignore_errors=True)


def save_bytes(path: Path, data: bytes) -> None:
    """The same for bytes."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()


def file_digest(path: Path) -> bytes:
    """A digest of a file's content, or of its absence."""
    try:
        return xxhash.xxh3_128_digest(path.read_bytes())
    except (OSError, ValueError):
        return bytes(16)


@cache
def program_digest() -> str:
    """A digest of the program: its own files, the installed libraries, the interpreter."""
    libraries = sorted({(found.name, found.version) for found in distributions()})
    digest = xxhash.xxh3_64(msgspec.msgpack.encode((sys.version, libraries)))
    digest.update(folder_digest(files("opilio")))
    return digest.hexdigest()


def folder_digest(folder: Traversable) -> bytes:
    """A digest of the names and contents of all files in a folder and below, except compiled ones."""
    digest = xxhash.xxh3_128()
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name != "__pycache__":
            held = folder_digest(entry) if entry.is_dir() else entry.read_bytes()
            digest.update(msgspec.msgpack.encode((entry.name, xxhash.xxh3_128_digest(held))))
    return digest.digest()


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_unordered(
    work: Callable[[Item], Result], items: Sequence[Item], processes: int
) -> Iterator[tuple[int, Result]]:
    """(index, result) of each item as it finishes. If the caller stops early, items not yet started are dropped."""
    # None: Ctrl-C was pressed.
    results: SimpleQueue[Future[Result] | None] = SimpleQueue()
    with _queue_interrupts(results), _process_pool(processes) as pool:
        # submit() starts the processes.
        with without_main_module():
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
