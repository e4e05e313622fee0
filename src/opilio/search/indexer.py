"""Documents into the index, with what is noted of each: the writing half. Knows nothing of collections.

From a collection to its index: what changed since the index last looked is read, parsed again and taken in.

Runs in whoever reads (search, serve), never in the process that crawls. Incremental by the number of the last answer
that was taken in, idempotent, and safe against a kill at any moment: what is half done is done again.

What depends on the whole collection (authority, subtopics, texts of links found later) is worked out anew when the
collection has grown by a good part, and once more when nobody writes to it.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from enum import Enum, auto
from pathlib import Path

import msgspec
import numpy as np
import tantivy

from opilio.parse.html import HtmlParser
from opilio.search.authority import compute_authority
from opilio.search.clusters import (
    SubtopicCentroid,
    SubtopicClassifier,
    TermDistinctiveness,
    cluster_pages,
    count_stems,
    pack_stems,
    unpack_stems,
)
from opilio.search.documents import DocumentReader, UnparsedDocument, complete_document
from opilio.search.index import (
    DamagedIndexError,
    FullTextIndex,
    FullTextWriter,
    delete_index,
    index_write_lock,
    is_read_only,
    prepare_index_folder,
    readable_index_folder,
    touch_generation,
    translate_index_errors,
)
from opilio.search.manifest import IndexManifest, ManifestEntry
from opilio.search.results import FOREVER, IndexDocument, IndexProgress
from opilio.search.schema import document_id, to_engine_document
from opilio.store.collection import check_collection, open_readonly
from opilio.store.locks import has_writer

_encode = msgspec.msgpack.Encoder().encode
_weights = msgspec.msgpack.Decoder(dict[str, float]).decode


class DocumentIndexer:
    """Takes documents in. Everything it does may be done twice: a kill costs work, nothing else."""

    def __init__(self, writer: FullTextWriter, manifest: IndexManifest) -> None:
        self._writer = writer
        self._manifest = manifest
        self._subtopics = stored_subtopics(manifest)

    def index_batch(self, documents: Sequence[IndexDocument], removed: Sequence[int], **marks: int) -> None:
        """One batch: the engine's commit first, then what is noted of it."""
        entries = [self._index_document(document) for document in documents]
        self._writer.remove(f"{key:x}" for key in removed)
        if documents or removed:
            self._writer.commit()
        with self._manifest.transaction():
            self._manifest.write_entries(entry for entry in entries if entry is not None)
            self._manifest.delete_entries(removed)
            if None in entries:
                # From now on a search must tell the present from the past
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
            target_keys=page.target_keys,
            words=pack_stems(words) if words else b"",
            subtopic=subtopic,
        )

    def update_authority(self, hosts: dict[int, str]) -> None:
        """Work the authority of all pages out anew."""
        rows = self._manifest.connection.execute("SELECT key, targets FROM entry ORDER BY key").fetchall()
        keys = np.array([key for key, _ in rows], dtype=np.int64)
        numbers: dict[str, int] = {}
        of_host = np.array([numbers.setdefault(hosts.get(int(k), ""), len(numbers)) for k in keys], dtype=np.int64)
        shares = compute_authority(keys, of_host, [blob for _, blob in rows])
        with self._manifest.transaction():
            self._manifest.write_authority(keys, shares)
            self._manifest.set_marks(weighed=len(keys))

    def update_subtopics(self, searcher: tantivy.Searcher) -> None:
        """Work the subtopics out anew. Documents follow when they are taken in again: see `misplaced`."""
        rows = self._manifest.connection.execute("SELECT words FROM entry WHERE relevant ORDER BY key").fetchall()
        centres = cluster_pages([unpack_stems(blob) for (blob,) in rows], TermDistinctiveness(searcher).weight)
        with self._manifest.transaction():
            self._manifest.write_subtopics([(c.name, "\n".join(c.words), _encode(c.weights)) for c in centres])
            self._manifest.set_marks(divided=len(rows))
        self._subtopics = stored_subtopics(self._manifest)

    def keys_with_stale_subtopic(self) -> list[int]:
        """Keys of documents whose subtopic is another one by now."""
        rows = self._manifest.connection.execute("SELECT key, words, subtopic FROM entry WHERE relevant ORDER BY key")
        return [key for key, words, subtopic in rows if self._subtopics.classify(unpack_stems(words)) != subtopic]

    def keys_with_new_parents(self, parents: Iterable[tuple[int, int]]) -> list[int]:
        """Keys of documents for which more links are known than when they were taken in."""
        known = dict(self._manifest.connection.execute("SELECT key, parents FROM entry"))
        return [key for key, count in parents if count > known.get(key, count)]


def stored_subtopics(manifest: IndexManifest) -> SubtopicClassifier:
    """The subtopics as they were worked out last."""
    rows = manifest.subtopics()
    return SubtopicClassifier(
        [SubtopicCentroid(name, tuple(words.split("\n")), _weights(centre)) for name, words, centre in rows]
    )


BATCH_ANSWERS = 250  # answers of one commit
# Times as many pages as last time: work out anew what depends on all of them
RECOMPUTE_GROWTH_FACTOR = 1.25


def update_index(folder: Path, most: int = 0) -> IndexProgress:
    """Take in what the collection gained, at most about so many pages (0: all). A few looks where nothing is new.

    An index that can't be read is made again; one that can't be written stays as it is.
    """
    check_collection(folder)
    if is_read_only(folder):
        return IndexProgress(waiting=count_unindexed(folder), read_only=True)
    with index_write_lock(folder) as ours:
        if not ours:
            return IndexProgress(busy=True, waiting=count_unindexed(folder))
        try:
            return _update_locked(folder, most)
        except DamagedIndexError:
            delete_index(folder)
            return _update_locked(folder, most)


def _update_locked(folder: Path, most: int) -> IndexProgress:
    """Only inside `writing`."""
    place = prepare_index_folder(folder)
    with translate_index_errors(place):
        stands = _index_state(folder, place)
        if stands is IndexState.DIVERGED:
            delete_index(folder)
            prepare_index_folder(folder)
        if stands is IndexState.UP_TO_DATE:
            return IndexProgress()
        manifest = IndexManifest(place)
        try:
            # Before anything is read: what is dropped from now on makes it so again
            if stands is IndexState.DIVERGED:
                manifest.set_marks(dropped=_dropped_versions(folder))
            return _IndexUpdate(folder, FullTextIndex(place), manifest).run(most)
        finally:
            manifest.close()
            touch_generation(place)


class IndexState(Enum):
    """Where an index stands."""

    UP_TO_DATE = auto()
    BEHIND = auto()
    DIVERGED = auto()  # it has seen more than the collection has


def _dropped_versions(folder: Path) -> int:
    with open_readonly(folder) as collection:
        return DocumentReader(collection).dropped_versions()


def _index_state(folder: Path, place: Path) -> IndexState:
    """An index that has seen more than there is belongs to another past (the collection was put back from a copy,
    another one took its place, or old versions were dropped): nothing says which of its documents still hold."""
    # Asked first: what is settled now is settled for all that was written
    quiet = not has_writer(folder)
    manifest = IndexManifest(place)
    try:
        with open_readonly(folder) as collection:
            feed = DocumentReader(collection)
            ahead = (feed.last_seq() - manifest.mark("seq"), feed.last_label() - manifest.mark("label"))
            same_past = feed.dropped_versions() == manifest.mark("dropped")
        if min(ahead) < 0 or not same_past:
            return IndexState.DIVERGED
        unsettled = quiet and manifest.mark("settled") < manifest.mark("seq")
        return IndexState.BEHIND if max(ahead) or unsettled else IndexState.UP_TO_DATE
    finally:
        manifest.close()


def count_unindexed(folder: Path) -> int:
    """How many pages of a collection its index has not taken in yet: all, where it must be made again."""
    with open_readonly(folder) as collection:
        feed = DocumentReader(collection)
        return feed.count_pages_after(_indexed_seq(readable_index_folder(folder), feed.dropped_versions()))


def _indexed_seq(place: Path, dropped: int) -> int:
    try:
        with translate_index_errors(place), closing(IndexManifest(place)) as manifest:
            return manifest.mark("seq") if manifest.mark("dropped") == dropped else 0
    except DamagedIndexError:
        return 0


def rebuild_index(folder: Path) -> IndexProgress:
    """Throw the index away and make it again."""
    check_collection(folder)
    with index_write_lock(folder) as ours:
        if not ours:
            return IndexProgress(busy=True)
        delete_index(folder)
    done = update_index(folder)
    # A page that others came to link to was taken in once more: what counts is what is there in the end.
    return msgspec.structs.replace(done, indexed=FullTextIndex(readable_index_folder(folder)).searcher().num_docs)


class _IndexUpdate:
    """One catching up, under the lock of the index."""

    def __init__(self, folder: Path, index: FullTextIndex, manifest: IndexManifest) -> None:
        self._folder = folder
        self._index = index
        self._manifest = manifest
        self._parser = HtmlParser(paths=False)
        self._indexed = self._removed = 0

    def run(self, most: int) -> IndexProgress:
        quiet = not has_writer(self._folder)
        with self._index.writer() as writer:
            intake = DocumentIndexer(writer, self._manifest)
            while self._index_next_batch(intake) and not (most and self._indexed >= most):
                pass
            if not most or self._indexed < most:
                self._index_relabeled(intake)
                self._update_derived(intake, quiet=quiet)
        return IndexProgress(indexed=self._indexed, removed=self._removed, waiting=count_unindexed(self._folder))

    def _index_next_batch(self, intake: DocumentIndexer) -> bool:
        """One batch of answers; False where there are no more."""
        after = self._manifest.mark("seq")
        with open_readonly(self._folder) as collection:
            feed = DocumentReader(collection)
            upto = min(after + BATCH_ANSWERS, feed.last_seq())
            if upto <= after:
                return False
            changes = feed.changes(after, upto)
        self._index_pages(intake, changes.pages, changes.removed, seq=upto)
        self._removed += len(changes.removed)
        return True

    def _index_pages(
        self, intake: DocumentIndexer, pages: Sequence[UnparsedDocument], removed: Sequence[int] = (), **marks: int
    ) -> None:
        intake.index_batch([complete_document(self._folder, page, self._parser) for page in pages], removed, **marks)
        self._indexed += len(pages)

    def _index_relabeled(self, intake: DocumentIndexer) -> None:
        """Pages that a person judged: their verdict is another one now."""
        with open_readonly(self._folder) as collection:
            feed = DocumentReader(collection)
            keys, last = feed.labeled_since(self._manifest.mark("label"))
            pages = feed.pages(keys)
        self._index_pages(intake, pages, label=last)

    def _update_derived(self, intake: DocumentIndexer, *, quiet: bool) -> None:
        """What depends on all pages, where it is time for it."""
        pages, relevant = self._manifest.count(), self._manifest.count(relevant_only=True)
        if quiet or pages >= RECOMPUTE_GROWTH_FACTOR * self._manifest.mark("weighed"):
            with open_readonly(self._folder) as collection:
                hosts = DocumentReader(collection).hosts()
            intake.update_authority(hosts)
        if quiet or relevant >= RECOMPUTE_GROWTH_FACTOR * self._manifest.mark("divided"):
            if relevant != self._manifest.mark("divided"):
                intake.update_subtopics(FullTextIndex(self._index.folder).searcher())
            self._reindex(intake, intake.keys_with_stale_subtopic())
        if quiet:
            with open_readonly(self._folder) as collection:
                outdated = intake.keys_with_new_parents(DocumentReader(collection).parent_counts())
            self._reindex(intake, outdated)
            self._manifest.set_marks(settled=self._manifest.mark("seq"))

    def _reindex(self, intake: DocumentIndexer, keys: Sequence[int]) -> None:
        """Take pages in once more, as they are now."""
        for first in range(0, len(keys), BATCH_ANSWERS):
            with open_readonly(self._folder) as collection:
                pages = DocumentReader(collection).pages(keys[first : first + BATCH_ANSWERS])
            self._index_pages(intake, pages)
