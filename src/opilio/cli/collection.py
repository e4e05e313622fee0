"""Commands that read a collection: status, why, export."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.options import CollectionArgument, JsonOption, UrlArgument, complete_formats
from opilio.cli.output import print_json, print_message, print_text


def status(folder: CollectionArgument, json: JsonOption = False) -> int:
    """Show what a collection holds and how its crawl ended."""
    import msgspec

    from opilio.manage.status import collection_status

    found = collection_status(folder)
    if json:
        print_json(found)
        return 0
    values: dict[str, Any] = msgspec.to_builtins(found)
    values["harvest"] = f"{found.harvest:.3f}"
    values["genres"] = ", ".join(f"{genre} {count}" for genre, count in found.genres.items()) or "none found"
    if found.agents is not None:
        values["agents"] = "; ".join(f"{name}: {state}" for name, state in found.agents.items())
    width = max(map(len, values))
    for name, value in values.items():
        print_text(f"{name.replace('_', ' '):{width}}  {value}")
    return 0


def why(
    folder: CollectionArgument,
    url: UrlArgument,
    history: Annotated[
        bool, typer.Option("--history", help="List the stored versions of the page and what changed.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Explain why a URL was fetched, skipped or kept."""
    from opilio.cli.why_text import format_history, format_why
    from opilio.manage.history import page_history
    from opilio.manage.why import why as explain

    if history:
        versions = page_history(folder, url)
        print_json(versions) if json else print_text("\n".join(format_history(versions)))
        return 0 if versions.found else 1
    explanation = explain(folder, url)
    print_json(explanation) if json else print_text("\n".join(format_why(explanation)))
    return 0 if explanation.found else 1


def export(
    folder: CollectionArgument,
    form: Annotated[
        str,
        typer.Option("--format", metavar="NAME", help="jsonl, csv, parquet or warc.", autocompletion=complete_formats),
    ] = "jsonl",
    relevant: Annotated[bool, typer.Option("--relevant", help="Only pages judged relevant.")] = False,
    topic: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only pages that an agent of this topic found relevant.", show_default=False),
    ] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file instead of stdout.")] = None,
) -> int:
    """Write the pages as JSON Lines, CSV, Parquet or WARC."""
    from opilio.core.output import pluralize
    from opilio.manage.export import export as export_pages
    from opilio.manage.export import export_to_file
    from opilio.store.page_selection import PageFilter

    pages = PageFilter(relevant=relevant or None, topic=topic)
    if out is None:
        export_pages(folder, form, pages, sys.stdout.buffer)
        return 0
    count = export_to_file(folder, out, form, pages)
    print_message(f"{pluralize(count, 'page')} written to {out}")
    return 0
