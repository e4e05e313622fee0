"""Options and output forms that several commands share."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from opilio.core.errors import UsageError

CollectionArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A collection: what a crawl made.", show_default=False)
]
_CONTROL_CHARACTERS = dict.fromkeys(
    (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))
)  # controls but tab and new line
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def print_json(values: dict[str, Any] | msgspec.Struct) -> None:
    """One object on stdout, with the version of its shape; in UTF-8 (RFC 8259), whatever a terminal would like."""
    sys.stdout.flush()
    fields: dict[str, Any] = msgspec.to_builtins(values)
    sys.stdout.buffer.write(msgspec.json.encode({"schema": 1, **fields}) + b"\n")


def print_text(text: str) -> None:
    """Lines on stdout. Titles and anchors are written by strangers: a terminal must not obey what is in them."""
    sys.stdout.write(text.translate(_CONTROL_CHARACTERS) + "\n")


@contextmanager
def report_write_errors(what: str) -> Iterator[None]:
    """A place that can't be written is told by the name of its option."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what}: can't be written: {error.strerror or error}") from error


def make_writable_folder(what: str, folder: Path) -> None:
    """A folder that files can be written to, made and tried before the work whose results go there."""
    with report_write_errors(what):
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()


def pluralize(number: int, what: str) -> str:
    """
    >>> pluralize(1, "page"), pluralize(0, "page")
    ('1 page', '0 pages')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
