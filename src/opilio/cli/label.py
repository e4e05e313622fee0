"""The command `label`: a person's word about pages."""

from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.main import print_error
from opilio.cli.options import CollectionArgument, JsonOption, pluralize, print_json, print_text
from opilio.core.clock import SystemClock
from opilio.core.errors import UsageError
from opilio.manage.label import LabelRequest, read_label_file
from opilio.manage.label import label_pages as take_labels
from opilio.manage.results import LabelReport

MAX_PROBLEMS_SHOWN = 20  # wrong lines of a file: more than that have one reason, and nobody reads them


def label(
    folder: CollectionArgument,
    url: Annotated[str, typer.Argument(metavar="[URL]", show_default=False, help="The page's address.")] = "",
    relevant: Annotated[bool, typer.Option("--relevant", help="The page is on the topic.")] = False,
    irrelevant: Annotated[bool, typer.Option("--irrelevant", help="The page is not on the topic.")] = False,
    file: Annotated[
        Path | None, typer.Option(help="A file of labels: URL, tab, 'relevant' or 'irrelevant'.", show_default=False)
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what was said of the page.")] = False,
    json: JsonOption = False,
) -> int:
    """Say which pages are on the topic: judge and ranker learn it at once, of a running crawl too."""
    said = relevant or irrelevant
    if undo and (not url or file is not None or said):
        raise UsageError("--undo: give the URL of one page, without --relevant, --irrelevant and --file")
    if bool(url) == (file is not None):
        raise UsageError("give either a URL with --relevant or --irrelevant, or --file FILE")
    if url and relevant == irrelevant and not undo:
        raise UsageError(f"{url}: say either --relevant or --irrelevant, or --undo")
    if file is not None and said:
        raise UsageError(f"--file {file}: says itself what is relevant; leave --relevant and --irrelevant out")
    given, problems = (
        ([LabelRequest(url, relevant if said else None, "label")], []) if file is None else read_label_file(file)
    )
    report, problems = take_labels(folder, given, SystemClock().now(), problems)
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
        print_text("\n".join(_lines(report, "taken back" if undo else "stored")))
    return 0


def _lines(report: LabelReport, done: str) -> list[str]:
    lines = [f"{pluralize(report.labels, 'label')} {done}, {pluralize(report.verdicts_changed, 'verdict')} changed"]
    if report.running:
        return [*lines, "a crawl is running: it learns from them with its next commit"]
    if report.waits_for:
        return [*lines, f"'opilio {report.waits_for}' is writing to the collection: the next crawl learns from them"]
    if not report.learns:
        return [*lines, "this strategy does not learn from labels: the queue stays as it is"]
    lines.append(f"{pluralize(report.moved, 'queued URL')} changed place; pages judged before keep their verdicts")
    lines += [f"  {m.before:.3f} → {m.after:.3f}  {m.url}" for m in report.top_moves]
    return lines
