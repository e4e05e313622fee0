"""`opilio serve` (web interface and HTTP API), `opilio mcp` and `opilio maintain doctor` (checks this machine)."""

import importlib.util
import platform
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio import __version__
from opilio.cli.options import JsonOption, complete_collections, parse_place, print_json, print_message, print_text
from opilio.core.errors import UsageError

_FoldersArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR]...",
        help="Collections to serve; default: those in --home.",
        show_default=False,
        autocompletion=complete_collections,
        parser=parse_place,
    ),
]


def serve(
    folders: _FoldersArgument = None,
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
    allow_local: Annotated[
        bool,
        typer.Option(
            "--allow-local", help="Let the form for new crawls name local files, proxies, engines, private addresses."
        ),
    ] = False,
) -> int:
    """Start the web interface and the HTTP API.

    Search, live crawls, explanations, topic, queue and experiment runs, as pages and as JSON.
    """
    from opilio.web.app import UiServerConfig
    from opilio.web.app import serve as run_server

    config = UiServerConfig(
        host=host,
        port=port,
        token=token,
        host_names=tuple(name or ()),
        home=home,
        read_only=read_only,
        allow_local=allow_local,
    )
    run_server(folders or [], config, _announce)
    return 0


def mcp(
    folders: _FoldersArgument = None,
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP on loopback instead of stdin and stdout.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="With --http: port to listen on (0: any free port).")
    ] = 8751,
    token: Annotated[str, typer.Option(envvar="OPILIO_TOKEN", help="With --http: token that clients must send.")] = "",
    home: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the collections of crawls.")] = Path(),
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    allow_crawl: Annotated[bool, typer.Option("--allow-crawl", help="Let clients start crawls.")] = False,
) -> int:
    """Serve collections to programs that use language models (MCP).

    Tools to search, read, explain and label pages; pages as resources. One client on stdin and
    stdout, or many with --http.
    """
    from opilio.web.app import UiServerConfig
    from opilio.web.mcp_server import McpOptions, serve_http, serve_stdio

    if allow_crawl and read_only:
        raise UsageError("--allow-crawl and --read-only exclude each other; use one of them")
    options = McpOptions(home=home, read_only=read_only, allow_crawl=allow_crawl)
    if http:
        serve_http(folders or [], options, UiServerConfig(port=port, token=token), _announce)
    else:
        serve_stdio(folders or [], options)
    return 0


def _announce(address: str, token: str) -> None:
    print_text(address)
    sys.stdout.flush()
    print_message(f"token: {token}" if token else "only this machine can reach it")
    print_message("Ctrl-C stops the server; crawls that were started from it keep running")


EXTRAS = {"lab": "matplotlib", "parquet": "pyarrow", "lemmas": "simplemma", "learn": "sklearn", "mcp": "mcp"}
EXTRAS |= {"opinions": "vaderSentiment"}
MIN_FREE_DISK_BYTES = 1 << 30


def doctor(
    place: Annotated[
        str,
        typer.Argument(
            metavar="[postgresql://…]", help="Check this database and the collection in it too.", show_default=False
        ),
    ] = "",
    json: JsonOption = False,
) -> int:
    """Check this machine and list what Opilio can do.

    The exit code is 1 if something that a crawl needs is missing.
    """
    facts = _facts()
    if place:
        from opilio.store.postgres.chunks import storage_facts
        from opilio.store.postgres.cluster import database_facts

        facts = {**database_facts(place), **storage_facts(place), **facts}
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print_text(f"{name.replace('_', ' '):14}  {text or 'none'}")
    return 1 if facts["problems"] else 0


def _facts() -> dict[str, Any]:
    import pycurl

    from opilio.core.registry import SECTION_GROUPS, SEED_ENGINES, plugin_names
    from opilio.core.strategies import strategy_names
    from opilio.engine.workers.pool import available_cpus

    free = shutil.disk_usage(Path.cwd()).free
    problems = []
    if free < MIN_FREE_DISK_BYTES:
        problems.append(f"only {free >> 20} MiB free in {Path.cwd()}")
    if "https" not in pycurl.version_info()[8]:
        problems.append("libcurl was built without TLS: https pages can't be fetched")
    return {
        "opilio": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libcurl": pycurl.version_info()[1],
        "cores": available_cpus(),
        "free_disk": f"{free / (1 << 30):.1f} GiB",
        "strategies": strategy_names(),
        **{f"{section}_kinds": plugin_names(group) for section, group in SECTION_GROUPS.items()},
        "seed_engine_kinds": plugin_names(SEED_ENGINES),
        "seed_engines": _engines(problems),
        "extras": [name for name, module in EXTRAS.items() if importlib.util.find_spec(module)],
        "problems": problems,
    }


def _engines(problems: list[str]) -> list[str]:
    """The search engines in the user's configuration, for all crawls."""
    from opilio.core.errors import ConfigError
    from opilio.engine.wiring.seeding import load_user_engines

    try:
        return list(load_user_engines())
    except ConfigError as error:
        problems.append(str(error))
        return []
