"""The event log of a crawl: filtered, searched, page by page, and as it grows."""

from typing import Any

import msgspec

from opilio.model import events as known
from opilio.web.charts import moment
from opilio.web.desk import Asked, Desk, Page
from opilio.web.params import NOTE, Param
from opilio.web.view import View

KINDS = tuple(
    name
    for name, thing in vars(known).items()
    if isinstance(thing, type) and issubclass(thing, known.Event) and name not in ("Event", "BatchCommitted")
)
LEVELS = {"VisitFailed": "error", "HostBackedOff": "warning", "TrapFound": "warning"}
SIZE = 100


def events(desk: Desk, asked: Asked) -> View:
    """The newest first."""
    wanted = asked.values
    where, values = ["1"], list[Any]()
    if wanted["kind"]:
        where.append("kind = ?")
        values.append(wanted["kind"])
    if wanted["level"]:
        kinds = [kind for kind in KINDS if LEVELS.get(kind, "info") == wanted["level"]]
        where.append(f"kind IN ({', '.join('?' * len(kinds))})")
        values += kinds
    if wanted["text"]:
        where.append("instr(lower(CAST(data AS TEXT)), ?) > 0")
        values.append(wanted["text"].lower())
    if wanted["before"]:
        where.append("id < ?")
        values.append(wanted["before"])
    sql = f"SELECT id, at, kind, data FROM event WHERE {' AND '.join(where)} ORDER BY id DESC LIMIT ?"
    with desk.open(asked.name) as collection:
        rows = [told(*row) for row in collection.connection.execute(sql, (*values, SIZE))]
    data = {"events": rows, "kinds": KINDS, "values": wanted, "older": rows[-1]["id"] if len(rows) == SIZE else 0}
    return View(template="events.html", data=data, title="Events", rows="events")


def events_after(desk: Desk, name: str, after: int, most: int) -> list[dict[str, Any]]:
    """What was written after event number `after`, oldest first; negative: only the last few."""
    with desk.open(name) as collection:
        connection = collection.connection
        if after < 0:
            rows = connection.execute("SELECT id, at, kind, data FROM event ORDER BY id DESC LIMIT 10").fetchall()[::-1]
        else:
            rows = connection.execute(
                "SELECT id, at, kind, data FROM event WHERE id > ? ORDER BY id LIMIT ?", (after, most)
            ).fetchall()
    return [told(*row) for row in rows]


def told(id_: int, at: float, kind: str, data: bytes) -> dict[str, Any]:
    """One event for people and machines."""
    fields = msgspec.json.decode(data)
    fields.pop("type", None)
    fields.pop("at", None)
    return {"id": id_, "at": at, "kind": kind, "level": LEVELS.get(kind, "info"), "text": _text(fields), "data": fields}


def _text(fields: dict[str, Any]) -> str:
    shown = {name: moment(value) if name == "until" else _short(value) for name, value in fields.items()}
    return "; ".join(f"{name} {shown[name]}" for name, value in fields.items() if value not in ("", None, []))


def _short(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:12])) + (" …" if len(value) > 12 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:300]


PAGES = (
    Page(
        path="/c/{name}/events",
        show=events,
        about="The event log, newest first.",
        params=(
            Param(name="kind", about="Only events of this kind.", kind="choice", choices=KINDS),
            Param(name="level", about="Only this level.", kind="choice", choices=("info", "warning", "error")),
            Param(name="text", about="Only events that hold this text."),
            Param(name="before", about="Only events before this number.", kind="integer", default=0, most=2**60),
            NOTE,
        ),
    ),
)
