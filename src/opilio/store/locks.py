"""Who uses a collection: one process writes, any number read, and files that a reader needs stay where they are.

Advisory locks of the kernel, which lets go of them when a process dies. The writer's is on `crawl.lock`, with a word
that states what it does; readers share one on the folder itself, which works where nothing may be written too.
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
CRAWL_COMMAND = "crawl"  # what a writer does that says nothing else
RETRY_INTERVAL_S = 0.01
LOCK_TIMEOUT_S = 0.2  # `current_writer` holds the lock for a moment when it looks
COMMAND_LOCK_TIMEOUT_S = 2.0  # by then most commands are done that are no crawl


def acquire_write_lock(folder: Path, work: str = CRAWL_COMMAND, patience_s: float = LOCK_TIMEOUT_S) -> IO[str]:
    """Take the write lock; CollectionError names the current holder. Closing the file releases it."""
    held = (folder / LOCK_FILE).open("a", encoding="utf-8")
    for _ in range(round(patience_s / RETRY_INTERVAL_S)):
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(RETRY_INTERVAL_S)
        else:
            with suppress(OSError):  # a full disk: the lock holds without its word
                held.truncate(0)
                held.write(work)
                held.flush()
            return held
    held.close()
    other = current_writer(folder)
    who = "another crawl" if other in (CRAWL_COMMAND, "") else f"'opilio {other}'"
    raise CollectionError(f"{folder}: {who} is writing to this collection; wait for it or stop it")


def current_writer(folder: Path) -> str:
    """What the process does that writes to a collection at this moment: the name of a command; nothing: none does."""
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
    """Does a process hold this collection for writing at this moment?"""
    return current_writer(folder) != ""


def is_crawl_running(folder: Path) -> bool:
    """The same of a crawl, which hears what it is asked meanwhile; other commands don't."""
    return current_writer(folder) == CRAWL_COMMAND


@contextmanager
def hold_files(folder: Path) -> Iterator[None]:
    """Files that are there now stay until the block ends, also where `compact` no longer needs them."""
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
    """True: no process uses files of this collection, and none starts to until the block ends."""
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
