"""What belongs to the crawl as a whole: events, seeds, robots.txt rules, commands, agents.

Any process appends commands; the writing process applies them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from opilio.core.protocols import Database
from opilio.core.records import url_key
from opilio.store.connection import read_row, read_rows, read_value, upsert_sql

# In `meta`: the OpenSearch server that holds the index of the collection, and the name of the index there.
INDEX_SERVER_KEY, INDEX_ALIAS_KEY = "index_server", "index_alias"


class EventRow(msgspec.Struct, frozen=True):
    """An event as it is stored; `data` is JSON."""

    id: int
    at: float
    kind: str
    data: bytes


class RobotsRow(msgspec.Struct, frozen=True):
    """The robots.txt rules of an origin, encoded."""

    origin: str
    expires_at: float
    rules: bytes


class SeedRow(msgspec.Struct, frozen=True):
    """A seed and what named it."""

    key: int
    url: str
    priority: int
    sources: str


class SeedResult(NamedTuple):
    """A seed and the page it became, if it was fetched."""

    seed: SeedRow
    title: str | None
    score: float | None
    relevant: bool | None


class _Backoff(msgspec.Struct):
    """The fields of HostBackedOff that a reader needs."""

    until: float
    reason: str


_decode_backoff = msgspec.json.Decoder(_Backoff).decode


class EventFilter(NamedTuple):
    """Which events a list shows. `kinds`: None for all; `before`: only events with a lower number, 0 for all."""

    kinds: Sequence[str] | None = None
    text: str = ""
    before: int = 0


def newest_events(db: Database, wanted: EventFilter, limit: int) -> list[EventRow]:
    """Filtered events, newest first."""
    where, values = ["id > 0"], list[object]()
    if wanted.kinds is not None:
        where.append(f"kind IN ({', '.join('?' * len(wanted.kinds))})")
        values += wanted.kinds
    if wanted.text:
        where.append("instr(lower(CAST(data AS TEXT)), ?) > 0")
        values.append(wanted.text.lower())
    if wanted.before:
        where.append("id < ?")
        values.append(wanted.before)
    source = f"event WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
    return list(read_rows(db, EventRow, source, (*values, limit)))


def events_after(db: Database, number: int, limit: int) -> list[EventRow]:
    """The events after one, oldest first."""
    return list(read_rows(db, EventRow, "event WHERE id > ? ORDER BY id LIMIT ?", (number, limit)))


def last_event_id(db: Database) -> int:
    return int(read_value(db, "SELECT coalesce(max(id), 0) FROM event"))


def events_between(db: Database, after: int, last: int, kinds: Sequence[str]) -> list[EventRow]:
    """The events of these kinds after one number up to another, oldest first."""
    source = f"event WHERE id > ? AND id <= ? AND kind IN ({', '.join('?' * len(kinds))}) ORDER BY id"
    return list(read_rows(db, EventRow, source, (after, last, *kinds)))


def first_event_at(db: Database, kind: str) -> float | None:
    """When the first event of a kind happened."""
    at: float | None = read_value(db, "SELECT at FROM event WHERE kind = ? ORDER BY id LIMIT 1", (kind,))
    return at


def last_host_backoff(db: Database, host: str) -> tuple[float, str] | None:
    """Until when a host was backed off last, and why."""
    sql = """SELECT data FROM event WHERE kind = 'HostBackedOff' AND instr(CAST(data AS TEXT), ?) > 0
        ORDER BY id DESC LIMIT 1"""
    data = read_value(db, sql, (f'"host":{msgspec.json.encode(host).decode()},',))
    found = None if data is None else _decode_backoff(data)
    return None if found is None else (found.until, found.reason)


def robots_rows(db: Database) -> list[RobotsRow]:
    """The stored rules of every origin."""
    return list(read_rows(db, RobotsRow, "robots"))


def delete_robots(db: Database, origin: str) -> None:
    db.execute("DELETE FROM robots WHERE origin = ?", (origin,))


def delete_robots_expired_before(db: Database, at: float) -> None:
    db.execute("DELETE FROM robots WHERE expires_at < ?", (at,))


def delete_robots_expiring_after(db: Database, at: float) -> None:
    db.execute("DELETE FROM robots WHERE expires_at > ?", (at,))


def seed_row(db: Database, key: int) -> SeedRow | None:
    return read_row(db, SeedRow, "seed WHERE key = ?", (key,))


def first_seed_urls(db: Database, limit: int) -> list[str]:
    """The first seeds by priority."""
    return [row.url for row in read_rows(db, SeedRow, "seed ORDER BY priority, key LIMIT ?", (limit,))]


def seed_results(db: Database, limit: int) -> Iterator[SeedResult]:
    """Seeds by priority, each with the page it became."""
    sql = """SELECT s.key, s.url, s.priority, s.sources, p.title, p.score, p.relevant FROM seed AS s
        LEFT JOIN page AS p ON p.key = s.key ORDER BY s.priority, s.url LIMIT ?"""
    for key, url, priority, sources, title, score, relevant in db.execute(sql, (limit,)):
        seed = SeedRow(key, url, priority, sources)
        yield SeedResult(seed, title, score, None if relevant is None else bool(relevant))


_keys = msgspec.msgpack.Decoder(tuple[int, ...])
MAX_REDIRECTS = 5
_LAST_LOCATION = "SELECT location FROM answer WHERE key = ? ORDER BY seq DESC LIMIT 1"


class SeedQuery(NamedTuple):
    """One query with the keys of the URLs it returned; `while_crawling`: it was not sent before the crawl."""

    query: str
    keys: tuple[int, ...]
    while_crawling: bool


def write_seed_query(connection: Database, at: float, enquiry: SeedQuery) -> None:
    """Store a query."""
    connection.execute(
        "INSERT INTO enquiry (at, query, further, keys) VALUES (?, ?, ?, ?)",
        (at, enquiry.query, enquiry.while_crawling, msgspec.msgpack.encode(enquiry.keys)),
    )


def read_seed_queries(connection: Database) -> list[SeedQuery]:
    """All queries, in the order they were sent."""
    rows = connection.execute("SELECT query, keys, further FROM enquiry ORDER BY id")
    return [SeedQuery(str(query), _keys.decode(keys), bool(further)) for query, keys, further in rows]


def count_judged(connection: Database, keys: tuple[int, ...]) -> tuple[int, int]:
    """The number of these URLs that were judged, and the relevant ones among them; redirects are followed."""
    verdicts = [_verdict(connection, key) for key in keys]
    return sum(v is not None for v in verdicts), sum(v is True for v in verdicts)


def _verdict(connection: Database, key: int) -> bool | None:
    for _ in range(MAX_REDIRECTS):
        page = connection.execute("SELECT relevant FROM page WHERE key = ?", (key,)).fetchone()
        if page is not None:
            return bool(page[0])
        location = last_location(connection, key)
        if not location:
            return None
        key = url_key(location)
    return None


def last_location(connection: Database, key: int) -> str:
    """The target of the last response of a URL if it was a redirect; otherwise empty."""
    row = connection.execute(_LAST_LOCATION, (key,)).fetchone()
    return str(row[0]) if row else ""


# In `meta`: the id of the last command that was applied.
LAST_APPLIED_META_KEY = "commands_applied"


class CommandRow(msgspec.Struct, frozen=True):
    """One command: its name, what it is about (a host, a URL, a pattern, an agent), and further data."""

    id: int
    name: str
    target: str
    data: bytes


def append_command(db: Database, at: float, name: str, target: str = "", data: bytes = b"") -> None:
    """Add a command, inside the caller's transaction."""
    db.execute("INSERT INTO command (at, name, target, data) VALUES (?, ?, ?, ?)", (at, name, target, data))


def commands_after(db: Database, number: int) -> list[CommandRow]:
    """The commands after one, in order."""
    return list(read_rows(db, CommandRow, "command WHERE id > ? ORDER BY id", (number,)))


def commands_named(db: Database, names: Sequence[str]) -> list[CommandRow]:
    """All commands with these names, in order, applied or not."""
    marks = ", ".join("?" * len(names))
    return list(read_rows(db, CommandRow, f"command WHERE name IN ({marks}) ORDER BY id", names))


RecordType = TypeVar("RecordType", bound=msgspec.Struct)


class VerdictRow(msgspec.Struct, frozen=True):
    """An agent's verdict on a page; `own`: it fetched the page itself."""

    agent: int
    own: bool
    score: float
    relevant: bool


_SAVE_VERDICT = upsert_sql("verdict", ("page", "agent", "own", "score", "relevant"), ("page", "agent"))


def save_agent_records(db: Database, records: Sequence[msgspec.Struct]) -> None:
    """Write the records; the fields of their type are the columns."""
    if records:
        values = [msgspec.structs.astuple(record) for record in records]
        db.executemany(upsert_sql("agent", records[0].__struct_fields__, ("number",)), values)


def set_agent_state(db: Database, name: str, state: str, reason: str) -> None:
    """Change the stored state of one agent."""
    db.execute("UPDATE agent SET state = ?, reason = ? WHERE name = ?", (state, reason, name))


def read_agent_rows(db: Database, record_type: type[RecordType]) -> list[RecordType]:
    """The records as they were saved last, by number."""
    return list(read_rows(db, record_type, "agent ORDER BY number"))


def add_verdicts(db: Database, rows: Iterable[tuple[int, int, bool, float, bool]]) -> None:
    """Store verdicts: (page, agent, own, score, relevant)."""
    db.executemany(_SAVE_VERDICT, rows)


def agent_verdicts(db: Database, page: int) -> list[VerdictRow]:
    """The verdicts of all agents on a page."""
    return list(read_rows(db, VerdictRow, "verdict WHERE page = ? ORDER BY agent", (page,)))
