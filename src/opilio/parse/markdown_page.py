"""Markdown as servers send it, converted to HTML: links, headings and text are read as on other pages."""

import re
from functools import cache
from html import escape

from markdown_it import MarkdownIt

# A longer text is cut off: the converter takes about a second for a megabyte.
MAX_CHARACTERS = 500_000
_FIRST_HEADING = re.compile(r"^# ([^\n]{1,300})", re.MULTILINE)


def markdown_to_html(text: str) -> str:
    """The page as HTML; its title is the first main heading.

    >>> markdown_to_html("# Wrens\\n\\nSee [owls](/owl).")
    '<title>Wrens</title><body><h1>Wrens</h1>\\n<p>See <a href="/owl">owls</a>.</p>\\n'
    """
    heading = _FIRST_HEADING.search(text)
    title = f"<title>{escape(heading[1].strip(' #'))}</title>" if heading else ""
    return f"{title}<body>{_converter().render(text[:MAX_CHARACTERS])}"


@cache
def _converter() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": True}).enable("table")
