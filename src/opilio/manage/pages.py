"""The pages of a collection as typed values and as tables, and the stored versions of a page. Lazy and read-only."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opilio.core.display import html_fields, html_table, rich_fields, rich_table
from opilio.core.errors import MissingExtraError, ParseError, UsageError
from opilio.core.records import url_key
from opilio.core.settings import suggest_name
from opilio.core.urls import require_url
from opilio.frontier.sqlite.queries import url_of_key
from opilio.manage.results import HistoryVersion, PageHistory
from opilio.parse.extract import extract_content, stored_signals
from opilio.parse.html import HtmlParser
from opilio.parse.signals import PURPOSES, PageSignals
from opilio.store.collection import Collection, open_readonly
from opilio.store.page_selection import COMPUTED_COLUMNS, PageFilter, SelectedPage, count_pages, select_pages
from opilio.store.revisits import revisit_record
from opilio.store.schema import EXPORTED_COLUMNS, NOT_RECORDED
from opilio.store.versions import PageVersion, follow_moves, list_versions, read_stored_response
from opilio.store.warc import RecordPosition, read_record
from opilio.text.languages import detect_language
from opilio.text.polarity import polarity_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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


# Columns of a table of pages; `text`, the main text, is read from the WARC files and takes longer than all others.
PAGE_COLUMNS = (*(column.name for column in EXPORTED_COLUMNS), *COMPUTED_COLUMNS)
TEXT_COLUMN = "text"
POLARITY_COLUMN = "polarity"  # of the main text (S3-F1)
LANGUAGE_COLUMN = "language"
# Of an Arrow batch and of a Parquet row group.
BATCH_ROWS = 500
SHOWN_PAGES = 10  # rows of a table that is displayed
SHOWN_COLUMNS = ("url", "title", "score", "relevant")


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page of a collection with its verdict."""

    url: str
    host: str
    title: str
    description: str
    language: str
    genre: str
    score: float
    relevant: bool
    depth: int
    fetched_at: float
    status: int
    # The exported columns by name; they may be more than the fields above.
    values: Mapping[str, Any] = field(repr=False, compare=False)
    folder: Path = field(repr=False, compare=False)
    position: RecordPosition = field(repr=False, compare=False)

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return rich_fields(self.values)

    def _repr_html_(self) -> str:
        return html_fields(self.values)

    @property
    def text(self) -> str:
        """The main text, read from the WARC file at each access; empty if the record does not parse as a page.

        Headings, lists, tables and code blocks are laid out as in Markdown.
        """
        if self.position.length:
            with suppress(ParseError):
                return extract_content(read_record(self.folder, *self.position), markdown=False).content
        return ""

    @property
    def signals(self) -> PageSignals:
        """What the owner of the page allows, as recorded when it was fetched."""
        recorded = self.values["signals"]
        if recorded != NOT_RECORDED:
            return PageSignals.decode(recorded)
        return stored_signals(read_record(self.folder, *self.position)) if self.position.length else PageSignals()

    def allows(self, purposes: Sequence[str]) -> bool:
        """True if no signal of the page or its host denies one of these purposes."""
        return not purposes or not self.signals.denied() & set(purposes)

    def columns(self, names: Sequence[str]) -> dict[str, Any]:
        """The values of exported columns; the text, if it is among them, and its polarity are read from the record.

        With the text, a page that declares no language has that of its text.
        """
        text = self.text if TEXT_COLUMN in names or POLARITY_COLUMN in names else ""
        language = self.language or detect_language(text)
        own: dict[str, Callable[[], str]] = {
            TEXT_COLUMN: lambda: text,
            POLARITY_COLUMN: lambda: polarity_of(text, language),
            LANGUAGE_COLUMN: lambda: language,
        }
        return {name: own[name]() if name in own else self.values[name] for name in names}

    @classmethod
    def from_row(cls, folder: Path, row: SelectedPage) -> "StoredPage":
        own = {name: row.values[name] for name in cls.__match_args__ if name in row.values}
        return cls(**own, values=row.values, folder=folder, position=row.position)


class PageTable:
    """The pages that a filter selects. Iterate over it for `StoredPage` values, or convert it."""

    def __init__(self, folder: Path, wanted: PageFilter, columns: Sequence[str] | None = None) -> None:
        self._folder = folder
        self._wanted = wanted
        check_purposes(wanted.allow)
        self.columns = check_columns(columns)

    def __iter__(self) -> Iterator[StoredPage]:
        with open_readonly(self._folder) as collection:
            for row in select_pages(collection, self._wanted):
                page = StoredPage.from_row(self._folder, row)
                if page.allows(self._wanted.allow):
                    yield page

    def __len__(self) -> int:
        if self._wanted.allow:
            return sum(1 for _ in self)
        with open_readonly(self._folder) as collection:
            return count_pages(collection, self._wanted)

    def rows(self) -> Iterator[dict[str, Any]]:
        """The columns of each page as a mapping."""
        for page in self:
            yield page.columns(self.columns)

    def to_list(self) -> list[dict[str, Any]]:
        """All rows."""
        return list(self.rows())

    def to_arrow(self) -> "pa.Table":
        """A pyarrow table; needs `pip install 'opilio[parquet]'`."""
        return import_pyarrow("to_arrow()").Table.from_batches(self.arrow_batches(), arrow_schema(self.columns))

    def arrow_batches(self) -> "Iterator[pa.RecordBatch]":
        """The rows as pyarrow batches, for tables that do not fit in memory."""
        batch_type, schema = import_pyarrow("arrow_batches()").RecordBatch, arrow_schema(self.columns)
        rows = self.rows()
        while batch := list(islice(rows, BATCH_ROWS)):
            yield batch_type.from_pylist(batch, schema)

    def to_pandas(self) -> "pd.DataFrame":
        """A pandas data frame; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("to_pandas(): pandas is not installed; pip install 'opilio[pandas]'") from error
        return pd.DataFrame(self.to_list(), columns=list(self.columns))

    def __repr__(self) -> str:
        return f"<PageTable of {self._folder}: {len(self)} pages, columns {', '.join(self.columns)}>"

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return rich_table(*self._shown())

    def _repr_html_(self) -> str:
        total = len(self)
        note = f"<p>{total} pages, the first {SHOWN_PAGES} shown</p>" if total > SHOWN_PAGES else ""
        return html_table(*self._shown()) + note

    def _shown(self) -> tuple[Sequence[str], list[list[object]]]:
        """The first rows; only a few columns unless the user chose which."""
        columns = SHOWN_COLUMNS if self.columns == PAGE_COLUMNS else self.columns
        return columns, [[*page.columns(columns).values()] for page in islice(self, SHOWN_PAGES)]


def check_purposes(purposes: Sequence[str]) -> None:
    """UsageError for an unknown purpose."""
    for name in purposes:
        if name not in PURPOSES:
            raise UsageError(
                f"--allow {name}: unknown{suggest_name(name, list(PURPOSES))}; purposes: {', '.join(PURPOSES)}"
            )


def check_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The names of columns; all but the text by default. UsageError for an unknown one."""
    known = [*PAGE_COLUMNS, POLARITY_COLUMN, TEXT_COLUMN]
    for name in columns or ():
        if name not in known:
            raise UsageError(f"column {name!r}: unknown{suggest_name(name, known)}; columns: {', '.join(known)}")
    return PAGE_COLUMNS if columns is None else tuple(columns)


def import_pyarrow(needed_by: str) -> Any:  # noqa: ANN401 - an optional library
    """pyarrow; UsageError if it is not installed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError(f"{needed_by}: pyarrow is not installed; pip install 'opilio[parquet]'") from error
    return pa


def arrow_schema(columns: Sequence[str]) -> Any:  # noqa: ANN401
    """The types of columns, for tables and Parquet files."""
    pa = import_pyarrow("Arrow tables")
    by_kind = {str: pa.string(), float: pa.float64(), bool: pa.bool_(), int: pa.int32()}
    types = {column.name: by_kind[column.kind] for column in EXPORTED_COLUMNS}
    return pa.schema([(name, types.get(name, pa.string())) for name in columns])
