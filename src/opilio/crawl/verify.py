"""Do database and WARC files agree? Reads everything, changes nothing.

Problems are told one per line; an empty list means that what the database says is true.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from opilio.frontier.schema import DONE
from opilio.store.collection import Collection, reading
from opilio.store.keeper import Counts
from opilio.store.warc import opened, payload, payload_digest, warc_name

MAX_TOLD = 100


def verify(folder: Path) -> list[str]:
    """What is wrong with a collection, at most MAX_TOLD lines."""
    checks = (_integrity, _rows, _counters, _counts, _warc_ends, _records)
    with reading(folder) as collection:
        return list(islice(chain.from_iterable(check(collection) for check in checks), MAX_TOLD))


def _integrity(collection: Collection) -> Iterator[str]:
    for (line,) in collection.connection.execute("PRAGMA integrity_check(20)"):
        if line != "ok":
            yield f"database: {line}"


def _rows(collection: Collection) -> Iterator[str]:
    """Every page belongs to a finished URL, every set of links to a page, no place in a WARC file to two pages."""
    checks = {
        "page without a finished URL": f"""SELECT p.url FROM page AS p WHERE NOT EXISTS (
            SELECT 1 FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id
            WHERE h.name = p.host AND u.key = p.key AND u.state = {DONE})""",
        "finished URL without an answer": f"""SELECT u.url FROM frontier_url AS u WHERE u.state = {DONE}
            AND NOT EXISTS (SELECT 1 FROM answer AS a WHERE a.key = u.key)""",
        "links of no page": "SELECT parent FROM links WHERE parent NOT IN (SELECT key FROM page)",
        "page stored twice": "SELECT url FROM page GROUP BY url HAVING count(*) > 1",
        "two pages at one place of a WARC file": """SELECT url FROM page WHERE length > 0
            GROUP BY warc, offset HAVING count(*) > 1""",
    }
    for name, query in checks.items():
        for (what,) in collection.connection.execute(query):
            yield f"{name}: {what}"


def _counters(collection: Collection) -> Iterator[str]:
    count = collection.connection.execute(
        "SELECT queued + leased, done, failed, dropped FROM frontier_count"
    ).fetchone()
    rows = collection.connection.execute(
        "SELECT sum(state < 2), sum(state = 2), sum(state = 3), sum(state = 4) FROM frontier_url"
    ).fetchone()
    for name, said, found in zip(("queued", "done", "failed", "dropped"), count, rows, strict=True):
        if said != (found or 0):
            yield f"counter of {name} URLs says {said}, there are {found or 0}"


def _counts(collection: Collection) -> Iterator[str]:
    """The counters of the store, and those of each host."""
    stored = collection.meta("counts")
    counts = msgspec.json.decode(stored, type=Counts) if stored else Counts()
    queries = {
        "fetched": "SELECT count(*) FROM answer",
        "pages": "SELECT count(*) FROM page",
        "relevant": "SELECT count(*) FROM page WHERE relevant",
        "duplicates": "SELECT count(*) FROM page WHERE duplicate_of <> 0",
    }
    for name, query in queries.items():
        said, found = getattr(counts, name), collection.connection.execute(query).fetchone()[0]
        if said != found:
            yield f"counter of {name} says {said}, there are {found}"
    for host, said, found in collection.connection.execute(
        """SELECT name, queued, (SELECT count(*) FROM frontier_url WHERE host_id = id AND state < 2) AS found
        FROM frontier_host WHERE queued <> found"""
    ):
        yield f"counter of queued URLs of {host} says {said}, there are {found}"


def _warc_ends(collection: Collection) -> Iterator[str]:
    """The last file may be longer than what was committed (a crash; cut on the next start), never shorter."""
    number, offset = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    path = collection.folder / warc_name(number)
    size = path.stat().st_size if path.exists() else 0
    if size < offset:
        yield f"{path.name}: {offset - size} bytes are missing at the end"


def _records(collection: Collection) -> Iterator[str]:
    """Every record is where the database says, with the URL and the digest it should have, and no gap between two."""
    rows = collection.connection.execute(
        "SELECT warc, offset, length, url FROM page WHERE length > 0 ORDER BY warc, offset"
    )
    last, last_end = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    for number, pages in groupby(rows, key=itemgetter(0)):
        path = collection.folder / warc_name(number)
        try:
            size = path.stat().st_size
            end = min(size, last_end) if number == last else size
            with path.open("rb") as file:
                yield from _records_of(path.name, file, pages, end)
        except OSError as error:
            yield f"{path.name}: can't be read: {error.strerror}"


def _records_of(name: str, file: BinaryIO, pages: Iterable[tuple[int, int, int, str]], size: int) -> Iterator[str]:
    end = 0
    for _, offset, length, url in pages:
        if end == 0:  # the record that opens the file
            problem = _bad_record(file.read(offset))
            if problem:
                yield f"{name} at 0: {problem}"
        elif offset != end:
            yield f"{name} at {end}: {offset - end} bytes that belong to no page"
        end = offset + length
        file.seek(offset)
        problem = _bad_record(file.read(length), url)
        if problem:
            yield f"{name} at {offset}: {problem} ({url})"
    if end < size:
        yield f"{name} at {end}: {size - end} bytes that belong to no page"


def _bad_record(data: bytes, url: str = "") -> str:
    """What is wrong with a record: of a page, or of none."""
    try:
        fields, block = opened(data)
    except ValueError as error:
        return str(error)
    if fields.get("WARC-Target-URI", "") != url:
        return f"another page stands here: {fields.get('WARC-Target-URI')}"
    if url and fields.get("WARC-Payload-Digest") != payload_digest(payload(block)[1]):
        return "the page was changed (its digest differs)"
    return ""
