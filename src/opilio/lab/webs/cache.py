"""Where the lab keeps what it worked out once: the user's cache folder. Losing it costs time, never results."""

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
    """The lab's part of the user's cache folder; where that can't be written, a folder of the user's among the
    temporary files, the same for every process."""
    folder = user_cache_path("opilio") / "lab"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _fallback_folder()
    return folder if os.access(folder, os.W_OK | os.X_OK) else _fallback_folder()


def _fallback_folder() -> Path:
    """Programs are installed there and started (peers), so nobody else may have made it or may write to it."""
    try:
        folder = Path(tempfile.gettempdir()) / f"opilio-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise OfflineWebError(
            f"no folder for a cache: {error}; set XDG_CACHE_HOME to one that can be written"
        ) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise OfflineWebError(f"{folder}: is not yours alone; set XDG_CACHE_HOME to a folder that can be written")
    return folder / "lab"


def load_cached(path: Path, kind: type[T]) -> T | None:
    """What was saved there, or None when there is nothing usable."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def save_cached(path: Path, value: object) -> None:
    """Save at once or not at all; a folder that can't be written only means that nothing is remembered."""
    save_bytes(path, msgspec.msgpack.encode(value))


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file that is there, whole, when the block has ended, and not at all when it did not come to its end."""
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
    """Is the file there, and as long as it was written? A machine that went down may have cut it off."""
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def prune(used: Path, pattern: str, keep: int) -> None:
    """Note that a folder is used, and remove those beside it that match, but for the newest and those used of late.

    What older code worked out would pile up for ever; what an experiment works out may be more than `keep` folders.
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
