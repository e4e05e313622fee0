"""Before a crawl goes on: what a power cut took is let go of and queued again, and a clock set back is followed.

Hosts that an earlier run could not even ask: a resumed one does not wait for them, it may reach further.

Whoever was asked and wants to be left alone is none of them.
"""

import msgspec

from opilio.core.events import PagesLost
from opilio.core.settings import FetchSettings
from opilio.core.urls import host_of
from opilio.engine.politeness.host_gate import PRIVATE_ADDRESS_REASON
from opilio.engine.politeness.robots import PRIVATE_ADDRESS
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.methods.agents.frontier import ClaimableFrontier
from opilio.store.collection import Collection
from opilio.store.record_check import find_first_lost, truncate_at
from opilio.store.warc import warc_name
from opilio.store.writer import CollectionWriter

CLOCK_META_KEY = "clock_followed"  # in `meta`: the number of the last answer that came from the future
_SHIFT_TIMES_SQL = (
    "UPDATE frontier_host SET wake_at = max(wake_at - :back, :now), parked = 0 WHERE wake_at > :now",
    "UPDATE frontier_url SET not_before = not_before - :back WHERE state = 1",
    "DELETE FROM robots WHERE expires_at > :now",  # they say themselves until when they hold
)


def recover(collection: Collection, now: float) -> int:
    """Make database and WARC files agree after an end that nobody meant; how many pages are fetched again.

    Only what was written behind the last sync can be lost that way. Other damage is for a person to look at:
    `verify --repair`.
    """
    if collection.meta("state") != "running":
        return 0
    place = find_first_lost(collection)
    if place is None:
        return 0
    with collection.unit_of_work():
        lost = truncate_at(collection, place)
        requeue_pages(collection, lost)
        detail = f"{warc_name(place[0])} from {place[1]} on"
        CollectionWriter(collection, None).write_events([PagesLost(at=now, pages=len(lost), detail=detail)])
    return len(lost)


def adjust_for_clock_change(collection: Collection, now: float) -> None:
    """Where the clock was set back, have hosts and retries wait as long as they would have; in a unit of work.

    Else a machine that once had a wrong date keeps a collection waiting until that day. Done once for the last answer:
    a crawl that begins again before the next one finds its pauses as they are.
    """
    last = collection.connection.execute("SELECT seq, at FROM answer ORDER BY seq DESC LIMIT 1").fetchone()
    if last is None or last[1] <= now or collection.meta(CLOCK_META_KEY) == str(last[0]):
        return
    values = {"back": last[1] - now, "now": now}
    for statement in _SHIFT_TIMES_SQL:
        collection.connection.execute(statement, values)
    collection.set_meta(**{CLOCK_META_KEY: last[0]})


def requeue_pages(collection: Collection, pages: list[tuple[str, int]]) -> None:
    """Fetch (host, key) pages once more. Those that are queued already stay queued."""
    SqliteFrontier(collection.connection).revive(pages)


class _RobotsReachability(msgspec.Struct):
    """What is wanted here of an origin's rules."""

    asked: bool = True
    why: str = ""


_decode_reachability = msgspec.msgpack.Decoder(_RobotsReachability).decode


def retry_unreachable(collection: Collection, frontier: ClaimableFrontier, fetch: FetchSettings, now: float) -> None:
    """Forget that they could not be reached; those of our own network only where they may be asked by now."""
    database, reaches_private = collection.connection, fetch.allow_private or bool(fetch.proxy)
    for origin, expires_at, rules in database.execute("SELECT origin, expires_at, rules FROM robots").fetchall():
        met = _decode_reachability(rules)
        if not met.asked and (reaches_private if met.why == PRIVATE_ADDRESS else expires_at > now):
            database.execute("DELETE FROM robots WHERE origin = ?", (origin,))
            frontier.reopen_host(host_of(origin), PRIVATE_ADDRESS_REASON, now)
