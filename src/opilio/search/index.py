"""The engine's folder of one collection: opened, read, written. Holds no rule of what is indexed or how.

One process at a time writes (an advisory lock the kernel releases when the process dies), any number read, and a
reader sees whole commits only.

What goes wrong inside an index, as errors of ours. Knows no file of the index; mends nothing.
"""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import tantivy

from opilio.core.errors import CollectionError
from opilio.search.schema import INDEX_VERSION, make_schema, register_analyzers

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# The engine's, on files it did not write; a BaseException that no module offers by name
_PANIC = "PanicException"


class DamagedIndexError(CollectionError):
    """An index can't be read. It is derived: whoever may write throws it away and makes it again."""


@contextmanager
def translate_index_errors(*folders: Path, engine: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Errors of the engine and of `derived.db`, of one of these index folders, in one line that says what to do.

    `engine`: what the engine raises inside, where nobody else raises it.
    """
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise _damaged(folders, error) from error
        raise CollectionError(f"{_named(folders)}: the index can't be used: {error}") from error
    except engine as error:
        raise _damaged(folders, error) from error
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise _damaged(folders, error) from error


def _named(folders: tuple[Path, ...]) -> str:
    return " or ".join(map(str, folders))


def _damaged(folders: tuple[Path, ...], error: BaseException) -> DamagedIndexError:
    told = " ".join(str(error).split())[:200]
    collections = _named(tuple(folder.parent for folder in folders))
    advice = f"'opilio maintain reindex {collections}' makes it again"
    return DamagedIndexError(f"{_named(folders)}: the index can't be read: {told}; {advice}")


INDEX_FOLDER = "index"
INDEX_LOCK_FILE = "index.lock"
VERSION_FILE = "version"
CHANGED_FILE = "changed"  # touched when what was worked out from all pages is new
ENGINE_FOLDER = "terms"  # the engine's own folder
# What the engine goes by: without it, it knows of no document
ENGINE_META_FILE = f"{ENGINE_FOLDER}/meta.json"
HEAP_BYTES = 64_000_000
# Files of the engine that it lets only its own user read
PRIVATE_FILES = ("meta.json", ".managed.json")


class FullTextIndex:
    """The engine's files in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema = make_schema()
        with (
            translate_index_errors(folder, engine=(ValueError, OSError)),
            _lockable_folder(folder / ENGINE_FOLDER) as place,
        ):
            self._index = tantivy.Index(self.schema, path=str(place))
            # Else a thread reads it all again whenever somebody commits
            self._index.config_reader("Manual")
        register_analyzers(self._index)

    def searcher(self) -> tantivy.Searcher:
        """The index as it was when it was opened."""
        return self._index.searcher()

    @contextmanager
    def writer(self) -> Iterator["FullTextWriter"]:
        """To change the index; only inside `index_write_lock`. Leaving it waits for merges, so files are whole."""
        with _translate_write_errors(self.folder):
            engine = self._index.writer(HEAP_BYTES, 1)
        try:
            yield FullTextWriter(engine, self.folder)
        finally:
            with _translate_write_errors(self.folder):
                engine.wait_merging_threads()
            _copy_read_permission(self.folder)


class FullTextWriter:
    """Changes on their way into the index: nobody sees them before `commit`."""

    def __init__(self, engine: tantivy.IndexWriter, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    def put(self, id_: str, document: tantivy.Document) -> None:
        """A document in the place of the one that had its id."""
        with _translate_write_errors(self._folder):
            self._engine.delete_documents_by_term("id", id_)
            self._engine.add_document(document)

    def remove(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            self._engine.delete_documents_by_term("id", id_)

    def commit(self) -> None:
        with _translate_write_errors(self._folder):
            self._engine.commit()
        _copy_read_permission(self._folder)


@contextmanager
def _translate_write_errors(folder: Path) -> Iterator[None]:
    """What the engine says where it can't write (no space, no folder any more), as an error of ours."""
    try:
        yield
    except ValueError as error:
        told = " ".join(str(error).split())[:200]
        raise CollectionError(f"{folder}: the index can't be written: {told}; the collection is whole") from error


@contextmanager
def _lockable_folder(terms: Path) -> Iterator[Path]:
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


def _copy_read_permission(folder: Path) -> None:
    """Whoever may read the rest of the index may read all of it."""
    # Whoever took the index away meanwhile, or gave it to another user, knows better
    with suppress(OSError):
        mode = (folder / VERSION_FILE).stat().st_mode
        for name in PRIVATE_FILES:
            (folder / ENGINE_FOLDER / name).chmod(mode)


def prepare_index_folder(collection: Path) -> Path:
    """The index folder of a collection, made where it is missing, emptied where another version made it.

    Only inside `index_write_lock`.
    """
    folder = collection / INDEX_FOLDER
    try:
        if not _is_current_version(folder):
            delete_index(collection)
            (folder / ENGINE_FOLDER).mkdir(parents=True, exist_ok=True)
            (folder / VERSION_FILE).write_text(str(INDEX_VERSION), encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def readable_index_folder(collection: Path) -> Path:
    """The index folder of a collection for reading; an empty index where there is none that can be read."""
    folder = collection / INDEX_FOLDER
    if not _is_current_version(folder):
        if is_read_only(collection):
            told = "has no index that can be read, and none can be made in a folder that can't be written"
            raise CollectionError(f"{collection}: {told}; copy it elsewhere, or let its owner search it once")
        with index_write_lock(collection) as ours:
            if ours:
                prepare_index_folder(collection)
    return folder


def is_read_only(collection: Path) -> bool:
    """Is the index somebody else's (or on a disc, in a snapshot), so that it can be read but never changed?"""
    folder = collection / INDEX_FOLDER
    return not os.access(folder if folder.exists() else collection, os.W_OK)


def index_generation(collection: Path) -> tuple[int, ...]:
    """Changes whenever the index does: what was read before must be read again."""
    return tuple(_changed_at(collection / INDEX_FOLDER / name) for name in (ENGINE_META_FILE, CHANGED_FILE))


def touch_generation(folder: Path) -> None:
    """Something beside the engine's files has changed."""
    # Whoever took the index away has told everything
    with suppress(FileNotFoundError):
        (folder / CHANGED_FILE).touch()


def _changed_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def _is_current_version(folder: Path) -> bool:
    stamp = folder / VERSION_FILE
    written = stamp.read_text(encoding="utf-8", errors="replace") if stamp.exists() else ""
    return written == str(INDEX_VERSION) and (folder / ENGINE_META_FILE).exists()


def _unwritable(folder: Path, error: OSError) -> CollectionError:
    return CollectionError(f"{folder}: can't be written: {error.strerror}; the index needs a place to be made in")


def delete_index(collection: Path) -> None:
    """Throw the index away: it is made again from the collection."""
    folder = collection / INDEX_FOLDER
    for path in folder.iterdir() if folder.exists() else ():
        if path.name == INDEX_LOCK_FILE:
            continue
        # A reader's own, which is gone with it
        with suppress(FileNotFoundError):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def index_write_lock(collection: Path) -> Iterator[bool]:
    """True where this process may write the index now, False where another one does."""
    folder = collection / INDEX_FOLDER
    try:
        folder.mkdir(exist_ok=True)
        lock = (folder / INDEX_LOCK_FILE).open("a", encoding="utf-8")
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
