"""The engine's folder of one collection: opened, read, written. Holds no rule of what is indexed or how.

One process at a time writes (an advisory lock the kernel releases when the process dies), any number read, and a
reader sees whole commits only.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import tantivy

from opilio.index.faults import told_well
from opilio.index.schema import VERSION, make_schema, register
from opilio.model.errors import CollectionError

FOLDER = "index"
LOCK = "index.lock"
STAMP = "version"
CHANGED = "changed"  # touched when what was worked out from all pages is new
TERMS = "terms"  # the engine's own folder
ENGINE_STATE = f"{TERMS}/meta.json"  # what the engine goes by: without it, it knows of no document
HEAP_BYTES = 64_000_000
PRIVATE = ("meta.json", ".managed.json")  # files of the engine that it lets only its own user read


class FullText:
    """The engine's files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema = make_schema()
        with told_well(folder, engine=(ValueError, OSError)), _lockable(folder / TERMS) as place:
            self._index = tantivy.Index(self.schema, path=str(place))
            self._index.config_reader("Manual")  # else a thread reads it all again whenever somebody commits
        register(self._index)

    def searcher(self) -> tantivy.Searcher:
        """The index as it was when it was opened."""
        return self._index.searcher()

    @contextmanager
    def writer(self) -> Iterator["Writer"]:
        """To change the index; only inside `writing`. Leaving it waits for merges, so files are whole."""
        with _writing_well(self.folder):
            engine = self._index.writer(HEAP_BYTES, 1)
        try:
            yield Writer(engine, self.folder)
        finally:
            with _writing_well(self.folder):
                engine.wait_merging_threads()
            _let_read(self.folder)


class Writer:
    """Changes on their way into the index: nobody sees them before `commit`."""

    def __init__(self, engine: tantivy.IndexWriter, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    def put(self, id_: str, document: tantivy.Document) -> None:
        """A document in the place of the one that had its id."""
        with _writing_well(self._folder):
            self._engine.delete_documents_by_term("id", id_)
            self._engine.add_document(document)

    def remove(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            self._engine.delete_documents_by_term("id", id_)

    def commit(self) -> None:
        with _writing_well(self._folder):
            self._engine.commit()
        _let_read(self._folder)


@contextmanager
def _writing_well(folder: Path) -> Iterator[None]:
    """What the engine says where it can't write (no space, no folder any more), as an error of ours."""
    try:
        yield
    except ValueError as error:
        told = " ".join(str(error).split())[:200]
        raise CollectionError(f"{folder}: the index can't be written: {told}; the collection is whole") from error


@contextmanager
def _lockable(terms: Path) -> Iterator[Path]:
    """Where the engine can open its files. It makes a lock beside them even to read: where it can't, it is given links
    to them in a folder of ours, which is needed no longer once they are open."""
    if os.access(terms, os.W_OK):
        yield terms
        return
    with TemporaryDirectory(prefix="opilio-") as place:
        for path in terms.iterdir():
            if path.suffix != ".lock":
                (Path(place) / path.name).symlink_to(path.absolute())
        yield Path(place)


def _let_read(folder: Path) -> None:
    """Whoever may read the rest of the index may read all of it."""
    with suppress(OSError):  # whoever took the index away meanwhile, or gave it to another user, knows better
        mode = (folder / STAMP).stat().st_mode
        for name in PRIVATE:
            (folder / TERMS / name).chmod(mode)


def prepare(collection: Path) -> Path:
    """The index folder of a collection, made where it is missing, emptied where another version made it.

    Only inside `writing`.
    """
    folder = collection / FOLDER
    try:
        if not _is_ours(folder):
            wipe(collection)
            (folder / TERMS).mkdir(parents=True, exist_ok=True)
            (folder / STAMP).write_text(str(VERSION), encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def ready(collection: Path) -> Path:
    """The index folder of a collection for reading; an empty index where there is none that can be read."""
    folder = collection / FOLDER
    if not _is_ours(folder):
        if only_readable(collection):
            told = "has no index that can be read, and none can be made in a folder that can't be written"
            raise CollectionError(f"{collection}: {told}; copy it elsewhere, or let its owner search it once")
        with writing(collection) as ours:
            if ours:
                prepare(collection)
    return folder


def only_readable(collection: Path) -> bool:
    """Is the index somebody else's (or on a disc, in a snapshot), so that it can be read but never changed?"""
    folder = collection / FOLDER
    return not os.access(folder if folder.exists() else collection, os.W_OK)


def moment(collection: Path) -> tuple[int, ...]:
    """Changes whenever the index does: what was read before must be read again."""
    return tuple(_changed_at(collection / FOLDER / name) for name in (ENGINE_STATE, CHANGED))


def tell_change(folder: Path) -> None:
    """Something beside the engine's files has changed."""
    with suppress(FileNotFoundError):  # whoever took the index away has told everything
        (folder / CHANGED).touch()


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_ours(folder: Path) -> bool:
    stamp = folder / STAMP
    written = stamp.read_text(encoding="utf-8", errors="replace") if stamp.exists() else ""
    return written == str(VERSION) and (folder / ENGINE_STATE).exists()


def _unwritable(folder: Path, error: OSError) -> CollectionError:
    return CollectionError(f"{folder}: can't be written: {error.strerror}; the index needs a place to be made in")


def wipe(collection: Path) -> None:
    """Throw the index away: it is made again from the collection."""
    folder = collection / FOLDER
    for path in folder.iterdir() if folder.exists() else ():
        if path.name == LOCK:
            continue
        with suppress(FileNotFoundError):  # a reader's own, which is gone with it
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def writing(collection: Path) -> Iterator[bool]:
    """True where this process may write the index now, False where another one does."""
    folder = collection / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        lock = (folder / LOCK).open("a", encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
