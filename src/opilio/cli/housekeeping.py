"""`opilio verify`, `compact` and `merge`: keeping collections right, small and together."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opilio.cli.options import CollectionArgument, JsonOption, pluralize, print_json, print_text
from opilio.core.clock import SystemClock
from opilio.core.errors import UsageError
from opilio.manage.compact import compact as compact_collection
from opilio.manage.merge import merge as merge_collections
from opilio.manage.repair import check_and_repair
from opilio.manage.verify import MAX_PROBLEMS
from opilio.manage.verify import verify as find_problems


def verify(
    folder: CollectionArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Let go of damaged pages and have them fetched again.")
    ] = False,
    look_only: Annotated[bool, typer.Option("--look-only", help="Change nothing at all.")] = False,
    json: JsonOption = False,
) -> int:
    """Check a collection, repair what is derived; exit 1 and a list of what is left."""
    if look_only and repair:
        raise UsageError("--look-only and --repair: one changes nothing, the other does; leave one out")
    if look_only:
        problems, repaired, again = find_problems(folder), list[str](), 0
    else:
        report = check_and_repair(folder, SystemClock().now(), pages=repair)
        problems, repaired, again = report.problems, report.repaired, report.fetched_again
    if json:
        print_json({"ok": not problems, "problems": problems, "repaired": repaired, "fetched_again": again})
    else:
        lines = [*(f"repaired: {text}" for text in repaired[:MAX_PROBLEMS]), *problems[:MAX_PROBLEMS]]
        lines += [f"{pluralize(again, 'page')} will be fetched again by the next crawl"] if again else []
        print_text("\n".join(lines) or f"{folder}: everything agrees")
    return 1 if problems else 0


def compact(
    folder: CollectionArgument,
    versions: Annotated[
        int | None, typer.Option(min=0, help="Keep at most so many past versions of a page; left out: all.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Rewrite the WARC files without what belongs to no page, and the database without holes."""
    done = compact_collection(folder, SystemClock().now(), versions)
    if json:
        print_json(msgspec.to_builtins(done))
    else:
        saved = done.bytes_before - done.bytes_after
        print_text(f"{folder}: {done.records} records, {done.bytes_after:,} bytes, {saved:,} fewer than before")
        if done.files_left:
            print_text(f"{pluralize(done.files_left, 'old file')} still read by others: compact again to delete them")
    return 0


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR DIR...", help="Collections.", show_default=False)],
    into: Annotated[Path, typer.Option(help="The folder of the new collection.", show_default=False)],
    json: JsonOption = False,
) -> int:
    """Join collections into a new one: no page twice, versions and reasons kept."""
    merged = merge_collections(folders, into, SystemClock().now())
    if json:
        print_json(msgspec.to_builtins(merged))
    else:
        pages, versions = pluralize(merged.pages, "page"), pluralize(merged.versions, "past version")
        print_text(f"{into}: {pages}, {versions}, {merged.urls} URLs known")
    return 0
