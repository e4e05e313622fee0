"""Does the index hold what the collection has? Only reads; pages that the index has yet to take in are no problem."""

from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import tantivy

from opilio.crawl.pagefeed import PageFeed
from opilio.index.faults import told_well
from opilio.index.fulltext import FOLDER, FullText, only_readable, writing
from opilio.index.manifest import Manifest
from opilio.index.records import FOREVER
from opilio.model.errors import CollectionError
from opilio.store.collection import Collection

INDEX = "index: "  # how every problem told here begins
ADVICE = "'opilio index rebuild' makes it again"


def index_problems(collection: Collection) -> Iterator[str]:
    """What is wrong with the index of a collection; nothing where there is none."""
    folder = collection.folder / FOLDER
    if not (folder / "derived.db").exists():
        return
    try:
        with told_well(folder), closing(Manifest(folder)) as manifest:
            mark, dropped = manifest.mark("seq"), manifest.mark("dropped")
            known = dict(manifest.connection.execute("SELECT key, seq FROM entry"))
    except CollectionError as error:
        yield f"{INDEX}{error}"
        return
    if dropped != PageFeed(collection).dropped():
        return  # of another past: it is made again when it is next caught up
    yield from _missing(collection, known, mark)
    yield from _left_over(collection, known, mark)
    yield from _engine(collection, len(known), _past(collection, mark))


def _missing(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    rows = collection.connection.execute(
        "SELECT key, seq, url FROM page WHERE duplicate_of = 0 AND noindex = 0 AND seq <= ? ORDER BY seq", (mark,)
    )
    for key, seq, url in rows:
        if known.get(key, -1) < seq:
            yield f"{INDEX}lacks {url} or holds an older version; {ADVICE}"


def _left_over(collection: Collection, known: dict[int, int], mark: int) -> Iterator[str]:
    """Documents of pages that are gone, that the index should know of."""
    there = {key for (key,) in collection.connection.execute("SELECT key FROM page")}
    ending = {key for (key,) in collection.connection.execute("SELECT key FROM version WHERE ended > ?", (mark,))}
    for key, seq in known.items():
        if key not in there and key not in ending and seq <= mark:
            yield f"{INDEX}holds a page that the collection no longer has (key {key}); {ADVICE}"


def _past(collection: Collection, mark: int) -> int:
    """How many versions that are past the index should hold."""
    sql = "SELECT count(*) FROM version WHERE duplicate_of = 0 AND noindex = 0 AND ended <= ?"
    return int(collection.connection.execute(sql, (mark,)).fetchone()[0])


def _engine(collection: Collection, documents: int, past: int) -> Iterator[str]:
    """The engine has as many documents as were noted, and as many past ones as there are.

    Not asked while somebody writes: the two move one by one.
    """
    with nullcontext(True) if only_readable(collection.folder) else writing(collection.folder) as ours:
        if not ours:
            return
        try:
            found, found_past = _counts(collection.folder / FOLDER)
        except CollectionError as error:
            yield f"{INDEX}{error}"
            return
        if found != documents:
            yield f"{INDEX}holds {found} pages, {documents} were taken in; {ADVICE}"
        if found_past != past:
            yield f"{INDEX}holds {found_past} past versions of pages, the collection has {past}; {ADVICE}"


def _counts(folder: Path) -> tuple[int, int]:
    """How many documents the engine has of pages as they are now, and as they were."""
    with told_well(folder, engine=(ValueError,)):
        index = FullText(folder)
        query = tantivy.Query.term_query(index.schema, "until", FOREVER)
        searcher = index.searcher()
        current: int = searcher.search(query, 1).count  # type: ignore[attr-defined]  # the stub forgot it
        return current, searcher.num_docs - current
