"""Where the lab keeps what it worked out once: the user's cache folder. Losing it costs time, never results."""

import os
import shutil
from pathlib import Path
from typing import TypeVar

import msgspec
from platformdirs import user_cache_path

T = TypeVar("T")


def default_cache() -> Path:
    """The lab's part of the user's cache folder."""
    return user_cache_path("opilio") / "lab"


def load(path: Path, kind: type[T]) -> T | None:
    """What was saved there, or None when there is nothing usable."""
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def save(path: Path, value: object) -> None:
    """Save at once or not at all; a folder that can't be written only means that nothing is remembered."""
    save_bytes(path, msgspec.msgpack.encode(value))


def prune(folder: Path, pattern: str, keep: int) -> None:
    """Remove all but the newest folders that match: what older code worked out would pile up for ever."""
    found = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[keep:]:
        shutil.rmtree(old, ignore_errors=True)


def save_bytes(path: Path, data: bytes) -> None:
    """The same for bytes."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
