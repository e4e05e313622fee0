"""`opilio serve`: search page, live crawl page and API over collections.

`opilio doctor`: is everything here that a crawl needs, and what can it do?
"""

import importlib.util
import platform
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Annotated, Any

import pycurl
import typer

from opilio import __version__
from opilio.cli.options import JsonOption, print_json, print_text
from opilio.core.errors import ConfigError
from opilio.core.registry import SECTION_GROUPS, SEED_ENGINES, plugin_names
from opilio.core.strategies import strategy_names
from opilio.engine.wiring.seeding import load_user_engines
from opilio.engine.workers import available_cpus


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
    from opilio.web.server import UiServerConfig as Serving
    from opilio.web.server import serve as run

    def announce(address: str, needed: str) -> None:
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        sys.stderr.write(f"token: {needed}\n" if needed else "only this machine can see it\n")
        sys.stderr.write("Ctrl-C ends it; crawls that were started from it go on\n")
        sys.stderr.flush()

    serving = Serving(host=host, port=port, token=token, host_names=tuple(name or ()), home=home, read_only=read_only)
    run(folders or [], serving, announce)
    return 0


EXTRAS = {"lab": "matplotlib", "parquet": "pyarrow", "lemmas": "simplemma", "learn": "sklearn"}
MIN_FREE_DISK_BYTES = 1 << 30


def doctor(json: JsonOption = False) -> int:
    """Check this machine and list what Opilio can do; exit 1 when something needed is missing."""
    facts = _facts()
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print_text(f"{name.replace('_', ' '):14}  {text or 'none'}")
    return 1 if facts["problems"] else 0


def _facts() -> dict[str, Any]:
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
    """The search engines that the person has configured for all crawls."""
    try:
        return list(load_user_engines())
    except ConfigError as error:
        problems.append(str(error))
        return []
