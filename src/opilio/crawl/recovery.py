"""Before a crawl goes on: what a power cut took is let go of and queued again."""

from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.events import PagesLost
from opilio.model.records import Lead
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.store.loss import cut_at, first_lost
from opilio.store.warc import warc_name


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


def queue_again(collection: Collection, pages: list[tuple[str, int]]) -> None:
    """Have pages fetched once more. Those that are queued already (to be looked at again) stay so."""
    leads = [Lead(url="", key=key, host=host, again=1.0) for host, key in pages]
    SqliteFrontier(collection.connection).add(leads, 0.0)
