"""`/c/{name}/curve.svg` and `.png`: the harvest curve as a picture, for reports and slides.

The PNG needs matplotlib, which the extra `lab` installs.
"""

from collections.abc import Sequence
from html import escape
from io import BytesIO
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opilio.core.figures import GRID_COLOR, new_figure, save_figure
from opilio.web.charts import Chart, ChartLine, Points, harvest_chart, harvest_series
from opilio.web.context import AppContext, RawRoute
from opilio.web.pages.crawl import live_data
from opilio.web.params import Param, parse_params
from opilio.web.views import attachment_header

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
