"""Every command of Opilio: its name, the function that runs it, its line in the help; and the app that imports it.

The table is all that `opilio --help` reads. A module is imported when one of its commands is used.
"""

import signal
import sys
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from opilio import __version__

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from typer._click import Command, Context, HelpFormatter, Parameter


class CommandEntry(NamedTuple):
    """A command: `module:function` below `opilio.cli`, the line in the help, examples after the options."""

    target: str
    help: str
    examples: tuple[str, ...] = ()


class GroupEntry(NamedTuple):
    """Commands under one name."""

    help: str
    commands: Mapping[str, Union[CommandEntry, "GroupEntry"]]


Entries = Mapping[str, CommandEntry | GroupEntry]

TOPIC = GroupEntry(
    "Build topic files; show what a crawl knows about its topic.",
    {
        "build": CommandEntry(
            "topic:build_topic", "Make a topic file from a sentence, keywords, pages or a query log."
        ),
        "seeds": CommandEntry("topic_lookup:seeds", "Ask search engines for seeds."),
        "show": CommandEntry("topic:show_topic", "Print a collection's topic table, or its history."),
        "suggest": CommandEntry("topic:suggest", "Print words that WordNet suggests for a topic file."),
        "subtopics": CommandEntry("search:subtopics", "List the subtopics of the relevant pages."),
        "dewey": CommandEntry("topic_lookup:dewey", "Show the Dewey classes of a text or a page."),
    },
)
TGRAPH = GroupEntry(
    "T-Graphs of the s2 strategies: build one from target pages, show one.",
    {
        "build": CommandEntry("lab_models:build_graph", "Build a T-Graph from target pages and their back-links."),
        "show": CommandEntry("lab_models:show_graph", "Print a T-Graph: a file, or the current one of a crawl."),
    },
)
LAB = GroupEntry(
    "Offline webs and experiments: measure strategies, train models.",
    {
        "demo": CommandEntry("demo:demo", "Crawl a synthetic web on this machine and compare two strategies."),
        "webs": CommandEntry("lab:webs", "Summarize offline webs: pages, hosts, links, labels, topics, seed sets."),
        "make": CommandEntry("lab:make", "Write a synthetic web: pages, labels, topics and host faults."),
        "serve": CommandEntry("lab:serve", "Serve a web over HTTP on loopback, by Host header and as a forward proxy."),
        "run": CommandEntry("lab:run", "Run an experiment over offline webs and write a report."),
        "revisit": CommandEntry("lab:revisit", "Compare revisit policies while a web changes."),
        "traps": CommandEntry(
            "lab:traps", "Measure how much of the budget spider traps take, without and with waste control."
        ),
        "train": CommandEntry("lab_models:train", "Train and test the learners of the s1 strategies."),
        "tgraph": TGRAPH,
    },
)
MAINTAIN = GroupEntry(
    "Check, repair, compact and merge collections; check this machine.",
    {
        "verify": CommandEntry("maintain:verify", "Check a collection and repair what can be derived again."),
        "compact": CommandEntry("maintain:compact", "Remove unused records from the WARC files and the database."),
        "merge": CommandEntry("maintain:merge", "Merge collections into a new one, without duplicate pages."),
        "copy": CommandEntry("maintain:copy", "Copy a collection into a PostgreSQL database, or back."),
        "upgrade": CommandEntry("maintain:upgrade", "Bring a collection of an earlier Opilio to the current schema."),
        "reindex": CommandEntry("maintain:reindex", "Delete the search index of a collection and build it again."),
        "agents": CommandEntry("maintain:agents", "List the agents of a crawl, or retire one."),
        "doctor": CommandEntry("serve:doctor", "Check this machine and list what Opilio can do."),
    },
)
COMMANDS: Entries = {
    "crawl": CommandEntry(
        "crawl:crawl",
        "Crawl a topic into a collection.",
        (
            'opilio crawl "sign languages" --seed https://en.wikipedia.org/wiki/Sign_language',
            'opilio crawl "sign languages" --seeds signs.txt --pages 5000 --into signs',
            "opilio crawl --into signs --revisit",
        ),
    ),
    "worker": CommandEntry("crawl:worker", "Join a crawl in PostgreSQL, beside any number of other workers."),
    "search": CommandEntry(
        "search:search",
        "Search one or more collections.",
        (
            'opilio search signs "deaf education"',
            'opilio search signs birds "language of wrens" --after 2026-01-31 --limit 20',
            "opilio search signs https://example.org/page --like",
        ),
    ),
    "serve": CommandEntry("serve:serve", "Start the web interface and the HTTP API."),
    "mcp": CommandEntry("serve:mcp", "Serve collections to programs that use language models (MCP)."),
    "status": CommandEntry("collection:status", "Show what a collection holds and how its crawl ended."),
    "why": CommandEntry("collection:why", "Explain why a URL was fetched, skipped or kept."),
    "label": CommandEntry(
        "collection:label", "Mark pages as relevant or irrelevant, tag them, write notes, make lists."
    ),
    "export": CommandEntry(
        "collection:export",
        "Write the pages as JSON Lines, CSV, Parquet, Markdown, WARC, CDXJ, WACZ or citations.",
        (
            "opilio export signs --relevant --out pages.jsonl",
            "opilio export signs --format markdown --out pages",
            "opilio export signs --format warc --out pages.warc.gz",
        ),
    ),
    "topic": TOPIC,
    "maintain": MAINTAIN,
    "lab": LAB,
}

# Names of earlier versions, and `plan`, as other tools call a forecast: accepted, with a hint on stderr.
ALIASES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("verify",): ("maintain", "verify"),
    ("compact",): ("maintain", "compact"),
    ("merge",): ("maintain", "merge"),
    ("agents",): ("maintain", "agents"),
    ("doctor",): ("maintain", "doctor"),
    ("seeds",): ("topic", "seeds"),
    ("demo",): ("lab", "demo"),
    ("index", "rebuild"): ("maintain", "reindex"),
    ("index", "like"): ("search", "--like"),
    ("index", "subtopics"): ("topic", "subtopics"),
    ("topic", "expand"): ("topic", "suggest"),
    ("history",): ("why", "--history"),
    ("plan",): ("status", "--forecast"),
    ("train",): ("lab", "train"),
    ("tgraph",): ("lab", "tgraph"),
}


def resolve_alias(arguments: list[str]) -> tuple[list[str], str]:
    """The arguments with today's command name, and a hint if an old name was used.

    >>> resolve_alias(["verify", "birds"])
    (['maintain', 'verify', 'birds'], "'opilio verify' is now 'opilio maintain verify'")
    >>> resolve_alias(["crawl", "birds"])
    (['crawl', 'birds'], '')
    """
    for old, new in ALIASES.items():
        if tuple(arguments[: len(old)]) == old:
            return [*new, *arguments[len(old) :]], f"'opilio {' '.join(old)}' is now 'opilio {' '.join(new)}'"
    return arguments, ""


# Entry points of other packages: a function, or a typer app.
PLUGIN_GROUP = "opilio.commands"
PLUGIN_HELP = "Installed by another package."
METAVARS = {int: "N", float: "N"}


class LazyCommands(UserDict[str, "Command"]):
    """Commands by name. Iterating gives names; looking one up imports it. Plug-ins follow our own commands."""

    def __init__(self, entries: Entries, plugins: bool = False) -> None:
        super().__init__()
        self._entries, self._plugins = entries, plugins

    def __missing__(self, name: str) -> "Command":
        entry = self._entries.get(name)
        self.data[name] = _load_plugin(name) if entry is None and self._plugins else _load(name, self._entries[name])
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or (self._plugins and name in _plugin_names())

    def __iter__(self) -> Iterator[str]:
        yield from self._entries
        if self._plugins:
            yield from (name for name in _plugin_names() if name not in self._entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def help_line(self, name: str) -> str:
        entry = self._entries.get(name)
        return entry.help if entry else PLUGIN_HELP


class LazyGroup(TyperGroup):
    """The group of a table of commands."""

    def __init__(self, *, entries: Entries | None = None, **attributes: Any) -> None:  # noqa: ANN401 - typer's own
        super().__init__(**attributes)
        self.commands = self._lazy = LazyCommands(entries or COMMANDS, plugins=entries is None)

    def list_commands(self, ctx: "Context") -> list[str]:  # noqa: ARG002
        return list(self._lazy)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._lazy.help_line(name)) for name in self._lazy])


class PlainCommand(TyperCommand):
    """A command whose help names arguments as the documentation does (`DIR... QUERY`), without types of Python."""

    def collect_usage_pieces(self, ctx: "Context") -> list[str]:  # noqa: ARG002
        return ["[OPTIONS]", *(_argument_name(argument) for argument in self._arguments())]

    def format_options(self, ctx: "Context", formatter: "HelpFormatter") -> None:
        arguments = [(_argument_name(argument), argument.help or "") for argument in self._arguments()]
        others = [one for one in self.get_params(ctx) if not isinstance(one, TyperArgument)]
        options = [record for one in others if (record := one.get_help_record(ctx)) is not None]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _arguments(self) -> list[TyperArgument]:
        return [one for one in self.params if isinstance(one, TyperArgument)]


def _argument_name(argument: TyperArgument) -> str:
    """The name in capitals; in brackets if it may be left out."""
    name = argument.metavar or str(argument.name).upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _load(name: str, entry: CommandEntry | GroupEntry) -> "Command":
    if isinstance(entry, GroupEntry):
        return LazyGroup(
            name=name, help=entry.help, entries=entry.commands, no_args_is_help=True, rich_markup_mode=None
        )
    module, _, function = entry.target.partition(":")
    command = _make_command(getattr(import_module(f"opilio.cli.{module}"), function), name)
    if entry.examples:
        command.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in entry.examples)
    return command


def _make_command(function: Callable[..., Any] | typer.Typer, name: str) -> "Command":
    """A command of a function, with short names for the types of its options."""
    app = function
    if not isinstance(app, typer.Typer):
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=PlainCommand)(function)
    command = get_command(app)
    command.name = name
    for parameter in command.params:
        _shorten_type(parameter)
    return command


def _shorten_type(option: "Parameter") -> None:
    """`--pages N` instead of `--pages <int range>  [x>=0]`. The range is still checked."""
    if isinstance(option, TyperOption):
        option.min = option.max = None
        described = option.type_descriptor
        if option.metavar is None and not described.is_choice:
            option.metavar = METAVARS.get(described.annotation, "PATH" if described.is_path else "TEXT")


def _entry_points() -> dict[str, "EntryPoint"]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=PLUGIN_GROUP)}


def _plugin_names() -> list[str]:
    return sorted(_entry_points())


def _load_plugin(name: str) -> "Command":
    return _make_command(_entry_points()[name].load(), name)


app = typer.Typer(
    name="opilio",
    cls=LazyGroup,
    help="A focused web crawler and topical search engine: name a topic, get the pages that matter, ask why.",
    epilog="'opilio COMMAND --help' explains a command.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    # The module of the command is imported: from here on Ctrl-C is a KeyboardInterrupt, which commands may handle.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if version:
        sys.stdout.write(f"opilio {__version__}\n")
        raise typer.Exit
