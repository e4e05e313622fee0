"""A query log as a file: one query per line, or a table with a column `query` and perhaps `time` (S4-03).

Only reads; what queries mean for a table is decided in `topic.querylog`.
"""

import csv
import random
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from io import StringIO
from itertools import groupby, islice
from math import isfinite
from pathlib import Path
from typing import Literal

import msgspec

from opilio.model.errors import TopicError

QUERY_COLUMNS = ("query", "q", "keywords", "text")
TIME_COLUMNS = ("time", "timestamp", "date", "at", "querytime")
SEPARATORS = (",", ";", "\t")
_ASKED = frozenset(QUERY_COLUMNS)
SIMULATED = "simulated"  # in the place of a file: people who ask with the topic's own words, for the lab
PER_INTERVAL = 20
SILENT = 64  # empty intervals in a row after which nothing asked before is left: memory is at most a half


class Query(msgspec.Struct, frozen=True):
    """What somebody asked, and when (seconds since 1970, 0 where the log does not tell)."""

    text: str
    at: float = 0.0


def read_log(path: Path) -> list[Query]:
    """All queries of a log in their order; TopicError names the file and what is wrong with it."""
    text = _text(path)
    first = text.partition("\n")[0]
    for separator in SEPARATORS:
        header = _header(first, separator)
        if len(header) > 1 and not _ASKED.isdisjoint(header):
            return _from_table(path, text, header, separator)
        # Queries may hold commas; but not where the file is a table by its name or has a column for the time.
        if len(header) > 1 and (path.suffix.lower() in (".csv", ".tsv") or not set(TIME_COLUMNS).isdisjoint(header)):
            raise TopicError(f"query log {path}: has the columns {', '.join(header)}; call that of the queries 'query'")
    lines = [line.strip() for line in text.splitlines()]
    return [Query(line) for line in (lines[1:] if lines and lines[0].lower() in _ASKED else lines) if line]


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TopicError(f"query log {path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TopicError(f"query log {path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if "\0" in text[:2]:
        raise TopicError(f"query log {path}: is not UTF-8 text, perhaps UTF-16; save it as UTF-8")
    return text


def _header(line: str, separator: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in line.split(separator)]


def simulated(words: Sequence[str], numbers: range) -> list[str]:
    """Queries of two or three of the words, the first words most often; the same number is always the same query."""
    if not words:
        return []
    weights = [1.0 / place for place in range(1, len(words) + 1)]
    asked = []
    for number in numbers:
        rng = random.Random(f"{words[0]} {number}")
        asked.append(" ".join(rng.choices(words, weights, k=rng.choice((2, 2, 3)))))
    return asked


def intervals(queries: Iterable[Query], length_s: float) -> list[list[str]]:
    """The queries of each interval, oldest first; without a length they are one interval.

    Intervals without a query count too: what was asked before fades (S4-E8). Queries without a time are of the first.
    """
    asked = sorted(queries, key=lambda q: q.at)
    if not asked or length_s <= 0:
        return [[q.text for q in asked]]
    first = next((q.at for q in asked if q.at), 0.0)
    found: list[list[str]] = []
    last = 0.0
    for number, same in groupby(asked, key=lambda q: max(0.0, q.at - first) // length_s):
        found += [[] for _ in range(int(min(number - last - 1, SILENT)))]
        found.append([q.text for q in same])
        last = number
    return found


def _from_table(path: Path, text: str, header: list[str], separator: str) -> list[Query]:
    """Quotes hold a cell together, but for tables with tabs: there they are a part of the query."""
    asked = next(header.index(name) for name in QUERY_COLUMNS if name in header)
    timed = next((header.index(name) for name in TIME_COLUMNS if name in header), None)
    quoting: Literal[0, 3] = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    rows = csv.reader(StringIO(text, newline=""), delimiter=separator, quoting=quoting)
    queries = []
    try:
        for row in islice(rows, 1, None):
            query, time = (row[at].strip() if at is not None and at < len(row) else "" for at in (asked, timed))
            if query:
                queries.append(Query(query, _seconds(time, path, rows.line_num)))
    except csv.Error as error:
        raise TopicError(f"query log {path}: line {rows.line_num}: {error}; perhaps a quote is left open") from error
    return queries


def _seconds(text: str, path: Path, line: int) -> float:
    """A time as seconds: a number, or ISO 8601 (UTC where it names no zone)."""
    if not text:
        return 0.0
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise TopicError(
            f"query log {path}: line {line}: '{text}' is no time; write 2026-01-31T12:00 or seconds since 1970"
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
