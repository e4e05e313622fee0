"""Charts as geometry: where lines, bars and ticks go in a picture that templates draw as SVG. Pure.

Drawn by the server, a chart needs no script, takes its colours from the style sheet in light and dark, and prints.
"""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

WIDTH, HEIGHT = 720.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 12.0, 12.0, 30.0
LONGER = 500  # pages of the longer window: before that many it says what the line over all says


class Tick(msgspec.Struct, frozen=True):
    at: float
    label: str


class Line(msgspec.Struct, frozen=True):
    """One line of a chart; `kind` picks its colour, and its dashes: colour alone must not tell lines apart."""

    label: str
    kind: str
    path: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[Line, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


Points = Sequence[tuple[float, float]]


def line_chart(series: Sequence[tuple[str, str, Points]], most_y: float = 1.0, *, elapsed: bool = False) -> Chart:
    """Lines over a common x axis from zero. `elapsed`: x is seconds."""
    most_x = max((x for _, _, points in series for x, _ in points), default=1.0) or 1.0
    across, up = (WIDTH - LEFT - RIGHT) / most_x, (HEIGHT - TOP - BOTTOM) / (most_y or 1.0)
    lines = tuple(Line(label, kind, _path(points, across, up)) for label, kind, points in series)
    x_ticks = tuple(Tick(round(LEFT + x * across, 1), _label(x, elapsed)) for x in steps(most_x))
    y_ticks = tuple(Tick(round(HEIGHT - BOTTOM - y * up, 1), f"{y:g}") for y in steps(most_y, 4))
    return Chart(lines=lines, x_ticks=x_ticks, y_ticks=y_ticks)


def _path(points: Points, across: float, up: float) -> str:
    places = [f"{LEFT + x * across:.1f},{HEIGHT - BOTTOM - y * up:.1f}" for x, y in points]
    return "M" + " L".join(places) if places else ""


def steps(most: float, about: int = 5) -> list[float]:
    """Round numbers from zero to `most`.

    >>> steps(1.0, 4), steps(730.0)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 200.0, 400.0, 600.0])
    """
    rough = most / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.999)
    return [round(step * n, 10) for n in range(int(most / step + 1e-9) + 1)]


def _label(x: float, elapsed: bool) -> str:
    if not elapsed:
        return f"{x:,.0f}"
    return f"{x / 3600:g} h" if x >= 7200 else f"{x / 60:.3g} min" if x >= 120 else f"{x:g} s"


def harvest_chart(curve: Sequence[dict[str, Any]], target: float = 0.0, x: str = "pages") -> Chart:
    """The live curve as geometry."""
    return line_chart(harvest_series(curve, target, x), elapsed=x == "time")


def harvest_series(
    curve: Sequence[dict[str, Any]], target: float = 0.0, x: str = "pages"
) -> list[tuple[str, str, Points]]:
    """The live curve: harvest of the last pages, over all, and the harvest below which the crawl would stop.

    `x`: pages, or time since the first one.
    """
    places = [p["at"] - curve[0]["at"] if x == "time" else p["pages"] for p in curve]
    kinds = [("last 100 pages", "b", "recent"), ("all pages so far", "a", "harvest")]
    if curve and curve[-1]["pages"] > LONGER:
        kinds.insert(1, ("last 500 pages", "c", "longer"))
    series: list[tuple[str, str, Points]] = [
        (label, kind, [(place, p[name]) for place, p in zip(places, curve, strict=True)]) for label, kind, name in kinds
    ]
    if target and curve:
        series.append(("stops below", "t", [(0.0, target), (places[-1], target)]))
    return series


def compared_chart(runs: Sequence[dict[str, Any]], x: str = "pages", y: str = "harvest") -> Chart:
    """One line a run. `x`: pages or time; `y`: harvest, recent, or relevant pages found."""
    series = []
    for number, run in enumerate(runs):
        start = run["curve"][0]["at"] if run["curve"] else 0.0
        points = [((p["at"] - start) if x == "time" else p["pages"], p[y]) for p in run["curve"]]
        series.append((run["name"], f"r{number % 6}", points))
    most = max((p[y] for run in runs for p in run["curve"]), default=1.0) if y == "relevant" else 1.0
    return line_chart(series, most or 1.0, elapsed=x == "time")


def spark(curve: Sequence[dict[str, Any]], width: float = 240.0, height: float = 44.0) -> str:
    """The harvest of the last pages as one small line.

    >>> spark([{"pages": 1, "recent": 1.0}, {"pages": 2, "recent": 0.5}])
    'M120.0,2.0 L240.0,22.0'
    """
    across, up = width / max(1, curve[-1]["pages"] if curve else 1), height - 4.0
    points = [f"{p['pages'] * across:.1f},{height - 2.0 - p['recent'] * up:.1f}" for p in curve]
    return "M" + " L".join(points) if points else ""


class Bar(msgspec.Struct, frozen=True):
    label: str
    count: int
    share: float  # of the longest


def histogram(values: Sequence[float], bins: int = 12) -> list[Bar]:
    """How often values fall between even bounds.

    >>> [(b.label, b.count) for b in histogram([0.1, 0.2, 0.9], 2)]
    [('0.1 to 0.5', 2), ('0.5 to 0.9', 1)]
    """
    if not values:
        return []
    low, high = min(values), max(values)
    width = (high - low) / bins or 1.0
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / width))] += 1
    most = max(counts)
    return [
        Bar(f"{low + n * width:.2g} to {low + (n + 1) * width:.2g}", count, count / most)
        for n, count in enumerate(counts)
    ]


def moment(at: float | None) -> str:
    """
    >>> moment(0.0)
    '1970-01-01 00:00:00'
    """
    if not at or at < 0 or at > 32503680000:
        return "–" if at != 0.0 else "1970-01-01 00:00:00"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
