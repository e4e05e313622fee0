"""The lab's cache in the user's cache folder. Losing it costs time, never results."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
from platformdirs import user_cache_path

from opilio.core.errors import OfflineWebError

T = TypeVar("T")
RECENTLY_USED_S = 24 * 3600.0


def default_cache_folder() -> Path:
    """The lab's part of the user's cache folder.

    If that can't be written to, a folder of the user among the temporary files, the same for every process.
    """
    folder = user_cache_path("opilio") / "lab"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _fallback_folder()
    return folder if os.access(folder, os.W_OK | os.X_OK) else _fallback_folder()


def _fallback_folder() -> Path:
    """Peers are installed and started there, so no other user may own it or write to it."""
    try:
        folder = Path(tempfile.gettempdir()) / f"opilio-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise OfflineWebError(
            f"no folder for a cache: {error}; set XDG_CACHE_HOME to one that can be written"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OfflineWebError(
            f"{folder}: other users can write to it; set XDG_CACHE_HOME to a folder that can be written"
        )
    return folder / "lab"


def load_cached(path: Path, kind: type[T]) -> T | None:
    """The saved value, or None when there is no usable one."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def save_cached(path: Path, value: object) -> None:
    """Save atomically; if the folder can't be written to, nothing is cached."""
    save_bytes(path, msgspec.msgpack.encode(value))


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file that is complete after the block, and does not exist if the block fails."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise OfflineWebError(f"{path.parent}: no cache: {why}; set XDG_CACHE_HOME to a folder with room") from error
    finally:
        with suppress(OSError):
            part.unlink()


def is_complete(path: Path, size: int) -> bool:
    """Does the file exist with the size it was written with? A crash may have truncated it."""
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def prune(used: Path, pattern: str, keep: int) -> None:
    """Mark a folder as used, and remove matching siblings except the newest and recently used ones.

    Results of older code would accumulate for ever; an experiment may use more than `keep` folders.
    """
    with suppress(OSError):
        os.utime(used)
        times = {path: path.stat().st_mtime for path in used.parent.glob(pattern)}
        newest_first = sorted(times, key=lambda path: times[path], reverse=True)
        for old in newest_first[keep:]:
            if times[old] < times[used] - RECENTLY_USED_S:
                shutil.rmtree(old, ignore_errors=True)


def save_bytes(path: Path, data: bytes) -> None:
    """The same for bytes."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink()
