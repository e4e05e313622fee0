"""The frontier's tables in SQLite and in PostgreSQL, and how values are written in them. No logic.

What costs is pages written, so a visit writes few: leasing writes one row of a small table and neither host nor URL
rows; a host that falls asleep or wakes is not moved between indexes (`lease` passes over those asleep; only hosts that
sleep long are parked). All indexes are partial: settled rows and timers not in use cost nothing.

In PostgreSQL the lease of a host is in the host's row. URL rows are written when their visits end. While a host is
leased it is parked until the lease expires, so that the index of ready hosts holds only those that may be fetched from
soon. Counters have one row for each connection, so that workers never wait for each other's; a sum over them is the
count.
"""

from array import array

from opilio.core.protocols import Database
from opilio.core.records import UrlState

# WAITING: queued, but not before a time (a retry).
QUEUED, WAITING, DONE, FAILED, DROPPED = range(5)
STATE_BY_CODE = {
    QUEUED: UrlState.QUEUED,
    WAITING: UrlState.QUEUED,
    DONE: UrlState.DONE,
    FAILED: UrlState.FAILED,
    DROPPED: UrlState.DROPPED,
}
FINAL_STATE_CODES = {UrlState.DONE: DONE, UrlState.FAILED: FAILED, UrlState.DROPPED: DROPPED}

TABLES_SQL = """
CREATE TABLE IF NOT EXISTS frontier_host (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  best REAL,                            -- priority of its best queued URL; NULL: nothing queued
  best_seq INTEGER NOT NULL DEFAULT 0,
  wake_at REAL NOT NULL DEFAULT 0,      -- not fetched from before
  parked INTEGER NOT NULL DEFAULT 0,    -- 1: it sleeps long and is skipped until it wakes
  delay_s REAL,                         -- NULL: the configured one
  queued INTEGER NOT NULL DEFAULT 0,    -- rows in state 0 or 1
  total INTEGER NOT NULL DEFAULT 0,     -- ever accepted
  best_tier INTEGER NOT NULL DEFAULT 0  -- tier of its best queued URL
);
CREATE INDEX IF NOT EXISTS frontier_host_order ON frontier_host (best_tier DESC, best DESC, best_seq, wake_at)
  WHERE parked = 0 AND best IS NOT NULL;
CREATE INDEX IF NOT EXISTS frontier_host_parked ON frontier_host (wake_at) WHERE parked = 1 AND best IS NOT NULL;
CREATE TABLE IF NOT EXISTS frontier_lease (
  host_id INTEGER PRIMARY KEY,
  token INTEGER NOT NULL,
  expires_at REAL NOT NULL,
  keys BLOB NOT NULL                    -- the URLs handed out, eight bytes each
);
CREATE TABLE IF NOT EXISTS frontier_url (
  host_id INTEGER NOT NULL,
  key INTEGER NOT NULL,
  state INTEGER NOT NULL,               -- 0 queued, 1 waiting for a retry, 2 done, 3 failed, 4 dropped
  seq INTEGER NOT NULL,                 -- order of discovery
  priority REAL NOT NULL,               -- sort key made by the order
  score REAL NOT NULL,
  depth INTEGER NOT NULL,
  tunnel INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  hops INTEGER NOT NULL,
  retries INTEGER NOT NULL DEFAULT 0,
  found INTEGER NOT NULL DEFAULT 1,
  url TEXT NOT NULL,
  parents BLOB,                         -- up to five keys, first finder first; NULL: only `parent`, if any
  features BLOB,
  reason TEXT,
  not_before REAL,
  timer REAL,                           -- when the order repositions or drops it
  agent INTEGER NOT NULL DEFAULT 0,     -- number of the agent that owns it; 0: none
  tier INTEGER NOT NULL DEFAULT 0,      -- 0 link, 1 seed or N-best batch, 2 boosted, 3 revisit: higher tiers come first
  PRIMARY KEY (host_id, key)            -- this is the URL-seen test on disk (S0-07, S4-21)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS frontier_url_queue ON frontier_url (host_id, tier DESC, priority DESC, seq)
  WHERE state = 0;
CREATE INDEX IF NOT EXISTS frontier_url_retry ON frontier_url (not_before) WHERE state = 1;
CREATE INDEX IF NOT EXISTS frontier_url_timer ON frontier_url (timer) WHERE timer IS NOT NULL AND state < 2;
CREATE TABLE IF NOT EXISTS frontier_count (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL,          -- grows with every change: detects a rolled back transaction
  inserted INTEGER NOT NULL,
  queued INTEGER NOT NULL, leased INTEGER NOT NULL, done INTEGER NOT NULL,
  failed INTEGER NOT NULL, dropped INTEGER NOT NULL, hosts INTEGER NOT NULL
);
INSERT OR IGNORE INTO frontier_count VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);
"""

# Only a bounded frontier needs to find the worst URL of all, and only it pays for this index.
WORST_INDEX = "CREATE INDEX IF NOT EXISTS frontier_url_tail ON frontier_url (tier, priority, seq DESC) WHERE state = 0"


def create_frontier_tables(connection: Database, *, bounded: bool = False) -> None:
    """Create missing tables and indexes. `bounded`: the number of queued URLs is limited."""
    for statement in TABLES_SQL.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    if bounded:
        connection.execute(WORST_INDEX)


def pack_keys(keys: tuple[int, ...] | list[int]) -> bytes:
    """Signed 64-bit keys as bytes."""
    return array("q", keys).tobytes()


def unpack_keys(blob: bytes | None) -> tuple[int, ...]:
    """The keys in such bytes.

    >>> unpack_keys(pack_keys((1, -2)))
    (1, -2)
    """
    return tuple(array("q", blob)) if blob else ()


FRONTIER_TABLES = (
    """CREATE TABLE IF NOT EXISTS frontier_host (
  id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE,
  best_tier smallint NOT NULL DEFAULT 0,
  best double precision,
  best_seq bigint NOT NULL DEFAULT 0,
  wake_at double precision NOT NULL DEFAULT 0,
  parked smallint NOT NULL DEFAULT 0,
  delay_s double precision,
  queued bigint NOT NULL DEFAULT 0,
  total bigint NOT NULL DEFAULT 0,
  token bigint NOT NULL DEFAULT 0,
  expires_at double precision NOT NULL DEFAULT 0,
  keys bytea
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02)""",
    """CREATE INDEX IF NOT EXISTS frontier_host_order ON frontier_host (best_tier DESC, best DESC, best_seq)
  WHERE parked = 0 AND best IS NOT NULL""",
    "CREATE INDEX IF NOT EXISTS frontier_host_parked ON frontier_host (wake_at) WHERE parked = 1 AND best IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS frontier_host_leased ON frontier_host (expires_at) WHERE keys IS NOT NULL",
    """CREATE TABLE IF NOT EXISTS frontier_url (
  host_id bigint NOT NULL,
  key bigint NOT NULL,
  seq bigint NOT NULL,
  priority double precision NOT NULL,
  score double precision NOT NULL,
  parent bigint NOT NULL,
  not_before double precision,
  timer double precision,
  depth integer NOT NULL,
  tunnel integer NOT NULL,
  hops integer NOT NULL,
  retries integer NOT NULL DEFAULT 0,
  found integer NOT NULL DEFAULT 1,
  agent integer NOT NULL DEFAULT 0,
  state smallint NOT NULL,
  tier smallint NOT NULL DEFAULT 0,
  url text NOT NULL,
  parents bytea,
  features bytea,
  reason text,
  PRIMARY KEY (host_id, key)
) WITH (fillfactor = 90)""",
    """CREATE INDEX IF NOT EXISTS frontier_url_queue ON frontier_url (host_id, tier DESC, priority DESC, seq)
  WHERE state = 0""",
    "CREATE INDEX IF NOT EXISTS frontier_url_retry ON frontier_url (not_before) WHERE state = 1",
    "CREATE INDEX IF NOT EXISTS frontier_url_timer ON frontier_url (timer) WHERE timer IS NOT NULL AND state < 2",
    """CREATE TABLE IF NOT EXISTS frontier_count (
  id bigint PRIMARY KEY,
  inserted bigint NOT NULL DEFAULT 0,
  queued bigint NOT NULL DEFAULT 0, leased bigint NOT NULL DEFAULT 0, done bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0, dropped bigint NOT NULL DEFAULT 0, hosts bigint NOT NULL DEFAULT 0
)""",
    "INSERT INTO frontier_count (id) VALUES (0) ON CONFLICT DO NOTHING",
)


def create_postgres_frontier(db: Database, *, bounded: bool = False) -> None:
    """Create missing tables and indexes. `bounded`: the number of queued URLs is limited."""
    for statement in (*FRONTIER_TABLES, *((WORST_INDEX,) if bounded else ())):
        db.execute(statement)


_REBUILD_COUNTERS = (
    # URLs are counted in one scan: by host it would be an access to a random block for each.
    """UPDATE frontier_host AS h SET token = h.token + 1, expires_at = 0, keys = NULL, parked = 0,
        queued = coalesce(counted.urls, 0),
        (best_tier, best, best_seq) = (SELECT coalesce(max(tier), 0), max(priority), coalesce(max(seq), 0) FROM (
            SELECT tier, priority, seq FROM frontier_url WHERE host_id = h.id AND state = 0
            ORDER BY tier DESC, priority DESC, seq LIMIT 1) AS first)
        FROM frontier_host AS every LEFT JOIN (SELECT host_id, count(*) AS urls FROM frontier_url WHERE state < 2
            GROUP BY host_id) AS counted ON counted.host_id = every.id WHERE every.id = h.id""",
    "DELETE FROM frontier_count",
)
_INSERT_COUNTERS = """INSERT INTO frontier_count (id, inserted, queued, done, failed, dropped, hosts)
    SELECT 0, :inserted, count(*) FILTER (WHERE state < 2), count(*) FILTER (WHERE state = 2),
        count(*) FILTER (WHERE state = 3), count(*) FILTER (WHERE state = 4), (SELECT count(*) FROM frontier_host)
    FROM frontier_url"""


def rebuild_postgres_counters(db: Database) -> None:
    """Compute counters and the best URL of each host from the rows, and end all leases."""
    inserted = db.execute("SELECT coalesce(sum(inserted), 0) FROM frontier_count").fetchone()[0]
    for statement in _REBUILD_COUNTERS:
        db.execute(statement)
    db.execute(_INSERT_COUNTERS, {"inserted": inserted})
