"""Documents into the index, with what is noted of each: the writing half. Knows nothing of collections."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import tantivy

from opilio.index.authority import authority
from opilio.index.fulltext import Writer
from opilio.index.manifest import Entry, Manifest
from opilio.index.pagewords import pack, unpack, words_of
from opilio.index.records import FOREVER, Document
from opilio.index.schema import as_document, id_of
from opilio.index.subtopics import Centre, Subtopics, cluster
from opilio.index.telling import Telling

_encode = msgspec.msgpack.Encoder().encode
_weights = msgspec.msgpack.Decoder(dict[str, float]).decode


class Intake:
    """Takes documents in. Everything it does may be done twice: a kill costs work, nothing else."""

    def __init__(self, writer: Writer, manifest: Manifest) -> None:
        self._writer = writer
        self._manifest = manifest
        self._subtopics = stored_subtopics(manifest)

    def take(self, documents: Sequence[Document], removed: Sequence[int], **marks: int) -> None:
        """One batch: the engine's commit first, then what is noted of it."""
        entries = [self._put(document) for document in documents]
        self._writer.remove(f"{key:x}" for key in removed)
        if documents or removed:
            self._writer.commit()
        with self._manifest.one_change():
            self._manifest.keep(entry for entry in entries if entry is not None)
            self._manifest.drop(removed)
            if None in entries:
                marks["versions"] = 1  # from now on a search must tell the present from the past
            self._manifest.set_marks(**marks)

    def _put(self, page: Document) -> Entry | None:
        words = words_of(page) if page.relevant and page.until == FOREVER else []
        subtopic = self._subtopics.of(words) if words else ""
        self._writer.put(id_of(page), as_document(page, subtopic))
        if page.until != FOREVER:
            return None
        return Entry(
            key=page.key,
            seq=page.seq,
            parents=page.parents,
            relevant=page.relevant,
            targets=page.targets,
            words=pack(words) if words else b"",
            subtopic=subtopic,
        )

    def weigh(self, hosts: dict[int, str]) -> None:
        """Work the authority of all pages out anew."""
        rows = self._manifest.connection.execute("SELECT key, targets FROM entry ORDER BY key").fetchall()
        keys = np.array([key for key, _ in rows], dtype=np.int64)
        numbers: dict[str, int] = {}
        of_host = np.array([numbers.setdefault(hosts.get(int(k), ""), len(numbers)) for k in keys], dtype=np.int64)
        shares = authority(keys, of_host, [blob for _, blob in rows])
        with self._manifest.one_change():
            self._manifest.keep_authority(keys, shares)
            self._manifest.set_marks(weighed=len(keys))

    def divide(self, searcher: tantivy.Searcher) -> None:
        """Work the subtopics out anew. Documents follow when they are taken in again: see `misplaced`."""
        rows = self._manifest.connection.execute("SELECT words FROM entry WHERE relevant ORDER BY key").fetchall()
        centres = cluster([unpack(blob) for (blob,) in rows], Telling(searcher).weight)
        with self._manifest.one_change():
            self._manifest.keep_subtopics([(c.name, "\n".join(c.words), _encode(c.weights)) for c in centres])
            self._manifest.set_marks(divided=len(rows))
        self._subtopics = stored_subtopics(self._manifest)

    def misplaced(self) -> list[int]:
        """Keys of documents whose subtopic is another one by now."""
        rows = self._manifest.connection.execute("SELECT key, words, subtopic FROM entry WHERE relevant ORDER BY key")
        return [key for key, words, subtopic in rows if self._subtopics.of(unpack(words)) != subtopic]

    def outdated(self, parents: Iterable[tuple[int, int]]) -> list[int]:
        """Keys of documents for which more links are known than when they were taken in."""
        known = dict(self._manifest.connection.execute("SELECT key, parents FROM entry"))
        return [key for key, count in parents if count > known.get(key, count)]


def stored_subtopics(manifest: Manifest) -> Subtopics:
    """The subtopics as they were worked out last."""
    rows = manifest.subtopics()
    return Subtopics([Centre(name, tuple(words.split("\n")), _weights(centre)) for name, words, centre in rows])
