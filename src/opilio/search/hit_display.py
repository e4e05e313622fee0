"""Search results as rich text for terminals and as HTML for notebooks."""

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.text import Text

    from opilio.search.passages import Passage
    from opilio.search.results import SearchHit, SearchResults, TextSegment


def rich_results(results: "SearchResults") -> "Group":
    """All hits of one page of results."""
    from rich.console import Group

    first = (results.page - 1) * results.size + 1
    return Group(*(rich_hit(number, hit) for number, hit in enumerate(results.hits, start=first)))


def rich_hit(number: int, hit: "SearchHit") -> "Text":
    """One hit with its place: title, URL, snippet, facts."""
    from rich.text import Text

    text = Text(f"{number:>3}. ").append_text(_rich_segments(hit.title, "bold"))
    text.append(f"\n     {hit.url}\n", "cyan")
    text.append("     ").append_text(_rich_segments(hit.snippet, ""))
    return text.append(f"\n     {' · '.join(_facts(hit))}\n", "dim")


def rich_passage(number: int, passage: "Passage") -> "Text":
    """One passage with its place and its citation."""
    from rich.text import Text

    text = Text(passage.text)
    for start, end in passage.highlights:
        text.stylize("bold yellow", start, end)
    return Text(f"{number:>3}. ").append_text(text).append(f"\n     {passage.citation}\n", "cyan")


def html_results(results: "SearchResults") -> str:
    """All hits of one page of results; text of the web is escaped, links to other schemes than http(s) are not made."""
    first = (results.page - 1) * results.size + 1
    items = "".join(f"<li>{_html_hit(hit)}</li>" for hit in results.hits)
    return f'<p>{results.total} pages</p><ol start="{first}">{items}</ol>'


def _html_hit(hit: "SearchHit") -> str:
    title, url = _html_segments(hit.title), escape(hit.url)
    link = f'<a href="{url}">{title}</a>' if hit.url.startswith(("http://", "https://")) else title
    return f"{link}<br>{url}<br>{_html_segments(hit.snippet)}<br><small>{escape(' · '.join(_facts(hit)))}</small>"


def _facts(hit: "SearchHit") -> list[str]:
    found = "similar in meaning" if hit.by_meaning else ""
    facts = (found, hit.language, hit.genre, hit.polarity, hit.subtopic)
    return [f"relevance {hit.relevance:.2f}", *(fact for fact in facts if fact)]


def _rich_segments(segments: "Sequence[TextSegment]", style: str) -> "Text":
    from rich.text import Text

    text = Text()
    for segment in segments:
        text.append(segment.text, "bold yellow" if segment.marked else style)
    return text


def _html_segments(segments: "Sequence[TextSegment]") -> str:
    return "".join(f"<b>{escape(s.text)}</b>" if s.marked else escape(s.text) for s in segments)
