"""What a collection holds, in one object: for `status`, for pages and for machines."""

from pathlib import Path
from typing import Any

import msgspec

from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.manage.agents import agent_cards
from opilio.store.collection import Collection, load_settings, open_readonly
from opilio.store.locks import is_crawl_running
from opilio.store.record_check import stored_counts
from opilio.topic.topic import Topic


def collection_status(folder: Path) -> dict[str, Any]:
    """The state of a collection, running, stopped or crashed."""
    with open_readonly(folder) as collection:
        return _status(collection)


def first_seeds(folder: Path, most: int) -> list[str]:
    """The first seeds of a collection."""
    with open_readonly(folder) as collection:
        rows = collection.connection.execute("SELECT url FROM seed ORDER BY priority, rowid LIMIT ?", (most,))
        return [str(url) for (url,) in rows]


def _stored_topic_name(collection: Collection) -> str:
    """A topic that was given as classes has their names."""
    stored = collection.meta("topic")
    return msgspec.json.decode(stored, type=Topic).name if stored else ""


def _status(collection: Collection) -> dict[str, Any]:
    counts = stored_counts(collection)
    frontier = SqliteFrontier(collection.connection).stats()
    settings = load_settings(collection)
    return {
        "collection": str(collection.folder),
        "state": _state(collection),
        "stop_reason": collection.meta("stop_reason"),
        "strategy": settings.get("strategy", ""),
        "topic": settings.get("topic", {}).get("name", "") or _stored_topic_name(collection),
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
        **_crawl_metrics(collection),
        **_agents(collection),
    }


def _crawl_metrics(collection: Collection) -> dict[str, float]:
    """What the crawl itself noted: URL-seen tests spared the disk (S4-21), relevant pages still to be found in the
    queue; nothing where there was no crawl, or the ranker can't tell."""
    noted = {name: collection.meta(name) for name in ("front_hit_rate", "expected_relevant")}
    return {name: float(value) for name, value in noted.items() if value}


def _agents(collection: Collection) -> dict[str, dict[str, str]]:
    """How each agent stands; nothing where there are none."""
    told = {c.name: f"{c.state}, {c.relevant} of {c.pages} pages relevant" for c in agent_cards(collection)}
    return {"agents": told} if told else {}


def _genres(collection: Collection) -> dict[str, int]:
    """How many pages are of each genre, where one was found."""
    rows = collection.connection.execute(
        "SELECT genre, count(*) FROM page WHERE genre <> '' AND duplicate_of = 0 GROUP BY genre ORDER BY genre"
    )
    return {str(genre): int(count) for genre, count in rows}


def _state(collection: Collection) -> str:
    said = collection.meta("state")
    if is_crawl_running(collection.folder):
        paused = collection.meta("paused") != ""
        waiting = SqliteFrontier(collection.connection).stats().leased if paused else 0
        return ("pausing" if waiting else "paused") if paused else "running"
    return "crashed" if said == "running" else said or "new"
