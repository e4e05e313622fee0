"""A command that counts the pages of a collection by the depth of their paths."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from opilio.store.collection import open_readonly


def depths(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A collection.", show_default=False)]) -> None:
    """Count the pages of a collection by the depth of their paths."""
    with open_readonly(folder) as collection:
        urls = [str(url) for (url,) in collection.connection.execute("SELECT url FROM page")]
    for depth, pages in sorted(Counter(url.count("/") - 3 for url in urls).items()):
        typer.echo(f"{depth}\t{pages}")
