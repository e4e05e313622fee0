"""A collection as files for other programs: JSON lines, CSV, Parquet, WARC. Streams; never holds it all."""

import csv
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import msgspec

from opilio.model.errors import ParseError, UsageError
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection, reading
from opilio.store.warc import read_member, read_record

Format = Literal["jsonl", "csv", "parquet", "warc"]
FORMATS: tuple[str, ...] = get_args(Format)
FIELDS = (
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


def export(folder: Path, form: str, relevant_only: bool, out: BinaryIO) -> int:
    """Write the collection's pages (duplicates left out) to `out`; returns how many."""
    if form not in FORMATS:
        raise UsageError(f"--format {form}: is unknown; known: {', '.join(FORMATS)}")
    with reading(folder) as collection:
        return _WRITERS[form](collection, relevant_only, out)


def _places(collection: Collection, relevant_only: bool) -> Iterator[tuple[Any, ...]]:
    wanted = "AND relevant = 1" if relevant_only else ""
    yield from collection.connection.execute(
        f"SELECT {', '.join(FIELDS)}, warc, offset, length FROM page WHERE duplicate_of = 0 {wanted} ORDER BY seq"
    )


def _pages(collection: Collection, relevant_only: bool) -> Iterator[dict[str, Any]]:
    """Rows with the main text, read back from the WARC files."""
    parser = HtmlParser()
    for *values, warc, offset, length in _places(collection, relevant_only):
        row = dict(zip(FIELDS, values, strict=True))
        row["relevant"] = bool(row["relevant"])
        row["text"] = ""
        if length:
            # It was a page when it was fetched; an empty text says that it no longer reads as one.
            with suppress(ParseError):
                row["text"] = parser.parse(read_record(collection.folder, warc, offset, length)).main_text
        yield row


def _jsonl(collection: Collection, relevant_only: bool, out: BinaryIO) -> int:
    encode = msgspec.json.Encoder().encode
    count = 0
    for row in _pages(collection, relevant_only):
        out.write(encode(row) + b"\n")
        count += 1
    return count


class _Text:
    """What the csv module writes to: text in, UTF-8 bytes out."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        return self._out.write(text.encode("utf-8", "replace"))


def _csv(collection: Collection, relevant_only: bool, out: BinaryIO) -> int:
    writer = csv.DictWriter(_Text(out), (*FIELDS, "text"))
    writer.writeheader()
    count = 0
    for row in _pages(collection, relevant_only):
        writer.writerow(row)
        count += 1
    return count


def _parquet(collection: Collection, relevant_only: bool, out: BinaryIO) -> int:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("--format parquet: needs pyarrow; pip install 'opilio[parquet]'") from error
    text, number = pa.string(), pa.float64()
    kinds = {"score": number, "fetched_at": number, "relevant": pa.bool_(), "depth": pa.int32()}
    kinds["status"] = pa.int32()
    schema = pa.schema([(name, kinds.get(name, text)) for name in (*FIELDS, "text")])
    count = 0
    rows: list[dict[str, Any]] = []
    with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
        for row in _pages(collection, relevant_only):
            rows.append(row)
            count += 1
            if len(rows) == _BATCH:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pa.Table.from_pylist(rows, schema))
    return count


def _warc(collection: Collection, relevant_only: bool, out: BinaryIO) -> int:
    """The records as they are: gzip members can be put one after another."""
    count = 0
    for *_, warc, offset, length in _places(collection, relevant_only):
        if length:
            out.write(read_member(collection.folder, warc, offset, length))
            count += 1
    return count


_WRITERS = {"jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "warc": _warc}
