"""The typer app of all commands."""

import signal
import sys

import typer

from opilio import __version__
from opilio.cli.lazy_group import LazyGroup

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
