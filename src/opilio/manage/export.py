"""A collection as files for other programs: JSON lines, CSV, Parquet, WARC. Streams; never holds it all."""

import csv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

import msgspec

from opilio.core.errors import CollectionError, ParseError, UsageError
from opilio.manage.agents import agent_cards
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection, open_readonly
from opilio.store.record_check import record_problem
from opilio.store.warc import read_member, read_record, warc_name

ExportFormat = Literal["jsonl", "csv", "parquet", "warc"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)
EXPORT_FIELDS = (
    "url",
    "host",
    "title",
    "description",
    "language",
    "genre",
    "score",
    "relevant",
    "depth",
    "fetched_at",
    "status",
)
_BATCH = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class ExportFilter(NamedTuple):
    """Which pages: only relevant ones; only those that an agent of this topic found relevant."""

    relevant_only: bool = False
    topic: str = ""

    @property
    def where_clause(self) -> str:
        clauses = ["AND relevant = 1"] if self.relevant_only else []
        if self.topic:
            clauses.append(
                "AND key IN (SELECT v.page FROM verdict AS v JOIN agent AS a ON a.number = v.agent"
                " WHERE v.relevant AND a.topic = ?)"
            )
        return " ".join(clauses)


def export(folder: Path, form: str, relevant_only: bool, out: BinaryIO, topic: str = "") -> int:
    """Write the collection's pages (duplicates left out) to `out`; returns how many."""
    if form not in FORMATS:
        raise UsageError(f"--format {form}: is unknown; known: {', '.join(FORMATS)}")
    with open_readonly(folder) as collection:
        topics = sorted({card.topic for card in agent_cards(collection)})
        if topic and topic not in topics:
            known = ", ".join(topics) or "none; the crawl had no agents, leave --topic out"
            raise UsageError(f"--topic {topic}: no agent of this collection has it; topics: {known}")
        return _WRITERS[form](collection, ExportFilter(relevant_only, topic), out)


def _select_pages(collection: Collection, wanted: ExportFilter) -> Iterator[tuple[Any, ...]]:
    columns = f"{', '.join(EXPORT_FIELDS)}, warc, offset, length"
    yield from collection.connection.execute(
        f"SELECT {columns} FROM page WHERE duplicate_of = 0 {wanted.where_clause} ORDER BY seq",
        (wanted.topic,) if wanted.topic else (),
    )


def _pages(collection: Collection, wanted: ExportFilter) -> Iterator[dict[str, Any]]:
    """Rows with the main text, read back from the WARC files."""
    parser = HtmlParser()
    for *values, warc, offset, length in _select_pages(collection, wanted):
        row = dict(zip(EXPORT_FIELDS, values, strict=True))
        row["relevant"] = bool(row["relevant"])
        row["text"] = ""
        if length:
            # It was a page when it was fetched; an empty text says that it no longer reads as one.
            with suppress(ParseError):
                row["text"] = parser.parse(read_record(collection.folder, warc, offset, length)).main_text
        yield row


def _jsonl(collection: Collection, wanted: ExportFilter, out: BinaryIO) -> int:
    encode = msgspec.json.Encoder().encode
    count = 0
    for row in _pages(collection, wanted):
        out.write(encode(row) + b"\n")
        count += 1
    return count


class _Utf8Writer:
    """What the csv module writes to: text in, UTF-8 bytes out."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode("utf-8", "replace"))


def escape_formula(value: object) -> object:
    """A cell of CSV: what a spreadsheet would take for a formula is made text, for titles come from strangers.

    >>> escape_formula("=1+1"), escape_formula(-1.5)
    ("'=1+1", -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _csv(collection: Collection, wanted: ExportFilter, out: BinaryIO) -> int:
    writer = csv.DictWriter(_Utf8Writer(out), (*EXPORT_FIELDS, "text"))
    writer.writeheader()
    count = 0
    for row in _pages(collection, wanted):
        writer.writerow({name: escape_formula(value) for name, value in row.items()})
        count += 1
    return count


def _parquet(collection: Collection, wanted: ExportFilter, out: BinaryIO) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("--format parquet: needs pyarrow; pip install 'opilio[parquet]'") from error
    text, number = pa.string(), pa.float64()
    kinds = {"score": number, "fetched_at": number, "relevant": pa.bool_(), "depth": pa.int32()}
    kinds["status"] = pa.int32()
    schema = pa.schema([(name, kinds.get(name, text)) for name in (*EXPORT_FIELDS, "text")])
    count = 0
    rows: list[dict[str, Any]] = []
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for row in _pages(collection, wanted):
            rows.append(row)
            count += 1
            if len(rows) == _BATCH:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pa.Table.from_pylist(rows, schema))
    return count


def _warc(collection: Collection, wanted: ExportFilter, out: BinaryIO) -> int:
    """The records as they are: gzip members can be put one after another. A damaged one would spoil the file."""
    count = 0
    for url, *_, warc, offset, length in _select_pages(collection, wanted):
        if length:
            member = read_member(collection.folder, warc, offset, length)
            if problem := record_problem(member, url):
                raise CollectionError(
                    f"{collection.folder / warc_name(warc)} at {offset}: {problem}; run 'opilio verify'"
                )
            out.write(member)
            count += 1
    return count


_WRITERS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "warc": _warc}
