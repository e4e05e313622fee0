"""The command line: one file per command. Data on stdout, progress and messages on stderr."""

from importlib import import_module

import typer

# Name to the module it is in, in the order of the help.
COMMANDS = {
    "crawl": "crawl",
    "seeds": "seeds",
    "search": "search",
    "status": "collection",
    "agents": "collection",
    "why": "collection",
    "history": "collection",
    "label": "label",
    "serve": "serve",
    "verify": "housekeeping",
    "compact": "housekeeping",
    "merge": "housekeeping",
    "export": "collection",
    "train": "train",
    "demo": "demo",
    "doctor": "serve",
}
GROUPS = {"index": "search", "lab": "lab", "topic": "topic", "tgraph": "tgraph"}  # of commands, each `app` of a module


def register(app: typer.Typer, only: str = "") -> None:
    """Put every command on the app; or the one that is asked for: the others need not be loaded to run it."""
    every = only not in COMMANDS and only not in GROUPS  # a misspelt one too: then all are known, to suggest from
    for name, module in COMMANDS.items():
        if every or name == only:
            app.command()(getattr(import_module(f"opilio.cli.{module}"), name))
    for name, module in GROUPS.items():
        if every or name == only:
            app.add_typer(import_module(f"opilio.cli.{module}").app, name=name)
