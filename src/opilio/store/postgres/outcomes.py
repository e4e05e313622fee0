"""What workers and trainer hand to each other: results of visits, models, the progress of the crawl, addresses."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.core.settings import StopSettings
from opilio.store.writer import CrawlCounts

KEPT_MODELS = 3  # versions of each model: a worker may be reading the one before the last
_PROGRESS = """SELECT (SELECT value FROM meta WHERE name = 'counts'),
    (SELECT value FROM meta WHERE name = 'state'), (SELECT value FROM meta WHERE name = 'paused'),
    (SELECT value FROM meta WHERE name = 'stop_reason'),
    (SELECT coalesce(sum(fetches), 0) FROM (SELECT fetches FROM outcome LIMIT 10000) AS waiting),
    (SELECT coalesce(sum(leased), 0) FROM frontier_count)"""


class SharedProgress(NamedTuple):
    """How far a crawl is: what the trainer has counted, what waits for it, and what is in flight."""

    counts: CrawlCounts
    state: str
    paused: bool
    stop_reason: str
    backlog: int
    leased: int

    def remaining(self, stop: StopSettings) -> int:
        """How many more URLs may be leased without passing a limit; each may turn out to be a relevant page."""
        limits = (
            (stop.pages, self.counts.pages),
            (stop.fetches, self.counts.fetched),
            (stop.relevant, self.counts.relevant),
        )
        left = min((limit - count for limit, count in limits if limit), default=1 << 30)
        return max(0, left - self.backlog - self.leased)


def crawl_progress(db: Database) -> SharedProgress:
    """The progress, in one statement."""
    counts, state, paused, reason, backlog, leased = db.execute(_PROGRESS).fetchone()
    stored = msgspec.json.decode(counts, type=CrawlCounts) if counts else CrawlCounts()
    return SharedProgress(stored, state or "", bool(paused), reason or "", backlog, int(leased))


def add_outcomes(db: Database, worker: str, outcomes: Sequence[tuple[int, bytes]]) -> None:
    """Hand results of leases to the trainer: how many fetches each has, and the result."""
    if outcomes:
        sql = """INSERT INTO outcome (worker, fetches, data)
            SELECT ?, * FROM unnest(CAST(? AS integer[]), CAST(? AS bytea[]))"""
        db.execute(sql, (worker, [fetches for fetches, _ in outcomes], [data for _, data in outcomes]))


def next_outcomes(db: Database, limit: int) -> list[tuple[int, bytes]]:
    """The oldest results with their numbers."""
    rows = db.execute("SELECT id, data FROM outcome ORDER BY id LIMIT ?", (limit,))
    return [(id_, bytes(data)) for id_, data in rows]


def take_outcomes(db: Database, numbers: Sequence[int]) -> set[int]:
    """Remove results that are being applied; returns those that no other trainer has removed."""
    return {number for (number,) in db.execute("DELETE FROM outcome WHERE id = ANY(?) RETURNING id", (list(numbers),))}


def publish_models(db: Database, states: Mapping[str, bytes]) -> None:
    """Store new versions of models. A version never changes."""
    for name, state in states.items():
        db.execute("INSERT INTO model (name, state) VALUES (?, ?)", (name, state))
        db.execute(
            "DELETE FROM model WHERE name = ? AND version NOT IN"
            " (SELECT version FROM model WHERE name = ? ORDER BY version DESC LIMIT ?)",
            (name, name, KEPT_MODELS),
        )


def newer_models(db: Database, version: int) -> list[tuple[int, str, bytes]]:
    """(version, name, state) of models that are newer than a version, the newest of each name."""
    rows = db.execute(
        "SELECT version, name, state FROM model WHERE version IN"
        " (SELECT max(version) FROM model WHERE version > ? GROUP BY name) ORDER BY version",
        (version,),
    )
    return [(number, name, bytes(state)) for number, name, state in rows]


def reserve_address(db: Database, address: str, now: float, delay_s: float) -> float:
    """The time at which a request to an address may start; the next may start a pause later."""
    row = db.execute(
        "INSERT INTO address VALUES (:name, :now + :delay) ON CONFLICT (name) DO UPDATE"
        " SET free_at = greatest(address.free_at, :now) + :delay RETURNING free_at - :delay",
        {"name": address, "now": now, "delay": delay_s},
    ).fetchone()
    return float(row[0])
