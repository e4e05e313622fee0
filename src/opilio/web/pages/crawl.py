"""A crawl at a glance, live: tiles, harvest curve, what comes next, hosts, errors, events, and its buttons.

The event log of a crawl: filtered, searched, page by page, and as it grows.
"""

from typing import Any

import msgspec

from opilio.core import events as known
from opilio.core.errors import UsageError
from opilio.engine.commands import send_command
from opilio.manage.agents import agent_cards
from opilio.store.collection import Collection
from opilio.store.run_tables import EventFilter, EventRow, events_after, newest_events
from opilio.web.charts import format_time, harvest_curve
from opilio.web.context import ActionResult, ActionRoute, AppContext, PageRequest, PageRoute
from opilio.web.pages.new_crawl import launch_crawl, read_log_tail
from opilio.web.pages.queue import top_queue_rows
from opilio.web.params import NOTE_PARAM, Param
from opilio.web.stats import ACTIVE_STATES, CollectionStats, crawl_stats
from opilio.web.views import PageView

KINDS = tuple(
    name
    for name, thing in vars(known).items()
    if isinstance(thing, type) and issubclass(thing, known.Event) and name not in ("Event", "BatchCommitted")
)
LEVELS = {"VisitFailed": "error", "HostBackedOff": "warning", "TrapFound": "warning"}
EVENTS_PER_PAGE = 100


def show_events(desk: AppContext, asked: PageRequest) -> PageView:
    """The newest first."""
    wanted = asked.values
    kinds = [kind for kind in KINDS if not wanted["level"] or LEVELS.get(kind, "info") == wanted["level"]]
    if wanted["kind"]:
        kinds = [wanted["kind"]] if not wanted["level"] or wanted["kind"] in kinds else []
    shown = EventFilter(kinds if wanted["kind"] or wanted["level"] else None, wanted["text"], wanted["before"])
    with desk.open(asked.name) as collection:
        rows = [event_row(event) for event in newest_events(collection.connection, shown, EVENTS_PER_PAGE)]
    data = {
        "events": rows,
        "kinds": KINDS,
        "values": wanted,
        "older": rows[-1]["id"] if len(rows) == EVENTS_PER_PAGE else 0,
    }
    return PageView(template="events.html", data=data, title="Events", table_key="events")


def read_events_after(desk: AppContext, name: str, after: int, limit: int) -> list[dict[str, Any]]:
    """Events after number `after`, oldest first; negative: only the last ten."""
    with desk.open(name) as collection:
        db = collection.connection
        found = newest_events(db, EventFilter(), 10)[::-1] if after < 0 else events_after(db, after, limit)
    return [event_row(event) for event in found]


def event_row(event: EventRow) -> dict[str, Any]:
    """One event for pages and JSON."""
    fields = msgspec.json.decode(event.data)
    fields.pop("type", None)
    fields.pop("at", None)
    level = LEVELS.get(event.kind, "info")
    return {
        "id": event.id,
        "at": event.at,
        "kind": event.kind,
        "level": level,
        "text": _text(fields),
        "data": fields,
    }


def _text(fields: dict[str, Any]) -> str:
    shown = {name: format_time(value) if name == "until" else _format_value(value) for name, value in fields.items()}
    return "; ".join(f"{name} {shown[name]}" for name, value in fields.items() if value not in ("", None, []))


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:12])) + (" …" if len(value) > 12 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:300]


MAX_TABLE_ROWS = 8
CONTROL_COMMANDS = ("pause", "resume", "stop", "go-on")
CONTROL_MESSAGES = {
    "pause": "The crawl rests as soon as what is under way has landed.",
    "resume": "The crawl goes on.",
    "stop": "The crawl stops as soon as what is under way has landed.",
    "go-on": "A crawl was started in this collection; it goes on where it ended.",
}


def show_crawl(desk: AppContext, asked: PageRequest) -> PageView:
    data = live_data(desk, asked.name, everything=True)
    data["events"] = read_events_after(desk, asked.name, -1, 10)[::-1]
    with desk.open(asked.name) as collection:
        data["several"] = bool(agent_cards(collection))
    data["log"] = (
        read_log_tail(desk.collections.folder(asked.name)) if data["status"]["state"] in ("crashed", "new") else ""
    )
    return PageView(template="crawl.html", data=data, title=data["status"]["topic"] or asked.name, table_key="curve")


def live_data(desk: AppContext, name: str, *, everything: bool) -> dict[str, Any]:
    """What the live page shows. `everything`: the tables too, which cost more than tiles and curve."""
    now = desk.clock.now()
    with desk.open(name) as collection:
        tally = desk.stats(collection)
        status = crawl_stats(collection, tally, now)
        with tally.lock:
            curve = harvest_curve(tally.relevant, tally.times)
        data: dict[str, Any] = {"name": name, "status": status, "curve": curve}
        if everything:
            data |= _tables(collection, tally, now)
    return data


def _tables(collection: Collection, tally: CollectionStats, now: float) -> dict[str, Any]:
    with tally.lock:
        best = sorted(tally.hosts.items(), key=lambda pair: (-pair[1].relevant, -pair[1].pages, pair[0]))[
            :MAX_TABLE_ROWS
        ]
        hosts = [
            {"host": host, "pages": one.pages, "relevant": one.relevant, "harvest": round(one.harvest, 4)}
            for host, one in best
        ]
        errors = [{"kind": kind, "count": count} for kind, count in tally.failures.most_common(MAX_TABLE_ROWS)]
    return {"queue": top_queue_rows(collection, 0, MAX_TABLE_ROWS, now), "hosts": hosts, "errors": errors}


def control_crawl(desk: AppContext, asked: PageRequest) -> ActionResult:
    """Pause, resume, stop; or let a crawl that has ended go on."""
    folder, word = desk.collections.folder(asked.name), asked.values["do"]
    back = f"/c/{asked.name}"
    with desk.open(asked.name) as collection:
        state = crawl_stats(collection, desk.stats(collection), desk.clock.now())["state"]
    if word == "go-on":
        if state in ACTIVE_STATES:
            raise UsageError("a crawl is running in this collection already")
        launch_crawl(folder, asked.values["pages"])
    else:
        send_command(folder, word, desk.clock.now(), "stopped from the browser" if word == "stop" else "")
    return ActionResult(message=CONTROL_MESSAGES[word], redirect_to=back, data={"state_before": state})


ACTIONS = (
    ActionRoute(
        path="/c/{name}/control",
        run=control_crawl,
        about="Pause, resume or stop a running crawl; let one that has ended go on.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=CONTROL_COMMANDS, required=True),
            Param(
                name="pages",
                about="With go-on: stop at so many pages in all.",
                kind="integer",
                default=0,
                maximum=10**9,
            ),
        ),
    ),
)


PAGES = (
    PageRoute(
        path="/c/{name}",
        show=show_crawl,
        about="A crawl at a glance: state, harvest curve, what comes next, hosts, errors, events.",
        params=(NOTE_PARAM,),
    ),
    PageRoute(
        path="/c/{name}/events",
        show=show_events,
        about="The event log, newest first.",
        params=(
            Param(name="kind", about="Only events of this kind.", kind="choice", choices=KINDS),
            Param(name="level", about="Only this level.", kind="choice", choices=("info", "warning", "error")),
            Param(name="text", about="Only events that hold this text."),
            Param(name="before", about="Only events before this number.", kind="integer", default=0, maximum=2**60),
            NOTE_PARAM,
        ),
    ),
)
