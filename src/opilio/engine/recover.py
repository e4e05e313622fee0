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

CLOCK_META_KEY = "clock_followed"  # in `meta`: the number of the last response with a later time than now


def recover(collection: Collection, now: float) -> int:
    """Make database and WARC files agree after a crash; returns how many pages are fetched again.

    Only what was written after the last sync can be lost in a crash. For other damage there is `verify --repair`.
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
    """After a clock was set back, shift the times of hosts and retries, so that they wait no longer; in a unit of work.

    Otherwise a machine that once had a wrong date would block a collection until that date. It is done once per last
    response, so that a crawl that restarts before the next one keeps its delays.
    """
    last = last_answer(collection.connection)
    if last is None or last.at <= now or collection.meta(CLOCK_META_KEY) == str(last.seq):
        return
    shift_times(collection.connection, last.at - now, now)
    # Their expiry dates are from the wrong clock too.
    delete_robots_expiring_after(collection.connection, now)
    collection.set_meta(**{CLOCK_META_KEY: last.seq})


def requeue_pages(collection: Collection, pages: Sequence[LostPage]) -> None:
    """Queue lost pages again.

    Their fingerprints are deleted: otherwise the next page with the same text would be a copy of a missing page.
    """
    texts = StoredDuplicateDetector(collection.connection)
    for page in pages:
        texts.forget(page.key, page.fingerprint, gone=True)
    open_frontier(collection.connection).revive([(page.host, page.key) for page in pages])


class _RobotsReachability(msgspec.Struct):
    """The fields of stored robots.txt rules that recovery needs."""

    asked: bool = True
    why: str = ""


_decode_reachability = msgspec.msgpack.Decoder(_RobotsReachability).decode


def retry_unreachable(collection: Collection, frontier: ClaimableFrontier, fetch: FetchSettings, now: float) -> None:
    """Delete the rules of hosts that were unreachable; those in private networks only if they are allowed now."""
    db, reaches_private = collection.connection, fetch.allow_private or bool(fetch.proxy)
    for row in robots_rows(db):
        met = _decode_reachability(row.rules)
        if not met.asked and (reaches_private if met.why == PRIVATE_ADDRESS else row.expires_at > now):
            delete_robots(db, row.origin)
            frontier.reopen_host(host_of(row.origin), PRIVATE_ADDRESS_REASON, now)
