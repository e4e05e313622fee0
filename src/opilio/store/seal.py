"""Checksums of the files of a closed collection, which detect any changed byte.

The writing process seals the collection when it closes it: `checksums.json` holds a checksum for every 64 KiB of
`crawl.db` and `crawl.toml`. Opening the collection for writing checks and removes the seal, so a killed process
leaves none, and then only the contents and the log are checked. A large database is not read for a small change: its
size and first block are checked when it is opened, and the blocks that changed are summed again when it is closed.
The index has a seal of its own, because readers update it. WARC records have digests in themselves.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from opilio.core.errors import CollectionError
from opilio.core.files import write_atomically
from opilio.store.connection import sqlite_uri
from opilio.store.log_file import read_log

SEAL_FILE = "checksums.json"
DATABASE_FILE, SETTINGS_FILE = SEALED_FILES = ("crawl.db", "crawl.toml")
_BLOCK_BYTES = 1 << 16
FULL_CHECK_BYTES = 64 << 20  # a larger database is not read as a whole when it is opened
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


class _Seal(msgspec.Struct):
    files: dict[str, list[str]]  # checksums of the blocks
    checksum: str = ""  # of `files`


def write_seal(folder: Path, names: Iterable[str] = SEALED_FILES, known: Mapping[str, list[str]] | None = None) -> None:
    """Seal these files of a folder as they are now. `known`: checksums of files that can't have changed."""
    files = dict(known or {})
    for name in names:
        if name not in files and (folder / name).is_file() and not _has_log(folder / name):
            files[name] = _block_checksums(folder / name)
    write_atomically(folder / SEAL_FILE, msgspec.json.encode(_Seal(files, _checksum(msgspec.json.encode(files)))))


def read_seal(folder: Path) -> dict[str, list[str]] | None:
    """The checksums of each file; empty without a seal, None if the seal is damaged."""
    try:
        seal = msgspec.json.decode((folder / SEAL_FILE).read_bytes(), type=_Seal)
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return seal.files if seal.checksum == _checksum(msgspec.json.encode(seal.files)) else None


def remove_seal(folder: Path) -> None:
    """Before the first change."""
    # A folder that can't be written is left as it is: the change will fail too.
    with suppress(OSError):
        (folder / SEAL_FILE).unlink()
        # After a power cut the seal must not be there again beside a changed database.
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
    """Where the files differ from the seal; nothing without one, or for a database with a log beside it.

    Of files larger than `full_check_bytes` only the size and the first block are compared.
    """
    seal = read_seal(folder)
    if seal is None:
        yield SealProblem(f"{SEAL_FILE}: is damaged; it is written again", harmless=True)
        return
    for name, blocks in seal.items():
        if _has_log(folder / name):
            continue
        found = _found_checksums(folder / name, blocks, full_check_bytes)
        # Settings may be edited by hand.
        harmless = name == SETTINGS_FILE
        if len(found) != len(blocks):
            yield SealProblem(f"{name}: has {len(found)} blocks of 64 KiB, {len(blocks)} were written", harmless)
        changed = [at for at, pair in enumerate(zip(found, blocks, strict=False)) if pair[0] != pair[1]]
        owners = _owners(folder / name, changed) if changed and name == DATABASE_FILE else {}
        for at in changed:
            text = f"{name} at {at * _BLOCK_BYTES}: changed since it was written{owners.get(at, '')}"
            yield SealProblem(text, harmless)


class OpenedSeal(NamedTuple):
    """The seal of a database that was opened for writing, and when its file had last been written."""

    blocks: list[str]
    written_at_ns: int


def require_intact(folder: Path) -> None:
    """Raise CollectionError if the database was changed by anything but Opilio, as far as it is checked here."""
    damage = next((problem for problem in seal_problems(folder, FULL_CHECK_BYTES) if not problem.harmless), None)
    if damage is not None:
        advice = f"'opilio maintain verify {folder}' lists all damage, with --repair it accepts what can't be restored"
        raise CollectionError(f"{folder}: can't be used: {damage.message}; {advice}")


def opened_seal(folder: Path) -> OpenedSeal | None:
    """The seal of an intact database, read before the seal is removed; None without one."""
    blocks = (read_seal(folder) or {}).get(DATABASE_FILE)
    database = folder / DATABASE_FILE
    return OpenedSeal(blocks, database.stat().st_mtime_ns) if blocks and not _has_log(database) else None


def changed_blocks(folder: Path, opened: OpenedSeal | None) -> set[int] | None:
    """The blocks that the log will change in a database; None if others may have changed too.

    Called before the log is written into the database. If that happened before, the time of the file or the
    resets of the log show it.
    """
    database = folder / DATABASE_FILE
    if opened is None or database.stat().st_mtime_ns != opened.written_at_ns:
        return None
    log = read_log(log_of(database))
    if log.resets or log.damage:
        return None
    return {(page - 1) * log.page_bytes // _BLOCK_BYTES for page in log.pages}


def updated_checksums(folder: Path, opened: OpenedSeal | None, changed: set[int] | None) -> dict[str, list[str]]:
    """The checksums of a database of which only these blocks have changed; empty if that is not known."""
    if opened is None or changed is None:
        return {}
    with (folder / DATABASE_FILE).open("rb") as file:
        count = -(-os.fstat(file.fileno()).st_size // _BLOCK_BYTES)
        # The last block may have become longer or shorter.
        again = {*changed, *range(len(opened.blocks), count), count - 1}
        blocks = opened.blocks[:count] + [""] * (count - len(opened.blocks))
        for at in sorted(at for at in again if 0 <= at < count):
            file.seek(at * _BLOCK_BYTES)
            blocks[at] = _checksum(file.read(_BLOCK_BYTES))
    return {DATABASE_FILE: blocks}


def log_problems(folder: Path) -> Iterator[SealProblem]:
    """Damage of the log that a killed process left; it has checksums of its own."""
    log = log_of(folder / DATABASE_FILE)
    damage = read_log(log).damage
    if damage is None:
        return
    place = f"{log.name} at {damage.offset}"
    if damage.at_end:
        yield SealProblem(f"{place}: the last commit is incomplete (a power cut, or damage) and is not used", True)
    else:
        yield SealProblem(f"{place}: changed since it was written; all later commits are lost")


def log_of(database: Path) -> Path:
    """The write-ahead log of a database."""
    return database.with_name(f"{database.name}-wal")


def _has_log(path: Path) -> bool:
    log = log_of(path)
    return log.exists() and log.stat().st_size > 0


def _checksum(data: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(data)


def _found_checksums(path: Path, stored: list[str], full_check_bytes: float) -> list[str]:
    """The checksums of a file; those of a large one but the first are taken from the seal, cut to the file's size."""
    if not path.is_file():
        return []
    size = path.stat().st_size
    if size <= full_check_bytes:
        return _block_checksums(path)
    with path.open("rb") as file:
        first = _checksum(file.read(_BLOCK_BYTES))
    count = -(-size // _BLOCK_BYTES)
    return [first, *stored[1:count], *[""] * (count - len(stored))]


def _block_checksums(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [_checksum(block) for block in iter(lambda: file.read(_BLOCK_BYTES), b"")]


def _owners(database: Path, blocks: list[int]) -> dict[int, str]:
    """What the blocks of a database hold, as far as the damage lets SQLite find out."""
    wanted = set(blocks)
    held: dict[int, set[str]] = {}
    try:
        with closing(sqlite3.connect(sqlite_uri(database), uri=True)) as connection:
            (size,) = connection.execute("PRAGMA page_size").fetchone()
            for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
                if (block := (page - 1) * size // _BLOCK_BYTES) in wanted:
                    held.setdefault(block, set()).add(_CONTENTS.get(name, name))
    except sqlite3.Error:
        return {}
    return {block: f"; it holds {', '.join(sorted(names))}" for block, names in held.items()}
