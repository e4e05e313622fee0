"""Export pages as Markdown: one file per page with front matter, JSON lines, or chunks for retrieval."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from opilio.core.clock import format_iso_time
from opilio.core.display import strip_controls
from opilio.core.errors import ParseError
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url
from opilio.manage.pages import PageTable, StoredPage
from opilio.parse.extract import extract_content
from opilio.parse.markdown import CODE_FENCE
from opilio.parse.signals import PageSignals
from opilio.store.warc import read_record
from opilio.text.languages import detect_language

_HEADING = re.compile(r"(#{1,6}) (.+)")
_LINK = re.compile(r"(?<!\\)\[((?:\\.|[^\]\[\\])*)\]\((?:<[^<>]*>|(?:[^()\s]|\([^()\s]*\))*)\)")
# Escaped characters, and the marks of emphasis and code.
_MARKS = re.compile(r"\\([!-/:-@\[-`{-~])|[*`]")


class MarkdownChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a page. The id depends only on the URL and the text, so an unchanged part keeps its id."""

    id: str
    index: int
    # The headings above it, as plain text, outermost first.
    headings: tuple[str, ...]
    text: str


def split_markdown(url: str, markdown: str, max_words: int) -> list[MarkdownChunk]:
    """Chunks of at most `max_words` words; only a code block, table row or paragraph that is longer stays whole.

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
    for block in chain.from_iterable(_split_table(block, max_words) for block in _blocks(markdown)):
        heading = _HEADING.match(block)
        count = len(block.split())
        too_long = words + count > max_words and not only_headings
        if blocks and (too_long or (heading and not only_headings)):
            yield tuple(text for _, text in path), "\n\n".join(blocks)
            blocks, words, only_headings = [], 0, True
        if heading:
            path = [
                *((level, text) for level, text in path if level < len(heading[1])),
                (len(heading[1]), _plain_text(heading[2])),
            ]
        blocks.append(block)
        words += count
        only_headings = only_headings and heading is not None
    if blocks:
        yield tuple(text for _, text in path), "\n\n".join(blocks)


def _plain_text(line: str) -> str:
    """A line of Markdown without its marks.

    >>> _plain_text("[Wrens](http://a.example/(1)) and `a_list` of *star\\\\_names*")
    'Wrens and a_list of star_names'
    """
    return _MARKS.sub(lambda mark: mark[1] or "", _LINK.sub(r"\1", line))


def _blocks(markdown: str) -> Iterator[str]:
    """Paragraphs, headings, tables and list items; a code block is one block, with the lines around its fences."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        found = CODE_FENCE.match(line.lstrip(" >"))
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


def _split_table(block: str, max_words: int) -> Iterator[str]:
    """A table that is too long as several tables with the same header; any other block as it is."""
    lines = block.split("\n")
    is_table = len(lines) > 3 and block.lstrip(" >").startswith("|") and lines[1].lstrip(" >").startswith("| ---")
    if not is_table or len(block.split()) <= max_words:
        yield block
        return
    header, rows = lines[:2], lines[2:]
    start = len(" ".join(header).split())
    part, words = [*header, rows[0]], start + len(rows[0].split())
    for row in rows[1:]:
        count = len(row.split())
        if words + count > max_words:
            yield "\n".join(part)
            part, words = [*header], start
        part.append(row)
        words += count
    yield "\n".join(part)


_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_MAX_SLUG = 60
_encode = msgspec.json.Encoder().encode


class MarkdownPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page as Markdown with its metadata; an empty string if the page does not state a value."""

    url: str
    canonical: str
    title: str
    author: str
    published: str
    modified: str
    language: str
    licence: str
    fetched_at: str
    score: float
    relevant: bool
    # Why a part is missing; empty for a whole page.
    truncated: str
    content_hash: str
    signals: PageSignals
    markdown: str


def markdown_pages(pages: PageTable) -> Iterator[MarkdownPage]:
    """The pages as Markdown; pages without content are left out."""
    for page in pages:
        converted = convert_page(page)
        if converted is not None and converted.markdown:
            yield converted


def convert_page(page: StoredPage) -> MarkdownPage | None:
    """A stored page as Markdown; None if its record does not parse as a page."""
    if not page.position.length:
        return None
    try:
        extracted = extract_content(read_record(page.folder, *page.position))
    except ParseError:
        return None
    stated = extracted.metadata
    digest = hashlib.sha256(extracted.content.encode("utf-8", "replace")).hexdigest()
    return MarkdownPage(
        url=page.url,
        canonical=extracted.canonical or page.url,
        title=stated.title or page.title,
        author=stated.author,
        published=stated.published,
        modified=stated.modified,
        language=page.language or extracted.language or detect_language(extracted.content),
        licence=_absolute_licence(stated.licence, page.url),
        fetched_at=format_iso_time(page.fetched_at),
        score=page.score,
        relevant=page.relevant,
        truncated=str(page.values.get("truncated", "")),
        content_hash=f"sha256:{digest}",
        signals=page.signals,
        markdown=extracted.content,
    )


def _absolute_licence(licence: str, url: str) -> str:
    """A licence as an absolute URL; a name, such as CC BY 4.0, stays as it is."""
    return licence if not licence or " " in licence else canonicalize_url(licence, url) or licence


def write_markdown_lines(pages: PageTable, out: BinaryIO, chunk_words: int = 0) -> int:
    """Write a JSON object per page, or per chunk of at most `chunk_words` words; returns the number of pages."""
    count = 0
    for page in markdown_pages(pages):
        out.writelines(_encode(row) + b"\n" for row in (_chunk_rows(page, chunk_words) if chunk_words else [page]))
        count += 1
    return count


def _chunk_rows(page: MarkdownPage, chunk_words: int) -> Iterator[dict[str, object]]:
    about = {name: value for name, value in msgspec.to_builtins(page).items() if name != "markdown"}
    for chunk in split_markdown(page.url, page.markdown, chunk_words):
        yield {"id": chunk.id, "index": chunk.index, "headings": chunk.headings, "text": chunk.text, **about}


def write_markdown_files(pages: PageTable, target: Path) -> int:
    """Write a folder with a `.md` file per page, one subfolder per host; it appears when it is complete."""
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    count = 0
    try:
        part.mkdir(parents=True)
        for page in markdown_pages(pages):
            path = part / page_file_name(page.url)
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{front_matter(page)}\n{page.markdown}\n", encoding="utf-8", errors="replace")
            count += 1
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return count


def page_file_name(url: str) -> str:
    """The name of a page's file: readable, safe on every file system, unique by the key of the URL.

    >>> page_file_name("http://a.example:8080/birds/Wren (bird)?x=1")
    'a.example-8080/birds-Wren-bird-f1c68cc523e2.md'
    """
    parts = urlsplit(url)
    slug = _NOT_IN_NAMES.sub("-", unquote(parts.path)).strip("-.")[:_MAX_SLUG].rstrip("-.") or "index"
    host = _NOT_IN_NAMES.sub("-", parts.netloc).strip("-.") or "host"
    return f"{host}/{slug}-{url_key(url) & 0xFFFFFFFFFFFF:012x}.md"


def front_matter(page: MarkdownPage) -> str:
    """The metadata as YAML between lines of hyphens. Values are written as JSON, which YAML includes."""
    values = {
        name: value for name, value in msgspec.to_builtins(page).items() if name != "markdown" and value not in ("", {})
    }
    lines = (strip_controls(f"{name}: {_encode(value).decode()}") for name, value in values.items())
    return "\n".join(["---", *lines, "---", ""])
