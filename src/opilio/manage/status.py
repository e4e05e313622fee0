"""The status of a collection: counts, state of its crawl, agents, and a forecast.

The number of relevant pages found after n fetches is extrapolated as a power of n. Its exponent compares the second
half of the crawl with the whole: 1 if relevant pages come as fast as before, less if they become rare. With few
relevant pages it is held near the mean of the lab's crawls. The width of the intervals is fitted to crawls of the lab's
development topics (docs/lab/forecast.md).
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from opilio.core.display import pluralize
from opilio.core.errors import UsageError
from opilio.core.records import CHALLENGE, CONSENT, LOGIN
from opilio.engine.commands import send_command
from opilio.engine.learning import state_name
from opilio.frontier.postgres.frontier import open_frontier
from opilio.frontier.sqlite.queries import failures_by_host
from opilio.manage.results import Forecast, Status, Wall
from opilio.methods.agents.agent import WORKING, AgentRecord, read_agent_records
from opilio.store.collection import Collection, load_settings, open_readonly
from opilio.store.connection import is_crawl_running
from opilio.store.learner_states import snapshots
from opilio.store.page_selection import relevant_in_second_half
from opilio.store.pages import count_unusual_pages, genre_counts, relevant_host_count
from opilio.store.postgres.collection import place_of
from opilio.store.writer import stored_counts
from opilio.topic.evolving import restored_table
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

# Stopped with the crawl: it continues with it.
STOPPED = "stopped"
MAX_SHOWN_WORDS = 10  # of a table that are shown


def list_agents(folder: Path) -> list[dict[str, Any]]:
    """The state of every agent, what it found and where, and what it learned. UsageError if there are none."""
    with open_readonly(folder) as collection:
        cards = agent_cards(collection)
        if not cards:
            raise UsageError(
                f"{folder}: was not crawled by agents; use 'opilio crawl --strategy s3-agents' or --set agents.count=3"
            )
        return [_agent_to_dict(collection, card) for card in cards]


def agent_cards(collection: Collection) -> list[AgentRecord]:
    """The directory as it was saved last; empty where a collection has no agents."""
    cards = read_agent_records(collection.connection)
    if not is_crawl_running(collection.folder):
        for card in cards:
            card.state = STOPPED if card.state == WORKING else card.state
    return cards


def retire_agent(folder: Path, name: str, now: float) -> bool:
    """Send the command to retire an agent; other agents take over its links. True if a running crawl will apply it."""
    names = [agent["name"] for agent in list_agents(folder)]
    if name not in names:
        raise UsageError(f"--retire {name}: unknown agent; known: {', '.join(names)}")
    send_command(folder, "retire", now, name)
    return is_crawl_running(folder)


def _agent_to_dict(collection: Collection, card: AgentRecord) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.structs.asdict(card)
    facts["harvest"] = card.relevant / card.pages if card.pages else 0.0
    facts["hosts"] = relevant_host_count(collection.connection, card.number)
    tables = _tables(collection, card.name)
    first, last = (tables[0], tables[-1]) if tables else (WeightTable(), WeightTable())
    begun = {keyword.stem for keyword in first.keywords}
    facts["table_size"] = len(last)
    facts["words"] = {k.label: round(k.weight, 3) for k in last.keywords[:MAX_SHOWN_WORDS]}
    facts["learnt"] = [k.label for k in last.keywords if k.stem not in begun][:MAX_SHOWN_WORDS]
    return facts


def _tables(collection: Collection, name: str) -> list[WeightTable]:
    """The first and the last version of an agent's table."""
    states = snapshots(collection.connection, state_name(name, "topic"))
    return [restored_table(row.state) for row in (states[:1] + states[-1:])]


# Kind of wall: what was shown, and what the user can do.
_WALL_ADVICE = {
    CHALLENGE: ("bot challenge", "ask the owner to admit your crawler, or exclude the host with --deny"),
    LOGIN: ("login form", "give cookies of your account in fetch.credentials, or exclude the host with --deny"),
    CONSENT: ("consent form", "give its cookies in fetch.credentials, or exclude the host with --deny"),
}
BROWSER_ADVICE = "crawl with --browser (pip install 'opilio[browser]', and install Chromium)"
MAX_NAMED_HOSTS = 3
FORECAST_FETCHES = (1_000, 5_000, 20_000)
# Fetches, and one relevant page, before there is a forecast.
MIN_FETCHES = 50
MEAN_EXPONENT = 0.6
# Relevant pages after which the crawl's own exponent counts as much as the mean.
EXPONENT_STRENGTH = 40.0
MAX_EXPONENT = 1.5
EXPONENT_SPREAD = 0.35  # standard deviation of the exponent
# Of the count, in Poisson's standard deviations.
COUNT_SPREAD = 1.0
# Standard deviations on each side of an interval of 80 %.
LEVEL_80 = 1.2816


def collection_status(folder: Path, *, forecast: bool = False) -> Status:
    """The state of a collection, running, stopped or crashed, with a forecast if asked for."""
    with open_readonly(folder) as collection:
        found = _status(collection)
        if not forecast:
            return found
        late = relevant_in_second_half(collection.connection)
        fetched = max(found.fetched, found.pages)
        return msgspec.structs.replace(found, forecast=forecast_relevant(fetched, found.relevant, late))


def _stored_topic_name(collection: Collection) -> str:
    """A topic given as Dewey classes is named after them."""
    stored = collection.meta("topic")
    return msgspec.json.decode(stored, type=Topic).name if stored else ""


def _status(collection: Collection) -> Status:
    counts = stored_counts(collection)
    frontier = open_frontier(collection.connection).stats()
    settings = load_settings(collection)
    return Status(
        collection=place_of(collection.folder),
        state=crawl_state(collection, frontier.leased),
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
        walls=_walls(collection),
        **msgspec.structs.asdict(count_unusual_pages(collection.connection)),
    )


def _walls(collection: Collection) -> list[Wall] | None:
    found: dict[str, Wall] = {}
    for kind, host, urls in failures_by_host(collection.connection, tuple(_WALL_ADVICE)):
        known = found.get(kind, Wall(kind, 0, []))
        found[kind] = Wall(kind, known.urls + urls, [*known.hosts, host])
    return [found[kind] for kind in _WALL_ADVICE if kind in found] or None


def describe_obstacles(status: Status) -> list[str]:
    """What kept the crawl from pages that a visitor sees, one line each, with advice."""
    lines = []
    for wall in status.walls or ():
        hosts = ", ".join(wall.hosts[:MAX_NAMED_HOSTS]) + (", …" if len(wall.hosts) > MAX_NAMED_HOSTS else "")
        what, advice = _WALL_ADVICE[wall.kind]
        lines.append(f"{what} instead of {pluralize(wall.urls, 'page')} ({hosts}): {advice}")
    if status.needs_browser:
        pages = f"{pluralize(status.needs_browser, 'page')} with next to no text without JavaScript"
        advice = "raise browser.pages" if status.rendered else BROWSER_ADVICE
        lines.append(f"{pages}: {advice}")
    return lines


def _stored_number(collection: Collection, name: str) -> float | None:
    """A figure that the crawl stored; None before the first crawl, or where the ranker has no estimate."""
    value = collection.meta(name)
    return float(value) if value else None


def _agents(collection: Collection) -> dict[str, str] | None:
    lines = {c.name: f"{c.state}, {c.relevant} of {c.pages} pages relevant" for c in agent_cards(collection)}
    return lines or None


def crawl_state(collection: Collection, in_flight: int) -> str:
    """new, running, pausing, paused, stopping, stopped or crashed; `in_flight`: URLs that are being fetched."""
    stored = collection.meta("state")
    if not is_crawl_running(collection.folder):
        return "crashed" if stored == "running" else stored or "new"
    if collection.meta("paused"):
        return "pausing" if in_flight else "paused"
    return "running"


def forecast_relevant(
    fetched: int, relevant: int, relevant_late: int, fetches: Sequence[int] = FORECAST_FETCHES
) -> list[Forecast]:
    """Forecasts for numbers of fetches above `fetched`; none if there are too few fetches or no relevant page.

    `relevant_late` is the number of relevant pages in the second half of the crawl.

    >>> forecast_relevant(200, 100, 50, [400])
    [Forecast(fetches=400, relevant=185, low=133, high=257)]
    """
    if fetched < MIN_FETCHES or relevant < 1:
        return []
    local = 2.0 * (relevant_late + EXPONENT_STRENGTH * MEAN_EXPONENT / 2.0) / (relevant + EXPONENT_STRENGTH)
    return [_forecast(fetched, relevant, min(local, MAX_EXPONENT), later) for later in fetches if later > fetched]


def _forecast(fetched: int, relevant: int, exponent: float, later: int) -> Forecast:
    growth = math.log(later / fetched)
    expected = relevant * math.exp(exponent * growth)
    spread = math.sqrt((EXPONENT_SPREAD * growth) ** 2 + COUNT_SPREAD * growth / (relevant + 1.0))
    factor = math.exp(LEVEL_80 * spread)
    # At least what was found, at most every further fetch.
    most = relevant + later - fetched
    low, middle, high = (max(relevant, min(most, value)) for value in (expected / factor, expected, expected * factor))
    return Forecast(later, round(middle), math.floor(low), math.ceil(high))
