"""Export pages as citations: BibTeX for LaTeX, RIS for Zotero, EndNote and Mendeley."""

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from opilio.manage.formats.markdown import convert_page
from opilio.manage.pages import PageTable, StoredPage
from opilio.store.annotations import split_tags
from opilio.store.page_selection import NOTE_COLUMN, TAGS_COLUMN

_SPECIAL = re.compile(r"[\\{}$&#^_%~]")
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{char: f"\\{char}" for char in "{}$&#_%"},
}
_ISO_DAY = re.compile(r"\d{4}(?:-\d\d(?:-\d\d)?)?")


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """What a citation states about a page; an empty string if the page does not state it."""

    url: str
    title: str
    author: str
    published: str  # ISO date or year
    site: str
    language: str
    description: str
    retrieved: str  # ISO date of the fetch
    tags: str = ""  # of the user, with commas between them
    note: str = ""  # of the user


def write_bibtex(pages: PageTable, out: BinaryIO) -> int:
    """Write BibTeX entries with distinct keys; returns how many."""
    used: set[str] = set()

    def entry(page: Citation) -> str:
        key = base = _key(page)
        number = 1
        while key in used:
            number += 1
            key = f"{base}-{number}"
        used.add(key)
        return bibtex_entry(page, key)

    return _write(pages, out, entry)


def write_ris(pages: PageTable, out: BinaryIO) -> int:
    """Write RIS records; returns how many."""
    return _write(pages, out, ris_record)


def _write(pages: PageTable, out: BinaryIO, form: Callable[[Citation], str]) -> int:
    count = 0
    for citation in map(cite_page, pages):
        out.write(form(citation).encode("utf-8", "replace"))
        count += 1
    return count


def cite_page(page: StoredPage) -> Citation:
    """The citation of a stored page: its own statements if its record can be read, else the stored columns."""
    stated = convert_page(page)
    day = _ISO_DAY.match(stated.published) if stated else None
    return Citation(
        url=stated.canonical if stated else page.url,
        title=_line(stated.title if stated else page.title) or page.url,
        author=_line(stated.author) if stated else "",
        published=day[0] if day else "",
        site=page.host,
        language=page.language,
        description=_line(page.description),
        retrieved=datetime.fromtimestamp(page.fetched_at, UTC).date().isoformat(),
        tags=page.values[TAGS_COLUMN],
        note=_line(page.values[NOTE_COLUMN]),
    )


def bibtex_entry(page: Citation, key: str) -> str:
    """One entry of type `misc`, which every style knows; URL fields are those of biblatex and common styles."""
    fields = [
        ("author", f"{{{_escape(page.author)}}}" if page.author else ""),
        ("title", f"{{{_escape(page.title)}}}"),
        ("year", page.published[:4]),
        ("date", page.published),
        ("howpublished", _escape(page.site)),
        ("language", page.language),
        ("abstract", _escape(page.description)),
        ("url", _escape_url(page.url)),
        ("urldate", page.retrieved),
        ("keywords", _escape(page.tags)),
        ("annote", _escape(page.note)),
    ]
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields if value)
    return f"@misc{{{key},\n{lines}}}\n\n"


def ris_record(page: Citation) -> str:
    """One record of type `ELEC`, a web page."""
    return "".join(f"{tag}  - {value}\r\n" for tag, value in _ris_fields(page)) + "\r\n"


def _ris_fields(page: Citation) -> Iterator[tuple[str, str]]:
    yield "TY", "ELEC"
    optional = [
        ("TI", page.title),
        ("AU", page.author),
        ("PY", page.published[:4]),
        ("DA", page.published.replace("-", "/")),
        ("PB", page.site),
        ("LA", page.language),
        ("AB", page.description),
        ("UR", page.url),
        ("Y2", page.retrieved.replace("-", "/")),
        *(("KW", tag) for tag in split_tags(page.tags)),
        ("N1", page.note),
    ]
    yield from ((tag, value) for tag, value in optional if value)
    yield "ER", ""


def _key(page: Citation) -> str:
    """A readable key: the first words of author or title, and the year.

    >>> page = Citation(url="", title="The wren: a guide", author="", published="2026-01-31", site="", language="",
    ...                 description="", retrieved="")
    >>> _key(page)
    'the-wren-a-2026'
    """
    plain = unicodedata.normalize("NFKD", f"{page.author} {page.title}").encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain)[:3] or [page.site or "page"]
    return "-".join([*words, page.published[:4]]).strip("-")


def _line(text: str) -> str:
    """The text in one line, without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _escape(text: str) -> str:
    """Text for BibTeX: characters with a meaning in LaTeX are escaped.

    >>> _escape("R&D 100% {x}")
    'R\\\\&D 100\\\\% \\\\{x\\\\}'
    """
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], text)


def _escape_url(url: str) -> str:
    """A URL for BibTeX: it is written verbatim, so only braces and backslashes, which would end it, are encoded."""
    return url.replace("\\", "%5C").replace("{", "%7B").replace("}", "%7D")
