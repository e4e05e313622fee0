"""`opilio search` and `opilio topic subtopics`: search collections from the terminal."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.options import (
    JsonOption,
    ServerOption,
    complete_collections,
    parse_place,
    print_json,
    print_message,
    print_text,
)
from opilio.core.clock import DAY_S, format_iso_time

if TYPE_CHECKING:
    from opilio.search.results import SearchFilters
    from opilio.search.searcher import Searcher

# Unindexed pages that take more than a moment.
MIN_PAGES_TO_ANNOUNCE = 500
FoldersArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR...",
        show_default=False,
        help="Collections.",
        autocompletion=complete_collections,
        parser=parse_place,
    ),
]
QueryArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="DIR... QUERY",
        show_default=False,
        help="Collections, then the query.",
        autocompletion=complete_collections,
    ),
]
Texts = list[str] | None


def search(
    words: QueryArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Results per page.")] = 10,
    page: Annotated[int, typer.Option(min=1, help="Which page of results.")] = 1,
    sort: Annotated[str, typer.Option(metavar="ORDER", help="best, relevance, newest or added.")] = "best",
    like: Annotated[
        bool, typer.Option("--like", help="QUERY is the URL of a stored page: find similar pages.")
    ] = False,
    passages: Annotated[
        bool, typer.Option("--passages", help="Print the best passages with citations instead of pages.")
    ] = False,
    host: Annotated[Texts, typer.Option(help="Only this host. Repeatable, as the next six.")] = None,
    language: Annotated[Texts, typer.Option(help="Only this language, by its code.")] = None,
    genre: Annotated[Texts, typer.Option(help="Only this genre.")] = None,
    polarity: Annotated[Texts, typer.Option(help="Only positive, neutral or negative pages.")] = None,
    band: Annotated[Texts, typer.Option(help="Relevance: very high, high, medium, low, very low.")] = None,
    subtopic: Annotated[Texts, typer.Option(help="Only this subtopic, by its name.")] = None,
    tag: Annotated[Texts, typer.Option(help="Only pages with this tag.")] = None,
    relevant: Annotated[bool | None, typer.Option(help="Only pages judged relevant, or only others.")] = None,
    after: Annotated[str, typer.Option(metavar="DATE", help="Only pages of this date or later: 2026-01-31.")] = "",
    before: Annotated[str, typer.Option(metavar="DATE", help="Only pages of an earlier date.")] = "",
    at: Annotated[str, typer.Option(metavar="DATE", help="The collection as it was at the end of this day.")] = "",
    save: Annotated[
        str, typer.Option(metavar="NAME", help="Also save the search in the collection.", show_default=False)
    ] = "",
    saved: Annotated[
        str,
        typer.Option(metavar="NAME", help="New relevant hits of a saved search, without QUERY.", show_default=False),
    ] = "",
    server: ServerOption = "",
    json: JsonOption = False,
) -> int:
    """Search one or more collections."""
    from opilio.cli.text_output import print_hits, print_passages, print_results
    from opilio.core.errors import UsageError
    from opilio.search.query import parse_day
    from opilio.search.results import SearchFilters

    if saved:
        return _print_new_hits(words, saved, limit, json=json)
    folders, query = _split_arguments(words)
    # Checked here, because an error must name the option.
    for option, day in (("--after", after), ("--before", before)):
        parse_day(day, option)
    end = parse_day(at, "--at")
    filters = SearchFilters(
        hosts=tuple(host or ()), languages=tuple(language or ()), genres=tuple(genre or ()),
        polarities=tuple(polarity or ()), bands=tuple(band or ()), subtopics=tuple(subtopic or ()),
        tags=tuple(tag or ()), relevant=relevant, after=after, before=before,
        at=None if end is None else end + DAY_S - 1.0,
    )  # fmt: skip
    if save and not server:
        _save_search(folders, save, query, filters)
    if server:
        if like or passages or save or len(folders) != 1:
            raise UsageError("--server: searches one collection, without --like, --passages and --save")
        from opilio.search.opensearch.index import OpenSearchClient, OpenSearchIndex

        index = OpenSearchIndex(folders[0], OpenSearchClient(server))
        index.update_indexes()
        results = index.search(query, filters, page, limit, sort)
        print_json(results) if json else print_results(results)
        return 0
    searcher = _open_searcher(folders)
    if like:
        hits = searcher.similar(query, limit)
        print_json({"hits": hits}) if json else print_hits(hits)
        return 0
    if passages:
        found = searcher.passages(query, filters, limit)
        print_json(found) if json else print_passages(found)
        return 0
    results = searcher.search(query, filters, page, limit, sort)
    print_json(results) if json else print_results(results)
    return 0


def _save_search(folders: list[Path], name: str, query: str, filters: "SearchFilters") -> None:
    import time

    from opilio.core.errors import UsageError
    from opilio.search.searcher import save_query

    if len(folders) != 1:
        raise UsageError("--save: a search is saved in one collection; give one folder")
    save_query(folders[0], name, query, filters, time.time())
    print_message(f"saved; 'opilio search {folders[0]} --saved \"{name}\"' lists new relevant pages")


def _print_new_hits(words: list[str], name: str, limit: int, *, json: bool) -> int:
    """The relevant hits of a saved search that were stored since it was saved."""
    from opilio.cli.text_output import print_results
    from opilio.core.errors import UsageError
    from opilio.store.annotations import require_search
    from opilio.store.collection import open_readonly

    if len(words) != 1:
        raise UsageError("--saved: give one collection, and no query")
    folder = parse_place(words[0])
    with open_readonly(folder) as collection:
        search = require_search(collection.connection, name)
    results = _open_searcher([folder]).new_hits(search, search.at, limit)
    if not json and not results.total:
        print_message(f"no relevant page was stored since {format_iso_time(search.at)}")
        return 0
    print_json(results) if json else print_results(results)
    return 0


def subtopics(folders: FoldersArgument, json: JsonOption = False) -> int:
    """List the subtopics of the relevant pages.

    'opilio search DIR "" --subtopic NAME' shows the pages of one.
    """
    found = _open_searcher(folders).subtopics()
    if json:
        print_json({"subtopics": found})
        return 0
    for subtopic in found:
        print_text(f"{subtopic.pages:>6}  {subtopic.name}\n        {', '.join(subtopic.words)}")
    if not found:
        print_message("no subtopics: fewer than twelve relevant pages, or they are too similar")
    return 0


def _open_searcher(folders: list[Path]) -> "Searcher":
    """A searcher over indexes that are up to date, or a message if they can't be."""
    from opilio.core.display import pluralize
    from opilio.search.index import is_read_only
    from opilio.search.searcher import Searcher

    searcher = Searcher(folders)
    waiting = searcher.count_unindexed()
    if waiting >= MIN_PAGES_TO_ANNOUNCE and not any(map(is_read_only, folders)):
        print_message(f"indexing {pluralize(waiting, 'page')}")
    progress = searcher.update_indexes()
    if progress.busy:
        print_message("another process is writing the index: pages it has not indexed yet are not found")
    if progress.read_only and progress.waiting:
        print_message(f"the index lacks {pluralize(progress.waiting, 'page')} and is read-only here")
    return searcher


def _split_arguments(words: list[str]) -> tuple[list[Path], str]:
    from opilio.core.errors import UsageError
    from opilio.store.collection import collection_exists

    *folders, query = words
    if not folders:
        raise UsageError('give a collection and then the query, for example: opilio search birds/ "wren song"')
    places = [parse_place(folder) for folder in folders]
    exist = [collection_exists(place) for place in places] if len(places) > 1 else [True]
    if exist[0] and not all(exist):
        unknown = folders[exist.index(False)]
        raise UsageError(f"{unknown}: not a collection; put quotes around a query of several words")
    return places, query
