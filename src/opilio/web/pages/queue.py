"""The queue: next URLs with anchor, parent and age, score distribution, and commands to the crawl."""

from itertools import islice
from typing import Any

import numpy as np

from opilio.core.errors import UsageError
from opilio.core.protocols import FrontierEntry
from opilio.engine.commands import EVERY_HOST, load_host_rules, send_command
from opilio.frontier.sqlite.queries import queue_length, queued_priorities
from opilio.frontier.sqlite.urls import upcoming_urls
from opilio.manage.topic_editor import apply_pending_commands
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection
from opilio.store.connection import CRAWL_COMMAND
from opilio.store.pages import current_page, first_fetched_at
from opilio.store.run_tables import first_event_at
from opilio.store.versions import links_of
from opilio.web.charts import histogram
from opilio.web.context import (
    NOTE_PARAM,
    PAGE_PARAM,
    SIZE_PARAM,
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    Param,
)
from opilio.web.views import PageView

MAX_SCORE_SAMPLE = 200_000  # scores in the histogram


def top_queue_rows(collection: Collection, start: int, count: int, now: float) -> list[dict[str, Any]]:
    """The next URLs, best first."""
    boosted = load_host_rules(collection).boosted_hosts
    found = islice(upcoming_urls(collection.connection, start + count, boosted), start, start + count)
    return [queue_row(collection, entry, now) | {"boosted": entry.lead.host in boosted} for entry in found]


def queue_row(collection: Collection, entry: FrontierEntry, now: float) -> dict[str, Any]:
    """One entry with anchor, parent and age."""
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
    """When it was queued: the first fetch of a page that links to it; for a seed, the start of the crawl."""
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


MAX_QUEUE_DEPTH = 2_000  # entries that can be listed; later ones change too fast to be useful
QUEUE_COMMANDS = ("ban", "exclude", "delay", "boost", "boost_host", "unboost_host", "retry")


def show_queue(context: AppContext, request: PageRequest) -> PageView:
    page, size = request.values["page"], request.values["size"]
    if page * size > MAX_QUEUE_DEPTH:
        raise UsageError(f"page = {page}: only the first {MAX_QUEUE_DEPTH} queued URLs can be listed")
    with context.open(request.name) as collection:
        entries = top_queue_rows(collection, (page - 1) * size, size + 1, context.clock.now())
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


def send_command_action(context: AppContext, request: PageRequest) -> ActionResult:
    """Ban, slow down or boost a host, exclude a pattern, boost a URL."""
    folder, word, target = context.collections.folder(request.name), request.values["do"], request.values["target"]
    data = {"delay": str(request.values["seconds"]), "retry": request.values["cause"]}.get(word, "").encode()
    send_command(folder, word, context.clock.now(), target, data)
    writer = apply_pending_commands(folder, context.clock.now())
    applied = "Resume the crawl to fetch them." if word == "retry" else "Applied."
    when = {"": applied, CRAWL_COMMAND: "The running crawl applies it in a moment."}.get(
        writer, "The next crawl applies it."
    )
    effect = {
        "ban": f"{target}: host banned",
        "exclude": f"{target}: matching URLs excluded",
        "delay": f"{target}: delay of at least {request.values['seconds']:g} s between requests",
        "boost": f"{target}: fetched next",
        "retry": f"{'All hosts' if target == EVERY_HOST else target}: failed URLs are queued again",
        "boost_host": f"{target}: host boosted; its URLs come first, within its rate limit",
        "unboost_host": f"{target}: boost removed",
    }[word]
    return ActionResult(message=f"{effect}. {when}", redirect_to=request.redirect_target(f"/c/{request.name}/queue"))


PAGES = (
    PageRoute(
        path="/c/{name}/queue",
        show=show_queue,
        about="The next URLs, best first.",
        params=(PAGE_PARAM, SIZE_PARAM, NOTE_PARAM),
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/command",
        run=send_command_action,
        about="Ban, slow down or boost a host, exclude a URL pattern, boost a queued URL, or retry failed URLs.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=QUEUE_COMMANDS, required=True),
            Param(name="target", about="The host, the pattern (such as */tag/*), or the URL.", required=True),
            Param(
                name="seconds",
                about="With delay: seconds between requests.",
                kind="number",
                default=10.0,
                minimum=0,
                maximum=86_400,
            ),
            Param(name="cause", about="With retry: only URLs that failed for this cause, such as timeout."),
            Param(name="back", about="The page to show next.", kind="text"),
        ),
    ),
)
