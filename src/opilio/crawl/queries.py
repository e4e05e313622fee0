"""A query log as a file: one query per line, or CSV with a column `query` and perhaps `time` (S4-03).

Only reads; what queries mean for a table is decided in `topic.querylog`.
"""

import csv
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

import msgspec

from opilio.model.errors import TopicError

QUERY_COLUMNS = ("query", "q", "keywords", "text")
TIME_COLUMNS = ("time", "timestamp", "date", "at")
SIMULATED = "simulated"  # in the place of a file: people who ask with the topic's own words, for the lab
PER_INTERVAL = 20
SILENT = 64  # empty intervals in a row after which nothing asked before is left: memory is at most a half


class Query(msgspec.Struct, frozen=True):
    """What somebody asked, and when (seconds since 1970, 0 where the log does not tell)."""

    text: str
    at: float = 0.0


def read_log(path: Path) -> list[Query]:
    """All queries of a log in their order; TopicError names the file and what is wrong with it."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise TopicError(f"query log {path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TopicError(f"query log {path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    lines = text.splitlines()
    header = [name.strip().lower() for name in next(csv.reader(lines[:1]), [])]
    asked = next((name for name in QUERY_COLUMNS if name in header), "")
    if len(header) > 1:
        if asked:
            return _from_csv(path, lines[1:], header, asked)
        # Queries may hold commas; but not where the file is CSV by its name or has a column for the time.
        if path.suffix.lower() == ".csv" or not set(TIME_COLUMNS).isdisjoint(header):
            raise TopicError(f"query log {path}: has the columns {', '.join(header)}; call that of the queries 'query'")
    return [Query(line.strip()) for line in (lines[1:] if asked else lines) if line.strip()]


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


def _from_csv(path: Path, lines: Sequence[str], header: list[str], asked: str) -> list[Query]:
    timed = next((name for name in TIME_COLUMNS if name in header), "")
    queries = []
    for number, row in enumerate(csv.DictReader(lines, header), start=2):
        text = (row.get(asked) or "").strip()
        if text:
            queries.append(Query(text, _seconds((row.get(timed) or "").strip(), path, number) if timed else 0.0))
    return queries


def _seconds(text: str, path: Path, line: int) -> float:
    """A time as seconds: a number, or ISO 8601 (UTC where it names no zone)."""
    if not text:
        return 0.0
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise TopicError(
            f"query log {path}: line {line}: '{text}' is no time; write 2026-01-31T12:00 or seconds since 1970"
        ) from error
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
