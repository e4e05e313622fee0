"""Downloads: `/metrics` for Prometheus, exports, and the harvest curve as SVG and PNG.

The PNG needs matplotlib, which the extra `lab` installs.

An export is written to a temporary file first, so that an error is reported instead of a truncated file.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from html import escape
from io import BytesIO
from typing import Any, BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from opilio.core.display import GRID_COLOR, new_figure, save_figure
from opilio.core.errors import CollectionError
from opilio.manage.export import FORMATS, SUFFIXES, export
from opilio.store.collection import is_linked
from opilio.store.page_selection import PageFilter
from opilio.store.postgres.cluster import WORKER_TIMEOUT_S, WorkerFigures, worker_figures
from opilio.store.postgres.collection import linked_database
from opilio.web.charts import Chart, ChartLine, Points, harvest_chart, harvest_series
from opilio.web.collections import slug
from opilio.web.context import AppContext, Param, RawRoute, attachment_header, parse_params
from opilio.web.pages.crawl import live_data

X_AXIS_PARAM = Param(name="x", about="X axis.", kind="choice", choices=("pages", "time"), default="pages")
CURVE_ROUTES = tuple(
    RawRoute(
        path=f"/c/{{name}}/curve.{form}",
        about="The harvest curve as a picture.",
        media_type=kind,
        params=(X_AXIS_PARAM,),
    )
    for form, kind in (("svg", "image/svg+xml"), ("png", "image/png"))
)
LINE_STYLES = {"a": ("#0b6b57", "2.4", ""), "b": ("#b25e00", "1.6", ""), "c": ("#5a48b8", "1.4", "3 3")}
LINE_STYLES |= {"t": ("#ab2319", "1.4", "5 4")}
LEGEND = 24  # pixels under the chart


def curve_routes(context: AppContext) -> list[Route]:
    def picture(name: str, form: str, x: str) -> bytes:
        data = live_data(context, name, everything=True)
        if form == "png":
            return render_png(harvest_series(data["curve"], data["status"]["stops_below"], x), x)
        chart = harvest_chart(data["curve"], data["status"]["stops_below"], x)
        return render_svg(chart).encode("utf-8", "replace")

    def route(curve: RawRoute) -> Route:
        form = curve.path.rpartition(".")[2]

        async def endpoint(request: Request) -> Response:
            name = request.path_params["name"]
            x = parse_params(curve.params, request.query_params.multi_items())["x"]
            content = await run_in_threadpool(picture, name, form, x)
            return Response(content, media_type=curve.media_type, headers=attachment_header(f"{name}-harvest.{form}"))

        return Route(curve.path, endpoint, methods=["GET", "HEAD"])

    return [route(curve) for curve in CURVE_ROUTES]


def render_png(series: Sequence[tuple[str, str, Points]], x: str) -> bytes:
    """Lines as a PNG file."""
    file = BytesIO()
    with new_figure(7.2, 3.2) as figure:
        axes = figure.add_subplot()
        for label, kind, points in series:
            colour, width, dashes = LINE_STYLES[kind]
            style: Any = (0, tuple(map(float, dashes.split()))) if dashes else "-"
            across, up = zip(*points, strict=True) if points else ((), ())
            axes.plot(across, up, label=label, color=colour, linewidth=float(width), linestyle=style)
        axes.set(xlabel="seconds" if x == "time" else "pages", ylabel="harvest", ylim=(0.0, 1.03))
        axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
        axes.legend(fontsize=8)
        save_figure(figure, file, "png")
    return file.getvalue()


def render_svg(chart: Chart) -> str:
    """A chart as an SVG file."""
    across, up = f'x1="{chart.left}" x2="{chart.right}"', 'text-anchor="end"'
    parts = [f'<rect width="{chart.width}" height="{chart.height + LEGEND}" fill="#fff"/>']
    for tick in chart.y_ticks:
        parts.append(f'<line {across} y1="{tick.at}" y2="{tick.at}" stroke="#ddd"/>')
        parts.append(f'<text x="{chart.left - 6}" y="{tick.at + 4}" {up}>{escape(tick.label)}</text>')
    below = f'y="{chart.bottom + 18}" text-anchor="middle"'
    parts += [f'<text x="{tick.at}" {below}>{escape(tick.label)}</text>' for tick in chart.x_ticks]
    middle = (chart.left + chart.right) / 2
    parts.append(f'<text x="{middle}" y="{chart.bottom + 38}" text-anchor="middle">{escape(chart.x_title)}</text>')
    for number, line in enumerate(chart.lines):
        left, low = chart.left + number * 170, chart.height + 8
        parts += [_path(line, line.path), _path(line, f"M{left},{low} L{left + 26},{low}")]
        parts.append(f'<text x="{left + 32}" y="{low + 4}">{escape(line.label)}</text>')
    size = f'width="{chart.width}" height="{chart.height + LEGEND}"'
    style = 'font-family="sans-serif" font-size="12" fill="#1c2420"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'


def _path(line: ChartLine, path: str) -> str:
    colour, width, dashes = LINE_STYLES[line.kind]
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"/>'


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
            return context.crawl_status(collection)
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
        while chunk := file.read(CHUNK):
            yield chunk
