"""Joins collections into a new one: no page twice, versions in order, reasons kept (S2-F1's index synchroniser).

Collections in PostgreSQL are joined as copies in folders, and the result is copied back.

The new collection is made beside its place and gets its name last: a kill leaves nothing that looks like one. SQLite
does the sorting, on disk; of the WARC files one record at a time is in memory. What the first one learned is kept.
"""

import hashlib
import shutil
import sqlite3
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from opilio import __version__
from opilio.core.errors import CollectionError, ConfigError
from opilio.core.records import Tier
from opilio.core.registry import build_component, complete_section
from opilio.dedup import add_signatures
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.commands import HOST_RULE_COMMANDS, LASTING_COMMANDS
from opilio.engine.labels import reapply_labels
from opilio.engine.wiring.session import table_definitions
from opilio.engine.wiring.settings import collection_settings
from opilio.frontier.policy import Order, QueueTime
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.manage.compact import repair_derived
from opilio.store.collection import (
    Collection,
    collection_exists,
    is_linked,
    load_settings,
    open_readonly,
    upgrade_collection,
)
from opilio.store.connection import CONFIG, DATABASE, database_error, has_writer, hold_files
from opilio.store.maintain.merge_tables import (
    MERGE_FRONTIER,
    MERGE_TABLES,
    RENUMBER_ANSWERS,
    SELECT_VERSIONS,
    KeptRecord,
    TableMerger,
    merge_commands,
)
from opilio.store.postgres.collection import place_of
from opilio.store.postgres.copy import copy_collection
from opilio.store.warc import RecordPosition, WarcWriter, read_member, read_record, warc_name
from opilio.store.writer import CollectionWriter
from opilio.text.languages import language_name

PARTIAL_SUFFIX = ".merging"


class MergeResult(msgspec.Struct, kw_only=True):
    """What came together."""

    pages: int = 0
    versions: int = 0
    # Pages of several collections with the same address and text.
    duplicates: int = 0
    urls: int = 0


def merge(sources: Sequence[Path], into: Path, now: float) -> MergeResult:
    """Join collections; the first gives settings and models."""
    _check(sources, into)
    names = ", ".join(map(place_of, sources))
    if not any(map(is_linked, (*sources, into))):
        return _merge_folders(sources, into, now, names)
    with _temporary_folder(into) as place:
        folders = [place / str(n) if is_linked(source) else source for n, source in enumerate(sources)]
        for source, folder in zip(sources, folders, strict=True):
            if source != folder:
                copy(source, folder)
        made = place / "merged" if is_linked(into) else into
        merged = _merge_folders(folders, made, now, names)
        if made != into:
            copy(made, into)
    return merged


def copy(source: Path, target: Path) -> int:
    """Copy a collection from a folder into a database, or back, or between two databases; returns the pages."""
    if is_linked(source) and is_linked(target):
        with _temporary_folder(target) as place:
            copy(source, place / "copy")
            return copy(place / "copy", target)
    with open_readonly(source) as collection:
        settings = collection_settings(collection)
    return copy_collection(source, target, table_definitions(target, settings))


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """On the disk of the target; the caches of databases are all on one disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="opilio-", dir=target.parent) as place:
        yield Path(place)


def _merge_folders(sources: Sequence[Path], into: Path, now: float, names: str) -> MergeResult:
    part = into.with_name(into.name + PARTIAL_SUFFIX)
    if has_writer(part):
        raise CollectionError(f"--into {into}: another merge is making it; wait for it or stop it")
    if part.exists():
        # Of a merge that was killed: the name is ours.
        shutil.rmtree(part)
    collection = Collection.create(part, _config(sources[0]), (create_frontier, create_seen))
    try:
        with ExitStack() as held:
            for folder in sources:
                held.enter_context(hold_files(folder))
            merged = _merge(collection, sources, now, names)
        collection.connection.close()
        # Before the lock is released: no other process may mistake it for the rest of a killed merge.
        _rename_into_place(part, into)
    except BaseException as error:
        # Most often the disk is full: it must not stay so.
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, sqlite3.Error):
            raise database_error(part, error) from error
        raise
    finally:
        collection.close()
    return merged


def _rename_into_place(part: Path, into: Path) -> None:
    try:
        if into.exists():
            into.rmdir()
        part.rename(into)
    except OSError as error:
        raise CollectionError(f"--into {into}: can't be made: {error.strerror}") from error


def _check(sources: Sequence[Path], into: Path) -> None:
    if len(sources) < 2:
        raise ConfigError("merge: needs at least two collections")
    for place, folder in enumerate(sources):
        if not is_linked(folder):
            upgrade_collection(folder)
        twin = next((other for other in sources[:place] if other.resolve() == folder.resolve()), None)
        if twin is not None:
            raise ConfigError(f"merge: {place_of(folder)} and {place_of(twin)} are the same collection")
    taken = not is_linked(into) and into.exists() and (not into.is_dir() or any(into.iterdir()))
    if taken or collection_exists(into):
        raise ConfigError(f"--into {place_of(into)}: already exists; choose another name")


def _config(folder: Path) -> str:
    try:
        return (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{folder / CONFIG}: can't be read: {error}") from error


def _merge(collection: Collection, sources: Sequence[Path], now: float, names: str) -> MergeResult:
    assert isinstance(collection.connection, sqlite3.Connection)
    tables = TableMerger(collection.connection, [folder / DATABASE for folder in sources])
    commands = merge_commands(HOST_RULE_COMMANDS, LASTING_COMMANDS)
    with collection.unit_of_work():
        tables.run(RENUMBER_ANSWERS)
        if len(set(map(_text_settings, sources))) > 1:
            _unify_fingerprints(tables, sources)
        tables.run((*SELECT_VERSIONS, *MERGE_TABLES, commands, *MERGE_FRONTIER))
        _recompute_priorities(collection, tables, now)
        reapply_labels(collection, CollectionWriter(collection, None))
        tables.merge_revisits()
        _copy_records(collection, tables, sources)
        for portion in tables.simhashes():
            add_signatures(collection.connection, portion)
        collection.set_meta(state="stopped", stop_reason=f"merged from {names}", stopped_at=now)
        result = MergeResult(**tables.counts())
    tables.detach()
    repair_derived(collection, now)
    return result


def _text_settings(folder: Path) -> tuple[str, str]:
    """How a collection reads words: texts have the same fingerprint only where that is the same."""
    topic = tomllib.loads(_config(folder)).get("topic", {})
    return language_name(str(topic.get("language", "english"))), str(topic.get("normaliser", "stem"))


def _unify_fingerprints(tables: TableMerger, sources: Sequence[Path]) -> None:
    """Give what several collections hold of a page one fingerprint where it is the same, byte for byte."""
    known: dict[tuple[int, bytes], int] = {}
    for text in tables.ambiguous_texts():
        body = read_record(sources[text.source], *text.position).body
        digest = hashlib.sha1(body, usedforsecurity=False).digest()
        first = known.setdefault((text.key, digest), text.fingerprint)
        if first != text.fingerprint:
            tables.set_fingerprint(text.rowid, first)


def _recompute_priorities(collection: Collection, tables: TableMerger, now: float) -> None:
    """Put URLs in the first source's order: the others may have had another one, and URLs have new numbers."""
    tree = load_settings(collection).get("order", {})
    order: Order = build_component("order", complete_section("order", tree))
    moment = QueueTime(tables.inserted_urls(), now)
    tables.reposition_urls(
        lambda score, seq: order.position(score, seq, moment).priority,
        lambda score, seq: order.position(score, seq, moment).timer,
        below_tier=Tier.BOOSTED,
    )


def _copy_records(collection: Collection, tables: TableMerger, sources: Sequence[Path]) -> None:
    """Copy the WARC record of every version that is kept."""
    writer = WarcWriter(collection.folder, f"Opilio/{__version__}")
    writer.resume(1, 0)
    try:
        for portion in tables.kept_records():
            tables.move_records([(record, _copy_record(writer, sources, record)) for record in portion])
        writer.sync()
        number, offset = writer.position
        collection.set_meta(warc_number=number, warc_offset=offset, warc_synced=f"{number} {offset}")
    finally:
        writer.close()


def _copy_record(writer: WarcWriter, sources: Sequence[Path], record: KeptRecord) -> RecordPosition:
    folder = sources[record.source]
    member = read_member(folder, *record.position)
    if len(member) != record.position.length:
        name = folder / warc_name(record.position.warc)
        raise CollectionError(f"{name}: ends too early; run 'opilio maintain verify --repair {folder}' first")
    return writer.append(member, 0.0)
