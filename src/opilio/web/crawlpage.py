"""A crawl at a glance, live: tiles, harvest curve, what comes next, hosts, errors, events, and its buttons."""

from typing import Any

from opilio.crawl.agentsview import cards_of
from opilio.crawl.wishes import ask
from opilio.model.errors import UsageError
from opilio.store.collection import Collection
from opilio.web.curves import harvest_curve
from opilio.web.desk import Action, Asked, Desk, Done, Page
from opilio.web.entries import best_entries
from opilio.web.eventpage import events_after
from opilio.web.launch import go_on, last_words
from opilio.web.params import NOTE, Param
from opilio.web.standing import RUNNING, standing
from opilio.web.tally import Tally
from opilio.web.view import View

SHOWN = 8
WORDS = ("pause", "resume", "stop", "go-on")
SAID = {
    "pause": "The crawl rests as soon as what is under way has landed.",
    "resume": "The crawl goes on.",
    "stop": "The crawl stops as soon as what is under way has landed.",
    "go-on": "A crawl was started in this collection; it goes on where it ended.",
}


def crawl(desk: Desk, asked: Asked) -> View:
    data = live_data(desk, asked.name, everything=True)
    data["events"] = events_after(desk, asked.name, -1, 10)[::-1]
    with desk.open(asked.name) as collection:
        data["several"] = bool(cards_of(collection))
    data["log"] = last_words(desk.shelf.folder(asked.name)) if data["status"]["state"] in ("crashed", "new") else ""
    return View(template="crawl.html", data=data, title=data["status"]["topic"] or asked.name, rows="curve")


def live_data(desk: Desk, name: str, *, everything: bool) -> dict[str, Any]:
    """What the live page shows. `everything`: the tables too, which cost more than tiles and curve."""
    now = desk.clock.now()
    with desk.open(name) as collection:
        tally = desk.tally(collection)
        status = standing(collection, tally, now)
        with tally.lock:
            curve = harvest_curve(tally.relevant, tally.times)
        data: dict[str, Any] = {"name": name, "status": status, "curve": curve}
        if everything:
            data |= _tables(collection, tally, now)
    return data


def _tables(collection: Collection, tally: Tally, now: float) -> dict[str, Any]:
    with tally.lock:
        best = sorted(tally.hosts.items(), key=lambda pair: (-pair[1].relevant, -pair[1].pages, pair[0]))[:SHOWN]
        hosts = [
            {"host": host, "pages": one.pages, "relevant": one.relevant, "harvest": round(one.harvest, 4)}
            for host, one in best
        ]
        errors = [{"kind": kind, "count": count} for kind, count in tally.failures.most_common(SHOWN)]
    return {"queue": best_entries(collection, 0, SHOWN, now), "hosts": hosts, "errors": errors}


def control(desk: Desk, asked: Asked) -> Done:
    """Pause, resume, stop; or let a crawl that has ended go on."""
    folder, word = desk.shelf.folder(asked.name), asked.values["do"]
    back = f"/c/{asked.name}"
    with desk.open(asked.name) as collection:
        state = standing(collection, desk.tally(collection), desk.clock.now())["state"]
    if word == "go-on":
        if state in RUNNING:
            raise UsageError("a crawl is running in this collection already")
        go_on(folder, asked.values["pages"])
    else:
        ask(folder, word, desk.clock.now(), "stopped from the browser" if word == "stop" else "")
    return Done(said=SAID[word], back=back, data={"state_before": state})


PAGES = (
    Page(
        path="/c/{name}",
        show=crawl,
        about="A crawl at a glance: state, harvest curve, what comes next, hosts, errors, events.",
        params=(NOTE,),
    ),
)
ACTIONS = (
    Action(
        path="/c/{name}/control",
        act=control,
        about="Pause, resume or stop a running crawl; let one that has ended go on.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=WORDS, required=True),
            Param(
                name="pages", about="With go-on: stop at so many pages in all.", kind="integer", default=0, most=10**9
            ),
        ),
    ),
)
