"""The queue (next URLs with anchor, parent and age, score distribution, commands to the crawl), and what went wrong.

Failures are shown by cause and by host, with examples and a retry.
"""

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np

from opilio.core.errors import UsageError
from opilio.core.protocols import FrontierEntry
from opilio.engine.commands import EVERY_HOST, load_host_rules, send_command
from opilio.frontier.sqlite.queries import (
    FailedHost,
    dropped_groups,
    failed_hosts,
    failed_urls,
    host_wakes_at,
    queue_length,
    queued_priorities,
)
from opilio.frontier.sqlite.urls import upcoming_urls
from opilio.manage.topic_editor import apply_pending_commands
from opilio.manage.why import explain_empty_crawl
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection
from opilio.store.pages import current_page, first_fetched_at
from opilio.store.run_tables import first_event_at
from opilio.store.versions import links_of
from opilio.store.writer import stored_counts
from opilio.web.charts import histogram
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
from opilio.web.sentences import failure_cause, failure_words, when_applied
from opilio.web.stats import CollectionStats

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


# Entries that can be listed; later ones change too fast to be useful.
MAX_QUEUE_DEPTH = 2_000
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
    when = when_applied(writer, "Resume the crawl to fetch them." if word == "retry" else "Applied.")
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


MAX_EXAMPLES = 200
MAX_SKIP_REASONS = 100
MAX_GROUPS = 500  # of a host and a cause
MAX_BLOCKED = 200
MAX_CHECKED_HOSTS = 200


def show_errors(context: AppContext, request: PageRequest) -> PageView:
    host, cause = request.values["host"], request.values["cause"]
    with context.open(request.name) as collection:
        stats = context.stats(collection)
        with stats.lock:
            causes = error_groups(stats.failures)
            fetched = stats.fetched
        db = collection.connection
        groups = group_by_host(failed_hosts(db, MAX_GROUPS, host, cause))
        rows = failed_urls(db, MAX_EXAMPLES, host, cause)
        dropped = dropped_groups(db, MAX_SKIP_REASONS, host, cause)
        blocked = blocked_hosts(collection, stats, MAX_BLOCKED)
        stored = stored_counts(collection).pages
    examples = [
        {"host": row.host, "url": row.url, "state": "failed" if row.failed else "skipped"}
        | {"cause": failure_cause(row.reason), "reason": failure_words(row.reason)}
        for row in rows
    ]
    examples.sort(key=lambda row: (row["state"] != "failed", row["reason"], row["url"]))
    seeds = explain_empty_crawl(context.collections.folder(request.name)) if not stored else []
    data = {"errors": causes, "hosts": groups, "examples": examples, "fetched": fetched, "blocked": blocked}
    data["skipped"] = [
        {"reason": failure_words(group.reason), "urls": group.urls, "example": group.example} for group in dropped
    ]
    data |= {"seeds": seeds, "host": host, "cause": cause, "cause_words": failure_words(cause) if cause else ""}
    return PageView(template="errors.html", data=data, title="Errors", table_key="examples")


def group_by_host(rows: list[FailedHost]) -> list[dict[str, Any]]:
    """Failed URLs by host and cause, the largest groups first; reasons that differ only in details are one cause."""
    counts, examples = Counter[tuple[str, str]](), dict[tuple[str, str], str]()
    for row in rows:
        group = (row.host, failure_cause(row.reason))
        counts[group] += row.urls
        examples.setdefault(group, row.example)
    return [
        {"host": host, "cause": cause, "words": failure_words(cause), "urls": urls, "example": examples[host, cause]}
        for (host, cause), urls in counts.most_common()
    ]


def error_groups(failures: Counter[str], limit: int | None = None) -> list[dict[str, Any]]:
    """Failures by cause, the most frequent first; what is beyond `limit` is one group."""
    groups = [
        {"kind": kind, "cause": failure_words(kind), "count": count} for kind, count in failures.most_common(limit)
    ]
    rest = failures.total() - sum(failures[str(group["kind"])] for group in groups)
    return [*groups, {"kind": "", "cause": "other causes", "count": rest}] if rest else groups


def blocked_hosts(collection: Collection, stats: CollectionStats, limit: int) -> list[dict[str, Any]]:
    """Hosts that are not contacted for now because they failed, the last first; a dead seed is one of them."""
    with stats.lock:
        newest = list(stats.backoffs.items())[: -MAX_CHECKED_HOSTS - 1 : -1]
    return [
        {"host": host, "reason": failure_words(reason), "until": until}
        for host, (until, reason) in newest
        if host_wakes_at(collection.connection, host) == until
    ][:limit]


PAGES = (
    PageRoute(
        path="/c/{name}/queue",
        show=show_queue,
        about="The next URLs, best first.",
        params=(PAGE_PARAM, SIZE_PARAM),
    ),
    PageRoute(
        path="/c/{name}/errors",
        show=show_errors,
        about="Failures by cause and by host, with examples.",
        params=(
            Param(name="cause", about="Only this cause, such as timeout or status 404."),
            Param(name="host", about="Only this host."),
        ),
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
