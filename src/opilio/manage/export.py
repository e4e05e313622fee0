"""Export the pages of a collection as JSON lines, CSV, Parquet, Markdown, WARC, CDXJ, WACZ, BibTeX or RIS."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import msgspec

from opilio import __version__
from opilio.core.clock import format_iso_time
from opilio.core.display import strip_controls
from opilio.core.errors import UsageError
from opilio.core.files import atomic_writer
from opilio.manage.formats.archive import read_page_record, read_redirects, write_cdxj, write_wacz
from opilio.manage.formats.citations import write_bibtex, write_ris
from opilio.manage.formats.markdown import write_markdown_files, write_markdown_lines
from opilio.manage.pages import PAGE_COLUMNS, POLARITY_COLUMN, TEXT_COLUMN, PageTable, arrow_schema, import_pyarrow
from opilio.manage.status import agent_cards
from opilio.store.annotations import read_tags, require_list
from opilio.store.collection import open_readonly
from opilio.store.page_selection import PageFilter

ExportFormat = Literal["jsonl", "csv", "parquet", "markdown", "warc", "cdxj", "wacz", "bibtex", "ris"]
FORMATS: tuple[str, ...] = get_args(ExportFormat)
SUFFIXES = {
    "markdown": ".md.jsonl",
    "jsonl": ".jsonl",
    "csv": ".csv",
    "parquet": ".parquet",
    "warc": ".warc.gz",
    "cdxj": ".cdxj",
    "wacz": ".wacz",
    "bibtex": ".bib",
    "ris": ".ris",
}
EXPORT_COLUMNS = (*PAGE_COLUMNS, POLARITY_COLUMN, TEXT_COLUMN)
# Spreadsheets in East Asian locales read the full-width forms (U+FF1D, U+FF0B, U+FF0D, U+FF20) in the same way.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def export(folder: Path, form: str, wanted: PageFilter, out: BinaryIO, *, chunk_words: int = 0) -> int:
    """Write the selected pages to `out`; returns how many. `chunk_words` splits Markdown into chunks."""
    _check_request(folder, form, wanted, chunk_words)
    if form == "markdown":
        return write_markdown_lines(PageTable(folder, wanted), out, chunk_words)
    return _WRITERS[form](folder, wanted, out)


def export_to_file(folder: Path, path: Path, form: str, wanted: PageFilter, *, chunk_words: int = 0) -> int:
    """Write the selected pages to a new file, which appears when it is complete; returns how many.

    Markdown is written as a folder with a file per page, unless the name ends in .jsonl.
    """
    if path.exists():
        raise UsageError(f"{path}: already exists; choose another name")
    try:
        if form == "markdown" and not path.name.endswith(".jsonl"):
            if chunk_words:
                raise UsageError(f"{path}: chunks are written as JSON lines; choose a name that ends in .jsonl")
            _check_request(folder, form, wanted, chunk_words)
            return write_markdown_files(PageTable(folder, wanted), path)
        with atomic_writer(path) as file:
            return export(folder, form, wanted, file, chunk_words=chunk_words)
    except OSError as error:
        raise UsageError(f"{path}: can't be written: {error.strerror}") from error


def format_of(path: Path) -> str:
    """The format that a file name stands for.

    >>> format_of(Path("birds.warc.gz")), format_of(Path("birds.csv"))
    ('warc', 'csv')
    """
    for form, suffix in SUFFIXES.items():
        if path.name.endswith(suffix):
            return form
    raise UsageError(f"{path}: give a format or a name that ends in {', '.join(SUFFIXES.values())}")


def _check_request(folder: Path, form: str, wanted: PageFilter, chunk_words: int) -> None:
    if form not in FORMATS:
        raise UsageError(f"--format {form}: unknown; known: {', '.join(FORMATS)}")
    if chunk_words and form != "markdown":
        raise UsageError(f"--chunk-words: not for --format {form}; use --format markdown")
    if wanted.topic:
        _check_agent_topic(folder, wanted.topic)
    if wanted.in_list or wanted.tag:
        _check_names(folder, wanted)


def _check_agent_topic(folder: Path, topic: str) -> None:
    with open_readonly(folder) as collection:
        topics = sorted({card.topic for card in agent_cards(collection)})
    if topic not in topics:
        known = ", ".join(topics) or "none; the crawl had no agents, leave --topic out"
        raise UsageError(f"--topic {topic}: no agent of this collection has it; topics: {known}")


def _check_names(folder: Path, wanted: PageFilter) -> None:
    with open_readonly(folder) as collection:
        tags = read_tags(collection.connection)
        if wanted.in_list:
            require_list(collection.connection, wanted.in_list)
    if wanted.tag and wanted.tag not in tags:
        raise UsageError(f"--tag {wanted.tag}: no page has it; tags: {', '.join(tags) or 'none'}")


def _jsonl(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    encode = msgspec.json.Encoder().encode
    count = 0
    for row in PageTable(folder, wanted, EXPORT_COLUMNS).rows():
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
    """A cell of CSV. Titles come from the web: text that a spreadsheet would run as a formula gets a quote, and control
    characters are left out.

    >>> escape_formula("=1+1"), escape_formula("\\x1b[2J=1"), escape_formula(-1.5)
    ("'=1+1", '[2J=1', -1.5)
    """
    if not isinstance(value, str):
        return value
    text = strip_controls(value)
    return f"'{text}" if text.startswith(_FORMULA) or value.startswith(_FORMULA) else text


def _csv(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    writer = csv.DictWriter(_Utf8Writer(out), EXPORT_COLUMNS)
    writer.writeheader()
    count = 0
    for row in PageTable(folder, wanted, EXPORT_COLUMNS).rows():
        cells = {name: escape_formula(value) for name, value in row.items()}
        # A spreadsheet does not read seconds since 1970 as a time.
        writer.writerow({**cells, "fetched_at": format_iso_time(row["fetched_at"])})
        count += 1
    return count


def _parquet(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    import_pyarrow("--format parquet")
    from pyarrow import parquet

    count = 0
    with parquet.ParquetWriter(out, arrow_schema(EXPORT_COLUMNS), compression="zstd") as writer:
        for batch in PageTable(folder, wanted, EXPORT_COLUMNS).arrow_batches():
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def _warc(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    """The records as they are: gzip members can be concatenated."""
    count = 0
    for page in PageTable(folder, wanted):
        if page.position.length:
            out.write(read_page_record(page))
            count += 1
    return count


def _cdxj(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    return write_cdxj(PageTable(folder, wanted), out)


def _wacz(folder: Path, wanted: PageFilter, out: BinaryIO) -> int:
    title, software = folder.resolve().name, f"opilio {__version__}"
    return write_wacz(PageTable(folder, wanted), read_redirects(folder), out, title, software)


_WRITERS: dict[str, Callable[[Path, PageFilter, BinaryIO], int]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "parquet": _parquet,
    "warc": _warc,
    "cdxj": _cdxj,
    "wacz": _wacz,
    "bibtex": lambda folder, wanted, out: write_bibtex(PageTable(folder, wanted), out),
    "ris": lambda folder, wanted, out: write_ris(PageTable(folder, wanted), out),
}
