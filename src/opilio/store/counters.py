"""The counters of a collection, as they follow from its rows: for whoever checks them, and to make them anew.

A crawl adds up as it goes (`keeper`); nobody counts rows while it runs.
"""

import sqlite3

import msgspec

from opilio.store.collection import Collection
from opilio.store.keeper import Counts

_SIZE = "SELECT a.size_bytes AS size FROM {table} AS p JOIN answer AS a ON a.seq = p.seq"
COUNTED = {
    "fetched": "SELECT coalesce(max(seq), 0) FROM answer",
    "pages": "SELECT count(*) FROM page",
    "relevant": "SELECT count(*) FROM page WHERE relevant",
    "duplicates": "SELECT count(*) FROM page WHERE duplicate_of <> 0",
    "failed": "SELECT count(*) FROM answer WHERE failure <> '' OR status NOT BETWEEN 200 AND 399",
    "size_bytes": f"""SELECT coalesce(sum(size), 0) FROM (
        {_SIZE.format(table="page")} UNION ALL {_SIZE.format(table="version")})""",
}


def stored_counts(collection: Collection) -> Counts:
    """What the counters say."""
    stored = collection.meta("counts")
    return msgspec.json.decode(stored, type=Counts) if stored else Counts()


def counted(connection: sqlite3.Connection) -> Counts:
    """What the rows say."""
    return Counts(**{name: connection.execute(query).fetchone()[0] for name, query in COUNTED.items()})


def recount(collection: Collection) -> None:
    """Make the counters anew; inside a unit of work."""
    collection.set_meta(counts=msgspec.json.encode(counted(collection.connection)).decode())
