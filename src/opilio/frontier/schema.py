"""The frontier's tables in the collection's database, and how values are written in them. No logic.

A URL row never says "leased": a lease is one write to the host row (which holds the leased keys), so leasing
writes no URL row and a crash leaves nothing to undo in them. All indexes are partial: rows that are settled, and
timers that are not in use, cost nothing. 524288 is CHOSEN / 2: hosts that hold URLs of an N-best batch.
"""

import sqlite3
from array import array

from opilio.model.records import State

QUEUED, WAITING, DONE, FAILED, DROPPED = range(5)  # WAITING: queued, but not before a time (a retry)
STATES = {QUEUED: State.QUEUED, WAITING: State.QUEUED, DONE: State.DONE, FAILED: State.FAILED, DROPPED: State.DROPPED}
SETTLED = {State.DONE: DONE, State.FAILED: FAILED, State.DROPPED: DROPPED}

TABLES = """
CREATE TABLE IF NOT EXISTS frontier_host (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  best REAL,                            -- sort key of its best queued URL; NULL: nothing queued
  best_seq INTEGER NOT NULL DEFAULT 0,
  ready INTEGER NOT NULL DEFAULT 0,     -- 1: something is queued, wake_at has passed, nobody holds it
  wake_at REAL NOT NULL DEFAULT 0,      -- politeness and lease expiry in one timer
  token INTEGER NOT NULL DEFAULT 0,
  delay_s REAL,                         -- NULL: the configured one
  leased BLOB,                          -- keys handed out, eight bytes each; NULL: not leased
  queued INTEGER NOT NULL DEFAULT 0,    -- rows in state 0 or 1
  total INTEGER NOT NULL DEFAULT 0      -- ever accepted
);
CREATE INDEX IF NOT EXISTS frontier_host_ready ON frontier_host (best DESC, best_seq) WHERE ready = 1;
CREATE INDEX IF NOT EXISTS frontier_host_sleep ON frontier_host (wake_at) WHERE ready = 0 AND best IS NOT NULL;
CREATE INDEX IF NOT EXISTS frontier_host_leased ON frontier_host (id) WHERE leased IS NOT NULL;
CREATE INDEX IF NOT EXISTS frontier_host_chosen ON frontier_host (best) WHERE best >= 524288.0;
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
  timer REAL,                           -- when the order wants to look at it again
  PRIMARY KEY (host_id, key)            -- this is the URL-seen test on disk (S0-07, S4-21)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS frontier_url_queue ON frontier_url (host_id, priority DESC, seq) WHERE state = 0;
CREATE INDEX IF NOT EXISTS frontier_url_retry ON frontier_url (not_before) WHERE state = 1;
CREATE INDEX IF NOT EXISTS frontier_url_timer ON frontier_url (timer) WHERE timer IS NOT NULL AND state < 2;
CREATE TABLE IF NOT EXISTS frontier_count (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL,          -- grows with every change: tells a rolled back transaction
  inserted INTEGER NOT NULL,
  queued INTEGER NOT NULL, leased INTEGER NOT NULL, done INTEGER NOT NULL,
  failed INTEGER NOT NULL, dropped INTEGER NOT NULL, hosts INTEGER NOT NULL
);
INSERT OR IGNORE INTO frontier_count VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0);
"""

# Only a bounded frontier needs to find the worst URL of all, and only it pays for this index.
TAIL_INDEX = "CREATE INDEX IF NOT EXISTS frontier_url_tail ON frontier_url (priority, seq DESC) WHERE state = 0"


def create_tables(connection: sqlite3.Connection, *, bounded: bool = False) -> None:
    """Make what is missing. `bounded` is wanted where Limits.queued is set."""
    for statement in TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    if bounded:
        connection.execute(TAIL_INDEX)


def pack(keys: tuple[int, ...] | list[int]) -> bytes:
    """Signed 64-bit keys as bytes."""
    return array("q", keys).tobytes()


def unpack(blob: bytes | None) -> tuple[int, ...]:
    """The keys in such bytes.

    >>> unpack(pack((1, -2)))
    (1, -2)
    """
    return tuple(array("q", blob)) if blob else ()
