"""Joins collections into a new one: no page twice, versions in order, reasons kept (S2-F1's index synchroniser).

The new collection is made beside its place and gets its name last: a kill leaves nothing that looks like one. SQLite
does the sorting, on disk; of the WARC files one record at a time is in memory. What the first one learnt is kept.
"""

import hashlib
import shutil
import sqlite3
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np

from opilio import __version__
from opilio.core.errors import CollectionError, ConfigError
from opilio.core.records import Tier
from opilio.core.registry import build_component, complete_section
from opilio.dedup.fingerprint import simhash_bands
from opilio.dedup.sqlite import create_dedup_tables as create_seen
from opilio.engine.control import HOST_RULE_COMMANDS, RUN_COMMANDS
from opilio.engine.labels import reapply_labels
from opilio.frontier.policy import Order, QueueTime
from opilio.frontier.sqlite.schema import create_frontier_tables as create_frontier
from opilio.manage.repair import repair_derived
from opilio.store.collection import (
    CONFIG,
    DATABASE,
    Collection,
    collection_exists,
    database_error,
    load_settings,
    upgrade_collection,
)
from opilio.store.locks import has_writer, hold_files
from opilio.store.merge_sql import (
    COLUMNS,
    MERGE_FRONTIER,
    MERGE_TABLES,
    RENUMBER_ANSWERS,
    SELECT_VERSIONS,
    merge_commands,
    source_views,
)
from opilio.store.warc import WarcWriter, read_member, read_record, warc_name
from opilio.store.writer import CollectionWriter
from opilio.text.languages import language_name

PARTIAL_SUFFIX = ".merging"
ROTATE_BYTES = 1 << 30


class MergeResult(msgspec.Struct, kw_only=True):
    """What came together."""

    pages: int = 0
    versions: int = 0
    duplicates: int = 0  # pages of several collections with the same address and text
    urls: int = 0


def merge(sources: Sequence[Path], into: Path, now: float) -> MergeResult:
    """Join collections; the first gives settings and models."""
    _check(sources, into)
    part = into.with_name(into.name + PARTIAL_SUFFIX)
    if has_writer(part):
        raise CollectionError(f"--into {into}: another merge is making it; wait for it or stop it")
    if part.exists():
        shutil.rmtree(part)  # of a merge that was killed: the name is ours
    collection = Collection.create(part, _config(sources[0]), (create_frontier, create_seen))
    try:
        with ExitStack() as held:
            for folder in sources:
                held.enter_context(hold_files(folder))
            merged = _merge(collection, sources, now)
        collection.connection.close()
        _rename_into_place(part, into)  # before the lock is gone: nobody takes it for what a kill left
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)  # most often the disk is full: it must not stay so
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
        upgrade_collection(folder)
        twin = next((other for other in sources[:place] if other.resolve() == folder.resolve()), None)
        if twin is not None:
            raise ConfigError(f"merge: {folder} and {twin} are the same collection")
    if collection_exists(into) or (into.exists() and (not into.is_dir() or any(into.iterdir()))):
        raise ConfigError(f"--into {into}: already exists; choose another name")


def _config(folder: Path) -> str:
    try:
        return (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"{folder / CONFIG}: can't be read: {error}") from error


def _merge(collection: Collection, sources: Sequence[Path], now: float) -> MergeResult:
    connection = collection.connection
    connection.execute("PRAGMA temp_store = FILE")
    for number, folder in enumerate(sources):
        # Only to be read: else a transaction would lock out who writes to it.
        connection.execute(f"ATTACH ? AS s{number}", (f"{(folder / DATABASE).absolute().as_uri()}?mode=ro",))
        for statement in source_views(connection, number):
            connection.execute(statement)
    commands = merge_commands(HOST_RULE_COMMANDS, RUN_COMMANDS)
    with collection.unit_of_work():
        _run(connection, RENUMBER_ANSWERS, len(sources))
        if len(set(map(_text_settings, sources))) > 1:
            _unify_fingerprints(connection, sources)
        _run(connection, (*SELECT_VERSIONS, *MERGE_TABLES, commands, *MERGE_FRONTIER), len(sources))
        _recompute_priorities(collection, now)
        reapply_labels(collection, CollectionWriter(collection, None))
        _merge_revisits(connection, len(sources))
        _records(collection, sources)
        _signatures(connection)
        names = ", ".join(str(folder) for folder in sources)
        collection.set_meta(state="stopped", stop_reason=f"merged from {names}", stopped_at=now)
        merged = _count_result(connection)
    for number in range(len(sources)):
        connection.execute(f"DETACH s{number}")
    repair_derived(collection, now)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return merged


def _run(connection: sqlite3.Connection, statements: Sequence[str], sources: int) -> None:
    for statement in statements:
        for text in _expand_statement(statement, sources):
            connection.execute(text)


def _text_settings(folder: Path) -> tuple[str, str]:
    """How a collection reads words: texts have the same fingerprint only where that is the same."""
    topic = tomllib.loads(_config(folder)).get("topic", {})
    return language_name(str(topic.get("language", "english"))), str(topic.get("normaliser", "stem"))


def _unify_fingerprints(connection: sqlite3.Connection, sources: Sequence[Path]) -> None:
    """Give what several collections hold of a page one fingerprint where it is the same, byte for byte."""
    rows = connection.execute(
        "SELECT rowid, key, src, warc, offset, length, fingerprint FROM temp.every WHERE length > 0 AND key IN"
        " (SELECT key FROM temp.every GROUP BY key HAVING min(fingerprint) < max(fingerprint)) ORDER BY key, seq"
    ).fetchall()
    known: dict[tuple[int, bytes], int] = {}
    for rowid, key, src, *place, fingerprint in rows:
        digest = hashlib.sha1(read_record(sources[src], *place).body, usedforsecurity=False).digest()
        first = known.setdefault((key, digest), fingerprint)
        if first != fingerprint:
            connection.execute("UPDATE temp.every SET fingerprint = ? WHERE rowid = ?", (first, rowid))


def _expand_statement(statement: str, sources: int) -> Iterator[str]:
    """A statement with {s} once for every source, in their order; one with {all...} once, over all of them."""
    if "{s}" in statement:
        for number in range(sources):
            yield statement.format(s=number)
        return
    start, mark, rest = statement.partition("{all:")
    if not mark:
        yield statement
        return
    inner, _, end = rest.partition("}")
    yield start + " UNION ALL ".join(inner.replace("%", str(number)) for number in range(sources)) + end


def _recompute_priorities(collection: Collection, now: float) -> None:
    """Where URLs stand in the queue, by the first one's order: others may have had another, and numbers are new."""
    tree = load_settings(collection).get("order", {})
    order: Order = build_component("order", complete_section("order", tree))
    connection = collection.connection
    (inserted,) = connection.execute("SELECT inserted FROM main.frontier_count").fetchone()
    moment = QueueTime(inserted, now)
    connection.create_function("placed", 2, lambda score, seq: order.position(score, seq, moment).priority)
    connection.create_function("timed", 2, lambda score, seq: order.position(score, seq, moment).timer)
    connection.execute(
        "UPDATE main.frontier_url SET priority = placed(score, seq), timer = timed(score, seq)"
        " WHERE state < 2 AND tier < ?",
        (Tier.BOOSTED,),
    )


def _merge_revisits(connection: sqlite3.Connection, sources: int) -> None:
    """What looking again has shown: evidence of several collections about one page adds up."""
    for number in range(sources):
        for row in connection.execute(f"SELECT * FROM temp.revisit_{number}"):
            values = {**dict(zip(COLUMNS["revisit"], row, strict=True)), "queued": 0}
            known = connection.execute("SELECT * FROM main.revisit WHERE key = ?", (values["key"],)).fetchone()
            old = dict(zip(COLUMNS["revisit"], known, strict=True)) if known is not None else values
            if old != values:  # else the same looks, of a collection and a copy of it
                rates = [np.frombuffer(r["rates"], dtype=np.float32) for r in (old, values) if r["rates"]]
                newer = max((old, values), key=lambda r: r["tried_at"])
                sums = {name: old[name] + values[name] for name in ("checks", "changes", "found", "brought")}
                values = {**newer, **sums, "rates": sum(rates[1:], rates[0]).tobytes() if rates else b""}
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT OR REPLACE INTO main.revisit VALUES ({marks})", list(values.values()))


def _records(collection: Collection, sources: Sequence[Path]) -> None:
    """The WARC record of every version that is kept, copied as it is."""
    connection = collection.connection
    writer = WarcWriter(collection.folder, f"Opilio/{__version__}", ROTATE_BYTES)
    writer.resume(1, 0)
    rows = connection.execute(
        "SELECT current, key, seq, src, warc, offset, length FROM temp.kept WHERE length > 0 ORDER BY src, warc, offset"
    )
    try:
        while portion := rows.fetchmany(1000):
            moved: dict[int, list[tuple[int, int, int, int]]] = {0: [], 1: []}
            for current, key, seq, src, warc, offset, length in portion:
                member = read_member(sources[src], warc, offset, length)
                if len(member) != length:
                    name = sources[src] / warc_name(warc)
                    raise CollectionError(
                        f"{name}: ends too early; run 'opilio maintain verify --repair {sources[src]}' first"
                    )
                moved[current].append((*writer.append(member, 0.0)[:2], key, seq))
            for current, table in ((1, "page"), (0, "version")):
                connection.executemany(
                    f"UPDATE main.{table} SET warc = ?, offset = ? WHERE key = ? AND seq = ?", moved[current]
                )
        writer.sync()
        number, offset = writer.position
        collection.set_meta(warc_number=number, warc_offset=offset, warc_synced=f"{number} {offset}")
    finally:
        writer.close()


def _signatures(connection: sqlite3.Connection) -> None:
    """Near-duplicate signatures, where the collections have them."""
    rows = connection.execute("SELECT key, simhash FROM main.page WHERE simhash <> 0 AND duplicate_of = 0")
    while portion := rows.fetchmany(1000):
        connection.executemany("INSERT OR IGNORE INTO main.text_signatures VALUES (?, ?)", portion)
        bands = [(band, key) for key, simhash in portion for band in simhash_bands(simhash)]
        connection.executemany("INSERT OR IGNORE INTO main.text_bands VALUES (?, ?)", bands)


def _count_result(connection: sqlite3.Connection) -> MergeResult:
    def one(query: str) -> int:
        return int(connection.execute(query).fetchone()[0])

    return MergeResult(
        pages=one("SELECT count(*) FROM main.page"),
        versions=one("SELECT count(*) FROM main.version"),
        duplicates=one("SELECT (SELECT count(*) FROM temp.every) - (SELECT count(*) FROM temp.kept)"),
        urls=one("SELECT count(*) FROM main.frontier_url"),
    )
