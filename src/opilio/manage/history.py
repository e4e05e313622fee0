"""The stored versions of a page and what changed between them. Read-only."""

from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import SequenceMatcher
from math import isfinite
from pathlib import Path
from typing import Any

from opilio.core.errors import ParseError
from opilio.core.records import url_key
from opilio.core.urls import require_url
from opilio.frontier.sqlite.queries import url_of_key
from opilio.manage.results import HistoryVersion, PageHistory
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection, open_readonly
from opilio.store.revisits import revisit_record
from opilio.store.versions import PageVersion, follow_moves, list_versions, read_stored_response

# Comparing two texts takes quadratic time at worst: longer ones are not compared.
MAX_COMPARED_BLOCKS = 3_000
MAX_DIFF_LINES = 40


def page_history(folder: Path, url: str) -> PageHistory:
    """Every version of a page, the oldest first, each with its difference from the one before."""
    address = require_url(url)
    with open_readonly(folder) as collection:
        key = follow_moves(collection, url_key(address))
        versions = list(_describe_versions(collection, list_versions(collection, key)))
        return PageHistory(
            url=address,
            found=bool(versions),
            versions=versions,
            moved_to=url_of_key(collection.connection, key) if key != url_key(address) else None,
            **_revisit_stats(collection, key),
        )


def _describe_versions(collection: Collection, versions: list[PageVersion]) -> Iterator[HistoryVersion]:
    before: str | None = None
    for version in versions:
        text = read_main_text(collection, version)
        yield HistoryVersion(
            url=version.url,
            fetched_at=version.fetched_at,
            until=version.until if isfinite(version.until) else None,
            ended=version.cause,
            title=version.title,
            score=version.score,
            relevant=version.relevant,
            words=version.words,
            difference=[] if before is None or text is None else list(diff_blocks(before, text)),
        )
        before = text if text is not None else before


def read_main_text(collection: Collection, version: PageVersion) -> str | None:
    """The main text of a stored version; None for a copy, and where its bytes can't be read as a page."""
    fetched = read_stored_response(collection, version)
    if fetched is None:
        return None
    try:
        return HtmlParser(paths=False).parse(fetched).main_text
    except ParseError:
        return None


def diff_blocks(before: str, after: str) -> Iterator[str]:
    """Removed (`- `) and added (`+ `) blocks, at most MAX_DIFF_LINES of them.

    >>> list(diff_blocks("a b\\nc d", "a b\\nc e\\nf"))
    ['- c d', '+ c e', '+ f']
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_COMPARED_BLOCKS:
        yield f"  {len(old)} blocks before, {len(new)} now: too long to compare"
        return
    lines: list[str] = []
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            lines += [f"- {line}" for line in old[a:b]] + [f"+ {line}" for line in new[c:d]]
    yield from lines[:MAX_DIFF_LINES]
    if len(lines) > MAX_DIFF_LINES:
        yield f"  and {len(lines) - MAX_DIFF_LINES} lines more"


def _revisit_stats(collection: Collection, key: int) -> dict[str, Any]:
    """How often the page was revisited, and what changed."""
    record = revisit_record(collection.connection, key)
    if record is None:
        return {}
    return {name: getattr(record, name) for name in ("checks", "changes", "checked_at", "strikes")}


def format_utc(at: float) -> str:
    """
    >>> format_utc(0.0)
    '1970-01-01 00:00'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")
