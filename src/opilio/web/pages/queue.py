"""What comes next: the best queued URLs with their context, how scores spread, and what a person wants otherwise.

Queued URLs as pages show them: with the page they were found on, the anchor, and how long they wait.
"""

from itertools import islice
from typing import Any

import numpy as np

from opilio.core.errors import UsageError
from opilio.core.protocols import FrontierEntry
from opilio.engine.commands import load_host_rules, send_command
from opilio.engine.link_columns import unpack
from opilio.frontier.sqlite.queries import queue_length, queued_priorities
from opilio.frontier.sqlite.urls import upcoming_urls
from opilio.manage.topic_editor import apply_pending_commands
from opilio.store.answers import links_of
from opilio.store.collection import Collection
from opilio.store.locks import CRAWL_COMMAND
from opilio.store.pages import current_page, first_fetched_at
from opilio.store.run_tables import first_event_at
from opilio.web.charts import histogram
from opilio.web.context import ActionResult, ActionRoute, AppContext, PageRequest, PageRoute
from opilio.web.params import NOTE_PARAM, PAGE_PARAM, SIZE_PARAM, Param
from opilio.web.views import PageView

MAX_SCORE_SAMPLE = 200_000  # queued URLs whose scores make the histogram


def top_queue_rows(collection: Collection, start: int, count: int, now: float) -> list[dict[str, Any]]:
    """The URLs that come next, best first."""
    boosted = load_host_rules(collection).boosted_hosts
    found = islice(upcoming_urls(collection.connection, start + count, boosted), start, start + count)
    return [queue_row(collection, entry, now) | {"boosted": entry.lead.host in boosted} for entry in found]


def queue_row(collection: Collection, entry: FrontierEntry, now: float) -> dict[str, Any]:
    """One entry with its context."""
    lead = entry.lead
    parent = current_page(collection.connection, lead.parent)
    url, title = parent if parent is not None else ("", "")
    blob = links_of(collection.connection, lead.parent) if parent is not None else b""
    since = _queued_since(collection, entry)
    return {
        "url": lead.url,
        "host": lead.host,
        "score": round(lead.score, 4),
        "depth": lead.depth,
        "found": entry.times_found,
        "anchor": _anchor(blob, lead.key) if blob else "",
        "parent": url,
        "parent_title": title,
        "waits_s": None if since is None else round(now - since, 1),
        "retries": lead.retries,
    }


def _queued_since(collection: Collection, entry: FrontierEntry) -> float | None:
    """Since when it waits: the first fetch of a page that links it; for a seed, the crawl's start."""
    parents = {*entry.parents, entry.lead.parent} - {0}
    if parents:
        return first_fetched_at(collection.connection, parents)
    return first_event_at(collection.connection, "CrawlStarted")


def _anchor(blob: bytes, key: int) -> str:
    columns = unpack(blob)
    for place in np.flatnonzero(np.frombuffer(columns.keys, dtype=np.int64) == key):
        if columns.anchors[place]:
            return columns.anchors[place]
    return ""


MAX_QUEUE_DEPTH = 2_000  # entries that can be paged through: what is behind them changes faster than anybody reads
QUEUE_COMMANDS = ("ban", "exclude", "delay", "boost", "boost_host", "unboost_host")


def show_queue(desk: AppContext, asked: PageRequest) -> PageView:
    page, size = asked.values["page"], asked.values["size"]
    if page * size > MAX_QUEUE_DEPTH:
        raise UsageError(f"page = {page}: only the first {MAX_QUEUE_DEPTH} queued URLs can be looked through")
    with desk.open(asked.name) as collection:
        entries = top_queue_rows(collection, (page - 1) * size, size + 1, desk.clock.now())
        scores = queued_priorities(collection.connection, MAX_SCORE_SAMPLE)
        queued = queue_length(collection.connection)
    data = {
        "queue": entries[:size],
        "queued": queued,
        "page": page,
        "more": len(entries) > size and (page + 1) * size <= MAX_QUEUE_DEPTH,
        "histogram": histogram(scores),
    }
    return PageView(template="queue.html", data=data, title="Queue", table_key="queue")


def send_command_action(desk: AppContext, asked: PageRequest) -> ActionResult:
    """Ban, slow down or boost a host, exclude a pattern, boost a URL."""
    folder, word, target = desk.collections.folder(asked.name), asked.values["do"], asked.values["target"]
    data = str(asked.values["seconds"]).encode() if word == "delay" else b""
    send_command(folder, word, desk.clock.now(), target, data)
    writer = apply_pending_commands(folder, desk.clock.now())
    when = {"": "from now on", CRAWL_COMMAND: "within a moment, for the crawl that is running"}.get(
        writer, "for the next crawl"
    )
    said = {
        "ban": f"{target}: nothing of this host is asked for any more",
        "exclude": f"{target}: addresses like this are left out",
        "delay": f"{target}: at least {asked.values['seconds']:g} seconds between two requests",
        "boost": f"{target}: comes next",
        "boost_host": f"{target}: what waits here goes before all others, as often as politeness allows",
        "unboost_host": f"{target}: waits in line again",
    }[word]
    return ActionResult(
        message=f"{said}. This holds {when}.", redirect_to=asked.redirect_target(f"/c/{asked.name}/queue")
    )


PAGES = (
    PageRoute(
        path="/c/{name}/queue",
        show=show_queue,
        about="The URLs that come next, best first.",
        params=(PAGE_PARAM, SIZE_PARAM, NOTE_PARAM),
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/wish",
        run=send_command_action,
        about="Ban, slow down or boost a host, exclude a pattern of addresses, or boost a queued URL.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=QUEUE_COMMANDS, required=True),
            Param(name="target", about="The host, the pattern (such as */tag/*), or the URL.", required=True),
            Param(
                name="seconds", about="With delay: the pause.", kind="number", default=10.0, minimum=0, maximum=86_400
            ),
            Param(name="back", about="The page a browser goes to next.", kind="text"),
        ),
    ),
)
