"""Collections as a whole: rename, annotate, archive and delete one, or compare the runs of several.

Runs are compared by harvest curves in one picture, figures with the best of each marked, and settings side by side.
"""

from typing import Any

import msgspec

from opilio.core.errors import UsageError
from opilio.core.settings import Tree
from opilio.store.annotations import (
    MAX_NOTE_CHARS,
    MAX_TITLE_CHARS,
    CollectionCard,
    delete_collection,
    read_card,
    write_card,
)
from opilio.store.collection import load_settings
from opilio.web.charts import harvest_curve
from opilio.web.context import (
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
)
from opilio.web.stats import ACTIVE_STATES


def show_manage(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        card = read_card(collection)
        status = context.crawl_status(collection)
        settings = flatten_settings(load_settings(collection))
    data: dict[str, Any] = {
        "card": msgspec.to_builtins(card),
        "status": status,
        "running": status["state"] in (*ACTIVE_STATES, "starting"),
        "folder": str(context.collections.folder(request.name)),
        "settings": [{"setting": name, "value": value} for name, value in settings.items()],
    }
    return PageView(template="manage.html", data=data, title="Manage", table_key="settings")


def manage_collection(context: AppContext, request: PageRequest) -> ActionResult:
    values, name = request.values, request.name
    folder = context.collections.folder(name)
    if values["do"] == "delete":
        return _delete(context, request)
    with context.open(name) as collection:
        card = read_card(collection)
    card = _changed_card(card, values)
    write_card(folder, card)
    message = {"save": "Saved.", "archive": "Archived.", "unarchive": "Restored from the archive."}[values["do"]]
    where = f"/c/{name}/manage" if values["do"] == "save" else "/"
    return ActionResult(message=message, redirect_to=request.redirect_target(where), data=msgspec.to_builtins(card))


def _changed_card(card: CollectionCard, values: dict[str, Any]) -> CollectionCard:
    if values["do"] != "save":
        return msgspec.structs.replace(card, archived=values["do"] == "archive")
    title = " ".join(values["title"].split())
    if len(title) > MAX_TITLE_CHARS:
        raise UsageError(f"title: longer than {MAX_TITLE_CHARS} characters")
    return msgspec.structs.replace(card, title=title, note=values["notes"].strip())


def _delete(context: AppContext, request: PageRequest) -> ActionResult:
    name, folder = request.name, context.collections.folder(request.name)
    if request.values["confirm"] != name:
        raise UsageError(f"confirm: to delete the collection, type its name '{name}'")
    delete_collection(folder)
    context.forget(name)
    left = " Other files in the folder were kept." if folder.exists() else ""
    return ActionResult(message=f"Collection {name} was deleted.{left}", redirect_to="/", data={"deleted": str(folder)})


# Figures of a run, and whether more is better.
BEST_FIGURES = {"relevant": True, "harvest": True, "harvest_at_100": True, "harvest_at_1000": True, "failed": False}
MAX_VALUE_CHARS = 300


def flatten_settings(tree: Tree, prefix: str = "") -> dict[str, str]:
    """Settings by their full names; empty ones are left out.

    >>> flatten_settings({"stop": {"pages": 9}, "seeds": {"urls": ["a", "b"]}, "scope": {"allow": []}})
    {'stop.pages': '9', 'seeds.urls': 'a, b'}
    """
    found: dict[str, str] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= flatten_settings(value, f"{prefix}{name}.")
        elif value not in ("", [], None):
            found[f"{prefix}{name}"] = _format_setting(value)[:MAX_VALUE_CHARS]
    return found


def _format_setting(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def compare_settings(runs: list[dict[str, str]], *, everything: bool = False) -> list[dict[str, Any]]:
    """Settings with the value of each run; only those that differ, unless `everything`.

    >>> compare_settings([{"stop.pages": "9", "strategy": "opilio"}, {"stop.pages": "9"}])
    [{'setting': 'strategy', 'values': ['opilio', ''], 'differs': True}]
    """
    names = sorted({name for run in runs for name in run})
    values = {name: [run.get(name, "") for run in runs] for name in names}
    rows = [{"setting": name, "values": found, "differs": len(set(found)) > 1} for name, found in values.items()]
    return [row for row in rows if everything or row["differs"]]


def mark_best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `best`: the figures in which a run is better than all others.

    >>> [row["best"] for row in mark_best([{"relevant": 5, "failed": 1}, {"relevant": 3, "failed": 1}])]
    [['relevant'], []]
    """
    best: list[list[str]] = [[] for _ in rows]
    for name, more_is_better in BEST_FIGURES.items():
        known = [(row[name], number) for number, row in enumerate(rows) if row.get(name) is not None]
        known.sort(reverse=more_is_better)
        if len(known) > 1 and known[0][0] != known[1][0]:
            best[known[0][1]].append(name)
    return [row | {"best": found} for row, found in zip(rows, best, strict=True)]


MAX_COMPARED_RUNS = 6  # more lines cannot be distinguished


def show_runs(context: AppContext, request: PageRequest) -> PageView:
    names = request.values["with"] or context.collections.names
    folders, problems = context.collections.readable_folders(names)
    chosen = list(folders)[:MAX_COMPARED_RUNS]
    first, last = request.values["from"], request.values["to"]
    if last and last < first:
        raise UsageError(f"to = {last}: must not be before from = {first}; 0 is the end")
    found = [_run(context, name, first, last) for name in chosen]
    if found and first > 1 and not any(run["curve"] for run in found):
        problems.append(f"No run has {first} pages.")
    parameters = compare_settings([run["settings"] for run in found], everything=request.values["all"])
    rows = mark_best([_row(run) for run in found])
    data = {"runs": found, "values": request.values, "chosen": chosen, "rows": rows, "parameters": parameters}
    data |= {"problems": problems, "closer": first > 1 or last > 0}
    return PageView(template="runs.html", data=data, title="Compare runs", table_key="rows")


def _run(context: AppContext, name: str, first: int, last: int) -> dict[str, Any]:
    """A run with its curve from page `first` to `last` at full resolution."""
    with context.open(name) as collection:
        stats = context.stats(collection)
        status = context.crawl_status(collection, stats)
        settings = flatten_settings(load_settings(collection))
        with stats.lock:
            whole = harvest_curve(stats.relevant, stats.times)
            curve = harvest_curve(stats.relevant, stats.times, first=first, last=last)
    began = whole[0]["at"] if whole else 0.0
    return {"name": name, "status": status, "curve": curve, "began": began, "_whole": whole, "settings": settings}


def _row(run: dict[str, Any]) -> dict[str, Any]:
    status, curve = run["status"], run["_whole"]
    fields = ("topic", "note", "strategy", "state", "pages", "relevant", "harvest", "failed", "hosts", "queued")
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
    PageRoute(
        path="/c/{name}/manage",
        show=show_manage,
        about="Title, note and settings of a collection; archive or delete it.",
    ),
    PageRoute(
        path="/runs",
        show=show_runs,
        about="Harvest curves and figures of several collections.",
        params=(
            Param(name="with", about="The collections, by name; all if left out.", kind="list"),
            Param(name="x", about="X axis.", kind="choice", choices=("pages", "time"), default="pages"),
            Param(
                name="y",
                about="Y axis.",
                kind="choice",
                choices=("harvest", "recent", "longer", "relevant"),
                default="relevant",
            ),
            Param(name="from", about="The first page of the curves.", kind="integer", default=1),
            Param(name="to", about="Their last page; 0: the end.", kind="integer", default=0, minimum=0),
            Param(name="all", about="1: also settings that do not differ.", kind="flag", default=False),
        ),
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/manage",
        run=manage_collection,
        about="Rename, annotate, archive or delete a collection.",
        params=(
            Param(
                name="do",
                about="What to do.",
                kind="choice",
                choices=("save", "archive", "unarchive", "delete"),
                required=True,
            ),
            Param(name="title", about="With save: the name shown on cards; empty: the name in the URL."),
            Param(
                name="notes", about="With save: a note, shown on the card and among the runs.", max_chars=MAX_NOTE_CHARS
            ),
            Param(name="confirm", about="With delete: the name of the collection."),
            Param(name="back", about="The page to show next."),
        ),
    ),
)
