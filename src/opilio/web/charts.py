"""Chart geometry for SVG templates, and harvest curves. Pure functions.

Charts are drawn by the server: they need no script, take their colours from the style sheet, and print.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

WIDTH, HEIGHT = 720.0, 280.0
# Marks nearer than this are drawn as one.
MARK_GAP = 14.0
MARK_LETTERS = {"label": "L", "topic": "T", "pause": "P", "resume": "R"}
# Half of the last label of x is right of its line.
LEFT, RIGHT, TOP, BOTTOM = 58.0, 36.0, 18.0, 46.0
# The longer window; with fewer pages it equals the overall line.
LONG_WINDOW_PAGES = 500


class ChartTick(msgspec.Struct, frozen=True):
    at: float
    label: str


class ChartLine(msgspec.Struct, frozen=True):
    """One line of a chart; `kind` selects colour and dashes, since colour alone is not accessible."""

    label: str
    kind: str
    path: str


class ChartMark(msgspec.Struct, frozen=True):
    """A moment of a crawl: a label, a topic change, a pause."""

    at: float
    letter: str
    label: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[ChartLine, ...]
    x_ticks: tuple[ChartTick, ...]
    y_ticks: tuple[ChartTick, ...]
    x_title: str = ""
    y_title: str = ""
    marks: tuple[ChartMark, ...] = ()
    # JSON: per position its x, its label, and the values of the lines.
    hover: str = ""
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


Points = Sequence[tuple[float, float]]


class _ChartAxis(msgspec.Struct, frozen=True):
    """Maps a value to its position in the picture."""

    minimum: float
    maximum: float
    start: float  # position of the minimum
    end: float

    def position(self, value: float) -> float:
        return self.start + (value - self.minimum) * (self.end - self.start) / ((self.maximum - self.minimum) or 1.0)


def line_chart(
    series: Sequence[tuple[str, str, Points]], up: tuple[float, float] = (0.0, 1.0), *, elapsed: bool = False,
    least_x: float = 0.0, shares: bool = True,
) -> Chart:  # fmt: skip
    """Lines over a common x axis; `up` is the range of y. `elapsed`: x is seconds. `shares`: y is in percent."""
    most_x = max((x for _, _, points in series for x, _ in points), default=1.0) or 1.0
    x_axis, y_axis = _ChartAxis(least_x, most_x, LEFT, WIDTH - RIGHT), _ChartAxis(*up, HEIGHT - BOTTOM, TOP)
    lines = tuple(ChartLine(label, kind, _path(points, x_axis, y_axis)) for label, kind, points in series)
    x_ticks = tuple(
        ChartTick(round(x_axis.position(x), 1), _label(x, elapsed)) for x in tick_values(most_x, least=least_x)
    )
    y_values = tick_values(up[1], 4, least=up[0])
    y_ticks = tuple(ChartTick(round(y_axis.position(y), 1), _value(y, shares)) for y in y_values)
    return Chart(lines=lines, x_ticks=x_ticks, y_ticks=y_ticks)


def _path(points: Points, x_axis: _ChartAxis, y_axis: _ChartAxis) -> str:
    places = [f"{x_axis.position(x):.1f},{y_axis.position(y):.1f}" for x, y in points]
    return "M" + " L".join(places) if places else ""


def tick_values(most: float, about: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers from `least` to `most`.

    >>> tick_values(1.0, 4), tick_values(730.0), tick_values(730.0, least=610.0)
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 200.0, 400.0, 600.0], [625.0, 650.0, 675.0, 700.0, 725.0])
    """
    rough = (most - least) / about
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.999)
    return [round(step * n, 10) for n in range(math.ceil(least / step - 1e-9), int(most / step + 1e-9) + 1)]


def _value(y: float, share: bool = False) -> str:
    """
    >>> _value(0.25, share=True), _value(500.0), _value(2_000_000.0)
    ('25 %', '500', '2,000,000')
    """
    if share:
        return f"{y * 100:g} %"
    return f"{y:,.0f}" if y >= 1_000 else f"{y:g}"


def _label(x: float, elapsed: bool) -> str:
    if not elapsed:
        return f"{x:,.0f}"
    return f"{x / 3600:g} h" if x >= 7200 else f"{x / 60:.3g} min" if x >= 120 else f"{x:g} s"


X_TITLES = {"pages": "Pages fetched", "time": "Time since the first page"}
Y_TITLES = {"relevant": "Relevant pages"}
HARVEST_TITLE = "Harvest (share of relevant pages)"


def harvest_chart(
    curve: Sequence[dict[str, Any]],
    target: float = 0.0,
    x: str = "pages",
    marks: Sequence[dict[str, Any]] = (),
) -> Chart:
    """The live curve as geometry."""
    series = harvest_series(curve, target, x)
    chart = line_chart(series, elapsed=x == "time")
    return msgspec.structs.replace(
        chart,
        x_title=X_TITLES[x],
        y_title=HARVEST_TITLE,
        marks=chart_marks(curve, marks, x),
        hover=_hover_values(series, x),
    )


def _hover_values(series: Sequence[tuple[str, str, Points]], x: str) -> str:
    """What the chart shows under the pointer. Lines with fewer values, such as a limit, come last and take no part."""
    most = max((len(points) for _, _, points in series), default=0)
    full = [points for _, _, points in series if len(points) == most]
    if not full:
        return ""
    axis = _ChartAxis(0.0, max(place for place, _ in full[0]) or 1.0, LEFT, WIDTH - RIGHT)
    rows = [
        (round(axis.position(place), 1), _label(round(place), x == "time"), [percent(p[number][1]) for p in full])
        for number, (place, _) in enumerate(full[0])
    ]
    return msgspec.json.encode(rows).decode()


def chart_marks(curve: Sequence[dict[str, Any]], marks: Sequence[dict[str, Any]], x: str) -> tuple[ChartMark, ...]:
    """Marks at their positions; those that would touch are one mark that names them all.

    >>> points = [{"pages": 1, "at": 10.0}, {"pages": 101, "at": 20.0}]
    >>> labels = [{"at": 12.0, "kind": "label", "words": "label"}] * 3
    >>> pause = {"at": 19.0, "kind": "pause", "words": "pause"}
    >>> [(mark.letter, mark.label) for mark in chart_marks(points, [*labels, pause], "pages")]
    [('L', '3 × label'), ('P', 'pause')]
    """
    if not curve:
        return ()
    times = [point["at"] for point in curve]
    places = [at - times[0] for at in times] if x == "time" else [float(point["pages"]) for point in curve]
    axis = _ChartAxis(0.0, places[-1] or 1.0, LEFT, WIDTH - RIGHT)
    groups: list[tuple[float, list[dict[str, Any]]]] = []
    for mark in marks:
        at = axis.position(float(np.interp(mark["at"], times, places)))
        if groups and at - groups[-1][0] < MARK_GAP:
            groups[-1][1].append(mark)
        else:
            groups.append((at, [mark]))
    return tuple(ChartMark(round(at, 1), *_mark_text(found)) for at, found in groups)


def _mark_text(marks: Sequence[dict[str, Any]]) -> tuple[str, str]:
    counts = Counter(mark["words"] for mark in marks)
    letters = {MARK_LETTERS[mark["kind"]]: None for mark in marks}
    return "".join(letters)[:2], ", ".join(word if n == 1 else f"{n} × {word}" for word, n in counts.items())


def harvest_series(
    curve: Sequence[dict[str, Any]], target: float = 0.0, x: str = "pages"
) -> list[tuple[str, str, Points]]:
    """The live curve: recent harvest, overall harvest, and the harvest below which the crawl stops.

    `x`: pages, or time since the first page.
    """
    places = [p["at"] - curve[0]["at"] if x == "time" else p["pages"] for p in curve]
    kinds = [("last 100 pages", "b", "recent"), ("all pages so far", "a", "harvest")]
    if curve and curve[-1]["pages"] > LONG_WINDOW_PAGES:
        kinds.insert(1, ("last 500 pages", "c", "longer"))
    series: list[tuple[str, str, Points]] = [
        (label, kind, [(place, p[name]) for place, p in zip(places, curve, strict=True)]) for label, kind, name in kinds
    ]
    if target and curve:
        series.append(("stops below", "t", [(0.0, target), (places[-1], target)]))
    return series


def comparison_chart(
    runs: Sequence[dict[str, Any]], x: str = "pages", y: str = "harvest", *, closer: bool = False
) -> Chart:
    """One line per run. `x`: pages or time since its `began`; `y`: harvest, recent, or relevant pages found. `closer`:
    the axes start at the smallest value instead of zero (shares always go from 0 to 1)."""
    series: list[tuple[str, str, Points]] = []
    for number, run in enumerate(runs):
        points = [((p["at"] - run["began"]) if x == "time" else p["pages"], p[y]) for p in run["curve"]]
        series.append((run["name"], f"r{number % 6}", points))
    every = [point for _, _, points in series for point in points] or [(0.0, 0.0)]
    least_x, least = (min(x for x, _ in every), min(y for _, y in every)) if closer else (0.0, 0.0)
    up = (least, max(y for _, y in every) or 1.0) if y == "relevant" else (0.0, 1.0)
    chart = line_chart(series, up, elapsed=x == "time", least_x=least_x, shares=y != "relevant")
    return msgspec.structs.replace(chart, x_title=X_TITLES[x], y_title=Y_TITLES.get(y, HARVEST_TITLE))


def sparkline_path(curve: Sequence[dict[str, Any]], width: float = 240.0, height: float = 44.0) -> str:
    """The recent harvest as a small line.

    >>> sparkline_path([{"pages": 1, "recent": 1.0}, {"pages": 2, "recent": 0.5}])
    'M120.0,2.0 L240.0,22.0'
    """
    across, up = width / max(1, curve[-1]["pages"] if curve else 1), height - 4.0
    points = [f"{p['pages'] * across:.1f},{height - 2.0 - p['recent'] * up:.1f}" for p in curve]
    return "M" + " L".join(points) if points else ""


class HistogramBar(msgspec.Struct, frozen=True):
    label: str
    count: int
    share: float  # relative to the longest bar


def histogram(values: Sequence[float], bins: int = 12) -> list[HistogramBar]:
    """Counts of values in bins of equal width; equal values are one bin.

    >>> [(b.label, b.count) for b in histogram([0.1, 0.2, 0.9], 2)], histogram([0.5, 0.5])
    ([('0.1 to 0.5', 2), ('0.5 to 0.9', 1)], [HistogramBar(label='0.5', count=2, share=1.0)])
    """
    if not values:
        return []
    low, high = min(values), max(values)
    if low == high:
        return [HistogramBar(f"{low:.2g}", len(values), 1.0)]
    width = (high - low) / bins
    counts = [0] * bins
    for value in values:
        counts[min(bins - 1, int((value - low) / width))] += 1
    most = max(counts)
    return [
        HistogramBar(f"{low + n * width:.2g} to {low + (n + 1) * width:.2g}", count, count / most)
        for n, count in enumerate(counts)
    ]


def percent(share: float) -> str:
    """
    >>> percent(0.2043), percent(0.0149), percent(0.0)
    ('20 %', '1.5 %', '0 %')
    """
    return f"{share * 100:.{0 if share >= 0.0995 or not share else 1}f} %"


POINTS = 160
WINDOWS = (100, 500)


def harvest_curve(
    relevant: bytes | bytearray, times: Sequence[float], points: int = POINTS, first: int = 1, last: int = 0
) -> list[dict[str, Any]]:
    """At most `points` moments of a crawl, spaced evenly from page `first` to `last` (0: the end).

    `harvest` is the share of relevant pages so far, `recent` that of the last hundred, `longer` of the last five
    hundred.

    >>> [moment["at"] for moment in harvest_curve(bytes(3), [2.0, 1.0, 3.0])]
    [2.0, 2.0, 3.0]
    >>> harvest_curve(bytes([1, 0, 1, 1]), [1.0, 2.0, 3.0, 4.0])[-1]
    {'pages': 4, 'relevant': 3, 'harvest': 0.75, 'recent': 0.75, 'longer': 0.75, 'at': 4.0}
    >>> [moment["pages"] for moment in harvest_curve(bytes(9), [1.0] * 9, first=3, last=5)]
    [3, 4, 5]
    """
    flags: NDArray[np.int64] = np.frombuffer(bytes(relevant), dtype=np.uint8).astype(np.int64)
    start, end = first - 1, min(last or len(flags), len(flags))
    if start >= end:
        return []
    found = np.cumsum(flags)
    # Pages are not committed strictly in order.
    reached = np.maximum.accumulate(np.array(times, dtype=np.float64))
    places = np.unique(np.linspace(start, end - 1, min(points, end - start)).round().astype(np.int64))
    return [_curve_point(found, int(place), float(reached[place])) for place in places]


def _curve_point(found: NDArray[np.int64], place: int, at: float) -> dict[str, Any]:
    return {
        "pages": place + 1,
        "relevant": int(found[place]),
        "harvest": round(float(found[place]) / (place + 1), 4),
        "recent": round(_window(found, place, WINDOWS[0]), 4),
        "longer": round(_window(found, place, WINDOWS[1]), 4),
        "at": at,
    }


def _window(found: NDArray[np.int64], place: int, size: int) -> float:
    before = int(found[place - size]) if place >= size else 0
    return (int(found[place]) - before) / min(size, place + 1)
