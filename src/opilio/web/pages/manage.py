"""Rename, annotate, archive and delete a collection."""

from typing import Any

import msgspec

from opilio.core.errors import UsageError
from opilio.store.card import CollectionCard, delete_collection, read_card, write_card
from opilio.store.collection import load_settings
from opilio.web.context import NOTE_PARAM, ActionResult, ActionRoute, AppContext, PageRequest, PageRoute, Param
from opilio.web.pages.runs import flatten_settings
from opilio.web.stats import ACTIVE_STATES, crawl_stats
from opilio.web.views import PageView

MAX_TITLE_CHARS = 120
MAX_NOTE_CHARS = 5_000


def show_manage(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        card = read_card(collection)
        status = crawl_stats(collection, context.stats(collection), context.clock.now())
        settings = flatten_settings(load_settings(collection))
    data: dict[str, Any] = {
        "card": msgspec.to_builtins(card),
        "status": status,
        "running": status["state"] in ACTIVE_STATES,
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


PAGES = (
    PageRoute(
        path="/c/{name}/manage",
        show=show_manage,
        about="Title, note and settings of a collection; archive or delete it.",
        params=(NOTE_PARAM,),
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
            Param(name="title", about="With save: the name shown on cards; empty: the folder's name."),
            Param(
                name="notes", about="With save: a note, shown on the card and among the runs.", maximum=MAX_NOTE_CHARS
            ),
            Param(name="confirm", about="With delete: the name of the collection."),
            Param(name="back", about="The page to show next."),
        ),
    ),
)
