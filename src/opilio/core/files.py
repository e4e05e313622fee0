"""Reading a user's text files and writing files atomically, with error messages that name the file."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from opilio.core.errors import ConfigError, OpilioError


def read_text(path: Path, option: str = "", error: type[OpilioError] = ConfigError) -> str:
    """The text of a UTF-8 file, without a byte-order mark.

    Raises `error` with a message that names the file, after the name of the option that gave it.
    """
    source = f"{option} {path}".strip()
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise error(f"{source}: can't be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise error(f"{source}: is not UTF-8 text (byte {problem.start}); save it as UTF-8") from problem


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends without an exception; until then `path` is untouched.

    The data goes to a `.part` file in the same folder, with the process id in its name, so that several processes
    can write the same file. Raises OSError as `open` and `write` do.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file completely or not at all."""
    with atomic_writer(path) as file:
        file.write(data)
