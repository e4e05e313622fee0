"""The full-text index of one collection: opening, reading, writing, locking, and translation of its errors.

One process at a time writes (an advisory lock that the kernel releases when the process dies), any number read, and a
reader sees complete commits only.
"""

import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import tantivy

from opilio.core.errors import CollectionError
from opilio.search.schema import INDEX_VERSION, make_schema, register_analyzers
from opilio.store.connection import INDEX_FOLDER, Value, read_patiently
from opilio.store.seal import SEAL_FILE

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
# Raised by the engine for damaged files; a BaseException that no module exports.
_PANIC = "PanicException"


class DamagedIndexError(CollectionError):
    """An index is damaged. It is derived data and can be rebuilt."""


@contextmanager
def translate_index_errors(*folders: Path, engine: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Translate errors of the engine and of `derived.db` in these index folders to one line that says what to do.

    `engine`: exceptions of the engine inside the block, if nothing else raises them.
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
    reason = " ".join(str(error).split())[:200]
    collections = _named(tuple(folder.parent for folder in folders))
    advice = f"run 'opilio maintain reindex {collections}'"
    return DamagedIndexError(f"{_named(folders)}: the index is damaged: {reason}; {advice}")


INDEX_LOCK_FILE = "index.lock"
VERSION_FILE = "version"
CHANGED_FILE = "changed"  # touched when derived data changed
ENGINE_FOLDER = "terms"
# The engine's list of its files; without it the index is empty.
ENGINE_META_FILE = f"{ENGINE_FOLDER}/meta.json"
HEAP_BYTES = 64_000_000
# Files that the engine creates readable only for their owner.
PRIVATE_FILES = ("meta.json", ".managed.json")
_TRANSIENT = (".lock", "-wal", "-shm", ".part")


class FullTextIndex:
    """The engine's index in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.schema = make_schema()
        with (
            translate_index_errors(folder, engine=(ValueError, OSError)),
            _lockable_folder(folder / ENGINE_FOLDER) as place,
        ):
            self._index = tantivy.Index(self.schema, path=str(place))
            # Otherwise a thread reloads the index after every commit.
            self._index.config_reader("Manual")
        register_analyzers(self._index)

    def searcher(self) -> tantivy.Searcher:
        """A searcher of the index as of its opening."""
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
    """Changes of the index, visible after `commit`."""

    def __init__(self, engine: tantivy.IndexWriter, folder: Path) -> None:
        self._engine = engine
        self._folder = folder

    def put(self, id_: str, document: tantivy.Document) -> None:
        """Add a document, replacing the one with the same id."""
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
    """Translate the engine's write errors (no space, folder removed) to CollectionError."""
    try:
        yield
    except ValueError as error:
        reason = " ".join(str(error).split())[:200]
        raise CollectionError(
            f"{folder}: the index can't be written: {reason}; the collection itself is intact"
        ) from error


@contextmanager
def _lockable_folder(terms: Path) -> Iterator[Path]:
    """A folder in which the engine can open its files.

    The engine needs a lock file even for reading. If the folder is read-only, a temporary folder with links to the
    files is used until they are open.
    """
    if os.access(terms, os.W_OK):
        yield terms
        return
    with TemporaryDirectory(prefix="opilio-") as place:
        for path in terms.iterdir():
            if path.suffix != ".lock":
                (Path(place) / path.name).symlink_to(path.absolute())
        yield Path(place)


def _copy_read_permission(folder: Path) -> None:
    """Give the engine's private files the permissions of the others."""
    # The index may have been removed or changed its owner meanwhile.
    with suppress(OSError):
        mode = (folder / VERSION_FILE).stat().st_mode
        for name in PRIVATE_FILES:
            (folder / ENGINE_FOLDER / name).chmod(mode)


def prepare_index_folder(collection: Path) -> Path:
    """The index folder of a collection, created if it is missing, emptied if another version created it.

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
    """The index folder of a collection for reading, with an empty index if there is no usable one."""
    folder = collection / INDEX_FOLDER
    if not _is_current_version(folder):
        if is_read_only(collection):
            reason = "has no usable index, and its folder can't be written"
            raise CollectionError(
                f"{collection}: {reason}; copy it to a writable folder, or let its owner search it once"
            )
        with index_write_lock(collection) as ours:
            if ours:
                prepare_index_folder(collection)
    return folder


def is_read_only(collection: Path) -> bool:
    """True if the index can be read but not written (another owner, a read-only disk)."""
    folder = collection / INDEX_FOLDER
    return not os.access(folder if folder.exists() else collection, os.W_OK)


def read_index(collection: Path, read: Callable[[], Value]) -> Value:
    """What `read` returns from an index. While another process changes it, files may be missing: it is tried again."""
    seen = index_generation(collection)

    def may_change() -> bool:
        nonlocal seen
        before, seen = seen, index_generation(collection)
        return before != seen or _is_being_written(collection)

    return read_patiently(read, CollectionError, may_change)


def _is_being_written(collection: Path) -> bool:
    try:
        lock = (collection / INDEX_FOLDER / INDEX_LOCK_FILE).open("rb")
    except OSError:
        return False
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def index_generation(collection: Path) -> tuple[int, ...]:
    """A value that changes whenever the index does."""
    return tuple(_changed_at(collection / INDEX_FOLDER / name) for name in (ENGINE_META_FILE, CHANGED_FILE))


def touch_generation(folder: Path) -> None:
    """Record a change outside the engine's files."""
    # The index was deleted meanwhile.
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
    return CollectionError(f"{folder}: can't be written: {error.strerror}; the index needs a writable folder")


def index_files(folder: Path) -> list[str]:
    """The files of an index that change only when it is updated."""
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return [name for name in sorted(files) if name not in (SEAL_FILE, CHANGED_FILE) and not name.endswith(_TRANSIENT)]


def is_segment_file(folder: Path, name: str) -> bool:
    """Is it a file that the engine writes once? (Its lists of files change.)"""
    return name.startswith(f"{ENGINE_FOLDER}/") and not name.endswith(PRIVATE_FILES) and (folder / name).is_file()


def delete_index(collection: Path) -> None:
    """Delete the index; it can be rebuilt from the collection."""
    folder = collection / INDEX_FOLDER
    for path in folder.iterdir() if folder.exists() else ():
        if path.name == INDEX_LOCK_FILE:
            continue
        # A temporary file of a reader may disappear.
        with suppress(FileNotFoundError):
            if path.is_dir():
                _delete_folder(path)
            else:
                path.unlink()


def _delete_folder(folder: Path) -> None:
    """Delete a folder in which readers may create lock files meanwhile: they no longer find it under its name."""
    renamed = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(renamed, ignore_errors=True)
    shutil.rmtree(folder.rename(renamed))


@contextmanager
def index_write_lock(collection: Path) -> Iterator[bool]:
    """Yields True if this process may write the index now, False if another one does."""
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
