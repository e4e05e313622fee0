"""`opilio label`: the user marks pages as relevant or irrelevant."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.main import print_error
from opilio.cli.options import CollectionArgument, JsonOption
from opilio.cli.output import print_json, print_text
from opilio.core.errors import UsageError
from opilio.core.output import pluralize

if TYPE_CHECKING:
    from opilio.manage.results import LabelReport

MAX_PROBLEMS_SHOWN = 20  # wrong lines of a file: more of them usually have the same cause


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
    json: JsonOption = False,
) -> int:
    """Mark pages as relevant or irrelevant; the crawl learns from it.

    Judge and ranker learn at once, also those of a running crawl.
    """
    from opilio.manage.label import LabelRequest, label_pages, read_label_file

    labelled = relevant or irrelevant
    if undo and (not url or file is not None or labelled):
        raise UsageError("--undo: give the URL of one page, without --relevant, --irrelevant and --file")
    if bool(url) == (file is not None):
        raise UsageError("give either a URL with --relevant or --irrelevant, or --file FILE")
    if url and relevant == irrelevant and not undo:
        raise UsageError(f"{url}: give --relevant, --irrelevant or --undo")
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
