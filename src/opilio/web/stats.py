"""Statistics of a collection: running totals per host, and the status of its crawl.

A collection stores no totals per host, and summing all rows for every request would slow a running crawl. The server
keeps the totals and reads only rows after the last known one.
"""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import msgspec

from opilio.core.protocols import Database
from opilio.core.settings import StopSettings, Tree
from opilio.frontier.postgres.frontier import open_frontier
from opilio.manage.status import crawl_state
from opilio.store.annotations import read_card
from opilio.store.collection import Collection, load_settings, stored_stop_settings
from opilio.store.pages import new_pages
from opilio.store.run_tables import EventRow, events_between, last_event_id
from opilio.store.versions import answers_after
from opilio.store.writer import CrawlCounts, stored_counts

MARK_KINDS = ("PageLabeled", "LabelRemoved", "TopicChanged", "CommandApplied", "CrawlStarted")
MAX_MARKS = 400
MAX_BACKOFFS = 1000


def _mark(event: EventRow) -> tuple[float, str, str] | None:
    """A mark of the harvest chart: a label, a topic change, a pause, a resume."""
    if event.kind in ("PageLabeled", "LabelRemoved"):
        return event.at, "label", "label"
    if event.kind == "TopicChanged":
        return event.at, "topic", "topic change"
    data = msgspec.json.decode(event.data)
    if event.kind == "CrawlStarted":
        return (event.at, "resume", "resume") if data.get("resumed") else None
    command = str(data.get("command", ""))
    return (event.at, command, command) if command in ("pause", "resume") else None


class HostStats(msgspec.Struct):
    """Totals of a host."""

    pages: int = 0
    relevant: int = 0
    last_status: int = 0
    last_at: float = 0.0

    @property
    def harvest(self) -> float:
        return self.relevant / self.pages if self.pages else 0.0


@dataclass(slots=True)
class CollectionStats:
    """Running totals of a collection. Pages are in the order of their commits."""

    hosts: dict[str, HostStats] = field(default_factory=dict)
    relevant: bytearray = field(default_factory=bytearray)  # 1 for each relevant page
    times: "array[float]" = field(default_factory=lambda: array("d"))
    failures: Counter[str] = field(default_factory=Counter)
    # Pages of a host first found on another host.
    host_links: Counter[tuple[str, str]] = field(default_factory=Counter)
    marks: list[tuple[float, str, str]] = field(default_factory=list)  # (time, kind, words) of a user's acts
    backoffs: dict[str, tuple[float, str]] = field(default_factory=dict)  # host to (until, reason), oldest first
    fetched: int = 0
    # Of crawl.toml, which never changes; read once.
    settings: Tree = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)
    _page_positions: dict[int, tuple[int, str]] = field(default_factory=dict)  # key of a page to its position and host
    _last_event: int = 0
    # Last response read, and the labels applied by then.
    _position: tuple[int, str] = (0, "")

    def refresh(self, collection: Collection) -> None:
        """Read new rows. New labels change old verdicts, so then all totals are read again."""
        with self.lock:
            connection, labels = collection.connection, collection.meta("labels_taken")
            if labels != self._position[1]:
                self._reset(labels)
            self._read_pages(connection)
            self._read_fetches(connection)
            self._read_events(connection)

    def _reset(self, labels: str) -> None:
        self.hosts.clear()
        self.relevant.clear()
        self.times = array("d")
        self.failures.clear()
        self.host_links.clear()
        self._page_positions.clear()
        self.fetched = 0
        self._position = (0, labels)

    def _read_pages(self, connection: Database) -> None:
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

    def _read_fetches(self, connection: Database) -> None:
        last = self._position[0]
        for answer in answers_after(connection, last):
            last = answer.seq
            self.fetched += 1
            if answer.failure and answer.failure != "status":
                self.failures[answer.failure] += 1
            elif answer.failure or not 200 <= answer.status <= 399:
                self.failures[f"status {answer.status}"] += 1
        self._position = (last, self._position[1])

    def _read_events(self, connection: Database) -> None:
        last = last_event_id(connection)
        for event in events_between(connection, self._last_event, last, (*MARK_KINDS, "HostBackedOff")):
            if event.kind == "HostBackedOff":
                data = msgspec.json.decode(event.data)
                self.backoffs.pop(data["host"], None)
                self.backoffs[data["host"]] = (data["until"], data["reason"])
            elif (mark := _mark(event)) is not None:
                self.marks.append(mark)
        self._last_event = last
        del self.marks[:-MAX_MARKS]
        for host in list(self.backoffs)[:-MAX_BACKOFFS]:
            del self.backoffs[host]

    def rate(self, now: float, window_s: float = 20.0) -> float:
        """Pages per second in the last `window_s` seconds."""
        with self.lock:
            start = len(self.times)
            while start > 0 and self.times[start - 1] > now - window_s:
                start -= 1
            count = len(self.times) - start
            return count / max(1.0, min(window_s, now - self.times[start])) if count else 0.0


ALERT_WINDOW_PAGES, LOW_HARVEST, HIGH_FAILURE_RATE = 200, 0.05, 0.4
ACTIVE_STATES = ("running", "pausing", "paused")


def crawl_stats(collection: Collection, stats: CollectionStats, now: float) -> dict[str, Any]:
    """The run header: state, counts, limits, alerts."""
    counts = consistent_counts(stored_counts(collection), stats)
    frontier = open_frontier(collection.connection).stats()
    settings = stats.settings = stats.settings or load_settings(collection)
    state = crawl_state(collection, frontier.leased)
    stop = stored_stop_settings(collection)
    rate = stats.rate(now) if state == "running" else 0.0
    card = read_card(collection)
    return {
        "title": card.title,
        "note": card.note,
        "archived": card.archived,
        "state": state,
        "stop_reason": collection.meta("stop_reason"),
        "strategy": settings.get("strategy", ""),
        "topic": settings.get("topic", {}).get("name", ""),
        "started_at": float(collection.meta("started_at", "0")),
        "pages": counts.pages,
        "relevant": counts.relevant,
        "harvest": counts.relevant / counts.pages if counts.pages else 0.0,
        "harvest_now": _recent_harvest(stats),
        "pages_per_s": round(rate, 2),
        "seconds": round(stats.times[-1] - stats.times[0], 1) if stats.times else 0.0,
        "fetched": counts.fetched,
        "failed": counts.failed,
        "duplicates": counts.duplicates,
        "size_bytes": counts.size_bytes,
        "queued": frontier.queued + frontier.leased,
        "under_way": frontier.leased,
        "dropped": frontier.dropped,
        "hosts": frontier.hosts,
        "budget": stop.pages,
        "limits": {"pages": stop.pages, "fetches": stop.fetches, "relevant": stop.relevant, "minutes": stop.minutes},
        "remaining": remaining_work(stop, counts, rate),
        "expected_relevant": float(collection.meta("expected_relevant", "0")) or None,
        "alerts": alerts(counts, stats, state),
        "stops_below": stop.harvest_below,
    }


class RemainingWork(msgspec.Struct, frozen=True):
    """What a crawl may still do: by the limit that it will reach first."""

    number: int
    unit: str  # pages, requests, relevant pages
    seconds: float | None  # at its current rate; None if unknown


def remaining_work(stop: StopSettings, counts: CrawlCounts, pages_per_s: float) -> RemainingWork | None:
    """What is left until a limit; None without a limit."""
    limits = (
        (stop.pages, counts.pages, "pages"),
        (stop.fetches, counts.fetched, "requests"),
        (stop.relevant, counts.relevant, "relevant pages"),
    )
    left = [(max(limit - reached, 0), unit) for limit, reached, unit in limits if limit]
    if not left:
        return None
    number, unit = min(left)
    steady = unit != "relevant pages" and pages_per_s > 0
    return RemainingWork(number, unit, number / pages_per_s if steady else None)


def consistent_counts(stored: CrawlCounts, stats: CollectionStats) -> CrawlCounts:
    """The counters as the running totals have them, so that the header agrees with the tables beside it."""
    with stats.lock:
        return msgspec.structs.replace(
            stored,
            fetched=stats.fetched,
            pages=len(stats.relevant),
            relevant=stats.relevant.count(1),
            failed=stats.failures.total(),
        )


def alerts(counts: CrawlCounts, stats: CollectionStats, state: str) -> list[str]:
    """Warnings for the user."""
    found = []
    last = stats.relevant[-ALERT_WINDOW_PAGES:]
    if state in ACTIVE_STATES and len(last) == ALERT_WINDOW_PAGES and sum(last) < ALERT_WINDOW_PAGES * LOW_HARVEST:
        few = f"only {sum(last)} {'was' if sum(last) == 1 else 'were'}" if any(last) else "none were"
        found.append(f"Of the last {ALERT_WINDOW_PAGES} pages, {few} relevant: there may be little left to find.")
    if counts.fetched >= ALERT_WINDOW_PAGES and counts.failed > counts.fetched * HIGH_FAILURE_RATE:
        share = counts.failed / counts.fetched
        found.append(f"{share:.0%} of all requests failed; see Errors. Hosts may be blocking this crawler.")
    return found


def _recent_harvest(stats: CollectionStats) -> float:
    last = stats.relevant[-100:]
    return sum(last) / len(last) if last else 0.0
