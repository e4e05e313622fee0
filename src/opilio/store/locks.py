"""Who uses a collection: one process writes, any number read, and files that a reader needs stay where they are.

Advisory locks of the kernel, which lets go of them when a process dies. The writer's is on `crawl.lock`, with a word
that tells what it does; readers share one on the folder itself, which works where nothing may be written too.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from opilio.model.errors import CollectionError

LOCK = "crawl.lock"
CRAWL = "crawl"  # what a writer does that says nothing else
TRY_S = 0.01
PATIENCE_S = 0.2  # `writer_of` holds the lock for a moment when it looks
SOON_S = 2.0  # by then most commands are done that are no crawl


def lock(folder: Path, work: str = CRAWL, patience_s: float = PATIENCE_S) -> IO[str]:
    """Become the one who writes; CollectionError tells who is it already. Closing the file lets go."""
    held = (folder / LOCK).open("a", encoding="utf-8")
    for _ in range(round(patience_s / TRY_S)):
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TRY_S)
        else:
            with suppress(OSError):  # a full disk: the lock holds without its word
                held.truncate(0)
                held.write(work)
                held.flush()
            return held
    held.close()
    other = writer_of(folder)
    who = "another crawl" if other in (CRAWL, "") else f"'opilio {other}'"
    raise CollectionError(f"{folder}: {who} is writing to this collection; wait for it or stop it")


def writer_of(folder: Path) -> str:
    """What the process does that writes to a collection at this moment: the name of a command; nothing: none does."""
    try:
        held = (folder / LOCK).open("r", encoding="utf-8", errors="replace")
    except OSError:
        return ""
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return held.read(100) or CRAWL
    return ""


def being_written(folder: Path) -> bool:
    """Does a process hold this collection for writing at this moment?"""
    return writer_of(folder) != ""


def being_crawled(folder: Path) -> bool:
    """The same of a crawl, which hears what it is asked meanwhile; other commands don't."""
    return writer_of(folder) == CRAWL


@contextmanager
def files_held(folder: Path) -> Iterator[None]:
    """Files that are there now stay until the block ends, also where `compact` no longer needs them."""
    try:
        place = os.open(folder, os.O_RDONLY)
    except OSError:  # it is told by whoever opens what is in it
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(place, fcntl.LOCK_SH)
        yield
    finally:
        os.close(place)


@contextmanager
def nobody_reads(folder: Path) -> Iterator[bool]:
    """True: nobody holds files of this collection, and nobody begins to until the block ends."""
    place = os.open(folder, os.O_RDONLY)
    try:
        yield _alone(place)
    finally:
        os.close(place)


def _alone(place: int) -> bool:
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
