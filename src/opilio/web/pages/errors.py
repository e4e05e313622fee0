"""What went wrong in a crawl: failures by cause and by host, with examples and a retry."""

from collections import Counter
from typing import Any

from opilio.frontier.sqlite.queries import FailedHost, failed_hosts, failed_urls, host_wakes_at
from opilio.manage.why import explain_empty_crawl
from opilio.store.collection import Collection
from opilio.store.maintain.integrity import stored_counts
from opilio.web.context import NOTE_PARAM, AppContext, PageRequest, PageRoute, Param
from opilio.web.sentences import failure_cause, failure_words
from opilio.web.stats import CollectionStats
from opilio.web.views import PageView

MAX_EXAMPLES = 200
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
        path="/c/{name}/errors",
        show=show_errors,
        about="Failures by cause and by host, with examples.",
        params=(
            Param(name="cause", about="Only this cause, such as timeout or status 404."),
            Param(name="host", about="Only this host."),
            NOTE_PARAM,
        ),
    ),
)
