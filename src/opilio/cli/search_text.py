"""Search results as text, with the matching words highlighted."""

from collections.abc import Sequence

from rich.console import Console

from opilio.cli.output import print_message
from opilio.core.output import pluralize
from opilio.search.hit_display import rich_hit
from opilio.search.results import SearchHit, SearchResults


def print_hits(hits: Sequence[SearchHit], first: int = 1) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for number, hit in enumerate(hits, start=first):
        console.print(rich_hit(number, hit))


def print_results(results: SearchResults) -> None:
    first = (results.page - 1) * results.size
    print_hits(results.hits, first + 1)
    for note in results.notes:
        print_message(note)
    if results.suggestion:
        print_message(f"did you mean: {results.suggestion}")
    print_message(f"{_summary_line(results, first)} ({results.took_s * 1000:.0f} ms)")


def _summary_line(results: SearchResults, first: int) -> str:
    if results.hits:
        return f"{first + 1}–{first + len(results.hits)} of {pluralize(results.total, 'page')}"
    if results.total:
        return f"no page {results.page} of results: --page goes up to {results.pages}"
    return "no results"
