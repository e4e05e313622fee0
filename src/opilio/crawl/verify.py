"""Do database and WARC files agree? Reads everything, changes nothing.

Problems are told one per line; an empty list means that what the database says is true.
"""

import sqlite3
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from opilio.frontier.schema import DONE
from opilio.model.errors import CollectionError
from opilio.store.collection import Collection
from opilio.store.warc import opened, payload, payload_digest, warc_name

MAX_TOLD = 100


def verify(folder: Path) -> list[str]:
    """What is wrong with a collection, at most MAX_TOLD lines."""
    collection = Collection.open_for_reading(folder)
    checks = (_integrity, _rows, _counters, _warc_ends, _records)
    try:
        return list(islice(chain.from_iterable(check(collection) for check in checks), MAX_TOLD))
    except sqlite3.Error as error:
        raise CollectionError(f"{folder}: the database can't be read: {error}") from error
    finally:
        collection.close()


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


def _warc_ends(collection: Collection) -> Iterator[str]:
    """The last file may be longer than what was committed (a crash; cut on the next start), never shorter."""
    number, offset = int(collection.meta("warc_number", "1")), int(collection.meta("warc_offset", "0"))
    path = collection.folder / warc_name(number)
    size = path.stat().st_size if path.exists() else 0
    if size < offset:
        yield f"{path.name}: {offset - size} bytes are missing at the end"


def _records(collection: Collection) -> Iterator[str]:
    """Every page's record is where the database says, with the URL and the digest it should have."""
    rows = collection.connection.execute(
        "SELECT warc, offset, length, url FROM page WHERE length > 0 ORDER BY warc, offset"
    )
    number, file = 0, None
    try:
        for warc, offset, length, url in rows:
            if warc != number:
                if file is not None:
                    file.close()
                number, path = warc, collection.folder / warc_name(warc)
                file = path.open("rb") if path.exists() else None
            if file is None:
                yield f"{warc_name(warc)}: the file is missing ({url})"
                continue
            file.seek(offset)
            problem = _bad_record(file.read(length), url)
            if problem:
                yield f"{warc_name(warc)} at {offset}: {problem} ({url})"
    finally:
        if file is not None:
            file.close()


def _bad_record(data: bytes, url: str) -> str:
    try:
        fields, block = opened(data)
    except ValueError as error:
        return str(error)
    if fields.get("WARC-Target-URI") != url:
        return f"another page stands here: {fields.get('WARC-Target-URI')}"
    if fields.get("WARC-Payload-Digest") != payload_digest(payload(block)[1]):
        return "the page was changed (its digest differs)"
    return ""
