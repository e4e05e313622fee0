"""How a crawl stands, cheaply: counters that are kept anyway, no sum over pages. For tiles, stream and metrics."""

from typing import Any

from opilio.crawl.job import settings_of, stop_of
from opilio.frontier.sqlite import SqliteFrontier
from opilio.store.collection import Collection
from opilio.store.counters import stored_counts
from opilio.store.keeper import Counts
from opilio.store.locks import being_crawled
from opilio.web.tally import Tally

LONG, POOR, MANY_FAIL = 200, 0.05, 0.4
RUNNING = ("running", "pausing", "paused")


def standing(collection: Collection, tally: Tally, now: float) -> dict[str, Any]:
    """The facts of the run header."""
    counts = stored_counts(collection)
    frontier = SqliteFrontier(collection.connection).stats()
    settings = settings_of(collection)
    state = state_of(collection, frontier.leased)
    stop = stop_of(collection)
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
        "harvest_now": _recent(tally),
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


def alerts(counts: Counts, tally: Tally, state: str) -> list[str]:
    """What a person should look at, in plain words."""
    found = []
    last = tally.relevant[-LONG:]
    if state in RUNNING and len(last) == LONG and sum(last) < LONG * POOR:
        few = f"only {sum(last)} were" if any(last) else "none was"
        found.append(f"Of the last {LONG} pages {few} relevant: little may be left to find.")
    if counts.fetched >= LONG and counts.failed > counts.fetched * MANY_FAIL:
        share = counts.failed / counts.fetched
        found.append(f"{share:.0%} of all fetches failed: see the errors; hosts may be refusing us.")
    return found


def state_of(collection: Collection, leased: int) -> str:
    """new, running, pausing, paused, stopping, stopped or crashed."""
    said = collection.meta("state")
    if not being_crawled(collection.folder):
        return "crashed" if said == "running" else said or "new"
    if collection.meta("paused"):
        return "pausing" if leased else "paused"
    return "running"


def _recent(tally: Tally) -> float:
    last = tally.relevant[-100:]
    return sum(last) / len(last) if last else 0.0
