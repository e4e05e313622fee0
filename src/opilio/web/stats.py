"""What the pages and answers of a collection add up to, kept up to date by reading only what is new.

A collection has no table of sums per host, and adding them up anew for every look would cost a running crawl its
speed. So each server keeps the sums and reads the rows behind the last one it knows: two ranges of an index.

How a crawl stands, cheaply: counters that are kept anyway, no sum over pages. For tiles, stream and metrics.
"""

import sqlite3
from array import array
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import msgspec

from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.store.answers import answers_after
from opilio.store.collection import Collection, load_settings, stored_stop_settings
from opilio.store.locks import is_crawl_running
from opilio.store.maintain.record_check import stored_counts
from opilio.store.pages import new_pages
from opilio.store.writer import CrawlCounts


class HostStats(msgspec.Struct):
    """What a host brought."""

    pages: int = 0
    relevant: int = 0
    last_status: int = 0
    last_at: float = 0.0

    @property
    def harvest(self) -> float:
        return self.relevant / self.pages if self.pages else 0.0


@dataclass(slots=True)
class CollectionStats:
    """The sums of one collection. Pages stand in the order they were committed."""

    hosts: dict[str, HostStats] = field(default_factory=dict)
    relevant: bytearray = field(default_factory=bytearray)  # 1 for each relevant page
    times: "array[float]" = field(default_factory=lambda: array("d"))
    failures: Counter[str] = field(default_factory=Counter)
    host_links: Counter[tuple[str, str]] = field(default_factory=Counter)  # pages of a host first found on another's
    fetched: int = 0
    lock: Lock = field(default_factory=Lock)
    _page_positions: dict[int, tuple[int, str]] = field(default_factory=dict)  # key of a page to its place and host
    _position: tuple[int, str] = (0, "")  # the last answer that was read, and the labels that were taken up then

    def refresh(self, collection: Collection) -> None:
        """Read what came since; a person's word about old pages makes it begin again."""
        with self.lock:
            connection, labels = collection.connection, collection.meta("labels_taken")
            if labels != self._position[1]:
                self._reset(labels)
            self._read_pages(connection)
            self._read_fetches(connection)

    def _reset(self, labels: str) -> None:
        self.hosts.clear()
        self.relevant.clear()
        self.times = array("d")
        self.failures.clear()
        self.host_links.clear()
        self._page_positions.clear()
        self.fetched = 0
        self._position = (0, labels)

    def _read_pages(self, connection: sqlite3.Connection) -> None:
        for page in new_pages(connection, self._position[0]):
            host = self.hosts.get(page.host)
            if host is None:
                host = self.hosts[page.host] = HostStats()
            known = self._page_positions.get(page.key)
            if known is None:
                self._page_positions[page.key] = (len(self.relevant), page.host)
                self.relevant.append(page.relevant)
                self.times.append(page.fetched_at)
                host.pages += 1
                _, finder = self._page_positions.get(page.parent, (0, page.host))
                if finder != page.host:
                    self.host_links[finder, page.host] += 1
            else:
                # A new version of a page that is counted already.
                host.relevant -= self.relevant[known[0]]
                self.relevant[known[0]] = page.relevant
            host.relevant += page.relevant
            host.last_status, host.last_at = page.status, page.fetched_at

    def _read_fetches(self, connection: sqlite3.Connection) -> None:
        last = self._position[0]
        for answer in answers_after(connection, last):
            last = answer.seq
            self.fetched += 1
            if answer.failure and answer.failure != "status":
                self.failures[answer.failure] += 1
            elif answer.status >= 400:
                self.failures[f"status {answer.status}"] += 1
        self._position = (last, self._position[1])

    def rate(self, now: float, window_s: float = 20.0) -> float:
        """Pages a second in the last seconds."""
        with self.lock:
            start = len(self.times)
            while start > 0 and self.times[start - 1] > now - window_s:
                start -= 1
            count = len(self.times) - start
            return count / max(1.0, min(window_s, now - self.times[start])) if count else 0.0


ALERT_WINDOW_PAGES, LOW_HARVEST, HIGH_FAILURE_RATE = 200, 0.05, 0.4
ACTIVE_STATES = ("running", "pausing", "paused")


def crawl_stats(collection: Collection, tally: CollectionStats, now: float) -> dict[str, Any]:
    """The facts of the run header."""
    counts = stored_counts(collection)
    frontier = SqliteFrontier(collection.connection).stats()
    settings = load_settings(collection)
    state = crawl_state(collection, frontier.leased)
    stop = stored_stop_settings(collection)
    rate = tally.rate(now) if state == "running" else 0.0
    return {
        "state": state,
        "stop_reason": collection.meta("stop_reason"),
        "strategy": settings.get("strategy", ""),
        "topic": settings.get("topic", {}).get("name", ""),
        "started_at": float(collection.meta("started_at", "0")),
        "pages": counts.pages,
        "relevant": counts.relevant,
        "harvest": counts.relevant / counts.pages if counts.pages else 0.0,
        "harvest_now": _recent_harvest(tally),
        "pages_per_s": round(rate, 2),
        "fetched": counts.fetched,
        "failed": counts.failed,
        "duplicates": counts.duplicates,
        "size_bytes": counts.size_bytes,
        "queued": frontier.queued + frontier.leased,
        "under_way": frontier.leased,
        "dropped": frontier.dropped,
        "hosts": frontier.hosts,
        "budget": stop.pages,
        "eta_s": (stop.pages - counts.pages) / rate if stop.pages > counts.pages and rate > 0 else None,
        "expected_relevant": float(collection.meta("expected_relevant", "0")) or None,
        "alerts": alerts(counts, tally, state),
        "stops_below": stop.harvest_below,
    }


def alerts(counts: CrawlCounts, tally: CollectionStats, state: str) -> list[str]:
    """What a person should look at, in plain words."""
    found = []
    last = tally.relevant[-ALERT_WINDOW_PAGES:]
    if state in ACTIVE_STATES and len(last) == ALERT_WINDOW_PAGES and sum(last) < ALERT_WINDOW_PAGES * LOW_HARVEST:
        few = f"only {sum(last)} were" if any(last) else "none was"
        found.append(f"Of the last {ALERT_WINDOW_PAGES} pages {few} relevant: little may be left to find.")
    if counts.fetched >= ALERT_WINDOW_PAGES and counts.failed > counts.fetched * HIGH_FAILURE_RATE:
        share = counts.failed / counts.fetched
        found.append(f"{share:.0%} of all fetches failed: see the errors; hosts may be refusing us.")
    return found


def crawl_state(collection: Collection, leased: int) -> str:
    """new, running, pausing, paused, stopping, stopped or crashed."""
    said = collection.meta("state")
    if not is_crawl_running(collection.folder):
        return "crashed" if said == "running" else said or "new"
    if collection.meta("paused"):
        return "pausing" if leased else "paused"
    return "running"


def _recent_harvest(tally: CollectionStats) -> float:
    last = tally.relevant[-100:]
    return sum(last) / len(last) if last else 0.0
