"""Tags and notes on pages, lists of pages, and saved searches."""

from typing import Any

import msgspec

from opilio.core.errors import CollectionError, QueryError, UsageError
from opilio.core.records import url_key
from opilio.core.urls import require_url
from opilio.search.searcher import save_query, saved_filters
from opilio.store.annotations import (
    MAX_NOTE_CHARS,
    AnnotationChange,
    Annotations,
    SavedSearch,
    annotate,
    annotations_of,
    delete_list,
    delete_search,
    mark_search_seen,
    move_in_list,
    read_list,
    read_list_names,
    read_notes,
    read_searches,
    read_tags,
    rename_list,
    require_list,
    split_tags,
    tags_by_page,
)
from opilio.store.collection import Collection
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import (
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
)
from opilio.web.pages.search import SEARCH_PARAMS, filter_params, search_filters
from opilio.web.templating import url_with_query

ANNOTATE_VERBS = ("tag", "untag", "note", "list", "unlist")


def page_annotations(collection: Collection, key: int) -> dict[str, Any]:
    """What the user noted about a page, and the names to choose from."""
    db = collection.connection
    return {
        "annotations": msgspec.to_builtins(annotations_of(db, key)),
        "known_tags": list(read_tags(db)),
        "known_lists": list(read_list_names(db)),
    }


def show_lists(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        db = collection.connection
        lists = [
            {"list": name, "pages": count, "address": url_with_query(f"/c/{request.name}/list", list=name)}
            for name, count in read_list_names(db).items()
        ]
        tags = [
            {"tag": tag, "pages": len(keys)}
            | {"address": url_with_query("/search", **{"tag": [tag], "in": [request.name]})}
            for tag, keys in read_tags(db).items()
        ]
        searches = read_searches(db)
    data: dict[str, Any] = {"lists": lists, "tags": tags, "searches": [], "problems": []}
    if searches:
        try:
            data["searches"] = [_describe(context, request.name, search) for search in searches]
        except (CollectionError, QueryError) as error:
            data["problems"] = [str(error)]
    return PageView(template="lists.html", data=data, title="Lists and saved searches", table_key="lists")


def _describe(context: AppContext, name: str, search: SavedSearch) -> dict[str, Any]:
    """A saved search with the number of its new hits, and the addresses of its hits."""
    fresh = context.searchers.refresh({name: context.collections.folder(name)})
    if not fresh.collections:
        raise CollectionError(fresh.problems[0])
    searcher = context.searchers.searcher_for(fresh.collections)
    values: dict[str, Any] = {"q": search.query, "in": [name], **filter_params(saved_filters(search))}
    new = values | {"relevant": values.get("relevant") or "yes", "since": search.seen_at, "sort": "added"}
    return {
        "search": search.name,
        "query": search.query,
        "saved_at": search.at,
        "seen_at": search.seen_at,
        "new": searcher.new_hits(search, search.seen_at, 1).total,
        "address": url_with_query("/search", **values),
        "new_address": url_with_query("/search", **new),
        "feeds": {form: url_with_query(f"/c/{name}/feed.{form}", search=search.name) for form in ("atom", "rss")},
    }


def show_list(context: AppContext, request: PageRequest) -> PageView:
    name = request.values["list"]
    with context.open(request.name) as collection:
        db = collection.connection
        try:
            pages = read_list(db, require_list(db, name))
        except UsageError as error:
            raise UnknownCollectionError(str(error)) from error
        tags, notes = tags_by_page(read_tags(db)), read_notes(db)
    rows = [
        {"place": place, **_without_key(page), "tags": tags.get(page.key, []), "note": notes.get(page.key, "")}
        for place, page in enumerate(pages, 1)
    ]
    return PageView(template="list.html", data={"list": name, "pages": rows}, title=f"List {name}", table_key="pages")


def _without_key(page: msgspec.Struct) -> dict[str, Any]:
    values = msgspec.structs.asdict(page)
    del values["key"]
    return values


def annotate_action(context: AppContext, request: PageRequest) -> ActionResult:
    """Add or remove tags, a note, or places in lists."""
    folder, urls, value = context.collections.folder(request.name), request.values["url"], request.values["value"]
    verb = request.values["do"]
    if not urls:
        raise UsageError("url: missing (one page or several)")
    if not value and verb != "note":
        raise UsageError(f"value: missing (the name of a {verb.removeprefix('un')})")
    names = split_tags(value) if verb in ("tag", "untag") else (value,)
    change = {
        "tag": AnnotationChange(add_tags=names),
        "untag": AnnotationChange(remove_tags=names),
        "note": AnnotationChange(note=value),
        "list": AnnotationChange(add_to=names),
        "unlist": AnnotationChange(remove_from=names),
    }[verb]
    count = annotate(folder, urls, change, context.clock.now())
    with context.open(request.name) as collection:
        found = annotations_of(collection.connection, url_key(require_url(urls[0])))
    return ActionResult(
        message=_message(verb, value, count, found),
        redirect_to=request.redirect_target(url_with_query(f"/c/{request.name}/page", url=urls[0])),
        data={"do": verb, **msgspec.to_builtins(found)},
    )


def _message(verb: str, value: str, count: int, found: Annotations) -> str:
    pages = "Page" if count == 1 else f"{count} pages"
    return {
        "tag": f"{pages} tagged {value}.",
        "untag": f"Tag {value} removed.",
        "note": "Note saved." if found.note else "Note removed.",
        "list": f"{pages} added to the list {value}.",
        "unlist": f"{pages} removed from the list {value}.",
    }[verb]


def list_action(context: AppContext, request: PageRequest) -> ActionResult:
    """Rename or delete a list, or move a page in it."""
    values, folder = request.values, context.collections.folder(request.name)
    name, lists = values["list"], f"/c/{request.name}/lists"
    if values["do"] == "delete":
        delete_list(folder, name)
        return ActionResult(message=f"List {name} was deleted; its pages stay.", redirect_to=lists)
    if values["do"] == "rename":
        name = rename_list(folder, name, values["value"])
        message = f"The list is called {name}."
    else:
        move_in_list(folder, name, values["url"], values["place"])
        message = f"Moved to place {values['place']}."
    shown = url_with_query(f"/c/{request.name}/list", list=name)
    return ActionResult(message=message, redirect_to=request.redirect_target(shown), data={"list": name})


def search_action(context: AppContext, request: PageRequest) -> ActionResult:
    """Save or delete a search, or mark its hits as seen. A saved search belongs to one collection."""
    values, now = request.values, context.clock.now()
    collection = values["collection"] or (context.collections.names[0] if len(context.collections.names) == 1 else "")
    if not collection:
        raise UsageError(f"collection: missing; one of {', '.join(context.collections.names)}")
    folder, name = context.collections.folder(collection), values["search"]
    if values["do"] == "save":
        filters = msgspec.structs.replace(search_filters(context, values), collections=(), added_after=None)
        save_query(folder, name, values["q"], filters, now)
        message = f"Search {name} saved; its feed lists new relevant pages."
    elif values["do"] == "seen":
        mark_search_seen(folder, name, now)
        message = f"Hits of {name} marked as seen."
    else:
        delete_search(folder, name)
        message = f"Search {name} deleted."
    target = request.redirect_target(f"/c/{collection}/lists")
    return ActionResult(message=message, redirect_to=target, data={"search": name, "collection": collection})


_LIST = Param(name="list", about="The name of the list.", required=True)
_BACK = Param(name="back", about="The page a browser goes to next.")
PAGES = (
    PageRoute(
        path="/c/{name}/lists",
        show=show_lists,
        about="Lists of pages, tags, and saved searches with their new hits.",
    ),
    PageRoute(
        path="/c/{name}/list",
        show=show_list,
        about="The pages of a list in its order.",
        params=(_LIST,),
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/annotate",
        run=annotate_action,
        about="Tag pages, write a note, or put pages on a list.",
        params=(
            Param(name="url", about="The page, or several.", kind="list", required=True),
            Param(name="do", about="What to do.", kind="choice", choices=ANNOTATE_VERBS, required=True),
            Param(name="value", about="Tags with commas, a note, or the name of a list.", max_chars=MAX_NOTE_CHARS),
            _BACK,
        ),
    ),
    ActionRoute(
        path="/c/{name}/lists",
        run=list_action,
        about="Rename or delete a list, or move a page in it.",
        params=(
            _LIST,
            Param(name="do", about="What to do.", kind="choice", choices=("rename", "delete", "move"), required=True),
            Param(name="value", about="With rename: the new name."),
            Param(name="url", about="With move: the page."),
            Param(name="place", about="With move: its new place, from 1.", kind="integer", default=1),
            _BACK,
        ),
    ),
    ActionRoute(
        path="/searches",
        run=search_action,
        about="Save or delete a search, or mark its hits as seen.",
        params=(
            Param(name="search", about="The name of the search.", required=True),
            Param(name="do", about="What to do.", kind="choice", choices=("save", "delete", "seen"), required=True),
            Param(name="collection", about="The collection it belongs to."),
            *(param for param in SEARCH_PARAMS if param.name not in ("page", "size", "sort", "note")),
            _BACK,
        ),
    ),
)
