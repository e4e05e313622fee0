"""What a collection holds, in one object: for `status`, for pages and for machines."""

from pathlib import Path
from typing import Any

import msgspec

from opilio.crawl.agentsview import cards_of
from opilio.crawl.job import settings_of
from opilio.frontier.sqlite import SqliteFrontier
from opilio.store.collection import Collection, reading
from opilio.store.counters import stored_counts
from opilio.store.locks import being_crawled
from opilio.topic.topic import Topic


def status_of(folder: Path) -> dict[str, Any]:
    """The state of a collection, running, stopped or crashed."""
    with reading(folder) as collection:
        return _status(collection)


def seeds_of(folder: Path, most: int) -> list[str]:
    """The first seeds of a collection."""
    with reading(folder) as collection:
        rows = collection.connection.execute("SELECT url FROM seed ORDER BY priority, rowid LIMIT ?", (most,))
        return [str(url) for (url,) in rows]


def _named(collection: Collection) -> str:
    """A topic that was given as classes has their names."""
    stored = collection.meta("topic")
    return msgspec.json.decode(stored, type=Topic).name if stored else ""


def _status(collection: Collection) -> dict[str, Any]:
    counts = stored_counts(collection)
    frontier = SqliteFrontier(collection.connection).stats()
    settings = settings_of(collection)
    return {
        "collection": str(collection.folder),
        "state": _state(collection),
        "stop_reason": collection.meta("stop_reason"),
        "strategy": settings.get("strategy", ""),
        "topic": settings.get("topic", {}).get("name", "") or _named(collection),
        "pages": counts.pages,
        "relevant": counts.relevant,
        "harvest": counts.relevant / counts.pages if counts.pages else 0.0,
        "fetched": counts.fetched,
        "duplicates": counts.duplicates,
        "size_bytes": counts.size_bytes,
        "queued": frontier.queued + frontier.leased,
        "done": frontier.done,
        "failed": frontier.failed,
        "dropped": frontier.dropped,
        "hosts": frontier.hosts,
        "genres": _genres(collection),
        **_figures(collection),
        **_agents(collection),
    }


def _figures(collection: Collection) -> dict[str, float]:
    """What the crawl itself noted: URL-seen tests spared the disk (S4-21), relevant pages still to be found in the
    queue; nothing where there was no crawl, or the ranker can't tell."""
    noted = {name: collection.meta(name) for name in ("front_hit_rate", "expected_relevant")}
    return {name: float(value) for name, value in noted.items() if value}


def _agents(collection: Collection) -> dict[str, dict[str, str]]:
    """How each agent stands; nothing where there are none."""
    told = {c.name: f"{c.state}, {c.relevant} of {c.pages} pages relevant" for c in cards_of(collection)}
    return {"agents": told} if told else {}


def _genres(collection: Collection) -> dict[str, int]:
    """How many pages are of each genre, where one was found."""
    rows = collection.connection.execute(
        "SELECT genre, count(*) FROM page WHERE genre <> '' AND duplicate_of = 0 GROUP BY genre ORDER BY genre"
    )
    return {str(genre): int(count) for genre, count in rows}


def _state(collection: Collection) -> str:
    said = collection.meta("state")
    if being_crawled(collection.folder):
        paused = collection.meta("paused") != ""
        waiting = SqliteFrontier(collection.connection).stats().leased if paused else 0
        return ("pausing" if waiting else "paused") if paused else "running"
    return "crashed" if said == "running" else said or "new"
