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


class _Axis(msgspec.Struct, frozen=True):
    """From a value to its place in the picture."""

    least: float
    most: float
    start: float  # where the least value is drawn
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.least) * (self.end - self.start) / ((self.most - self.least) or 1.0)


def line_chart(
    series: Sequence[tuple[str, str, Points]], up: tuple[float, float] = (0.0, 1.0), *, elapsed: bool = False,
    least_x: float = 0.0,
) -> Chart:  # fmt: skip
    """Lines over a common x axis, up between two values. `elapsed`: x is seconds."""
    most_x = max((x for _, _, points in series for x, _ in points), default=1.0) or 1.0
    x_axis, y_axis = _Axis(least_x, most_x, LEFT, WIDTH - RIGHT), _Axis(*up, HEIGHT - BOTTOM, TOP)
    lines = tuple(Line(label, kind, _path(points, x_axis, y_axis)) for label, kind, points in series)
    x_ticks = tuple(Tick(round(x_axis.at(x), 1), _label(x, elapsed)) for x in steps(most_x, least=least_x))
    y_ticks = tuple(Tick(round(y_axis.at(y), 1), f"{y:g}") for y in steps(up[1], 4, least=up[0]))
    return Chart(lines=lines, x_ticks=x_ticks, y_ticks=y_ticks)


def _path(points: Points, x_axis: _Axis, y_axis: _Axis) -> str:
    places = [f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in points]
    return "M" + " L".join(places) if places else ""


def steps(most: float, about: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers from `least` to `most`.

    >>> steps(1.0, 4), steps(730.0), steps(730.0, least=610.0)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 200.0, 400.0, 600.0], [625.0, 650.0, 675.0, 700.0, 725.0])
    """
    rough = (most - least) / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.999)
    return [round(step * n, 10) for n in range(math.ceil(least / step - 1e-9), int(most / step + 1e-9) + 1)]


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


def compared_chart(
    runs: Sequence[dict[str, Any]], x: str = "pages", y: str = "harvest", *, closer: bool = False
) -> Chart:
    """One line a run. `x`: pages or time since its `began`; `y`: harvest, recent, or relevant pages found. `closer`:
    the axes begin where the lines do, not at zero (but for shares, which go from 0 to 1)."""
    series: list[tuple[str, str, Points]] = []
    for number, run in enumerate(runs):
        points = [((p["at"] - run["began"]) if x == "time" else p["pages"], p[y]) for p in run["curve"]]
        series.append((run["name"], f"r{number % 6}", points))
    every = [point for _, _, points in series for point in points] or [(0.0, 0.0)]
    least_x, least = (min(x for x, _ in every), min(y for _, y in every)) if closer else (0.0, 0.0)
    up = (least, max(y for _, y in every) or 1.0) if y == "relevant" else (0.0, 1.0)
    return line_chart(series, up, elapsed=x == "time", least_x=least_x)


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
