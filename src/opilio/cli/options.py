"""Arguments and options that several commands share, completion of their values, and printing: data goes to stdout,
messages to stderr.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import msgspec


def complete_strategies(incomplete: str) -> list[str]:
    from opilio.core.strategies import strategy_names

    return [name for name in strategy_names() if name.startswith(incomplete)]


def complete_engines(incomplete: str) -> list[str]:
    """The search engines of the user's configuration, and the kinds that can be used without one."""
    from opilio.core.errors import ConfigError
    from opilio.core.registry import SEED_ENGINES, plugin_names
    from opilio.engine.wiring.seeding import load_user_engines

    try:
        configured = load_user_engines()
    except ConfigError:
        configured = {}
    return [name for name in sorted({*configured, *plugin_names(SEED_ENGINES)}) if name.startswith(incomplete)]


def complete_formats(incomplete: str) -> list[str]:
    from opilio.manage.export import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def complete_collections(incomplete: str) -> list[str]:
    """Folders that hold a collection, and folders on the way to one."""
    return _complete_folders(incomplete, "crawl.db")


def complete_webs(incomplete: str) -> list[str]:
    return _complete_folders(incomplete, "*.warc.gz")


def complete_experiments(incomplete: str) -> list[str]:
    from opilio.lab.experiments.declarations import PAPER_SUITES, experiment_names

    return [name for name in (*experiment_names(), *PAPER_SUITES) if name.startswith(incomplete)]


def _complete_folders(incomplete: str, pattern: str) -> list[str]:
    """Folders below what is typed so far that hold a file of this pattern, now or one level deeper.

    The text typed so far stays as it is: `~` is left to the shell.
    """
    parent = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    try:
        folders = sorted(path for path in parent.iterdir() if path.is_dir())
    except OSError:
        return []
    prefix = incomplete.rpartition("/")[0] + "/" if "/" in incomplete else ""
    found = []
    for folder in folders:
        name = f"{prefix}{folder.name}"
        if name.startswith(incomplete) and not folder.name.startswith("."):
            if any(folder.glob(pattern)):
                found.append(name)
            elif any(folder.glob(f"*/{pattern}")):
                found.append(f"{name}/")
    return found


def parse_place(text: str) -> Path:
    """The folder of a collection; for the address of a database the folder that caches it."""
    if not text.startswith(("postgresql://", "postgres://")):
        return Path(text)
    from opilio.store.postgres.collection import folder_of

    return folder_of(text)


CollectionArgument = Annotated[
    Path,
    typer.Argument(
        metavar="DIR",
        help="Folder of a collection, or postgresql://….",
        show_default=False,
        autocompletion=complete_collections,
        parser=parse_place,
    ),
]
DatabaseArgument = Annotated[
    Path,
    typer.Argument(
        metavar="URL",
        help="Database of the collection: postgresql://….",
        show_default=False,
        parser=parse_place,
    ),
]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="URL of the page.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ServerOption = Annotated[
    str,
    typer.Option(
        metavar="URL", help="An OpenSearch server that holds the index; default: the embedded one.", show_default=False
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ConfigOption = Annotated[Path | None, typer.Option(metavar="FILE", help="A TOML file with any of the settings.")]
EngineOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Ask only this search engine. Repeatable.", autocompletion=complete_engines),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting, for example stop.pages=99. Repeatable."),
]
ProxyOption = Annotated[
    str | None, typer.Option(metavar="URL", help="Fetch through this proxy, for example http://host:8080.")
]


# Control characters except tab and newline, and those that change the direction of the text after them.
_CONTROL_CHARACTERS = dict.fromkeys(
    (*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
)


def print_json(values: "dict[str, Any] | msgspec.Struct") -> None:
    """One object on stdout with the version of its schema, always in UTF-8 (RFC 8259)."""
    import msgspec

    sys.stdout.flush()
    fields: dict[str, Any] = msgspec.to_builtins(values)
    sys.stdout.buffer.write(msgspec.json.encode({"schema": 1, **fields}) + b"\n")


def print_text(text: str) -> None:
    """Lines on stdout. Titles and anchors come from web pages: control characters in them must not reach a terminal."""
    sys.stdout.write(text.translate(_CONTROL_CHARACTERS) + "\n")


def print_message(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(text.translate(_CONTROL_CHARACTERS) + "\n")
    sys.stderr.flush()
