"""`/c/{name}/curve.svg`: the harvest curve as a picture of its own, for reports and slides. Needs no style sheet."""

from html import escape

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opilio.web.charts import Chart, Line, harvest_chart
from opilio.web.crawlpage import live_data
from opilio.web.desk import Desk
from opilio.web.params import Param, read

ACROSS = Param(name="x", about="Across.", kind="choice", choices=("pages", "time"), default="pages")
LOOKS = {"a": ("#0b6b57", "2.4", ""), "b": ("#b25e00", "1.6", ""), "c": ("#5a48b8", "1.4", "3 3")}
LOOKS |= {"t": ("#ab2319", "1.4", "5 4")}
LEGEND = 24  # pixels under the chart


def curve_route(desk: Desk) -> Route:
    async def endpoint(request: Request) -> Response:
        name = request.path_params["name"]
        x = read([ACROSS], request.query_params.multi_items())["x"]
        data = await run_in_threadpool(live_data, desk, name, everything=False)
        chart = harvest_chart(data["curve"], data["status"]["stops_below"], x)
        headers = {"Content-Disposition": f'attachment; filename="{name}-harvest.svg"'}
        return Response(drawn(chart).encode("utf-8", "replace"), media_type="image/svg+xml", headers=headers)

    return Route("/c/{name}/curve.svg", endpoint, methods=["GET", "HEAD"])


def drawn(chart: Chart) -> str:
    """A chart as a whole SVG file."""
    across, up = f'x1="{chart.left}" x2="{chart.right}"', 'text-anchor="end"'
    parts = [f'<rect width="{chart.width}" height="{chart.height + LEGEND}" fill="#fff"/>']
    for tick in chart.y_ticks:
        parts.append(f'<line {across} y1="{tick.at}" y2="{tick.at}" stroke="#ddd"/>')
        parts.append(f'<text x="{chart.left - 6}" y="{tick.at + 4}" {up}>{escape(tick.label)}</text>')
    below = f'y="{chart.bottom + 18}" text-anchor="middle"'
    parts += [f'<text x="{tick.at}" {below}>{escape(tick.label)}</text>' for tick in chart.x_ticks]
    for number, line in enumerate(chart.lines):
        left, low = chart.left + number * 170, chart.height + 8
        parts += [_path(line, line.path), _path(line, f"M{left},{low} L{left + 26},{low}")]
        parts.append(f'<text x="{left + 32}" y="{low + 4}">{escape(line.label)}</text>')
    size = f'width="{chart.width}" height="{chart.height + LEGEND}"'
    style = 'font-family="sans-serif" font-size="12" fill="#1c2420"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>'


def _path(line: Line, path: str) -> str:
    colour, width, dashes = LOOKS[line.kind]
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" stroke-dasharray="{dashes}"/>'
