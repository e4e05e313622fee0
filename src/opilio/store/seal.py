"""Checksums of the files of a collection, so that a changed byte is found wherever it is.

`checksums.json` holds a checksum for every 4 KiB of `crawl.db` and `crawl.toml`. The writing process writes it when it
closes the collection, and at every checkpoint: after the log (`crawl.db-wal`) was written into the database, before the
log is used again. So the files of a killed process are covered too. A page of the database that is in the log is read
from there, and the log has checksums of its own; every other page is as it was at the last checkpoint.

When it is opened, a large database is not read: only its size and its beginning are checked. The index has a seal of
its own, because readers update it; killed while it is updated, it has none. WARC records have digests in themselves.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import xxhash

from opilio.core.errors import CollectionError
from opilio.core.files import atomic_writer
from opilio.core.protocols import Database
from opilio.store.connection import BUSY_TIMEOUT_MS, CONFIG, DATABASE, has_log, log_of, tables_of_blocks
from opilio.store.log_file import LogContents, logged_pages, read_log, read_log_header

SEAL_FILE = "checksums.json"
SEALED_FILES = (DATABASE, CONFIG)
_BLOCK_BYTES = 4096  # a page of the database
_SUM_BYTES = 8
# Of a page that was never written: SQLite keeps free pages like that.
_NO_SUM = bytes(_SUM_BYTES)
_FIRST_BLOCKS = 16  # that are checked in a large database
# A larger database is not read as a whole when it is opened.
FULL_CHECK_BYTES = 64 << 20
CHECKPOINT_BYTES = 16 << 20  # of the log
# Of earlier versions, which had checksums of larger blocks.
_OLDER_SEAL = b'{"files":'
# Of a database that a crawl writes to meanwhile.
_MAX_CHECKS = 5
# As `_Seal.log`: the first log of a writing process.
_NEW_LOG = -1
# What is lost with a table; what can be made again is not listed.
_CONTENTS = {
    "answer": "responses",
    "label": "labels",
    "page_tag": "tags of pages",
    "page_note": "notes on pages",
    "list_page": "lists of pages",
    "saved_search": "saved searches",
    "lesson": "what was learned since the last snapshot",
    "links": "links of pages",
    "meta": "counters and the state of the crawl",
    "page": "titles, scores and verdicts of pages",
    "robots": "rules of robots.txt, which are fetched again",
    "snapshot": "what judge, ranker and topic learned",
    "version": "past versions of pages",
    "frontier_url": "the queue and known URLs",
    "frontier_host": "hosts of the queue",
    "event": "events",
    "seed": "seeds",
}


class _Seal(msgspec.Struct, forbid_unknown_fields=True):
    blocks: dict[str, bytes]  # the checksums of all blocks of a file
    # The salt of the log that was last written into the database; None: the database was closed, and there is no log.
    log: int | None = None
    checksum: str = ""

    def own_checksum(self) -> str:
        return xxhash.xxh3_64_hexdigest(msgspec.msgpack.encode((self.blocks, self.log)))


def write_seal(folder: Path, names: Iterable[str] = SEALED_FILES, known: Mapping[str, bytes] | None = None) -> None:
    """Seal these files of a folder as they are now. `known`: checksums of files that can't have changed."""
    blocks = dict(known or {})
    for name in names:
        if name not in blocks and (folder / name).is_file() and not has_log(folder / name):
            blocks[name] = _block_checksums(folder / name)
    _store(folder, _Seal(blocks))


def _store(folder: Path, seal: _Seal) -> None:
    seal.checksum = seal.own_checksum()
    with atomic_writer(folder / SEAL_FILE) as file:
        file.write(msgspec.json.encode(seal))
        file.flush()
        # On the disk before the log is used again, or a power cut may leave an old seal beside a new database.
        os.fsync(file.fileno())
    _sync_folder(folder)


def read_seal(folder: Path) -> dict[str, bytes] | None:
    """The checksums of each file; empty without a seal, None if the seal is damaged."""
    seal = _load(folder)
    return None if seal is None else seal.blocks


def _load(folder: Path) -> _Seal | None:
    try:
        text = (folder / SEAL_FILE).read_bytes()
        if text.startswith(_OLDER_SEAL):
            return _Seal({})
        seal = msgspec.json.decode(text, type=_Seal)
    except FileNotFoundError:
        return _Seal({})
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return seal if seal.checksum == seal.own_checksum() else None


def remove_seal(folder: Path) -> None:
    """Before a change that the seal can't follow."""
    # A folder that can't be written is left as it is: the change will fail too.
    with suppress(OSError):
        (folder / SEAL_FILE).unlink()
        # After a power cut the seal must not be there again beside a changed database.
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class SealProblem(NamedTuple):
    """A difference between a file and its seal. `harmless`: nothing is lost by sealing the file as it is."""

    message: str
    harmless: bool = False


def seal_problems(folder: Path, full_check_bytes: float = inf) -> Iterator[SealProblem]:
    """Where files differ from the seal, if there is one; of those above `full_check_bytes` size and first blocks."""
    seal = _load(folder)
    if seal is None:
        yield SealProblem(f"{SEAL_FILE}: is damaged; it is written again", harmless=True)
        return
    for name, blocks in seal.blocks.items():
        # Settings may be edited by hand.
        harmless = name == CONFIG
        log = _log_beside(folder / name, seal.log)
        if log is None:
            continue
        found = _found_checksums(folder / name, blocks, full_check_bytes)
        count, wanted = len(found) // _SUM_BYTES, len(blocks) // _SUM_BYTES
        # A checkpoint that was killed may have lengthened the file by pages that are in the log.
        if log.database_pages:
            wanted = min(wanted, log.database_pages)
        if count < wanted or (count > wanted and not log.pages):
            yield SealProblem(f"{name}: has {count} blocks of 4 KiB, {wanted} were written", harmless)
        changed = _changed(found, blocks, log)
        owners = _owners(folder / name, changed) if changed and name == DATABASE else {}
        for at in (changed[0], *(b for a, b in pairwise(changed) if b != a + 1)) if changed else ():
            text = f"{name} at {at * _BLOCK_BYTES}: changed since it was written{owners.get(at, '')}"
            yield SealProblem(text, harmless)


def _changed(found: bytes, blocks: bytes, log: LogContents) -> list[int]:
    """The numbers of the blocks that differ from their checksums."""
    size = min(len(found), len(blocks))
    there, stored = (np.frombuffer(sums[:size], "<u8") for sums in (found, blocks))
    differing = np.flatnonzero((there != stored) & (stored != 0)).tolist()
    return [at for at in differing if at + 1 not in log.pages and at < (log.database_pages or inf)]


def _log_beside(database: Path, mark: int | None) -> LogContents | None:
    """What the log beside a database holds; None if the seal is from before another log, so that it says nothing.

    SQLite deletes the log when the last connection is closed, which may belong to a reader that opened the database
    before the writer: then the seal does not know what was written into the database. The next reader creates an empty
    log.
    """
    if not has_log(database):
        return LogContents() if mark is None or database.name != DATABASE else None
    if database.name != DATABASE:
        return None
    log = read_log(log_of(database))
    follows = log.resets == 0 if mark == _NEW_LOG else mark is not None and (log.salt - mark) % (1 << 32) <= 1
    return log if follows and log.page_bytes == _BLOCK_BYTES else None


def require_intact(folder: Path) -> None:
    """Raise CollectionError if the database was changed by anything but Opilio, as far as it is checked here.

    A running crawl may write its log into the database during the check, which is then repeated.
    """
    for _ in range(_MAX_CHECKS):
        before = _written(folder)
        damage = next((problem for problem in seal_problems(folder, FULL_CHECK_BYTES) if not problem.harmless), None)
        if damage is None:
            return
        if before == _written(folder):
            advice = f"'opilio maintain verify {folder}' lists all damage, --repair accepts what can't be restored"
            raise CollectionError(f"{folder}: can't be used: {damage.message}; {advice}")


def _written(folder: Path) -> tuple[int, _Seal | None]:
    """What changes when a log is written into the database."""
    return (folder / DATABASE).stat().st_mtime_ns, _load(folder)


class WriterSeal:
    """The seal of a collection while this process writes: every checkpoint of the database updates it.

    Made before the database is opened: closing a file of an open database releases the locks of this process.
    """

    def __init__(self, folder: Path, *, trusted: bool = True) -> None:
        self.checkpoint_bytes = CHECKPOINT_BYTES
        self._folder = folder
        self._database = folder / DATABASE
        self._log_file = log_of(self._database)
        # Of the log, after the last checkpoint.
        self._kept_bytes = 0
        self._settings = _block_checksums(folder / CONFIG) if (folder / CONFIG).is_file() else b""
        seal = (_load(folder) if trusted else None) or _Seal({})
        known, log = seal.blocks.get(DATABASE), seal.log
        if known is None or _log_beside(self._database, log) is None:
            header = read_log_header(self._log_file)
            known, log = None, header.salts[0] if header else None
        self._written_at_ns = self._database.stat().st_mtime_ns
        self._sums: bytearray | None = bytearray(known or _block_checksums(self._database))
        # Of the log that the seal belongs to; none before the first commit.
        self._mark = log
        if known is None:
            self._store(log)

    def before_commit(self) -> None:
        """Note in the seal that there is a log."""
        if self._mark is None:
            self._mark = _NEW_LOG
            self._store(_NEW_LOG)

    def after_commit(self, connection: Database) -> None:
        """Run a checkpoint if the log has become long."""
        with suppress(OSError):
            size = self._log_file.stat().st_size
            # SQLite shortens the log at the first commit after a checkpoint, unless readers still need it.
            self._kept_bytes = min(self._kept_bytes, size)
            if size - self._kept_bytes >= self.checkpoint_bytes:
                self._kept_bytes = size
                # A checkpoint that fails is run again later, as SQLite does it.
                with suppress(sqlite3.Error):
                    self.checkpoint(connection)

    def checkpoint(self, connection: Database, *, truncate_within_ms: int | None = None) -> None:
        """Write the log into the database, then the checksums, as far as readers allow it.

        With `truncate_within_ms` the log is empty afterwards, unless readers need it for longer. What another process
        adds to it meanwhile is then not sealed.
        """
        header = read_log_header(self._log_file)
        if header is None:
            return
        if self._database.stat().st_mtime_ns != self._written_at_ns:
            self._forget()
        try:
            busy, frames, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        finally:
            self._written_at_ns = self._database.stat().st_mtime_ns
        if busy or frames != done:
            return
        if header != read_log_header(self._log_file) or header.page_bytes != _BLOCK_BYTES:
            self._forget()
        if self._sums is not None and frames:
            self._update(self._sums, frames)
            self._mark = header.salts[0]
            self._store(self._mark)
        if truncate_within_ms is not None:
            connection.execute(f"PRAGMA busy_timeout = {truncate_within_ms}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")

    def _update(self, sums: bytearray, frames: int) -> None:
        digests, pages = logged_pages(self._log_file, _BLOCK_BYTES, frames, xxhash.xxh3_64_digest)
        del sums[pages * _SUM_BYTES :]
        sums.extend(_NO_SUM * (pages - len(sums) // _SUM_BYTES))
        for page, digest in digests.items():
            if page <= pages:
                sums[(page - 1) * _SUM_BYTES : page * _SUM_BYTES] = digest

    def _forget(self) -> None:
        """The database was written to by something else: its checksums are computed when it is closed."""
        if self._sums is not None:
            self._sums = None
            remove_seal(self._folder)

    def _store(self, log: int | None) -> None:
        if self._sums is None:
            return
        try:
            _store(self._folder, _Seal({DATABASE: bytes(self._sums), CONFIG: self._settings}, log))
        except OSError:
            # A full disk, or a folder that can't be written: the next commit reports it.
            self._forget()

    def close(self, connection: Database) -> None:
        """Write the log into the database and seal it; not where a reader or a full disk prevents it."""
        try:
            self.checkpoint(connection, truncate_within_ms=0)
        except (sqlite3.Error, OSError):
            # SQLite may write the rest of the log when the connection is closed.
            self._sums = None
        with suppress(sqlite3.Error, OSError):
            connection.close()
            if not has_log(self._database):
                if self._database.stat().st_mtime_ns != self._written_at_ns:
                    self._forget()
                write_seal(self._folder, known={} if self._sums is None else {DATABASE: bytes(self._sums)})


def drop_seal_at_rest(folder: Path) -> None:
    """After a change by a process without the lock: the seal may have been written before it, by one with the lock."""
    seal = _load(folder)
    if seal is None or (seal.blocks and seal.log is None):
        remove_seal(folder)


def log_problems(folder: Path) -> Iterator[SealProblem]:
    """Damage of the log that a killed process left; it has checksums of its own."""
    log = log_of(folder / DATABASE)
    damage = read_log(log).damage
    if damage is None:
        return
    place = f"{log.name} at {damage.offset}"
    if damage.at_end:
        yield SealProblem(f"{place}: the last commit is incomplete (a power cut, or damage) and is not used", True)
    else:
        yield SealProblem(f"{place}: changed since it was written; all later commits are lost")


def _found_checksums(path: Path, stored: bytes, full_check_bytes: float) -> bytes:
    """The checksums of a file; those of a large one but the first are taken from the seal, cut to the file's size."""
    if not path.is_file():
        return b""
    size = path.stat().st_size
    if size <= full_check_bytes:
        return _block_checksums(path)
    first = _block_checksums(path, _FIRST_BLOCKS)
    count = -(-size // _BLOCK_BYTES)
    return (first + stored[len(first) :]).ljust(count * _SUM_BYTES, b"\0")[: count * _SUM_BYTES]


def _block_checksums(path: Path, blocks: float = inf) -> bytes:
    """The checksums of a file's blocks, or of the first ones."""
    sums = bytearray()
    with path.open("rb") as file:
        while len(sums) < blocks * _SUM_BYTES and (data := memoryview(file.read(_BLOCK_BYTES * _FIRST_BLOCKS))):
            for at in range(0, len(data), _BLOCK_BYTES):
                sums += xxhash.xxh3_64_digest(data[at : at + _BLOCK_BYTES])
    return bytes(sums)


def _owners(database: Path, blocks: list[int]) -> dict[int, str]:
    """What the blocks of a database hold, as far as the damage lets SQLite find out."""
    held = tables_of_blocks(database, set(blocks), _BLOCK_BYTES)
    contents = {block: sorted({_CONTENTS.get(name, name) for name in names}) for block, names in held.items()}
    return {block: f"; it holds {', '.join(names)}" for block, names in contents.items()}
