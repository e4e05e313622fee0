"""Updates the index of a collection: reads what changed, parses it again and indexes it.

Runs in processes that search or serve, never in the one that crawls. Incremental by the number of the last indexed
response, idempotent, and safe if killed at any time. Data that depends on the whole collection (subtopics, anchors of
links found later) is recomputed when the collection has grown considerably, and when no crawl is running.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import tantivy

from opilio.parse.html import HtmlParser
from opilio.search.clusters import (
    SubtopicCentroid,
    SubtopicClassifier,
    TermDistinctiveness,
    cluster_pages,
    count_stems,
    pack_stems,
    unpack_stems,
)
from opilio.search.documents import BATCH_ANSWERS, DocumentReader, UnparsedDocument, complete_document
from opilio.search.index import (
    DamagedIndexError,
    FullTextIndex,
    FullTextWriter,
    delete_index,
    index_files,
    index_write_lock,
    is_read_only,
    is_segment_file,
    prepare_index_folder,
    read_index,
    readable_index_folder,
    touch_generation,
    translate_index_errors,
)
from opilio.search.manifest import IndexManifest, ManifestEntry, store_meanings
from opilio.search.meaning import page_vectors
from opilio.search.results import FOREVER, IndexDocument, IndexProgress
from opilio.search.schema import document_id, to_engine_document
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import has_writer
from opilio.store.run_tables import INDEX_ALIAS_KEY, INDEX_SERVER_KEY
from opilio.store.seal import read_seal, remove_seal, write_seal

if TYPE_CHECKING:
    from opilio.search.opensearch.index import OpenSearchIndex

_encode = msgspec.msgpack.Encoder().encode
_weights = msgspec.msgpack.Decoder(dict[str, float]).decode


class DocumentIndexer:
    """Indexes documents. Every step is idempotent, so that a kill only costs time."""

    def __init__(self, writer: FullTextWriter, manifest: IndexManifest) -> None:
        self._writer = writer
        self._manifest = manifest
        self._subtopics = stored_subtopics(manifest)

    def index_batch(self, documents: Sequence[IndexDocument], removed: Sequence[int], **marks: int) -> None:
        """Index a batch: commit the engine first, then the manifest."""
        entries = [self._index_document(document) for document in documents]
        self._writer.remove(f"{key:x}" for key in removed)
        if documents or removed:
            self._writer.commit()
        with self._manifest.transaction():
            self._manifest.write_entries(entry for entry in entries if entry is not None)
            self._manifest.delete_entries(removed)
            if None in entries:
                # From now on a search must exclude past versions.
                marks["versions"] = 1
            self._manifest.set_marks(**marks)

    def _index_document(self, page: IndexDocument) -> ManifestEntry | None:
        words = count_stems(page) if page.relevant and page.until == FOREVER else []
        subtopic = self._subtopics.classify(words) if words else ""
        self._writer.put(document_id(page), to_engine_document(page, subtopic))
        if page.until != FOREVER:
            return None
        return ManifestEntry(
            key=page.key,
            seq=page.seq,
            parent_count=page.parent_count,
            relevant=page.relevant,
            words=pack_stems(words) if words else b"",
            subtopic=subtopic,
            vectors=page_vectors(page),
        )

    def update_subtopics(self, searcher: tantivy.Searcher) -> None:
        """Recompute the subtopics. Documents are reindexed later: see `keys_with_stale_subtopic`."""
        rows = self._manifest.connection.execute("SELECT words FROM entry WHERE relevant ORDER BY key").fetchall()
        centres = cluster_pages([unpack_stems(blob) for (blob,) in rows], TermDistinctiveness(searcher).weight)
        with self._manifest.transaction():
            self._manifest.write_subtopics([(c.name, "\n".join(c.words), _encode(c.weights)) for c in centres])
            self._manifest.set_marks(divided=len(rows))
        self._subtopics = stored_subtopics(self._manifest)

    def keys_with_stale_subtopic(self) -> list[int]:
        """Keys of documents whose subtopic has changed."""
        rows = self._manifest.connection.execute("SELECT key, words, subtopic FROM entry WHERE relevant ORDER BY key")
        return [key for key, words, subtopic in rows if self._subtopics.classify(unpack_stems(words)) != subtopic]

    def keys_with_new_parents(self, parents: Iterable[tuple[int, int]]) -> list[int]:
        """Keys of documents with more known links than when they were indexed."""
        known = dict(self._manifest.connection.execute("SELECT key, parents FROM entry"))
        return [key for key, count in parents if count > known.get(key, count)]


def stored_subtopics(manifest: IndexManifest) -> SubtopicClassifier:
    """The subtopics as last computed."""
    rows = manifest.subtopics()
    return SubtopicClassifier(
        [SubtopicCentroid(name, tuple(words.split("\n")), _weights(centre)) for name, words, centre in rows]
    )


# Growth of the relevant pages after which subtopics are recomputed.
RECOMPUTE_GROWTH_FACTOR = 1.25


def update_index(folder: Path, limit: int = 0) -> IndexProgress:
    """Index new pages of a collection, at most about `limit` (0: all). Cheap if nothing is new.

    A damaged index is rebuilt; an index that can't be written stays as it is.
    """
    # The collection is opened once more under the lock: marks that were read before it may be older than the index.
    if (remote := remote_index(folder)) is not None:
        return remote.update_indexes()
    if is_read_only(folder):
        return IndexProgress(waiting=count_unindexed(folder), read_only=True)
    with index_write_lock(folder) as locked:
        if not locked:
            return IndexProgress(busy=True, waiting=count_unindexed(folder))
        try:
            return _update_locked(folder, limit)
        except DamagedIndexError:
            delete_index(folder)
            return _update_locked(folder, limit)


def _update_locked(folder: Path, limit: int) -> IndexProgress:
    """Update an index; the caller holds `index_write_lock`."""
    place = prepare_index_folder(folder)
    with translate_index_errors(place):
        state = _index_state(folder, place)
        if state is IndexState.DIVERGED:
            delete_index(folder)
            prepare_index_folder(folder)
        if state is IndexState.UP_TO_DATE:
            return IndexProgress()
        unchanged = {name: blocks for name, blocks in (read_seal(place) or {}).items() if is_segment_file(place, name)}
        manifest = IndexManifest(place)
        try:
            # Before reading, so that versions dropped from now on are noticed.
            if state is IndexState.DIVERGED:
                manifest.set_marks(dropped=_dropped_versions(folder))
            # Killed on the way, the index has no checksums.
            remove_seal(place)
            progress = _IndexUpdate(folder, FullTextIndex(place), manifest).run(limit)
            store_meanings(place, manifest)
        finally:
            manifest.close()
            touch_generation(place)
        write_seal(place, index_files(place), unchanged)
        return progress


class IndexState(Enum):
    """How an index relates to its collection."""

    UP_TO_DATE = auto()
    BEHIND = auto()
    DIVERGED = auto()  # it contains more than the collection


def _dropped_versions(folder: Path) -> int:
    with open_readonly(folder) as collection:
        return DocumentReader(collection).dropped_versions()


def _index_state(folder: Path, place: Path) -> IndexState:
    """The state of an index. It has diverged if the collection was restored from a backup or replaced, or old versions
    were dropped: then it is unknown which of its documents are valid."""
    # Checked first, so that everything written before is covered.
    quiet = not has_writer(folder)
    manifest = IndexManifest(place)
    try:
        with open_readonly(folder) as collection:
            reader = DocumentReader(collection)
            ahead = (reader.last_seq() - manifest.mark("seq"), reader.last_label() - manifest.mark("label"))
            same_past = reader.dropped_versions() == manifest.mark("dropped")
        if min(ahead) < 0 or not same_past:
            return IndexState.DIVERGED
        unsettled = quiet and manifest.mark("settled") < manifest.mark("seq")
        return IndexState.BEHIND if max(ahead) or unsettled else IndexState.UP_TO_DATE
    finally:
        manifest.close()


def remote_index(folder: Path, name: str = "") -> "OpenSearchIndex | None":
    """The index of a collection on an OpenSearch server; None: its index is embedded."""
    with open_readonly(folder) as collection:
        server, alias = collection.meta(INDEX_SERVER_KEY), collection.meta(INDEX_ALIAS_KEY)
    if not server:
        return None
    from opilio.search.opensearch.index import OpenSearchClient, OpenSearchIndex

    return OpenSearchIndex(folder, OpenSearchClient(server), alias, name)


def set_index_server(folder: Path, server: str, alias: str) -> None:
    """Let every reader of a collection use the index on this server; empty: the embedded one."""
    with closing(Collection.open_for_append(folder)) as collection, collection.unit_of_work():
        collection.set_meta(**{INDEX_SERVER_KEY: server, INDEX_ALIAS_KEY: alias})


def count_unindexed(folder: Path) -> int:
    """The number of pages that are not indexed yet; all pages if the index must be rebuilt."""
    if (remote := remote_index(folder)) is not None:
        return remote.count_unindexed()
    with open_readonly(folder) as collection:
        reader = DocumentReader(collection)
        dropped = reader.dropped_versions()
        return reader.count_pages_after(
            read_index(folder, lambda: _indexed_seq(readable_index_folder(folder), dropped))
        )


def _indexed_seq(place: Path, dropped: int) -> int:
    try:
        with translate_index_errors(place), closing(IndexManifest(place)) as manifest:
            return manifest.mark("seq") if manifest.mark("dropped") == dropped else 0
    except DamagedIndexError:
        return 0


def rebuild_index(folder: Path) -> IndexProgress:
    """Delete the index and build it again."""
    if (remote := remote_index(folder)) is not None:
        return remote.rebuild()
    with index_write_lock(folder) as locked:
        if not locked:
            return IndexProgress(busy=True)
        # One lock for both steps, so that readers wait instead of finding no index.
        delete_index(folder)
        done = _update_locked(folder, limit=0)
    # Pages with new links are indexed twice; report the number of documents in the end.
    return msgspec.structs.replace(done, indexed=FullTextIndex(readable_index_folder(folder)).searcher().num_docs)


class _IndexUpdate:
    """One update of an index, under its lock."""

    def __init__(self, folder: Path, index: FullTextIndex, manifest: IndexManifest) -> None:
        self._folder = folder
        self._index = index
        self._manifest = manifest
        self._parser = HtmlParser(paths=False)
        self._indexed = self._removed = 0

    def run(self, limit: int) -> IndexProgress:
        quiet = not has_writer(self._folder)
        with self._index.writer() as writer:
            indexer = DocumentIndexer(writer, self._manifest)
            while self._index_next_batch(indexer) and not (limit and self._indexed >= limit):
                pass
            if not limit or self._indexed < limit:
                self._index_relabeled(indexer)
                self._update_derived(indexer, quiet=quiet)
        return IndexProgress(indexed=self._indexed, removed=self._removed, waiting=count_unindexed(self._folder))

    def _index_next_batch(self, indexer: DocumentIndexer) -> bool:
        """Index one batch of responses; False if there are no more."""
        after = self._manifest.mark("seq")
        with open_readonly(self._folder) as collection:
            reader = DocumentReader(collection)
            upto = min(after + BATCH_ANSWERS, reader.last_seq())
            if upto <= after:
                return False
            changes = reader.changes(after, upto)
        self._index_pages(indexer, changes.pages, changes.removed, seq=upto)
        self._removed += len(changes.removed)
        return True

    def _index_pages(
        self, indexer: DocumentIndexer, pages: Sequence[UnparsedDocument], removed: Sequence[int] = (), **marks: int
    ) -> None:
        indexer.index_batch([complete_document(self._folder, page, self._parser) for page in pages], removed, **marks)
        self._indexed += len(pages)

    def _index_relabeled(self, indexer: DocumentIndexer) -> None:
        """Reindex pages that the user labelled."""
        with open_readonly(self._folder) as collection:
            reader = DocumentReader(collection)
            keys, last = reader.labeled_since(self._manifest.mark("label"))
            pages = reader.pages(keys)
        self._index_pages(indexer, pages, label=last)

    def _update_derived(self, indexer: DocumentIndexer, *, quiet: bool) -> None:
        """Recompute data that depends on all pages, if it is due."""
        relevant = self._manifest.count(relevant_only=True)
        if quiet or relevant >= RECOMPUTE_GROWTH_FACTOR * self._manifest.mark("divided"):
            if relevant != self._manifest.mark("divided"):
                indexer.update_subtopics(FullTextIndex(self._index.folder).searcher())
            self._reindex(indexer, indexer.keys_with_stale_subtopic())
        if quiet:
            with open_readonly(self._folder) as collection:
                outdated = indexer.keys_with_new_parents(DocumentReader(collection).parent_counts())
            self._reindex(indexer, outdated)
            self._manifest.set_marks(settled=self._manifest.mark("seq"))

    def _reindex(self, indexer: DocumentIndexer, keys: Sequence[int]) -> None:
        """Index pages again in their current state."""
        for first in range(0, len(keys), BATCH_ANSWERS):
            with open_readonly(self._folder) as collection:
                pages = DocumentReader(collection).pages(keys[first : first + BATCH_ANSWERS])
            self._index_pages(indexer, pages)
