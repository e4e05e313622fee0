"""`opilio serve`: search page, live crawl page and API over collections."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def serve(
    folders: Annotated[
        list[Path] | None, typer.Argument(metavar="[DIR]...", help="Collections to serve.", show_default=False)
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; beyond loopback a token is needed.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on (0: any free one).")] = 8750,
    token: Annotated[
        str, typer.Option(envvar="OPILIO_TOKEN", help="Token that clients must know; made up if left out.")
    ] = "",
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which this server is reached; may be repeated.")
    ] = None,
    home: Annotated[Path, typer.Option(help="Folder in which crawls started from the browser go.")] = Path(),
    read_only: Annotated[bool, typer.Option("--read-only", help="Only show: change nothing, start nothing.")] = False,
) -> int:
    """Serve collections: search, live crawls, why, topic, runs; as pages for people and as data for machines."""
    from opilio.web.server import Serving
    from opilio.web.server import serve as run

    def announce(address: str, needed: str) -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        sys.stderr.write(f"token: {needed}\n" if needed else "only this machine can see it\n")
        sys.stderr.write("Ctrl-C ends it; crawls that were started from it go on\n")
        sys.stderr.flush()

    serving = Serving(host=host, port=port, token=token, names=tuple(name or ()), home=home, read_only=read_only)
    run(folders or [], serving, announce)
    return 0
