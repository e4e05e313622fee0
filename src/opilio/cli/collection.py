"""Commands on one collection: status, why, export, label."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.main import print_error
from opilio.cli.options import (
    CollectionArgument,
    JsonOption,
    UrlArgument,
    complete_formats,
    print_json,
    print_message,
    print_text,
)
from opilio.core.display import pluralize
from opilio.core.errors import UsageError

if TYPE_CHECKING:
    from opilio.manage.results import LabelReport
    from opilio.store.annotations import AnnotationChange

Names = list[str] | None


def status(
    folder: CollectionArgument,
    forecast: Annotated[
        bool, typer.Option("--forecast", help="Estimate what 1,000, 5,000 and 20,000 fetches will find.")
    ] = False,
    json: JsonOption = False,
) -> int:
    """Show what a collection holds and how its crawl ended."""
    import msgspec

    from opilio.cli.text_output import format_forecast
    from opilio.manage.status import collection_status, describe_obstacles
    from opilio.manage.why import explain_empty_crawl

    found = collection_status(folder, forecast=forecast)
    if json:
        print_json(found)
        return 0
    values: dict[str, Any] = msgspec.to_builtins(found)
    values["harvest"] = f"{found.harvest:.3f}"
    values["genres"] = ", ".join(f"{genre} {count}" for genre, count in found.genres.items()) or "none found"
    if found.agents is not None:
        values["agents"] = "; ".join(f"{name}: {state}" for name, state in found.agents.items())
    # These have lines of their own, but for the estimate of the queue: it is not calibrated, so only --json has it.
    for name in ("forecast", "expected_relevant", "walls", "needs_browser"):
        values.pop(name, None)
    width = max(map(len, values))
    for name, value in values.items():
        print_text(f"{name.replace('_', ' '):{width}}  {value}")
    for line in describe_obstacles(found):
        print_text(line)
    if not found.pages and found.state == "stopped":
        print_text("\n".join(("no page could be fetched:", *explain_empty_crawl(folder))))
    if found.forecast is not None:
        print_text("\n".join(format_forecast(found.forecast, found.fetched)))
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
    from opilio.cli.text_output import format_history, format_why
    from opilio.manage.pages import page_history
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
        typer.Option(
            "--format",
            metavar="NAME",
            help="jsonl, csv, parquet, markdown, warc, cdxj, wacz, bibtex or ris; default: by the ending of --out.",
            autocompletion=complete_formats,
            show_default=False,
        ),
    ] = "",
    relevant: Annotated[bool, typer.Option("--relevant", help="Only pages judged relevant.")] = False,
    topic: Annotated[
        str,
        typer.Option(metavar="NAME", help="Only pages that an agent of this topic found relevant.", show_default=False),
    ] = "",
    include_noindex: Annotated[
        bool, typer.Option("--include-noindex", help="Also pages that ask not to be indexed.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PURPOSE",
            help="Leave out pages that deny this purpose: search, ai-input or ai-train. Repeatable.",
            show_default=False,
        ),
    ] = None,
    chunk_words: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Split Markdown into chunks of at most N words.", show_default=False),
    ] = 0,
    tag: Annotated[str, typer.Option(metavar="NAME", help="Only pages with this tag.", show_default=False)] = "",
    in_list: Annotated[
        str, typer.Option("--list", metavar="NAME", help="Only pages of this list, in its order.", show_default=False)
    ] = "",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file, not to stdout (-).")] = None,
) -> int:
    """Write the pages as JSON Lines, CSV, Parquet, Markdown, WARC, CDXJ, WACZ or citations."""
    import msgspec

    from opilio.manage.export import export as export_pages
    from opilio.manage.export import export_to_file, format_of
    from opilio.store.collection import open_readonly
    from opilio.store.page_selection import PageFilter, count_pages

    pages = PageFilter(
        relevant=relevant or None, topic=topic, tag=tag, in_list=in_list, include_noindex=include_noindex,
        allow=tuple(allow or ()),
    )  # fmt: skip
    if out is None or out == Path("-"):
        export_pages(folder, form or "jsonl", pages, sys.stdout.buffer, chunk_words=chunk_words)
        return 0
    count = export_to_file(folder, out, form or format_of(out), pages, chunk_words=chunk_words)
    with open_readonly(folder) as collection:
        every = msgspec.structs.replace(pages, include_noindex=True)
        copies = count_pages(collection, every, copies=True)
        hidden = count_pages(collection, every) - count_pages(collection, pages)
    left_out = [pluralize(copies, "duplicate")] if copies else []
    left_out += [f"{hidden} that ask not to be indexed (--include-noindex)"] if hidden else []
    more = f"; without {' and '.join(left_out)}" if left_out else ""
    print_message(f"{pluralize(count, 'page')} written to {out}{more}")
    return 0


# Wrong lines of a file: more of them usually have the same cause.
MAX_PROBLEMS_SHOWN = 20


def label(
    folder: CollectionArgument,
    url: Annotated[str, typer.Argument(metavar="[URL]", show_default=False, help="URL of the page.")] = "",
    relevant: Annotated[bool, typer.Option("--relevant", help="The page is on the topic.")] = False,
    irrelevant: Annotated[bool, typer.Option("--irrelevant", help="The page is not on the topic.")] = False,
    file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file of labels: URL, tab, 'relevant' or 'irrelevant'.", show_default=False
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Remove the label of the page.")] = False,
    tag: Annotated[Names, typer.Option(metavar="NAME", help="Add a tag. Repeatable, as the next three.")] = None,
    untag: Annotated[Names, typer.Option(metavar="NAME", help="Remove a tag.")] = None,
    to_list: Annotated[Names, typer.Option("--list", metavar="NAME", help="Append the page to a list.")] = None,
    unlist: Annotated[Names, typer.Option(metavar="NAME", help="Remove the page from a list.")] = None,
    note: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Set the note of the page; '' removes it.", show_default=False),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Mark pages as relevant or irrelevant, tag them, write notes, make lists.

    Judge and ranker learn labels at once, also those of a running crawl. Tags, notes and lists are for the user.
    """
    from opilio.manage.label import LabelRequest, label_pages, read_label_file
    from opilio.store.annotations import AnnotationChange

    labelled = relevant or irrelevant
    change = AnnotationChange(
        add_tags=tuple(tag or ()), remove_tags=tuple(untag or ()), note=note, add_to=tuple(to_list or ()),
        remove_from=tuple(unlist or ()),
    )  # fmt: skip
    if change != AnnotationChange():
        if labelled or undo or file is not None:
            raise UsageError("--tag, --untag, --list, --unlist, --note: give them without labels, with one URL")
        return _annotate(folder, url, change, json=json)
    if undo and (not url or file is not None or labelled):
        raise UsageError("--undo: give the URL of one page, without --relevant, --irrelevant and --file")
    if bool(url) == (file is not None):
        raise UsageError("give either a URL with --relevant, --irrelevant, --tag, --list or --note, or --file FILE")
    if relevant and irrelevant:
        raise UsageError("--relevant and --irrelevant: give only one of them")
    if url and not labelled and not undo:
        raise UsageError(f"{url}: give --relevant, --irrelevant, --undo, --tag, --list or --note")
    if file is not None and labelled:
        raise UsageError(f"--file {file}: the file holds the labels; leave out --relevant and --irrelevant")
    requests, problems = (
        ([LabelRequest(url, relevant if labelled else None, "label")], []) if file is None else read_label_file(file)
    )
    report, problems = label_pages(folder, requests, time.time(), problems)
    for problem in problems[:MAX_PROBLEMS_SHOWN]:
        print_error(problem)
    if problems:
        if len(problems) > MAX_PROBLEMS_SHOWN:
            print_error(
                f"and {pluralize(len(problems) - MAX_PROBLEMS_SHOWN, 'more line')} of {file}; nothing was stored"
            )
        return 2
    if json:
        print_json(report)
    else:
        print_text("\n".join(_lines(report, "removed" if undo else "stored")))
    return 0


def _annotate(folder: Path, url: str, change: "AnnotationChange", *, json: bool) -> int:
    import msgspec

    from opilio.core.records import url_key
    from opilio.core.urls import require_url
    from opilio.store.annotations import annotate, annotations_of
    from opilio.store.collection import open_readonly

    if not url:
        raise UsageError("give the URL of the page to annotate")
    annotate(folder, [url], change, time.time())
    with open_readonly(folder) as collection:
        found = annotations_of(collection.connection, url_key(require_url(url)))
    if json:
        print_json(found)
        return 0
    for name, value in msgspec.structs.asdict(found).items():
        print_text(f"{name:5}  {(', '.join(value) if isinstance(value, tuple) else value) or '–'}")
    return 0


def _lines(report: "LabelReport", done: str) -> list[str]:
    lines = [f"{pluralize(report.labels, 'label')} {done}, {pluralize(report.verdicts_changed, 'verdict')} changed"]
    if report.running:
        return [*lines, "a crawl is running: it learns from this with its next commit"]
    if report.waits_for:
        return [*lines, f"'opilio {report.waits_for}' is writing to the collection: the next crawl learns from this"]
    if not report.learns:
        return [*lines, "this strategy does not learn from labels: the queue is unchanged"]
    lines.append(f"{pluralize(report.moved, 'queued URL')} moved; other pages keep their verdicts")
    lines += [f"  {m.before:.3f} → {m.after:.3f}  {m.url}" for m in report.top_moves]
    return lines
