"""What goes wrong inside an index, as errors of ours. Knows no file of the index; mends nothing."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opilio.model.errors import CollectionError

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PANIC = "PanicException"  # the engine's, on files it did not write; a BaseException that no module offers by name


class DamagedIndexError(CollectionError):
    """An index can't be read. It is derived: whoever may write throws it away and makes it again."""


@contextmanager
def told_well(*folders: Path, engine: tuple[type[Exception], ...] = ()) -> Iterator[None]:
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
    advice = f"'opilio index rebuild {collections}' makes it again"
    return DamagedIndexError(f"{_named(folders)}: the index can't be read: {told}; {advice}")
