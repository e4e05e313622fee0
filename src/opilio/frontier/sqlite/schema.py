"""The frontier's tables in the collection's database, and how values are written in them. No logic.

What costs is pages written, so a visit writes few: leasing writes one row of a small table and neither host nor URL
rows; a host that falls asleep or wakes is not moved between indexes (`lease` passes over those asleep; only hosts
that sleep long are parked). All indexes are partial: settled rows and timers not in use cost nothing.
"""

from array import array

from opilio.core.protocols import Database
from opilio.core.records import UrlState

QUEUED, WAITING, DONE, FAILED, DROPPED = range(5)  # WAITING: queued, but not before a time (a retry)
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
WORST_INDEX_SQL = (
    "CREATE INDEX IF NOT EXISTS frontier_url_tail ON frontier_url (tier, priority, seq DESC) WHERE state = 0"
)


def create_frontier_tables(connection: Database, *, bounded: bool = False) -> None:
    """Create missing tables and indexes. `bounded`: Limits.queued is set."""
    for statement in TABLES_SQL.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    if bounded:
        connection.execute(WORST_INDEX_SQL)


def pack_keys(keys: tuple[int, ...] | list[int]) -> bytes:
    """Signed 64-bit keys as bytes."""
    return array("q", keys).tobytes()


def unpack_keys(blob: bytes | None) -> tuple[int, ...]:
    """The keys in such bytes.

    >>> unpack_keys(pack_keys((1, -2)))
    (1, -2)
    """
    return tuple(array("q", blob)) if blob else ()
