"""Downloads: `/metrics`, the state of every served collection for Prometheus, and the export of a collection.

An export is written to a temporary file first, so that an error is reported instead of a truncated file.
"""

import re
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from opilio.core.errors import CollectionError
from opilio.manage.export import FORMATS, SUFFIXES, export
from opilio.store.collection import is_linked
from opilio.store.page_selection import PageFilter
from opilio.store.postgres.collection import linked_database
from opilio.store.postgres.roles import WORKER_TIMEOUT_S, WorkerFigures, worker_figures
from opilio.web.collections import slug
from opilio.web.context import AppContext, RawRoute
from opilio.web.params import Param, parse_params
from opilio.web.stats import crawl_stats
from opilio.web.views import attachment_header

KIND = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS = RawRoute(path="/metrics", about="Every collection's state for Prometheus.", media_type="text/plain")
METRICS = (
    ("opilio_pages", "pages", "Pages stored."),
    ("opilio_relevant_pages", "relevant", "Pages judged relevant."),
    ("opilio_fetches", "fetched", "Fetch attempts that ended."),
    ("opilio_failures", "failed", "Fetch attempts that failed."),
    ("opilio_duplicates", "duplicates", "Pages with a text seen before."),
    ("opilio_body_bytes", "size_bytes", "Bytes of the pages stored."),
    ("opilio_queued_urls", "queued", "URLs that wait."),
    ("opilio_under_way_urls", "under_way", "URLs that are being fetched."),
    ("opilio_hosts", "hosts", "Hosts known."),
    ("opilio_harvest_ratio", "harvest", "Relevant pages per page."),
    ("opilio_harvest_recent_ratio", "harvest_now", "The same over the last hundred pages."),
    ("opilio_pages_per_second", "pages_per_s", "Pages a second over the last seconds."),
)
# Of each worker of a collection in PostgreSQL: the name, the type, what it is, its value.
WORKER_METRICS: tuple[tuple[str, str, str, Callable[[WorkerFigures], float]], ...] = (
    ("leases_total", "counter", "Host leases taken.", lambda figures: figures.leases),
    ("lease_p50_seconds", "gauge", "Time of a lease, median.", lambda figures: figures.lease_p50_s),
    ("lease_p99_seconds", "gauge", "Time of a lease, 99th percentile.", lambda figures: figures.lease_p99_s),
    ("expired_leases_total", "counter", "Leases lost before the commit.", lambda figures: figures.expired_leases),
    ("refetch_ratio", "gauge", "Fetches lost with a lease, per fetch.", lambda figures: figures.refetch_ratio),
    ("model_version", "gauge", "Newest model that is loaded.", lambda figures: figures.model_version),
)


def metrics_route(context: AppContext) -> Route:
    def endpoint(_request: Request) -> Response:
        return PlainTextResponse("\n".join(_lines(context)) + "\n", media_type=KIND)

    return Route(PROMETHEUS.path, endpoint, methods=["GET", "HEAD"])


def _lines(context: AppContext) -> Iterator[str]:
    stats_by_name = {name: _read_stats(context, name) for name in context.collections.names}
    yield from ("# HELP opilio_up Can the collection be read?", "# TYPE opilio_up gauge")
    for name, stats in stats_by_name.items():
        yield f'opilio_up{{collection="{_label(name)}"}} {int(stats is not None)}'
    yield from ("# HELP opilio_running Does a crawl run?", "# TYPE opilio_running gauge")
    for name, stats in stats_by_name.items():
        yield f'opilio_running{{collection="{_label(name)}"}} {int(stats is not None and stats["state"] == "running")}'
    for metric, field, about in METRICS:
        yield from (f"# HELP {metric} {about}", f"# TYPE {metric} gauge")
        for name, stats in stats_by_name.items():
            if stats is not None:
                yield f'{metric}{{collection="{_label(name)}"}} {stats[field]}'
    yield from _worker_lines({name: _read_workers(context, name) for name, stats in stats_by_name.items() if stats})


def _worker_lines(workers_by_name: dict[str, dict[str, WorkerFigures]]) -> Iterator[str]:
    """The metrics of workers; nothing unless there is one."""
    if not any(workers_by_name.values()):
        return
    for metric, kind, about, value in WORKER_METRICS:
        yield from (f"# HELP opilio_worker_{metric} {about}", f"# TYPE opilio_worker_{metric} {kind}")
        for name, workers in workers_by_name.items():
            for worker, figures in workers.items():
                labels = f'collection="{_label(name)}",worker="{_label(worker)}"'
                yield f"opilio_worker_{metric}{{{labels}}} {value(figures)}"


def _read_workers(context: AppContext, name: str) -> dict[str, WorkerFigures]:
    folder = context.collections.folder(name)
    try:
        return worker_figures(linked_database(folder), WORKER_TIMEOUT_S) if is_linked(folder) else {}
    except CollectionError:
        return {}


def _read_stats(context: AppContext, name: str) -> dict[str, Any] | None:
    try:
        with context.open(name) as collection:
            return crawl_stats(collection, context.stats(collection), context.clock.now())
    except CollectionError:
        return None


def _label(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text).replace("\n", " ")


EXPORT = RawRoute(
    path="/c/{name}/export",
    about="The pages as a file.",
    media_type="application/octet-stream",
    params=(
        Param(name="format", about="The form of the file.", kind="choice", choices=FORMATS, default="jsonl"),
        Param(name="relevant", about="yes: only relevant pages.", kind="flag", default=False),
        Param(name="list", about="Only pages of this list, in its order."),
        Param(name="tag", about="Only pages with this tag."),
        Param(name="noindex", about="yes: also pages that ask not to be indexed.", kind="flag", default=False),
    ),
)
CHUNK = 1 << 16


def export_route(context: AppContext) -> Route:
    def endpoint(request: Request) -> Response:
        folder = context.collections.folder(request.path_params["name"])
        values = parse_params(EXPORT.params, request.query_params.multi_items())
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has been sent
        try:
            wanted = PageFilter(
                relevant=values["relevant"] or None,
                include_noindex=values["noindex"],
                tag=values["tag"],
                in_list=values["list"],
            )
            export(folder, values["format"], wanted, file)
        except BaseException:
            file.close()
            raise
        parts = (request.path_params["name"], slug(values["list"]), slug(values["tag"]))
        name = "-".join(part for part in parts if part) + SUFFIXES[values["format"]]
        return StreamingResponse(_read_chunks(file), media_type=EXPORT.media_type, headers=attachment_header(name))

    return Route(EXPORT.path, endpoint, methods=["GET"])


def _read_chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        read_on: Callable[[], bytes] = lambda: file.read(CHUNK)  # noqa: E731 a name for iter()
        yield from iter(read_on, b"")
