"""The typer app, and a command group that imports the module of a command only when that command is used."""

import signal
import sys
from collections import UserDict
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from opilio import __version__
from opilio.cli.commands import COMMANDS, CommandEntry, Entries, GroupEntry

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from typer._click import Command, Context, HelpFormatter, Parameter


PLUGIN_GROUP = "opilio.commands"  # entry points of other packages: a function, or a typer app
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
        app.command(name)(function)
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
