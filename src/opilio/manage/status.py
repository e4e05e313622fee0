"""The status of a collection: counts, state of its crawl, agents."""

from pathlib import Path

import msgspec

from opilio.frontier.postgres.frontier import open_frontier
from opilio.manage.agents import agent_cards
from opilio.manage.results import Status
from opilio.store.collection import Collection, load_settings, open_readonly
from opilio.store.locks import is_crawl_running
from opilio.store.maintain.record_check import stored_counts
from opilio.store.pages import count_unusual_pages, genre_counts
from opilio.topic.topic import Topic


def collection_status(folder: Path) -> Status:
    """The state of a collection, running, stopped or crashed."""
    with open_readonly(folder) as collection:
        return _status(collection)


def _stored_topic_name(collection: Collection) -> str:
    """A topic given as Dewey classes is named after them."""
    stored = collection.meta("topic")
    return msgspec.json.decode(stored, type=Topic).name if stored else ""


def _status(collection: Collection) -> Status:
    counts = stored_counts(collection)
    frontier = open_frontier(collection.connection).stats()
    settings = load_settings(collection)
    return Status(
        collection=str(collection.folder),
        state=_state(collection),
        stop_reason=collection.meta("stop_reason"),
        strategy=settings.get("strategy", ""),
        topic=settings.get("topic", {}).get("name", "") or _stored_topic_name(collection),
        pages=counts.pages,
        relevant=counts.relevant,
        harvest=counts.relevant / counts.pages if counts.pages else 0.0,
        fetched=counts.fetched,
        duplicates=counts.duplicates,
        size_bytes=counts.size_bytes,
        queued=frontier.queued + frontier.leased,
        done=frontier.done,
        failed=frontier.failed,
        dropped=frontier.dropped,
        hosts=frontier.hosts,
        genres=genre_counts(collection.connection),
        front_hit_rate=_stored_number(collection, "front_hit_rate"),
        expected_relevant=_stored_number(collection, "expected_relevant"),
        agents=_agents(collection),
        **msgspec.structs.asdict(count_unusual_pages(collection.connection)),
    )


def _stored_number(collection: Collection, name: str) -> float | None:
    """A figure that the crawl stored; None before the first crawl, or where the ranker has no estimate."""
    value = collection.meta(name)
    return float(value) if value else None


def _agents(collection: Collection) -> dict[str, str] | None:
    lines = {c.name: f"{c.state}, {c.relevant} of {c.pages} pages relevant" for c in agent_cards(collection)}
    return lines or None


def _state(collection: Collection) -> str:
    stored = collection.meta("state")
    if is_crawl_running(collection.folder):
        paused = collection.meta("paused") != ""
        in_flight = open_frontier(collection.connection).stats().leased if paused else 0
        return ("pausing" if in_flight else "paused") if paused else "running"
    return "crashed" if stored == "running" else stored or "new"
