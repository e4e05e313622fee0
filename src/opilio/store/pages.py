"""Reads stored pages: single pages by key, lists, samples. Other modules name no column of `page` in SQL.

Every function takes the connection of a collection, so that readers and the writing process can share them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.core.records import Reason
from opilio.store.connection import read_row, read_rows, read_value
from opilio.store.schema import decode_reasons
from opilio.store.warc import RecordPosition

PageSort = Literal["score", "newest", "oldest"]
PAGE_SORTS: dict[PageSort, str] = {"score": "score DESC, seq", "newest": "seq DESC", "oldest": "seq"}
_HAS_RECORD = "duplicate_of = 0 AND length > 0"


class JudgedPage(msgspec.Struct, frozen=True):
    """The verdict on a page. `reasons` is encoded; see `decoded_reasons`."""

    url: str
    host: str
    title: str
    score: float
    relevant: bool
    reasons: bytes
    duplicate_of: int
    near_duplicate: bool
    canonical: str
    fetched_at: float
    language: str
    genre: str
    truncated: str
    rendered: bool
    warc: int
    offset: int
    length: int

    @property
    def decoded_reasons(self) -> tuple[Reason, ...]:
        return decode_reasons(self.reasons)

    @property
    def position(self) -> RecordPosition:
        return RecordPosition(self.warc, self.offset, self.length)


class PageDetails(msgspec.Struct, frozen=True):
    """The response of the server, and the data extracted from it."""

    status: int
    content_type: str
    encoding: str
    language: str
    words: int
    depth: int
    etag: str
    last_modified: str
    fetched_at: float


class ListedPage(msgspec.Struct, frozen=True):
    """A page in a list."""

    url: str
    host: str
    title: str
    score: float
    relevant: bool
    genre: str
    language: str
    depth: int
    words: int
    fetched_at: float


class RecordedPage(msgspec.Struct, frozen=True):
    """A page with its verdict and the position of its WARC record."""

    key: int
    seq: int
    url: str
    host: str
    title: str
    score: float
    relevant: bool
    warc: int
    offset: int
    length: int

    @property
    def position(self) -> RecordPosition:
        return RecordPosition(self.warc, self.offset, self.length)


class NewPage(msgspec.Struct, gc=False):
    """A page as statistics count it."""

    key: int
    host: str
    relevant: int
    fetched_at: float
    status: int
    parent: int


class PageTitle(NamedTuple):
    url: str
    title: str


class ListFilter(NamedTuple):
    """Which pages a list shows, and in which order."""

    relevant: bool | None = None
    text: str = ""
    sort: PageSort = "score"


def judged_page(db: Database, key: int) -> JudgedPage | None:
    return read_row(db, JudgedPage, "page WHERE key = ?", (key,))


def page_details(db: Database, key: int) -> PageDetails | None:
    return read_row(db, PageDetails, "page WHERE key = ?", (key,))


def page_description(db: Database, key: int) -> str:
    return read_value(db, "SELECT description FROM page WHERE key = ?", (key,)) or ""


class PageOutline(msgspec.Struct, frozen=True):
    """The values by which another page is recognized as a version of this one."""

    duplicate_of: int
    title: str
    words: int


def page_outline(db: Database, key: int) -> PageOutline | None:
    return read_row(db, PageOutline, "page WHERE key = ?", (key,))


def page_url(db: Database, key: int) -> str:
    """The URL of a current page; empty where there is none."""
    return read_value(db, "SELECT url FROM page WHERE key = ?", (key,)) or ""


def page_host(db: Database, key: int) -> str:
    """The host of a current page; empty where there is none."""
    return read_value(db, "SELECT host FROM page WHERE key = ?", (key,)) or ""


def is_relevant(db: Database, key: int) -> bool:
    """Is there a current page with this key that was judged relevant?"""
    return bool(read_value(db, "SELECT relevant FROM page WHERE key = ?", (key,)))


def has_page(db: Database, key: int) -> bool:
    return read_value(db, "SELECT 1 FROM page WHERE key = ?", (key,)) is not None


def record_position(db: Database, key: int) -> RecordPosition | None:
    """Where the WARC record of a page is; None for a copy, which has no record, and where there is no page."""
    row = db.execute("SELECT warc, offset, length FROM page WHERE key = ? AND length > 0", (key,)).fetchone()
    return None if row is None else RecordPosition(*row)


def current_page(db: Database, key: int) -> PageTitle | None:
    row = db.execute("SELECT url, title FROM page WHERE key = ?", (key,)).fetchone()
    return None if row is None else PageTitle(*row)


def latest_page(db: Database, key: int) -> PageTitle | None:
    """The page as it is, or as it was before it went: explanations outlive pages."""
    sql = """SELECT url, title FROM (SELECT url, title, 1 AS now, seq FROM page WHERE key = :key
        UNION ALL SELECT url, title, 0, seq FROM version WHERE key = :key) AS known
        ORDER BY now DESC, seq DESC LIMIT 1"""
    row = db.execute(sql, {"key": key}).fetchone()
    return None if row is None else PageTitle(*row)


def nearest_page_url(db: Database, keys: Iterable[int]) -> str:
    """Of these pages the URL of the one with the fewest links from a seed; empty where none is stored."""
    wanted = tuple(keys)
    marks = ", ".join("?" * len(wanted))
    return read_value(db, f"SELECT url FROM page WHERE key IN ({marks}) ORDER BY depth, seq LIMIT 1", wanted) or ""


def first_fetched_at(db: Database, keys: Iterable[int]) -> float | None:
    """When the first version of any of these pages was fetched."""
    wanted = tuple(keys)
    among = f"WHERE key IN ({', '.join('?' * len(wanted))})"
    sql = f"""SELECT min(at) FROM (SELECT fetched_at AS at FROM page {among}
        UNION ALL SELECT fetched_at FROM version {among}) AS known"""
    at: float | None = read_value(db, sql, 2 * wanted)
    return at


def copies_of(db: Database, key: int, limit: int) -> list[tuple[str, bool]]:
    """URLs of pages that repeat the text of this one, the first found first; True where the texts only nearly agree."""
    # The index of copies is partial: without its condition SQLite would read every page.
    sql = "SELECT url, near_duplicate FROM page WHERE duplicate_of = ? AND duplicate_of <> 0 ORDER BY seq LIMIT ?"
    return [(url, bool(near)) for url, near in db.execute(sql, (key, limit))]


def list_pages(db: Database, wanted: ListFilter, limit: int, offset: int = 0) -> list[ListedPage]:
    """A part of a filtered list of pages; copies are left out."""
    where, values = _listed(wanted)
    source = f"page WHERE {where} ORDER BY {PAGE_SORTS[wanted.sort]} LIMIT ? OFFSET ?"
    return list(read_rows(db, ListedPage, source, (*values, limit, offset)))


def count_listed(db: Database, wanted: ListFilter) -> int:
    """The length of the whole filtered list."""
    where, values = _listed(wanted)
    return int(db.execute(f"SELECT count(*) FROM page WHERE {where}", values).fetchone()[0])


def _listed(wanted: ListFilter) -> tuple[str, tuple[object, ...]]:
    """The condition of a filter, and its values."""
    where, values = ["duplicate_of = 0"], list[object]()
    if wanted.relevant is not None:
        where.append("relevant = ?")
        values.append(int(wanted.relevant))
    if wanted.text:
        where.append("instr(lower(title || ' ' || url), ?) > 0")
        values.append(wanted.text.lower())
    return " AND ".join(where), tuple(values)


def genre_counts(db: Database) -> dict[str, int]:
    """The number of pages of each genre that was detected."""
    rows = db.execute(
        "SELECT genre, count(*) FROM page WHERE genre <> '' AND duplicate_of = 0 GROUP BY genre ORDER BY genre"
    )
    return {str(genre): int(count) for genre, count in rows}


class UnusualPages(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of pages that were not read as they came."""

    truncated: int
    rendered: int
    rendered_relevant: int
    # Relevant pages, not rendered themselves, that were found on a rendered page.
    found_by_rendering: int
    # Nearly empty pages with scripts that were not rendered.
    needs_browser: int


def count_unusual_pages(db: Database) -> UnusualPages:
    """How many pages are incomplete or need a browser, and what the browser brought."""
    found = "relevant = 1 AND rendered = 0 AND parent IN (SELECT key FROM page WHERE rendered = 1)"
    conditions = ("truncated <> ''", "rendered = 1", "rendered = 1 AND relevant = 1", found, "needs_browser = 1")
    counts = [int(read_value(db, f"SELECT count(*) FROM page WHERE {condition}")) for condition in conditions]
    return UnusualPages(**dict(zip(UnusualPages.__struct_fields__, counts, strict=True)))


def rendered_hosts(db: Database) -> list[tuple[str, int]]:
    """The hosts with rendered pages, and their number."""
    return [(str(h), int(n)) for h, n in db.execute("SELECT host, count(*) FROM page WHERE rendered = 1 GROUP BY host")]


def best_pages(db: Database, limit: int) -> list[RecordedPage]:
    """The pages with the highest scores."""
    return list(read_rows(db, RecordedPage, f"page WHERE {_HAS_RECORD} ORDER BY score DESC LIMIT ?", (limit,)))


def doubtful_pages(db: Database, limit: int, middle: float = 0.5) -> list[RecordedPage]:
    """The pages whose scores are nearest to `middle`."""
    source = f"page WHERE {_HAS_RECORD} ORDER BY abs(score - ?) LIMIT ?"
    return list(read_rows(db, RecordedPage, source, (middle, limit)))


def kept_scores(db: Database) -> dict[int, float]:
    """The scores of all relevant pages that are not copies, by key."""
    return dict(db.execute("SELECT key, score FROM page WHERE relevant = 1 AND duplicate_of = 0"))


def newest_pages(db: Database, limit: int) -> list[JudgedPage]:
    """The pages that were stored last, the newest first."""
    return list(read_rows(db, JudgedPage, "page ORDER BY seq DESC LIMIT ?", (limit,)))


def first_pages(db: Database, limit: int) -> list[RecordedPage]:
    """The pages that were fetched first."""
    return list(read_rows(db, RecordedPage, f"page WHERE {_HAS_RECORD} ORDER BY seq LIMIT ?", (limit,)))


def pages_after(db: Database, seq: int, limit: int) -> list[RecordedPage]:
    """The next pages after an answer. By `seq`, which has an index: a few pages of a million are read in no time."""
    return list(read_rows(db, RecordedPage, "page WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)))


def new_pages(db: Database, seq: int) -> Iterator[NewPage]:
    """Every page that was stored after an answer."""
    return read_rows(db, NewPage, "page WHERE seq > ? ORDER BY seq", (seq,))


def sample_texts(db: Database, relevant: bool, limit: int) -> list[str]:
    """Title and keywords of the pages with the highest scores among the relevant (or irrelevant) ones."""
    sql = """SELECT title || ' ' || keywords FROM page WHERE relevant = ? AND duplicate_of = 0
        ORDER BY score DESC, seq LIMIT ?"""
    return [str(text) for (text,) in db.execute(sql, (relevant, limit))]


def indexable_pages(db: Database, upto: int) -> Iterator[RecordedPage]:
    """Every page that a search index of the answers up to `upto` must hold."""
    return read_rows(db, RecordedPage, "page WHERE duplicate_of = 0 AND noindex = 0 AND seq <= ? ORDER BY seq", (upto,))


def page_keys_and_endings(db: Database, after: int) -> tuple[set[int], set[int]]:
    """The keys of all current pages, and of pages with a version that ended after an answer."""
    current = {key for (key,) in db.execute("SELECT key FROM page")}
    return current, {key for (key,) in db.execute("SELECT key FROM version WHERE ended > ?", (after,))}


def count_indexable_versions(db: Database, upto: int) -> int:
    """The number of past versions that an index of the answers up to `upto` must hold."""
    sql = "SELECT count(*) FROM version WHERE duplicate_of = 0 AND noindex = 0 AND ended <= ?"
    return int(read_value(db, sql, (upto,)))


def version_intervals(db: Database) -> Iterator[tuple[str, float, float]]:
    """(URL, fetched at, replaced at) of every version; infinite for the current ones."""
    yield from db.execute("SELECT url, fetched_at, 9e999 FROM page")
    yield from db.execute("SELECT url, fetched_at, until FROM version")


def relevant_host_count(db: Database, agent: int) -> int:
    """On how many hosts an agent found relevant pages."""
    sql = """SELECT count(DISTINCT p.host) FROM verdict AS v JOIN page AS p ON p.key = v.page
        WHERE v.agent = ? AND v.own <> 0 AND v.relevant <> 0"""
    return int(read_value(db, sql, (agent,)))


def page_validators(db: Database, key: int) -> tuple[str, str] | None:
    """ETag and Last-Modified of a stored page, sitemap or feed.

    A copy gives none: its text is not stored, and it is needed should the copy become the original.
    """
    page = "SELECT etag, last_modified FROM page WHERE key = ? AND duplicate_of = 0"
    notice = "SELECT etag, last_modified FROM notice WHERE key = ?"
    row: tuple[str, str] | None = db.execute(page, (key,)).fetchone() or db.execute(notice, (key,)).fetchone()
    return row


def urls_by_key(db: Database, keys: Sequence[int]) -> list[str]:
    """The URLs of these pages in this order; empty for one that is not stored."""
    return [page_url(db, key) for key in keys]
