"""Checks the files of a collection: checksums, contents, whether database, records and search index agree.

Reads everything, changes nothing; `manage.compact` repairs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec
import tantivy

from opilio.core.errors import CollectionError, ConfigError
from opilio.core.files import parse_toml
from opilio.engine.integrity import check_consistency, check_contents, check_counters, check_orphans, check_states
from opilio.engine.wiring.settings import check_stored_settings
from opilio.frontier.sqlite.queries import counter_problems, host_counter_problems
from opilio.search.documents import DocumentReader
from opilio.search.index import FullTextIndex, index_write_lock, is_read_only, translate_index_errors
from opilio.search.manifest import IndexManifest
from opilio.search.results import FOREVER
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import CONFIG, INDEX_FOLDER, has_writer
from opilio.store.maintain.integrity import StoredRecord, database_problems, record_problem, stored_records
from opilio.store.pages import count_indexable_versions, indexable_pages, page_keys_and_endings
from opilio.store.postgres.chunks import ObjectMissingError
from opilio.store.run_tables import INDEX_SERVER_KEY
from opilio.store.seal import SealProblem, log_problems, seal_problems
from opilio.store.warc import local_warc, warc_name
from opilio.topic.setup import resolve_settings

PROBLEM_PREFIX = "index: "
REBUILD_ADVICE = "'opilio maintain reindex' makes it again"


def check_index(collection: Collection) -> Iterator[str]:
    """Problems of a collection's embedded index; none where there is no index, or it is on a server."""
    folder = collection.folder / INDEX_FOLDER
    if not (folder / "derived.db").exists() or collection.meta(INDEX_SERVER_KEY):
        return
    try:
        with translate_index_errors(folder), closing(IndexManifest(folder)) as manifest:
            mark, dropped = manifest.mark("seq"), manifest.mark("dropped")
            known = manifest.indexed_versions()
    except CollectionError as error:
        yield f"{PROBLEM_PREFIX}{error}"
        return
    if dropped != DocumentReader(collection).dropped_versions():
        # Versions were deleted since: the next update rebuilds the index.
        return
    yield from _missing(collection, known, mark)
    yield from _left_over(collection, known, mark)
    yield from _check_files_and_counts(collection, len(known), count_indexable_versions(collection.connection, mark))


def _missing(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    for page in indexable_pages(collection.connection, mark):
        if known.get(page.key, -1) < page.seq:
            yield f"{PROBLEM_PREFIX}lacks {page.url} or holds an older version; {REBUILD_ADVICE}"


def _left_over(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    """Documents of pages that were gone before the index was last updated."""
    current, ending = page_keys_and_endings(collection.connection, mark)
    for key, seq in known.items():
        if key not in current and key not in ending and seq <= mark:
            yield f"{PROBLEM_PREFIX}holds a page that the collection no longer has (key {key}); {REBUILD_ADVICE}"


def _check_files_and_counts(collection: Collection, documents: int, past: int) -> Iterator[str]:
    """Its files are as they were written; it has as many documents as the manifest says, and all past versions.

    Not checked while another process writes: the two are updated one after the other.
    """
    with nullcontext(True) if is_read_only(collection.folder) else index_write_lock(collection.folder) as ours:
        if not ours:
            return
        for problem in seal_problems(collection.folder / INDEX_FOLDER):
            yield f"{PROBLEM_PREFIX}{problem.message}; {REBUILD_ADVICE}"
        try:
            found, found_past = _count_documents(collection.folder / INDEX_FOLDER)
        except CollectionError as error:
            yield f"{PROBLEM_PREFIX}{error}"
            return
        if found != documents:
            yield f"{PROBLEM_PREFIX}holds {found} pages, {documents} were taken in; {REBUILD_ADVICE}"
        if found_past != past:
            counts = f"holds {found_past} past versions of pages, the collection has {past}"
            yield f"{PROBLEM_PREFIX}{counts}; {REBUILD_ADVICE}"


def _count_documents(folder: Path) -> tuple[int, int]:
    """How many documents the engine has of pages as they are now, and as they were."""
    with translate_index_errors(folder, engine=(ValueError,)):
        index = FullTextIndex(folder)
        query = tantivy.Query.term_query(index.schema, "until", FOREVER)
        searcher = index.searcher()
        current: int = searcher.search(query, 1).count  # type: ignore[attr-defined]  # the stub forgot it
        return current, searcher.num_docs - current


MAX_PROBLEMS = 100


class IntegrityProblem(msgspec.Struct, frozen=True):
    """One problem. `derived`: the data follows from the rest and can be made again without loss."""

    message: str
    derived: bool = False
    # The row whose record is missing or damaged.
    lost_record: StoredRecord | None = None
    # Bytes of the database that differ from their checksum.
    damage: bool = False


def verify(folder: Path) -> list[str]:
    """The problems of a collection, at most MAX_PROBLEMS lines."""
    return [finding.message for finding in islice(all_problems(folder), MAX_PROBLEMS)]


def all_problems(folder: Path) -> Iterator[IntegrityProblem]:
    """All problems, the cheap checks first; a stream without a limit."""
    # Before the database is opened: closing its file would release the locks of the connection. While a crawl runs,
    # files and checksums change one after the other.
    changed = [] if has_writer(folder) else [*log_problems(folder), *seal_problems(folder)]
    if has_writer(folder):
        changed = []
    with open_readonly(folder) as collection:
        yield from _find_problems(collection, changed)


def _find_problems(collection: Collection, changed: Sequence[SealProblem]) -> Iterator[IntegrityProblem]:
    settings = list(_settings(collection))
    yield from map(IntegrityProblem, settings)
    for text, harmless in changed:
        # Settings that can't be read are reported already.
        if not (settings and text.startswith(CONFIG)):
            yield IntegrityProblem(text, derived=harmless, damage=not harmless)
    derived = (
        *(check_orphans, check_states, _frontier_counters, check_counters, _host_counters),
        *(check_index, _unused_files),
    )
    own = (_integrity, check_consistency, _record_files, check_contents)
    for check in own:
        yield from (IntegrityProblem(text) for text in _readable(check, collection))
    for check in derived:
        yield from (IntegrityProblem(text, derived=True) for text in _readable(check, collection))
    yield from _records(collection)


def _readable(check: Callable[[Collection], Iterator[str]], collection: Collection) -> Iterator[str]:
    """The problems that a check finds. In a damaged database a row may hold anything."""
    try:
        yield from check(collection)
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        yield f"database: has a row that can't be read: {' '.join(str(error).split())}; restore a copy of it"


def _integrity(collection: Collection) -> Iterator[str]:
    return (f"database: {line}" for line in database_problems(collection.connection))


def _settings(collection: Collection) -> Iterator[str]:
    """A collection whose settings can't be read can't be resumed."""
    try:
        stored = parse_toml(collection.config)
        resolve_settings(stored, CONFIG)
        check_stored_settings(stored, CONFIG)
    except ValueError as error:
        yield f"{CONFIG}: is not valid TOML: {error}; restore a copy of it"
    except (CollectionError, ConfigError) as error:
        yield f"{error}; restore a copy of it"


def _frontier_counters(collection: Collection) -> Iterator[str]:
    return counter_problems(collection.connection)


def _host_counters(collection: Collection) -> Iterator[str]:
    return host_counter_problems(collection.connection)


def _record_files(collection: Collection) -> Iterator[str]:
    return collection.records.problems()


def _unused_files(collection: Collection) -> Iterator[str]:
    for name in () if has_writer(collection.folder) else collection.records.unused():
        yield f"object {name}: belongs to no page"


def _records(collection: Collection) -> Iterator[IntegrityProblem]:
    """Every record is where the database says, with the URL and the digest it should have, and no gap between two."""
    last, last_end = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    collection.records.delete_copies()
    for number, rows in groupby(stored_records(collection), key=attrgetter("warc")):
        path = collection.folder / warc_name(number)
        try:
            file = local_warc(collection.folder, number).open("rb")
        except (OSError, ObjectMissingError) as error:
            yield IntegrityProblem(f"{path.name}: can't be read: {getattr(error, 'strerror', '') or error}")
            yield from (
                IntegrityProblem(f"{path.name} at {row.offset}: missing ({row.url})", lost_record=row) for row in rows
            )
            continue
        with file:
            size = path.stat().st_size
            yield from _records_of(path.name, file, rows, min(size, last_end) if number == last else size)


def _records_of(name: str, file: BinaryIO, rows: Iterable[StoredRecord], size: int) -> Iterator[IntegrityProblem]:
    end = 0
    for row in rows:
        # The record that opens the file.
        if end == 0:
            problem = record_problem(file.read(row.offset))
            if problem:
                yield IntegrityProblem(f"{name} at 0: {problem}")
        elif row.offset != end:
            yield IntegrityProblem(f"{name} at {end}: {row.offset - end} bytes that belong to no page")
        end = row.offset + row.length
        file.seek(row.offset)
        problem = record_problem(file.read(row.length), row.url)
        if problem:
            yield IntegrityProblem(f"{name} at {row.offset}: {problem} ({row.url})", lost_record=row)
    if end < size:
        yield IntegrityProblem(f"{name} at {end}: {size - end} bytes that belong to no page")
