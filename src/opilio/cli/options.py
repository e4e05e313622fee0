"""Options and output forms that several commands share."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A collection: what a crawl made.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


def print_json(values: dict[str, Any]) -> None:
    """One object on stdout, with the version of its shape."""
    sys.stdout.write(msgspec.json.encode({"schema": 1, **values}).decode() + "\n")


def print_text(text: str) -> None:
    sys.stdout.write(text + "\n")


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "page"), counted(0, "page")
    ('1 page', '0 pages')
    """
    return f"{number} {what}{'' if number == 1 else 's'}"
