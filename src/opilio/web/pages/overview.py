"""The first page: a search box and every collection with its state; and the page about the interface itself.

Plain lists of a collection: its pages, its seeds, its agents.
"""

import subprocess
from contextlib import suppress
from typing import Any

import msgspec

from opilio.core.errors import CollectionError, UsageError
from opilio.core.records import url_key
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.frontier.postgres.frontier import open_frontier
from opilio.manage.status import agent_cards, list_agents
from opilio.store.collection import Collection, collection_exists
from opilio.store.labels import label_name
from opilio.store.pages import PAGE_SORTS, ListFilter, count_listed, list_pages
from opilio.store.run_tables import EventFilter, SeedResult, newest_events, seed_results
from opilio.web.charts import harvest_curve, sparkline_path
from opilio.web.context import (
    PAGE_PARAM,
    SIZE_PARAM,
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
)
from opilio.web.pages.crawl import event_row
from opilio.web.processes import start_command

# The first of the two collections that `opilio lab demo` makes.
DEMO_COLLECTION = Settings().strategy
DEMO_FETCHES = 300
# How often and how long to wait for its collection.
DEMO_CHECKS, DEMO_CHECK_S = 300, 0.2
HOME_SORTS = {"activity": "last_activity", "pages": "pages", "size": "size_bytes", "name": "name"}


def show_home(context: AppContext, request: PageRequest) -> PageView:
    sort = request.values["sort"]
    for name, folder in context.collections.folders.items():
        # Deleted beside the server.
        if not folder.exists():
            context.forget(name)
    found = [_card(context, name) for name in context.collections.names]
    found.sort(key=lambda card: str(card["name"]))
    if sort != "name":
        found.sort(key=lambda card: float(card.get(HOME_SORTS[sort], 0.0)), reverse=True)
    shown, archived = ([card for card in found if bool(card.get("archived")) == hidden] for hidden in (False, True))
    data = {"collections": found, "_shown": shown, "_archived": archived, "sort": sort, "sorts": list(HOME_SORTS)}
    return PageView(template="home.html", data=data, table_key="collections")


def _card(context: AppContext, name: str) -> dict[str, Any]:
    try:
        with context.open(name) as collection:
            stats = context.stats(collection)
            with stats.lock:
                line = sparkline_path(harvest_curve(stats.relevant, stats.times, 60))
                last = max(stats.times, default=0.0)
            status = context.crawl_status(collection, stats)
            card = {"name": name, "problem": "", "_spark": line, **status}
            return card | {"last_activity": max(last, status["started_at"])}
    except CollectionError as error:
        return {"name": name, "problem": str(error)}


def start_demo(context: AppContext, _request: PageRequest) -> ActionResult:
    """Run `opilio lab demo` and serve its first collection. Only for a server without collections."""
    if context.collections.names:
        raise UsageError("the demo is for a server without collections; run 'opilio lab demo' on the command line")
    into = context.collections.home / "demo"
    log = context.collections.home / "demo.log"
    process = start_command(
        ["lab", "demo", "--into", str(into.resolve()), "--pages", str(DEMO_FETCHES), "--quiet"], log
    )
    folder = into / DEMO_COLLECTION
    for _ in range(DEMO_CHECKS):
        if collection_exists(folder):
            name = context.collections.add(folder, "demo")
            message = "The demo crawls a small web on this machine. Watch it, then search its pages."
            return ActionResult(message=message, redirect_to=f"/c/{name}", data={"name": name})
        if process.poll() is not None:
            break
        with suppress(subprocess.TimeoutExpired):
            process.wait(DEMO_CHECK_S)
    raise CollectionError(f"the demo did not start; its messages are in {log}")


def show_help(_context: AppContext, _request: PageRequest) -> PageView:
    return PageView(template="help.html", data={}, title="Keys and API")


MAX_LISTED_ROWS = 200
MAX_SEEDS = 1000


def show_pages(context: AppContext, request: PageRequest) -> PageView:
    wanted, page, size = request.values, request.values["page"], request.values["size"]
    relevant = None if wanted["relevant"] == "all" else wanted["relevant"] == "yes"
    shown = ListFilter(relevant, wanted["text"], wanted["sort"])
    with context.open(request.name) as collection:
        rows = list_pages(collection.connection, shown, size, (page - 1) * size)
        total = count_listed(collection.connection, shown)
        labels = [label_name(collection.connection, url_key(row.url)) for row in rows]
    found = [msgspec.structs.asdict(row) | {"label": label} for row, label in zip(rows, labels, strict=True)]
    data = {"pages": found, "total": total, "last": -(-total // size), "page": page, "values": wanted}
    return PageView(template="pages.html", data=data, title="Pages", table_key="pages")


def show_seeds(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        seeds = [_seed(collection, row) for row in seed_results(collection.connection, MAX_SEEDS)]
        data = {"seeds": seeds, "enquiries": _seed_queries(collection)}
    return PageView(template="seeds.html", data=data, title="Seeds", table_key="seeds")


def _seed_queries(collection: Collection) -> list[dict[str, Any]]:
    """The queries sent to search engines, with what each engine answered; newest first."""
    events = newest_events(collection.connection, EventFilter(("SeedsFound",)), MAX_LISTED_ROWS)
    return [{"at": event.at, **event_row(event)["data"]} for event in events]


def _seed(collection: Collection, result: SeedResult) -> dict[str, Any]:
    """A seed with its sources and its result."""
    seed = result.seed
    entry = open_frontier(collection.connection).entry(host_of(seed.url), seed.key)
    return {
        "url": seed.url,
        "priority": seed.priority,
        "sources": [s.strip() for s in seed.sources.split(",") if s.strip()],
        "title": result.title or "",
        "score": result.score,
        "relevant": result.relevant,
        "state": entry.state.value if entry else "unknown",
        "reason": entry.reason if entry else "",
    }


def show_agents(context: AppContext, request: PageRequest) -> PageView:
    """The agents of a crawl; none if a single crawler ran."""
    folder = context.collections.folder(request.name)
    with context.open(request.name) as collection:
        several = bool(agent_cards(collection))
    data = {"agents": list_agents(folder) if several else []}
    return PageView(template="agents.html", data=data, title="Agents", table_key="agents")


PAGES = (
    PageRoute(
        path="/",
        show=show_home,
        about="All collections with their state.",
        params=(Param(name="sort", about="The order.", kind="choice", choices=tuple(HOME_SORTS), default="activity"),),
    ),
    PageRoute(
        path="/help",
        show=show_help,
        about="Keyboard shortcuts, query syntax, data formats.",
        has_table=False,
    ),
    PageRoute(
        path="/c/{name}/pages",
        show=show_pages,
        about="The pages of a collection.",
        params=(
            PAGE_PARAM,
            SIZE_PARAM,
            Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="yes"),
            Param(name="sort", about="The order.", kind="choice", choices=tuple(PAGE_SORTS), default="score"),
            Param(name="text", about="Only pages with this text in title or URL."),
        ),
    ),
    PageRoute(
        path="/c/{name}/seeds",
        show=show_seeds,
        about="The seeds and their sources.",
    ),
    PageRoute(path="/c/{name}/agents", show=show_agents, about="The agents of a crawl."),
)
ACTIONS = (
    ActionRoute(
        path="/demo", run=start_demo, about="Crawl a small web on this machine, if there is no collection yet."
    ),
)
