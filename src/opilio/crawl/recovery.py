"""Before a crawl goes on: what a power cut took is let go of and queued again, and a clock set back is followed."""

from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.events import PagesLost
from opilio.model.records import Lead
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.store.loss import cut_at, first_lost
from opilio.store.warc import warc_name

FOLLOWED = "clock_followed"  # in `meta`: the number of the last answer that came from the future
_SHIFTED = (
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
    place = first_lost(collection)
    if place is None:
        return 0
    with collection.unit_of_work():
        lost = cut_at(collection, place)
        queue_again(collection, lost)
        detail = f"{warc_name(place[0])} from {place[1]} on"
        Keeper(collection, None).keep_events([PagesLost(at=now, pages=len(lost), detail=detail)])
    return len(lost)


def follow_clock(collection: Collection, now: float) -> None:
    """Where the clock was set back, have hosts and retries wait as long as they would have; in a unit of work.

    Else a machine that once had a wrong date keeps a collection waiting until that day. Done once for the last answer:
    a crawl that begins again before the next one finds its pauses as they are.
    """
    last = collection.connection.execute("SELECT seq, at FROM answer ORDER BY seq DESC LIMIT 1").fetchone()
    if last is None or last[1] <= now or collection.meta(FOLLOWED) == str(last[0]):
        return
    values = {"back": last[1] - now, "now": now}
    for statement in _SHIFTED:
        collection.connection.execute(statement, values)
    collection.set_meta(**{FOLLOWED: last[0]})


def queue_again(collection: Collection, pages: list[tuple[str, int]]) -> None:
    """Have pages fetched once more. Those that are queued already (to be looked at again) stay so."""
    leads = [Lead(url="", key=key, host=host, again=1.0) for host, key in pages]
    SqliteFrontier(collection.connection).add(leads, 0.0)
