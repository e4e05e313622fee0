"""Helpers for what commands print and write: counted nouns, new files and folders named by an option."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opilio.core.errors import UsageError
from opilio.core.files import write_atomically


def pluralize(number: int, noun: str) -> str:
    """
    >>> pluralize(1, "page"), pluralize(0, "page"), pluralize(2_000, "fetch")
    ('1 page', '0 pages', '2,000 fetches')
    """
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


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
