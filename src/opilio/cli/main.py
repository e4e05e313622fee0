"""The `opilio` command: puts the commands together and turns errors into one line and an exit code."""

import io
import os
import sys

import typer
from rich.console import Console
from typer.exceptions import TyperException

from opilio import __version__
from opilio.core.errors import OpilioError

app = typer.Typer(
    name="opilio",
    help="A focused web crawler and topical search engine: name a topic, get the pages that matter, ask why.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and end.")) -> None:
    if version:
        sys.stdout.write(f"opilio {__version__}\n")
        raise typer.Exit


def print_error(message: str) -> None:
    """One line on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True, markup=False).print(f"opilio: {message}", style="red")


def main() -> None:
    """Entry point. Exit 0 done, 1 failed, 2 bad usage or configuration, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a letter shows something else
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone: nothing to tell, and nobody to flush to at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run() -> int:
    from opilio.cli import register

    register(app, only=sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        result = app(standalone_mode=False)
    except typer.Exit as error:
        return error.exit_code
    except TyperException as error:
        if message := _usage_message(error):
            print_error(message)
        return 2
    except OpilioError as error:
        print_error(str(error))
        return error.exit_code
    except OSError as error:
        if error.filename is None:  # not about a file: an error of ours, with all that tells where
            raise
        print_error(f"{os.fsdecode(error.filename)}: can't be used: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        print_error("interrupted")
        return 130
    return result if isinstance(result, int) else 0


def _usage_message(error: TyperException) -> str:
    """What is wrong with the command line, with where to read more; nothing where the help was printed instead."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    return message and f"{' '.join(message.split())} (see 'opilio --help' or 'opilio COMMAND --help')"
