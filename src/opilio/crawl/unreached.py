"""Hosts that an earlier run could not even ask: a resumed one does not wait for them, it may reach further.

Whoever was asked and wants to be left alone is none of them.
"""

import msgspec

from opilio.crawl.config import FetchSettings
from opilio.crawl.manners import NO_PRIVATE
from opilio.fetch.robots import PRIVATE
from opilio.frontier.claims import ClaimableFrontier
from opilio.model.urls import host_of
from opilio.store.collection import Collection


class _Met(msgspec.Struct):
    """What is wanted here of an origin's rules."""

    asked: bool = True
    why: str = ""


_met = msgspec.msgpack.Decoder(_Met).decode


def reach_again(collection: Collection, frontier: ClaimableFrontier, fetch: FetchSettings, now: float) -> None:
    """Forget that they could not be reached; those of our own network only where they may be asked by now."""
    database, reaches_private = collection.connection, fetch.allow_private or bool(fetch.proxy)
    for origin, expires_at, rules in database.execute("SELECT origin, expires_at, rules FROM robots").fetchall():
        met = _met(rules)
        if not met.asked and (reaches_private if met.why == PRIVATE else expires_at > now):
            database.execute("DELETE FROM robots WHERE origin = ?", (origin,))
            frontier.reopen(host_of(origin), NO_PRIVATE, now)
