"""`opilio maintain`: check, compact, merge, copy, upgrade and reindex collections; list and retire agents."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.options import (
    CollectionArgument,
    JsonOption,
    ServerOption,
    complete_collections,
    parse_place,
    print_json,
    print_text,
)


def verify(
    folder: CollectionArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Drop damaged pages and queue them to be fetched again.")
    ] = False,
    look_only: Annotated[bool, typer.Option("--look-only", help="Only report; change nothing.")] = False,
    json: JsonOption = False,
) -> int:
    """Check a collection and repair what can be derived again.

    Prints the problems that are left, one per line; the exit code is then 1.
    """
    import msgspec

    from opilio.core.display import pluralize
    from opilio.core.errors import UsageError
    from opilio.manage.compact import RepairReport, check_and_repair
    from opilio.manage.verify import MAX_PROBLEMS
    from opilio.manage.verify import verify as find_problems
    from opilio.store.postgres.collection import place_of

    if look_only and repair:
        raise UsageError("--look-only and --repair can't be combined; leave one out")
    if look_only:
        report = RepairReport(problems=find_problems(folder))
    else:
        report = check_and_repair(folder, time.time(), pages=repair)
    problems, queued = report.problems, report.fetched_again
    if json:
        print_json({"ok": not problems, **msgspec.to_builtins(report)})
    else:
        lines = [f"repaired: {text}" for text in report.repaired[:MAX_PROBLEMS]]
        lines += [f"accepted as it is: {text}" for text in report.accepted[:MAX_PROBLEMS]]
        lines += problems[:MAX_PROBLEMS]
        lines += [f"{pluralize(queued, 'page')} will be fetched again by the next crawl"] if queued else []
        print_text("\n".join(lines) or f"{place_of(folder)}: no problems found")
    return 1 if problems else 0


def compact(
    folder: CollectionArgument,
    versions: Annotated[
        int | None, typer.Option(min=0, help="Keep at most N past versions of a page; default: all.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Remove unused records from the WARC files and the database."""
    from opilio.core.display import pluralize
    from opilio.manage.compact import compact as compact_collection
    from opilio.store.postgres.collection import place_of

    done = compact_collection(folder, time.time(), versions)
    if json:
        print_json(done)
        return 0
    saved = done.bytes_before - done.bytes_after
    print_text(f"{place_of(folder)}: {done.records} records, {done.bytes_after:,} bytes, {saved:,} fewer than before")
    if done.files_left:
        files = pluralize(done.files_left, "old file")
        print_text(f"{files} still in use by another process: compact again to delete")
    return 0


def merge(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR DIR...",
            help="Collections.",
            show_default=False,
            autocompletion=complete_collections,
            parser=parse_place,
        ),
    ],
    into: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder of the new collection.", show_default=False, parser=parse_place),
    ],
    json: JsonOption = False,
) -> int:
    """Merge collections into a new one, without duplicate pages.

    Past versions and the reasons for each page are kept.
    """
    from opilio.core.display import pluralize
    from opilio.manage.merge import merge as merge_collections
    from opilio.store.postgres.collection import place_of

    merged = merge_collections(folders, into, time.time())
    if json:
        print_json(merged)
    else:
        pages, versions = pluralize(merged.pages, "page"), pluralize(merged.versions, "past version")
        print_text(f"{place_of(into)}: {pages}, {versions}, {merged.urls} URLs known")
    return 0


def copy(
    source: CollectionArgument,
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="A new folder, or postgresql://….", show_default=False, parser=parse_place
        ),
    ],
) -> int:
    """Copy a collection into a PostgreSQL database, or back.

    From a folder into a database, back, or from a database into another.
    """
    from opilio.core.display import pluralize
    from opilio.manage.merge import copy as copy_collection

    print_text(f"{pluralize(copy_collection(source, target), 'page')} copied")
    return 0


def upgrade(folder: CollectionArgument) -> int:
    """Bring a collection of an earlier Opilio to the current schema.

    A folder is upgraded by the next crawl too; a database only by this command, while no worker runs.
    """
    from opilio.store.collection import upgrade_collection
    from opilio.store.postgres.collection import place_of

    print_text(
        f"{place_of(folder)}: " + ("upgraded" if upgrade_collection(folder) else "has the current schema already")
    )
    return 0


def reindex(folder: CollectionArgument, server: ServerOption = "", json: JsonOption = False) -> int:
    """Delete the search index of a collection and build it again.

    With --server on an OpenSearch server, which then holds it: 'search' and 'serve' use it.
    """
    from opilio.core.display import pluralize
    from opilio.core.errors import CollectionError
    from opilio.search.indexer import rebuild_index, remote_index, set_index_server

    if server:
        from opilio.search.opensearch.index import OpenSearchClient, OpenSearchIndex, index_alias

        progress = OpenSearchIndex(folder, OpenSearchClient(server)).rebuild()
        set_index_server(folder, server, index_alias(folder))
    else:
        if remote_index(folder) is not None:
            set_index_server(folder, "", "")
        progress = rebuild_index(folder)
    if progress.busy:
        raise CollectionError(f"{folder}: another process is writing the index; wait for it or stop it")
    if json:
        print_json(progress)
    else:
        print_text(f"{pluralize(progress.indexed, 'page')} indexed")
    return 0


def agents(
    folder: CollectionArgument,
    retire: Annotated[
        str,
        typer.Option(metavar="NAME", help="Retire this agent; the others take over its links.", show_default=False),
    ] = "",
    json: JsonOption = False,
) -> int:
    """List the agents of a crawl, or retire one.

    Shows their state, their harvest and the words each has learned.
    """
    from opilio.manage.status import list_agents, retire_agent

    if retire:
        running = retire_agent(folder, retire, time.time())
        print_text(f"{retire}: retires " + ("now" if running else "when the crawl is resumed"))
        return 0
    found = list_agents(folder)
    if json:
        print_json({"agents": found})
    else:
        print_text("\n".join([*_format_agents_table(found), *map(_format_learnt_words, found)]))
    return 0


def _format_agents_table(found: list[dict[str, Any]]) -> list[str]:
    """Columns of text with a line for each agent, however narrow the terminal."""
    counts = ("seeds", "pages", "relevant", "harvest", "hosts", "shared", "received")
    rows = [["agent", "topic", *counts, "state"]]
    for agent in found:
        state = f"{agent['state']}: {agent['reason']}" if agent["reason"] else agent["state"]
        numbers = [f"{agent[name]:.2f}" if name == "harvest" else str(agent[name]) for name in counts]
        rows.append([agent["name"], agent["topic"], *numbers, state])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _format_learnt_words(agent: dict[str, Any]) -> str:
    words = ", ".join(agent["learnt"]) or "no new word"
    return f"{agent['name']} learned: {words} ({agent['table_size']} words in its table)"
