"""`opilio search`: what the collections know of a question, in the terminal; and `opilio index rebuild`."""

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from opilio.cli.options import CollectionArgument, JsonOption, pluralize, print_json, print_text
from opilio.core.errors import CollectionError, UsageError
from opilio.search.hit_display import rich_hit
from opilio.search.index import is_read_only
from opilio.search.indexer import rebuild_index as make_again
from opilio.search.query_builder import parse_day
from opilio.search.results import BANDS, SORT_ORDERS, SearchFilters, SearchResults
from opilio.search.searcher import Searcher

app = typer.Typer(help="The full-text index of a collection.", no_args_is_help=True)

MIN_PAGES_TO_ANNOUNCE = 500  # pages that take more than a moment to be indexed
DAY_S = 86_400.0
Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", show_default=False, help="Collections.")]
UrlArgument = Annotated[str, typer.Argument(metavar="URL", show_default=False, help="The page's address.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Hits a page.")]
QueryArgument = Annotated[
    list[str], typer.Argument(metavar="DIR... QUERY", show_default=False, help="Collections, then what to look for.")
]


def search(
    question: QueryArgument,
    limit: Limit = 10,
    page: Annotated[int, typer.Option(min=1, help="Which page of hits.")] = 1,
    sort: Annotated[str, typer.Option(help=f"One of {', '.join(SORT_ORDERS)}.")] = "best",
    host: Annotated[list[str] | None, typer.Option(help="Only this host; may be given several times.")] = None,
    language: Annotated[list[str] | None, typer.Option(help="Only this language, by its code.")] = None,
    genre: Annotated[list[str] | None, typer.Option(help="Only this genre.")] = None,
    band: Annotated[list[str] | None, typer.Option(help=f"Relevance: {', '.join(name for name, _ in BANDS)}.")] = None,
    subtopic: Annotated[list[str] | None, typer.Option(help="Only this subtopic, by its name.")] = None,
    relevant: Annotated[bool | None, typer.Option(help="Only pages judged relevant, or only others.")] = None,
    after: Annotated[str, typer.Option(help="Only pages dated so or later: 2026-01-31.")] = "",
    before: Annotated[str, typer.Option(help="Only pages dated earlier.")] = "",
    at: Annotated[str, typer.Option(help="The collection as it was at the end of this day: 2026-01-31.")] = "",
    json: JsonOption = False,
) -> int:
    """Search one collection or several."""
    folders, query = _split_arguments(question)
    filters = SearchFilters(
        hosts=tuple(host or ()), languages=tuple(language or ()), genres=tuple(genre or ()), bands=tuple(band or ()),
        subtopics=tuple(subtopic or ()), relevant=relevant, after=after, before=before, at=_end_of_day(at),
    )  # fmt: skip
    searcher = _open_searcher(folders)
    results = searcher.search(query, filters, page, limit, sort)
    if json:
        print_json(msgspec.to_builtins(results))
    else:
        _print_results(results)
    return 0


@app.command()
def subtopics(folders: Folders, json: JsonOption = False) -> int:
    """List what the relevant pages divide into; search with --subtopic NAME shows the pages of one."""
    found = _open_searcher(folders).subtopics()
    if json:
        print_json({"subtopics": msgspec.to_builtins(found)})
        return 0
    for subtopic in found:
        print_text(f"{subtopic.pages:>6}  {subtopic.name}\n        {', '.join(subtopic.words)}")
    if not found:
        sys.stderr.write("no subtopics: there are fewer than twelve relevant pages, or they are too much alike\n")
    return 0


@app.command()
def like(folder: CollectionArgument, url: UrlArgument, limit: Limit = 10, json: JsonOption = False) -> int:
    """List pages that are like a page."""
    hits = _open_searcher([folder]).similar(url, limit)
    if json:
        print_json({"hits": msgspec.to_builtins(hits)})
        return 0
    console = Console(highlight=False, soft_wrap=True)
    for number, hit in enumerate(hits, start=1):
        console.print(rich_hit(number, hit))
    return 0


@app.command()
def rebuild(folder: CollectionArgument, json: JsonOption = False) -> int:
    """Throw the index of a collection away and make it again."""
    progress = make_again(folder)
    if progress.busy:
        raise CollectionError(f"{folder}: another process is writing its index; wait for it or stop it")
    if json:
        print_json(msgspec.to_builtins(progress))
    else:
        sys.stdout.write(f"{pluralize(progress.indexed, 'page')} indexed\n")
    return 0


def _open_searcher(folders: list[Path]) -> Searcher:
    searcher = Searcher(folders)
    waiting = searcher.count_unindexed()
    if waiting >= MIN_PAGES_TO_ANNOUNCE and not any(map(is_read_only, folders)):
        sys.stderr.write(f"taking {waiting} pages into the index\n")
    progress = searcher.update_indexes()
    if progress.busy:
        sys.stderr.write("another process is writing the index: what it has not taken in yet is not found\n")
    if progress.read_only and progress.waiting:
        sys.stderr.write(f"the index lacks {pluralize(progress.waiting, 'page')} and can't be written here\n")
    return searcher


def _end_of_day(day: str) -> float | None:
    start = parse_day(day, "--at")
    return None if start is None else start + DAY_S - 1.0


def _split_arguments(question: list[str]) -> tuple[list[Path], str]:
    *folders, query = question
    if not folders:
        raise UsageError('name a collection and then the query, such as: opilio search birds/ "wren song"')
    return [Path(folder) for folder in folders], query


def _print_results(results: SearchResults) -> None:
    console = Console(highlight=False, soft_wrap=True)
    first = (results.page - 1) * results.size
    for number, hit in enumerate(results.hits, start=first + 1):
        console.print(rich_hit(number, hit))
    for note in results.notes:
        sys.stderr.write(f"{note}\n")
    if results.suggestion:
        sys.stderr.write(f"did you mean: {results.suggestion}\n")
    sys.stderr.write(f"{_summary_line(results, first)} ({results.took_s * 1000:.0f} ms)\n")


def _summary_line(results: SearchResults, first: int) -> str:
    if results.hits:
        return f"{first + 1}–{first + len(results.hits)} of {pluralize(results.total, 'page')}"
    if results.total:
        return f"there is no page {results.page} of hits: --page goes up to {results.pages}"
    return "nothing found"
