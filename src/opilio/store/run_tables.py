"""What belongs to the crawl as a whole: events, seeds, robots.txt rules, states of learners, commands, labels, agents.

Any process appends commands and labels; the writing process applies them. The latest label of a page counts.

A learner is stored as a snapshot of its state from time to time, and a journal of the lessons since. A lesson is
written in the same unit of work as its visit, so a killed crawl has learned everything that it committed. The larger
the state, the longer the journal between two snapshots. The previous snapshot and its journal are kept as well, under
another name, to rebuild a damaged snapshot. The checksum of a snapshot is in `meta`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import xxhash

from opilio.core.protocols import Database
from opilio.core.records import url_key
from opilio.store.collection import Collection
from opilio.store.connection import read_row, read_rows, read_value, upsert_sql

# In `meta`: the OpenSearch server that holds the index of the collection, and the name of the index there.
INDEX_SERVER_KEY, INDEX_ALIAS_KEY = "index_server", "index_alias"
# Ends the name of a learner's previous state, which stands in for a damaged one.
PREVIOUS_MARK = "~"


class EventRow(msgspec.Struct, frozen=True):
    """An event as it is stored; `data` is JSON."""

    id: int
    at: float
    kind: str
    data: bytes


class SnapshotRow(msgspec.Struct, frozen=True):
    """A saved state of something that learns."""

    name: str
    version: int
    at: float
    state: bytes


_SAVE_SNAPSHOT = upsert_sql("snapshot", SnapshotRow.__struct_fields__, ("name", "version"))


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


def latest_snapshot(db: Database, name: str) -> SnapshotRow | None:
    """The newest saved state of a learner."""
    return read_row(db, SnapshotRow, "snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (name,))


def latest_state(db: Database, name: str) -> bytes | None:
    """The newest saved state of a learner as bytes."""
    found = latest_snapshot(db, name)
    return None if found is None else bytes(found.state)


def snapshots(db: Database, name: str) -> list[SnapshotRow]:
    """Every saved state of a learner, oldest first."""
    return list(read_rows(db, SnapshotRow, "snapshot WHERE name = ? ORDER BY version", (name,)))


def write_snapshots(db: Database, rows: Iterable[SnapshotRow]) -> None:
    """Store states, in place of those of the same learner and version."""
    db.executemany(_SAVE_SNAPSHOT, [msgspec.structs.astuple(row) for row in rows])


def latest_states(db: Database, without: str) -> dict[str, bytes]:
    """The newest saved state of every learner by name; without those called `without`, of agents too."""
    source = f"""snapshot AS s WHERE name <> ? AND name NOT LIKE '%/' || ? AND name NOT LIKE '%{PREVIOUS_MARK}'
        AND version = (SELECT max(version) FROM snapshot WHERE name = s.name)"""
    return {row.name: bytes(row.state) for row in read_rows(db, SnapshotRow, source, (without, without))}


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


def has_table(db: Database, name: str) -> bool:
    """Collections of early versions lack the tables that were added later."""
    return read_value(db, "SELECT 1 FROM sqlite_master WHERE name = ?", (name,)) is not None


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


# Lessons between two saved states, at least.
SNAPSHOT_MIN_LESSONS = 1_000
# Of a state: saving costs about this per lesson.
STATE_BYTES_PER_LESSON = 1_000
_NEWEST_VERSION = "(SELECT max(version) FROM snapshot WHERE name = ?)"
STATE_DAMAGED = "the learned state '{}' was changed since it was written; it is restored from the state before it"
STATE_RESTORED = "the learned state '{}' was damaged; it was restored from the state before it and its lessons"
_CHECKSUM_PREFIX = "state of "  # names in `meta`


class LearnerJournal:
    """The journal of one learner. Writes inside `collection.unit_of_work()`."""

    def __init__(self, collection: Collection, name: str) -> None:
        self._collection = collection
        self._connection = collection.connection
        # A collection in memory is never resumed.
        self._persistent = collection.persistent
        self.name = name
        # Lessons since the last saved state, as far as this process knows.
        self.pending_lessons = 0
        self._snapshot_after = SNAPSHOT_MIN_LESSONS

    @property
    def snapshot_due(self) -> bool:
        """Whether to store a snapshot."""
        return self.pending_lessons >= self._snapshot_after

    def add(self, lesson: bytes, lessons: int = 1) -> None:
        """Store a lesson of this number of visits."""
        if not self._persistent:
            return
        self._connection.execute("INSERT INTO lesson (name, data) VALUES (?, ?)", (self.name, lesson))
        self.pending_lessons += lessons

    def load_snapshot(self) -> bytes | None:
        """The last snapshot."""
        return latest_state(self._connection, self.name)

    def lessons(self) -> Iterator[bytes]:
        """The lessons after the last snapshot, in order."""
        for (lesson,) in self._connection.execute("SELECT data FROM lesson WHERE name = ? ORDER BY id", (self.name,)):
            self.pending_lessons += 1
            yield bytes(lesson)

    def save_snapshot(self, version: int, at: float, state: bytes, past: Sequence[tuple[int, bytes]] = ()) -> None:
        """Store a snapshot; the last one and its lessons become the previous ones.

        `past`: what is kept of versions since the last call, for display. A version keeps the time when it was made.
        """
        previous = self.name + PREVIOUS_MARK
        _make_previous(self._connection, self.name, previous)
        made_at = dict(self._connection.execute("SELECT version, at FROM snapshot WHERE name = ?", (previous,)))
        kept = [*past, (version, state)]
        write_snapshots(
            self._connection, [SnapshotRow(self.name, number, made_at.get(number, at), data) for number, data in kept]
        )
        self._collection.set_meta(**{_checksum_key(self.name): _checksum(state)})
        self.pending_lessons = 0
        self._snapshot_after = max(SNAPSHOT_MIN_LESSONS, len(state) // STATE_BYTES_PER_LESSON)


def damaged_states(collection: Collection) -> Iterator[str]:
    """The names of the learners whose last snapshot differs from its checksum."""
    for key, stored in collection.connection.execute(
        "SELECT name, value FROM meta WHERE name LIKE ?", (f"{_CHECKSUM_PREFIX}%",)
    ):
        name = str(key).removeprefix(_CHECKSUM_PREFIX)
        row = latest_snapshot(collection.connection, name)
        if not name.endswith(PREVIOUS_MARK) and row is not None and _checksum(bytes(row.state)) != stored:
            yield name


def restore_damaged_states(collection: Collection) -> list[str]:
    """Replace each damaged snapshot by the previous one and its lessons; returns the names.

    Inside a unit of work. A learner without a previous snapshot learns all lessons again.
    """
    names = list(damaged_states(collection))
    db = collection.connection
    for name in names:
        previous = latest_snapshot(db, name + PREVIOUS_MARK)
        keep_below = previous.version if previous is not None else 0
        sql = f"DELETE FROM snapshot WHERE name = ? AND (version >= ? OR version = {_NEWEST_VERSION})"
        db.execute(sql, (name, keep_below, name))
        db.execute("UPDATE snapshot SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        db.execute("UPDATE lesson SET name = ? WHERE name = ?", (name, name + PREVIOUS_MARK))
        collection.set_meta(**{_checksum_key(name): _checksum(b"" if previous is None else bytes(previous.state))})
    return names


def _make_previous(db: Database, name: str, previous: str) -> None:
    """Rename the newest snapshot and all lessons, in place of those that have that name."""
    for table in ("snapshot", "lesson"):
        db.execute(f"DELETE FROM {table} WHERE name = ?", (previous,))
    db.execute(f"UPDATE snapshot SET name = ? WHERE name = ? AND version = {_NEWEST_VERSION}", (previous, name, name))
    db.execute("UPDATE lesson SET name = ? WHERE name = ?", (previous, name))


def _checksum_key(name: str) -> str:
    return f"{_CHECKSUM_PREFIX}{name}"


def _checksum(state: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(state)


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


# Stored in place of relevant or irrelevant: the label was removed.
REMOVED_LABEL = -1
MAX_LABEL_ID = (1 << 63) - 1
# A page that moves takes its last label along, unless the target is a page with a label of its own.
_COPY_LABEL = """INSERT INTO label (key, relevant, at, sample) SELECT :target, relevant, :now, sample FROM label
    WHERE key = :key AND NOT EXISTS (SELECT 1 FROM label AS l JOIN page AS p ON p.key = l.key WHERE l.key = :target)
    ORDER BY id DESC LIMIT 1"""


class LabelRow(msgspec.Struct, frozen=True):
    """One label with the terms the judge read on the page."""

    id: int
    key: int
    relevant: int
    sample: bytes


class NewLabel(NamedTuple):
    """A label to append; `relevant` None removes the last one."""

    key: int
    relevant: bool | None
    sample: bytes


class CurrentLabel(NamedTuple):
    relevant: bool
    sample: bytes


def append_labels(db: Database, labels: Iterable[NewLabel], at: float) -> None:
    db.executemany(
        "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, ?, ?)",
        [(one.key, REMOVED_LABEL if one.relevant is None else int(one.relevant), at, one.sample) for one in labels],
    )


def labels_after(db: Database, number: int) -> list[LabelRow]:
    """The labels after one in order."""
    return list(read_rows(db, LabelRow, "label WHERE id > ? ORDER BY id", (number,)))


def current_label(db: Database, key: int, before: int = MAX_LABEL_ID) -> CurrentLabel | None:
    """The last label of a page with a number below `before`; None where there is none or it was removed."""
    row = db.execute(
        "SELECT relevant, sample FROM label WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1", (key, before)
    ).fetchone()
    return None if row is None or row[0] == REMOVED_LABEL else CurrentLabel(bool(row[0]), bytes(row[1]))


def label_name(db: Database, key: int) -> str:
    """The current label of a page as users write it: relevant, irrelevant, or nothing."""
    label = current_label(db, key) if has_table(db, "label") else None
    return "" if label is None else "relevant" if label.relevant else "irrelevant"


def has_label_after(db: Database, key: int, number: int) -> bool:
    return read_value(db, "SELECT 1 FROM label WHERE key = ? AND id > ? LIMIT 1", (key, number)) is not None


def labeled_keys(db: Database, keys: Sequence[int]) -> set[int]:
    """Those of the keys that have labels."""
    marks = ", ".join("?" * len(keys))
    return {key for (key,) in db.execute(f"SELECT DISTINCT key FROM label WHERE key IN ({marks})", keys)}


def labeled_originals(db: Database) -> list[int]:
    """The keys of all stored pages that have labels and are not copies."""
    sql = "SELECT DISTINCT l.key FROM label AS l JOIN page AS p ON p.key = l.key WHERE p.duplicate_of = 0"
    return [key for (key,) in db.execute(sql)]


def copy_label(db: Database, key: int, target: int, now: float) -> None:
    """A page moved: its last label goes along."""
    db.execute(_COPY_LABEL, {"key": key, "target": target, "now": now})


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
