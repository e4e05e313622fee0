"""From a collection to its index: what changed since the index last looked is read, parsed again and taken in.

Runs in whoever reads (search, serve), never in the process that crawls. Incremental by the number of the last commit
that was taken in, idempotent, and safe against a kill at any moment: what is half done is done again.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from opilio.index.fulltext import FullText, Writer, prepare, wipe, writing
from opilio.index.manifest import Manifest
from opilio.index.records import Document, Progress
from opilio.index.schema import as_document, id_of
from opilio.model.errors import ParseError
from opilio.model.records import Page
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection, check, reading
from opilio.store.warc import read_record

BATCH = 500
_FIELDS = "key, seq, url, host, title, description, language, genre, score, relevant, fetched_at, warc, offset, length"
# Copies of another page and pages that ask not to be indexed stay outside.
_WANTED = "duplicate_of = 0 AND noindex = 0"


def catch_up(folder: Path, most: int = 0) -> Progress:
    """Take in what the collection has gained, at most so many pages (0: all)."""
    check(folder)
    with writing(folder) as ours:
        if not ours:
            return Progress(busy=True)
        place = prepare(folder)
        manifest = Manifest(place)
        try:
            return _Intake(folder, FullText(place), manifest).run(most)
        finally:
            manifest.close()


def rebuild(folder: Path) -> Progress:
    """Throw the index away and make it again."""
    check(folder)
    with writing(folder) as ours:
        if not ours:
            return Progress(busy=True)
        wipe(folder)
    return catch_up(folder)


class _Intake:
    """One catching up, under the lock of the index."""

    def __init__(self, folder: Path, index: FullText, manifest: Manifest) -> None:
        self._folder = folder
        self._index = index
        self._manifest = manifest
        self._parser = HtmlParser(paths=False)

    def run(self, most: int) -> Progress:
        indexed = removed = 0
        with self._index.writer() as writer:
            while not most or indexed < most:
                with reading(self._folder) as collection:
                    rows = self._rows(collection, min(BATCH, most - indexed) if most else BATCH)
                    if not rows:
                        break
                    documents = [self._document(row) for row in rows]
                indexed += len(documents)
                self._take(writer, documents, rows[-1][1])
        return Progress(indexed=indexed, removed=removed)

    def _rows(self, collection: Collection, limit: int) -> list[tuple[Any, ...]]:
        return collection.connection.execute(
            f"SELECT {_FIELDS} FROM page WHERE seq > ? AND {_WANTED} ORDER BY seq LIMIT ?",
            (self._manifest.mark("seq"), limit),
        ).fetchall()

    def _take(self, writer: Writer, documents: Sequence[Document], seq: int) -> None:
        for document in documents:
            writer.put(id_of(document), as_document(document))
        writer.commit()
        self._manifest.keep((d.key, d.seq, d.parents, d.relevant, d.targets, b"") for d in documents)
        self._manifest.set_marks(seq=seq)

    def _document(self, row: tuple[Any, ...]) -> Document:
        key, seq, url, host, title, description, language, genre, score, relevant, at, *place = row
        page = self._page(place)
        return Document(
            key=key, seq=seq, url=url, host=host, title=title, description=description, language=language,
            genre=genre, score=score, relevant=bool(relevant), date=at, fetched_at=at,
            headings="\n".join(text for _, text in page.headings), body=page.main_text,
        )  # fmt: skip

    def _page(self, place: Sequence[int]) -> Page:
        """The stored page, read again; an empty one where it no longer reads as a page."""
        if place[2]:
            with suppress(ParseError):
                return self._parser.parse(read_record(self._folder, *place))
        return Page(url="")
