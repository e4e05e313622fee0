"""Checksums of the files of a collection at rest, so that a changed byte is found wherever it is.

The writing process seals the collection when it closes it: `checksums.json` holds a checksum for every 64 KiB of
`crawl.db` and `crawl.toml`. Opening the collection for writing checks and removes the seal, so a killed process
leaves none, and then only the contents are checked. The index has a seal of its own, because readers update
it. WARC records have digests in themselves.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from opilio.core.errors import CollectionError
from opilio.core.files import write_atomically
from opilio.store.connection import sqlite_uri

SEAL_FILE = "checksums.json"
DATABASE_FILE, SETTINGS_FILE = SEALED_FILES = ("crawl.db", "crawl.toml")
_BLOCK_BYTES = 1 << 16
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


def seal_problems(folder: Path) -> Iterator[SealProblem]:
    """Where the files differ from the seal; nothing without one, or for a database with a log beside it."""
    seal = read_seal(folder)
    if seal is None:
        yield SealProblem(f"{SEAL_FILE}: is damaged; it is written again", harmless=True)
        return
    for name, blocks in seal.items():
        if _has_log(folder / name):
            continue
        found = _block_checksums(folder / name) if (folder / name).is_file() else []
        # Settings may be edited by hand.
        harmless = name == SETTINGS_FILE
        if len(found) != len(blocks):
            yield SealProblem(f"{name}: has {len(found)} blocks of 64 KiB, {len(blocks)} were written", harmless)
        changed = [at for at, pair in enumerate(zip(found, blocks, strict=False)) if pair[0] != pair[1]]
        owners = _owners(folder / name, changed) if changed and name == DATABASE_FILE else {}
        for at in changed:
            text = f"{name} at {at * _BLOCK_BYTES}: changed since it was written{owners.get(at, '')}"
            yield SealProblem(text, harmless)


def require_intact(folder: Path) -> None:
    """Raise CollectionError if the database was changed by anything but Opilio."""
    damage = next((problem for problem in seal_problems(folder) if not problem.harmless), None)
    if damage is not None:
        advice = f"'opilio maintain verify {folder}' lists all damage, with --repair it accepts what can't be restored"
        raise CollectionError(f"{folder}: can't be used: {damage.message}; {advice}")


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _checksum(data: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(data)


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
