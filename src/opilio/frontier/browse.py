"""Looks through the queue of a SQLite frontier without taking part in it: for whoever wants to know what waits."""

import sqlite3
from collections.abc import Collection, Iterator

from opilio.frontier.queue import Queue
from opilio.model.protocols import Entry


def next_first(connection: sqlite3.Connection, limit: int, boosted: Collection[str]) -> Iterator[Entry]:
    """Queued URLs as they will be asked for: those of boosted hosts, then the others, each from the best on."""
    if boosted:
        yield from best_first(connection, limit, boosted)
    yield from (entry for entry in best_first(connection, limit) if entry.lead.host not in boosted)


def best_first(connection: sqlite3.Connection, limit: int, names: Collection[str] | None = None) -> Iterator[Entry]:
    """Queued URLs from the best on, as they stand on disk, of all hosts or of these; host by host from the index,
    settled URLs cost nothing."""
    among = "" if names is None else f" AND name IN ({', '.join('?' * len(names))})"
    hosts = connection.execute(
        f"SELECT id, name, best, best_seq FROM frontier_host WHERE best IS NOT NULL{among}"
        " ORDER BY best DESC, best_seq LIMIT ?",
        (*(names or ()), limit),
    ).fetchall()
    for _, entry in Queue(connection).best(hosts, limit, lambda _: frozenset()):
        yield entry
