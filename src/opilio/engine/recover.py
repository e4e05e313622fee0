"""Recovery before a crawl resumes: pages lost by a power cut are queued again, and a clock set back is followed.

Hosts that an earlier run could not reach are tried at once: a resumed crawl may reach them. Hosts that responded and
asked for a delay keep it.
"""

from collections.abc import Sequence

import msgspec

from opilio.core.events import PagesLost
from opilio.core.settings import FetchSettings
from opilio.core.urls import host_of
from opilio.dedup.stored import StoredDuplicateDetector
from opilio.engine.politeness.host_gate import PRIVATE_ADDRESS_REASON
from opilio.engine.politeness.robots import PRIVATE_ADDRESS
from opilio.frontier.postgres.frontier import open_frontier
from opilio.frontier.sqlite.claims import ClaimableFrontier
from opilio.frontier.sqlite.queries import shift_times
from opilio.store.answers import last_answer
from opilio.store.collection import Collection
from opilio.store.maintain.record_check import LostPage, find_first_lost, truncate_at
from opilio.store.run_tables import delete_robots, delete_robots_expiring_after, robots_rows
from opilio.store.warc import warc_name
from opilio.store.writer import CollectionWriter

CLOCK_META_KEY = "clock_followed"  # in `meta`: the number of the last answer that came from the future


def recover(collection: Collection, now: float) -> int:
    """Make database and WARC files agree after a crash; returns how many pages are fetched again.

    Only what was written behind the last sync can be lost that way. Other damage is left to the user:
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
    last = last_answer(collection.connection)
    if last is None or last.at <= now or collection.meta(CLOCK_META_KEY) == str(last.seq):
        return
    shift_times(collection.connection, last.at - now, now)
    # Their expiry dates are from the wrong clock too.
    delete_robots_expiring_after(collection.connection, now)
    collection.set_meta(**{CLOCK_META_KEY: last.seq})


def requeue_pages(collection: Collection, pages: Sequence[LostPage]) -> None:
    """Fetch lost pages once more; those that are queued already stay queued.

    Their texts are forgotten: else the next page with such a text would be the copy of a page that is not there.
    """
    texts = StoredDuplicateDetector(collection.connection)
    for page in pages:
        texts.forget(page.key, page.fingerprint, gone=True)
    open_frontier(collection.connection).revive([(page.host, page.key) for page in pages])


class _RobotsReachability(msgspec.Struct):
    """What is wanted here of an origin's rules."""

    asked: bool = True
    why: str = ""


_decode_reachability = msgspec.msgpack.Decoder(_RobotsReachability).decode


def retry_unreachable(collection: Collection, frontier: ClaimableFrontier, fetch: FetchSettings, now: float) -> None:
    """Forget that they could not be reached; those of our own network only where they may be asked by now."""
    db, reaches_private = collection.connection, fetch.allow_private or bool(fetch.proxy)
    for row in robots_rows(db):
        met = _decode_reachability(row.rules)
        if not met.asked and (reaches_private if met.why == PRIVATE_ADDRESS else row.expires_at > now):
            delete_robots(db, row.origin)
            frontier.reopen_host(host_of(row.origin), PRIVATE_ADDRESS_REASON, now)
