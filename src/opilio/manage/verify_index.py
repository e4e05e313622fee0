"""Checks that the search index holds what the collection has. Pages that are not indexed yet are no problem."""

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
from opilio.store.pages import count_indexable_versions, indexable_pages, page_keys_and_endings
from opilio.store.run_tables import INDEX_SERVER_KEY
from opilio.store.seal import seal_problems

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
