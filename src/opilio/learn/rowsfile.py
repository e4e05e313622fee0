"""Training sets as CSV (S1-25): URL, the four attributes, what is missing, and the label yes or no.

Works on lines, not on files. What a person wrote is checked: every error names the line and says what is wanted.
"""

import csv
import math
from collections.abc import Iterable, Iterator
from typing import TextIO

from opilio.learn.rows import ATTRIBUTES, Flags, Row, Values
from opilio.model.errors import UsageError
from opilio.model.urls import host_of

COLUMNS = {name: f"{name}_relevancy" for name in ATTRIBUTES}
HEADER = ("url", *COLUMNS.values(), "missing", "relevant")
_NEEDED = [name for name in HEADER if name != "missing"]
_LABELS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


def write_rows(rows: Iterable[Row], out: TextIO) -> int:
    """Write a header and one line a row; returns how many rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    count = 0
    for row in rows:
        missing = " ".join(name for name, gone in zip(ATTRIBUTES, row.missing, strict=True) if gone)
        values = [format(value, ".6g") for value in row.values]
        writer.writerow((row.url, *values, missing, "yes" if row.relevant else "no"))
        count += 1
    return count


def read_rows(lines: Iterable[str], source: str) -> list[Row]:
    """The rows of a file; UsageError for anything that is not one."""
    try:
        found = list(_rows(lines, source))
    except csv.Error as error:
        raise UsageError(f"{source}: is no CSV file: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if not found:
        raise UsageError(f"{source}: has no rows below its header")
    return found


def _rows(lines: Iterable[str], source: str) -> Iterator[Row]:
    reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
    if reader.fieldnames is None:
        raise UsageError(f"{source}: is empty; its first line must be {','.join(HEADER)}")
    reader.fieldnames = [name.strip().lstrip("\ufeff").lower() for name in reader.fieldnames]
    for name in _NEEDED:
        if name not in reader.fieldnames:
            raise UsageError(f"{source}: has no column '{name}'; its first line must be {','.join(HEADER)}")
    for record in reader:
        where = f"{source} line {reader.line_num}"
        if None in record or None in record.values():
            raise UsageError(f"{where}: has not as many fields as the header")
        yield _row(record, where)


def _row(record: dict[str, str], where: str) -> Row:
    url = record["url"].strip()
    if not url:
        raise UsageError(f"{where}: the url is empty")
    label = record["relevant"].strip().lower()
    if label not in _LABELS:
        raise UsageError(f"{where}: relevant is '{label}'; it must be yes or no")
    one, two, three, four = (_number(record, column, where) for column in COLUMNS.values())
    values: Values = (one, two, three, four)
    return Row(url=url, group=_group(url), values=values, missing=_missing(record, where), relevant=_LABELS[label])


def _number(record: dict[str, str], column: str, where: str) -> float:
    text = record[column].strip()
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"{where}: {column} is '{text}'; it must be a number from 0 to 1") from error
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise UsageError(f"{where}: {column} is {text}; it must be a number from 0 to 1")
    return value


def _missing(record: dict[str, str], where: str) -> Flags:
    named = set(record.get("missing", "").split())
    if unknown := named - set(ATTRIBUTES):
        raise UsageError(f"{where}: missing names '{min(unknown)}'; known: {' '.join(ATTRIBUTES)}")
    url, anchor, parent, around = (name in named for name in ATTRIBUTES)
    return url, anchor, parent, around


def _group(url: str) -> str:
    return (host_of(url) if "://" in url else "") or url
