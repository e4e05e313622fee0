"""Does the index hold what the collection has? Only reads; pages that the index has yet to take in are no problem."""

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import tantivy

from opilio.core.errors import CollectionError
from opilio.search.documents import DocumentReader
from opilio.search.index import INDEX_FOLDER, FullTextIndex, index_write_lock, is_read_only, translate_index_errors
from opilio.search.manifest import IndexManifest
from opilio.search.results import FOREVER
from opilio.store.collection import Collection

PROBLEM_PREFIX = "index: "  # how every problem told here begins
REBUILD_ADVICE = "'opilio index rebuild' makes it again"


def check_index(collection: Collection) -> Iterator[str]:
    """What is wrong with the index of a collection; nothing where there is none."""
    folder = collection.folder / INDEX_FOLDER
    if not (folder / "derived.db").exists():
        return
    try:
        with translate_index_errors(folder), closing(IndexManifest(folder)) as manifest:
            mark, dropped = manifest.mark("seq"), manifest.mark("dropped")
            known = dict(manifest.connection.execute("SELECT key, seq FROM entry"))
    except CollectionError as error:
        yield f"{PROBLEM_PREFIX}{error}"
        return
    if dropped != DocumentReader(collection).dropped_versions():
        return  # of another past: it is made again when it is next caught up
    yield from _missing(collection, known, mark)
    yield from _left_over(collection, known, mark)
    yield from _check_document_counts(collection, len(known), _count_past_versions(collection, mark))


def _missing(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    rows = collection.connection.execute(
        "SELECT key, seq, url FROM page WHERE duplicate_of = 0 AND noindex = 0 AND seq <= ? ORDER BY seq", (mark,)
    )
    for key, seq, url in rows:
        if known.get(key, -1) < seq:
            yield f"{PROBLEM_PREFIX}lacks {url} or holds an older version; {REBUILD_ADVICE}"


def _left_over(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    """Documents of pages that are gone, that the index should know of."""
    there = {key for (key,) in collection.connection.execute("SELECT key FROM page")}
    ending = {key for (key,) in collection.connection.execute("SELECT key FROM version WHERE ended > ?", (mark,))}
    for key, seq in known.items():
        if key not in there and key not in ending and seq <= mark:
            yield f"{PROBLEM_PREFIX}holds a page that the collection no longer has (key {key}); {REBUILD_ADVICE}"


def _count_past_versions(collection: Collection, mark: int) -> int:
    """How many versions that are past the index should hold."""
    sql = "SELECT count(*) FROM version WHERE duplicate_of = 0 AND noindex = 0 AND ended <= ?"
    return int(collection.connection.execute(sql, (mark,)).fetchone()[0])


def _check_document_counts(collection: Collection, documents: int, past: int) -> Iterator[str]:
    """The engine has as many documents as were noted, and as many past ones as there are.

    Not asked while somebody writes: the two move one by one.
    """
    with nullcontext(True) if is_read_only(collection.folder) else index_write_lock(collection.folder) as ours:
        if not ours:
            return
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
