"""Asks for stored pages only if they have changed: a fetcher around another that knows what marks a page came with."""

import sqlite3
from collections.abc import Mapping

from opilio.core.protocols import Fetcher
from opilio.core.records import FetchResult, url_key
from opilio.core.settings import Settings
from opilio.store.pages import page_validators
from opilio.store.revisits import RevisitStore


class ConditionalFetcher:
    """ETag and Last-Modified of a stored page go with the request (RFC 9110, 13.1): a 304 costs no parse."""

    def __init__(self, fetcher: Fetcher, connection: sqlite3.Connection) -> None:
        self._fetcher = fetcher
        self._db = connection

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        return await self._fetcher.fetch(url, validators or self._stored_validators(url))

    def _stored_validators(self, url: str) -> dict[str, str] | None:
        stored = page_validators(self._db, url_key(url))
        return {"If-None-Match": stored[0], "If-Modified-Since": stored[1]} if stored and any(stored) else None

    async def close(self) -> None:
        """The fetcher belongs to somebody else."""


def with_conditional_requests(settings: Settings, fetcher: Fetcher, connection: sqlite3.Connection) -> Fetcher:
    """The fetcher of a crawl: one that looks again, or has looks of an earlier run in its queue, asks for changes.

    Others save the question whether a page is stored: it takes some twenty microseconds a fetch.
    """
    if settings.revisit.on or RevisitStore(connection).queued_keys():
        return ConditionalFetcher(fetcher, connection)
    return fetcher
