"""`opilio serve`: the web interface and the HTTP API of collections."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.options import complete_collections
from opilio.cli.output import print_message, print_text


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[DIR]...",
            help="Collections to serve.",
            show_default=False,
            autocompletion=complete_collections,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; other than loopback needs a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on (0: any free port).")] = 8750,
    token: Annotated[
        str, typer.Option(envvar="OPILIO_TOKEN", help="Token that clients must send; generated if needed.")
    ] = "",
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which the server is reached. Repeatable.")
    ] = None,
    home: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the collections of crawls started in the browser.")
    ] = Path(),
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes and no new crawls.")] = False,
) -> int:
    """Start the web interface and the HTTP API.

    Search, live crawls, explanations, topic, queue and experiment runs, as pages and as JSON.
    """
    from opilio.web.server import UiServerConfig
    from opilio.web.server import serve as run_server

    config = UiServerConfig(
        host=host, port=port, token=token, host_names=tuple(name or ()), home=home, read_only=read_only
    )
    run_server(folders or [], config, _announce)
    return 0


def _announce(address: str, token: str) -> None:
    print_text(address)
    sys.stdout.flush()
    print_message(f"token: {token}" if token else "only this machine can reach it")
    print_message("Ctrl-C stops the server; crawls that were started from it keep running")
