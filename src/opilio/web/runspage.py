"""Runs compared: the harvest curves of several collections in one picture, and their figures beside each other."""

from typing import Any

from opilio.model.errors import UsageError
from opilio.web.curves import harvest_curve
from opilio.web.desk import Asked, Desk, Page
from opilio.web.params import NOTE, Param
from opilio.web.standing import standing
from opilio.web.view import View

MOST = 6  # lines that can be told apart


def runs(desk: Desk, asked: Asked) -> View:
    names = asked.values["with"] or desk.shelf.names
    folders, problems = desk.shelf.readable(names)
    chosen = list(folders)[:MOST]
    first, last = asked.values["from"], asked.values["to"]
    if last and last < first:
        raise UsageError(f"to = {last}: must not be before from = {first}; 0 is the end")
    found = [_run(desk, name, first, last) for name in chosen]
    if found and first > 1 and not any(run["curve"] for run in found):
        problems.append(f"No run has {first} pages.")
    data = {"runs": found, "values": asked.values, "chosen": chosen, "rows": [_row(run) for run in found]}
    data |= {"problems": problems, "closer": first > 1 or last > 0}
    return View(template="runs.html", data=data, title="Runs compared", rows="rows")


def _run(desk: Desk, name: str, first: int, last: int) -> dict[str, Any]:
    """A run with the curve of its pages from the first to the last one, which is as fine as that of all."""
    with desk.open(name) as collection:
        tally = desk.tally(collection)
        status = standing(collection, tally, desk.clock.now())
        with tally.lock:
            whole = harvest_curve(tally.relevant, tally.times)
            curve = harvest_curve(tally.relevant, tally.times, first=first, last=last)
    began = whole[0]["at"] if whole else 0.0
    return {"name": name, "status": status, "curve": curve, "began": began, "_whole": whole}


def _row(run: dict[str, Any]) -> dict[str, Any]:
    status, curve = run["status"], run["_whole"]
    fields = ("topic", "strategy", "state", "pages", "relevant", "harvest", "failed", "hosts", "queued")
    seconds = curve[-1]["at"] - run["began"] if curve else 0.0
    row = {"name": run["name"], **{field: status[field] for field in fields}}
    return row | {"harvest": round(row["harvest"], 4), "seconds": round(seconds, 1)} | _milestones(curve)


def _milestones(curve: list[dict[str, Any]]) -> dict[str, Any]:
    """The harvest after the first hundred and thousand pages."""
    found: dict[str, Any] = {}
    for pages in (100, 1000):
        later = [point for point in curve if point["pages"] >= pages]
        found[f"harvest_at_{pages}"] = later[0]["harvest"] if later else None
    return found


PAGES = (
    Page(
        path="/runs",
        show=runs,
        about="Harvest curves and figures of several collections.",
        params=(
            Param(name="with", about="The collections, by name; all if left out.", kind="list"),
            Param(name="x", about="What goes across.", kind="choice", choices=("pages", "time"), default="pages"),
            Param(
                name="y",
                about="What goes up.",
                kind="choice",
                choices=("harvest", "recent", "longer", "relevant"),
                default="relevant",
            ),
            Param(name="from", about="The first page of the curves.", kind="integer", default=1),
            Param(name="to", about="Their last page; 0: the end.", kind="integer", default=0, least=0),
            NOTE,
        ),
    ),
)
