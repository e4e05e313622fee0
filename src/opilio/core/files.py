"""Reading text files of the user, writing files atomically, and errors that name the file or option."""

import os
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from opilio.core.errors import ConfigError, OpilioError, UsageError


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


def parse_toml(text: str) -> dict[str, Any]:
    """The tree of a TOML text; ValueError says what is wrong, also where the library has an error of another kind."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:
        raise ValueError("a number has too many digits") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


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


def require_new_file(option: str, path: Path | None) -> None:
    """Refuse to overwrite: the file of an option must not exist yet."""
    if path is not None and path.exists():
        raise UsageError(f"{option} {path}: already exists; choose another name")


@contextmanager
def report_write_errors(what: str) -> Iterator[None]:
    """Turn an OSError into a message that starts with the name of the option or file."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: can't be written: {error.strerror or error}") from error


def write_output(option: str, path: Path, data: bytes) -> None:
    """Write the file of an option, completely or not at all."""
    with report_write_errors(f"{option} {path}"):
        write_atomically(path, data)


def make_writable_folder(option: str, folder: Path) -> None:
    """Create the folder of an option and try to write to it, before the work whose results go there."""
    with report_write_errors(f"{option} {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
