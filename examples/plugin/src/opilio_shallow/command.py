"""A command that counts the pages of a collection by the depth of their paths."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

import opilio


def depths(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A collection.", show_default=False)]) -> None:
    """Count the pages of a collection by the depth of their paths."""
    found = Counter(page.url.count("/") - 3 for page in opilio.open(folder).pages())
    for depth, pages in sorted(found.items()):
        typer.echo(f"{depth}\t{pages}")
