"""A page as Markdown: headings, lists, tables and code blocks of its main content."""

import re
from contextlib import suppress
from urllib.parse import urljoin

from turbohtml import Element, Markdown

from opilio.parse.tables import flatten_tables

_FENCE = re.compile("`{3,}")
# The renderer writes emphasis as HTML where Markdown can't express it; the text matters more.
_EMPHASIS_TAG = re.compile(r"`[^`]*`|</?(?:em|strong)>")
_BLANK_LINES = re.compile(r"\n{3,}")
# How highlighters name the language of a code block: Sphinx, GitHub, Prism, highlight.js, SyntaxHighlighter.
_LANGUAGE = re.compile(r"(?:^|\s)(?:highlight-source-|highlight-|language-|lang-|brush:\s*)([\w+#-]+)", re.IGNORECASE)
_NO_LANGUAGE = frozenset({"none", "default", "text", "notranslate", "plaintext"})
_LANGUAGE_LEVELS = 3  # a code block and the elements around it that may name its language


def render_markdown(main: Element, base: str, *, links: bool = True) -> str:
    """The element as GitHub-flavored Markdown with absolute links.

    Without `links`, the text in the same layout: no links, emphasis or escapes.
    """
    options = Markdown(
        inline=Markdown.Inline(ignore_emphasis=not links),
        links=Markdown.Links(ignore=not links, autolink=links),
        images=Markdown.Images(mode="ignore"),
        tables=Markdown.Tables(cell_blocks="text"),
        escaping=Markdown.Escaping() if links else Markdown.Escaping(mode="none", asterisks=False, underscores=False),
    )
    if links:
        _resolve_links(main, base)
    _mark_languages(main)
    flatten_tables(main)
    lines, inside, fence = [], False, ""
    for line in str(main.to_markdown(options)).split("\n"):
        found = _FENCE.match(line.lstrip(" >"))
        mark = found[0] if found else ""
        if mark and (not inside or mark == fence):
            inside, fence = not inside, mark
        elif not inside and "<" in line:
            line = _EMPHASIS_TAG.sub(lambda found: found[0] if found[0][0] == "`" else "", line)
        lines.append(line if inside else line.rstrip() + ("  " if line.endswith("  ") and line.strip() else ""))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


def _resolve_links(main: Element, base: str) -> None:
    for link in main.select("a[href]"):
        with suppress(ValueError):
            link.attrs["href"] = urljoin(base, link.attr("href") or "")


def _mark_languages(main: Element) -> None:
    """Give each code block the class that the renderer reads its language from."""
    for block in main.select("pre"):
        names = [block, *block.select("code")[:1], *list(block.ancestors)[: _LANGUAGE_LEVELS - 1]]
        for element in names:
            found = _LANGUAGE.search((element.attr("class") or "") if isinstance(element, Element) else "")
            if found and found[1].lower() not in _NO_LANGUAGE:
                language = "python" if found[1] == "python3" else found[1].lower()
                target = block.find("code") or block
                target.attrs["class"] = f"language-{language}"
                break
