"""Split the Markdown of a page into chunks for retrieval, at headings and between blocks."""

import hashlib
import re
from collections.abc import Iterator

import msgspec

_HEADING = re.compile(r"(#{1,6}) (.+)")
_FENCE = re.compile("`{3,}")


class MarkdownChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page. The id depends only on the URL and the text, so an unchanged part keeps its id."""

    id: str
    index: int
    headings: tuple[str, ...]  # the headings above it, outermost first
    text: str


def split_markdown(url: str, markdown: str, max_words: int) -> list[MarkdownChunk]:
    """Chunks of at most `max_words` words; only a code block, table or paragraph that is longer stays whole.

    >>> for chunk in split_markdown("http://a.example/", "# Birds\\n\\nMany.\\n\\n## Wrens\\n\\nSmall and loud.", 4):
    ...     print(chunk.headings, repr(chunk.text))
    ('Birds',) '# Birds\\n\\nMany.'
    ('Birds', 'Wrens') '## Wrens\\n\\nSmall and loud.'
    """
    chunks: list[MarkdownChunk] = []
    used: dict[str, int] = {}
    for headings, text in _pack(markdown, max_words):
        digest = hashlib.sha256(f"{url}\n{text}".encode("utf-8", "replace")).hexdigest()[:24]
        repeats = used[digest] = used.get(digest, 0) + 1
        name = digest if repeats == 1 else f"{digest}-{repeats}"
        chunks.append(MarkdownChunk(id=name, index=len(chunks), headings=headings, text=text))
    return chunks


def _pack(markdown: str, max_words: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Blocks joined up to the limit; a heading starts a new chunk unless only headings are before it."""
    path: list[tuple[int, str]] = []
    blocks: list[str] = []
    words = 0
    only_headings = True
    for block in _blocks(markdown):
        heading = _HEADING.match(block)
        count = len(block.split())
        too_long = words + count > max_words and not only_headings
        if blocks and (too_long or (heading and not only_headings)):
            yield tuple(text for _, text in path), "\n\n".join(blocks)
            blocks, words, only_headings = [], 0, True
        if heading:
            path = [*((level, text) for level, text in path if level < len(heading[1])), (len(heading[1]), heading[2])]
        blocks.append(block)
        words += count
        only_headings = only_headings and heading is not None
    if blocks:
        yield tuple(text for _, text in path), "\n\n".join(blocks)


def _blocks(markdown: str) -> Iterator[str]:
    """Paragraphs, headings, tables and list items; a code block is one block, with the lines around its fences."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        found = _FENCE.match(line.lstrip(" >"))
        if found and not fence:
            fence = found[0]
        elif found and found[0] == fence:
            fence = ""
        if line.strip() or fence:
            lines.append(line)
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)
