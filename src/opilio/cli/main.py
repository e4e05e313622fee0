"""The `opilio` command: runs a command, turns errors into one line and an exit code.

Nothing heavy is imported before `main` has installed its signal handlers: Ctrl-C at any moment ends with 130.
"""

import os
import signal
import sys

from opilio import __version__

INTERRUPTED = 130


def main() -> None:
    """Entry point. Exit 0 done, 1 failed, 2 bad usage or configuration, 130 interrupted."""
    exit_on_signals()
    _replace_unprintable_characters()
    code = _print_version() if sys.argv[1:] == ["--version"] else run_command(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Python would fail again when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def exit_on_signals() -> None:
    """Let Ctrl-C and SIGTERM end the process at once, while a command is imported and before it starts its work."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_during_start)


def _exit_during_start(*_signal: object) -> None:
    """Nothing has been started yet, so there is nothing to clean up."""
    os.write(2, b"opilio: interrupted\n")
    os._exit(INTERRUPTED)


def _replace_unprintable_characters() -> None:
    """A terminal that lacks a character shows a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")


def print_error(message: str) -> None:
    """One line on stderr."""
    line = f"opilio: {message}"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb":
        line = f"\x1b[31m{line}\x1b[0m"
    sys.stderr.write(f"{line}\n")


def _print_version() -> int:
    """Without the command line parser, which takes a while to import."""
    sys.stdout.write(f"opilio {__version__}\n")
    return 0


def run_command(arguments: list[str]) -> int:
    """Run a command; its exit code. An error that comes from a damaged collection is one line."""
    from opilio.core.errors import errors_of_damage

    try:
        return _run_app(arguments)
    except errors_of_damage():
        problem = _find_damage(arguments)
        # A bug, so show the traceback.
        if not problem:
            raise
        print_error(problem)
        return 1


def _run_app(arguments: list[str]) -> int:
    from typer import Exit
    from typer.exceptions import TyperException

    from opilio.cli.commands import app, resolve_alias
    from opilio.core.errors import OpilioError

    arguments, hint = resolve_alias(arguments)
    if hint:
        print_error(hint)
    try:
        result = app(arguments, standalone_mode=False)
    except Exit as error:
        return error.exit_code
    except TyperException as error:
        if message := _usage_message(error, arguments):
            print_error(message)
        return 2
    except OpilioError as error:
        print_error(str(error))
        return error.exit_code
    except OSError as error:
        # Not about a file: a bug, so show the traceback.
        if error.filename is None:
            raise
        print_error(f"{os.fsdecode(error.filename)}: can't be used: {error.strerror}")
        return 1
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    return result if isinstance(result, int) else 0


def _find_damage(arguments: list[str]) -> str:
    """Which of the collections in the arguments is damaged, and what to do; empty if all are intact."""
    from pathlib import Path

    from opilio.core.errors import OpilioError, errors_of_damage
    from opilio.manage.verify import verify
    from opilio.store.collection import collection_exists

    expected: tuple[type[Exception], ...] = (OpilioError, *errors_of_damage())
    for folder in map(Path, arguments):
        try:
            if not collection_exists(folder):
                continue
            problems = verify(folder)
        # An argument that is no file name, for example because it is too long.
        except OSError:
            continue
        except expected as error:
            problems = [str(error)]
        if problems:
            advice = f"'opilio maintain verify {folder}' lists all damage"
            return f"{folder}: is damaged: {' '.join(problems[0].split())}; {advice}"
    return ""


def _usage_message(error: Exception, arguments: list[str]) -> str:
    """What is wrong with the command line and where to read more; empty if the help was printed instead."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    # A group without a command.
    if message.startswith("Usage: "):
        sys.stdout.write(f"{message}\n")
        return ""
    if arguments[:1] == ["crawl"] and "unexpected extra argument" in message:
        message += f' Put quotes around a topic of several words, for example: opilio crawl "{_topic(arguments)}"'
    return message and f"{' '.join(message.split())} (see 'opilio --help' or 'opilio COMMAND --help')"


def _topic(arguments: list[str]) -> str:
    words = []
    for word in arguments[1:]:
        if word.startswith("-"):
            break
        words.append(word)
    return " ".join(words)
