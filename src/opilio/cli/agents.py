"""`opilio agents`: who crawled for a collection, what each found and what it learnt."""

import time
from typing import Annotated, Any

import typer

from opilio.cli.options import AsJson, Folder, print_json, print_text
from opilio.crawl.agentsview import agents_of
from opilio.crawl.agentsview import retire as ask_to_retire


def agents(
    folder: Folder,
    retire: Annotated[
        str, typer.Option(metavar="NAME", help="Send this agent home; others go on with its links.", show_default=False)
    ] = "",
    json: AsJson = False,
) -> int:
    """List the agents of a crawl: state, harvest, and what each learnt."""
    if retire:
        running = ask_to_retire(folder, retire, time.time())
        print_text(f"{retire}: goes home " + ("in a moment" if running else "when the crawl goes on"))
        return 0
    found = agents_of(folder)
    if json:
        print_json({"agents": found})
    else:
        print_text("\n".join([*_table(found), *map(_learnt, found)]))
    return 0


def _table(found: list[dict[str, Any]]) -> list[str]:
    """Columns of text, however narrow the terminal: a line for each agent."""
    counts = ("seeds", "pages", "relevant", "harvest", "hosts", "shared", "received")
    rows = [["agent", "topic", *counts, "state"]]
    for agent in found:
        state = f"{agent['state']}: {agent['reason']}" if agent["reason"] else agent["state"]
        numbers = [f"{agent[name]:.2f}" if name == "harvest" else str(agent[name]) for name in counts]
        rows.append([agent["name"], agent["topic"], *numbers, state])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _learnt(agent: dict[str, Any]) -> str:
    words = ", ".join(agent["learnt"]) or "no new word"
    return f"{agent['name']} learnt: {words} ({agent['table_size']} words in its table)"
