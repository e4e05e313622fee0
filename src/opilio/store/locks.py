"""Locks of a collection: one process writes, any number read, and files that a reader needs are not deleted.

They are advisory locks, which the kernel releases when a process dies. The writer's is on `crawl.lock`, which contains
the name of its command; readers share one on the folder itself, which also works on a read-only disk.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from opilio.core.errors import CollectionError

LOCK_FILE = "crawl.lock"
LINK_FILE = "database.toml"  # in the cache of a collection in PostgreSQL: its address
CRAWL_COMMAND = "crawl"  # the default command name of a writer
RETRY_INTERVAL_S = 0.01
LOCK_TIMEOUT_S = 0.2  # `current_writer` holds the lock for a moment while it checks
COMMAND_LOCK_TIMEOUT_S = 2.0  # most commands other than a crawl have ended by then


def acquire_write_lock(folder: Path, work: str = CRAWL_COMMAND, patience_s: float = LOCK_TIMEOUT_S) -> IO[str]:
    """Take the write lock; CollectionError names the current holder. Closing the file releases it."""
    held = (folder / LOCK_FILE).open("a", encoding="utf-8")
    for _ in range(round(patience_s / RETRY_INTERVAL_S)):
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(RETRY_INTERVAL_S)
        else:
            with suppress(OSError):  # a full disk: the lock works without the name
                held.truncate(0)
                held.write(work)
                held.flush()
            return held
    held.close()
    other = current_writer(folder)
    who = "another crawl" if other in (CRAWL_COMMAND, "") else f"'opilio {other}'"
    raise CollectionError(f"{folder}: {who} is writing to this collection; wait for it or stop it")


def current_writer(folder: Path) -> str:
    """The command of the process that writes to a collection now; empty if no process does."""
    if (folder / LINK_FILE).exists():
        from opilio.store.postgres.collection import database_writer

        return database_writer(folder)
    try:
        held = (folder / LOCK_FILE).open("r", encoding="utf-8", errors="replace")
    except OSError:
        return ""
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return held.read(100) or CRAWL_COMMAND
    return ""


def has_writer(folder: Path) -> bool:
    """Whether a process writes to this collection now."""
    return current_writer(folder) != ""


def is_crawl_running(folder: Path) -> bool:
    """Whether a crawl writes to it now: a crawl applies commands meanwhile, other writers do not."""
    return current_writer(folder) == CRAWL_COMMAND


@contextmanager
def hold_files(folder: Path) -> Iterator[None]:
    """Keep all files until the block ends, also those that `compact` would delete."""
    try:
        place = os.open(folder, os.O_RDONLY)
    # Opening the files reports it.
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(place, fcntl.LOCK_SH)
        yield
    finally:
        os.close(place)


@contextmanager
def try_exclusive_lock(folder: Path) -> Iterator[bool]:
    """True if no process uses files of this collection; then none can start to until the block ends."""
    place = os.open(folder, os.O_RDONLY)
    try:
        yield _try_flock_exclusive(place)
    finally:
        os.close(place)


def _try_flock_exclusive(place: int) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
