"""Looks through the queue of a SQLite frontier without taking part in it: for whoever wants to know what waits."""

import sqlite3
from collections.abc import Iterator

from opilio.frontier.queue import Queue
from opilio.model.protocols import Entry


def best_first(connection: sqlite3.Connection, limit: int) -> Iterator[Entry]:
    """Queued URLs from the best on, as they stand on disk; host by host from the index, settled URLs cost nothing."""
    hosts = connection.execute(
        "SELECT id, name, best, best_seq FROM frontier_host WHERE best IS NOT NULL"
        " ORDER BY best DESC, best_seq LIMIT ?",
        (limit,),
    ).fetchall()
    for _, entry in Queue(connection).best(hosts, limit, lambda _: frozenset()):
        yield entry
