"""Plots of an experiment as SVG and PNG: readable in print, in grey, and without seeing red and green.

Each strategy has its own colour (Okabe and Ito's palette), line style and marker, and is named at the end of its
line. Must not compute anything that the report does not print.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opilio.lab.declarations import Plot
from opilio.lab.report import by_strategy, interval
from opilio.lab.results import Run
from opilio.model.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito (2008), without yellow, which is too light on paper.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)), (0, (1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_POINTS = 200  # along the horizontal axis
_LEFT_OUT = 50  # the first 1/50 of the fetches: the seeds decide there, and would flatten all the rest
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "opilio",
    "svg.fonttype": "none",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}

Curves = NDArray[np.float64]


def draw_all(runs: Sequence[Run], folder: Path, extra: Sequence[Plot] = (), seed: int = 0) -> list[str]:
    """The three plots of a comparison and those that an experiment adds, as SVG and PNG; returns their names."""
    drawn: list[str] = []
    for plot in (*(Plot(file=kind, kind=kind) for kind in KINDS), *extra):
        mine = [run for run in runs if not plot.variants or run.strategy in plot.variants]
        if plot.kind not in KINDS:
            raise ConfigError(f"plot {plot.file}: kind {plot.kind!r} is unknown; known: {', '.join(KINDS)}")
        if mine:
            _saved(folder, plot.file, KINDS[plot.kind], mine, seed)
            drawn.append(plot.file)
    return drawn


def _saved(
    folder: Path, name: str, draw: Callable[["Axes", Sequence[Run], int], None], runs: Sequence[Run], seed: int
) -> list[Path]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        height = max(3.4, 1.2 + 0.3 * len(by_strategy(runs)))
        figure = Figure(figsize=(6.4, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot(), runs, seed)
        return [_write(figure, folder / f"{name}.{kind}") for kind in ("svg", "png")]


def _write(figure: "Figure", path: Path) -> Path:
    dated = {"Date": None} if path.suffix == ".svg" else {}  # no date: the same runs give the same file
    figure.savefig(path, dpi=200, metadata=dated)
    return path


def _harvest(axes: "Axes", runs: Sequence[Run], seed: int) -> None:
    def rates(run: Run) -> Curves:
        return np.asarray(run.found / np.arange(1, run.budget + 1))

    _lines(axes, runs, rates, seed)
    axes.set(xlabel="fetches", ylabel="harvest (relevant share)", title=f"Harvest against pages{_scope(runs)}")


def _recall(axes: "Axes", runs: Sequence[Run], seed: int) -> None:
    def shares(run: Run) -> Curves:
        return np.asarray(run.found / max(1, run.relevant_reachable))

    _lines(axes, runs, shares, seed)
    axes.set(xlabel="fetches", ylabel="recall of the reachable", title=f"Recall against pages{_scope(runs)}")


def _lines(axes: "Axes", runs: Sequence[Run], curve: Callable[[Run], Curves], seed: int) -> None:
    """Mean curve of each strategy with its 95 % band over topics, named at its end."""
    budget = min(r.budget for r in runs)
    grid = np.unique(np.linspace(1 + budget // _LEFT_OUT, budget, min(_POINTS, budget)).astype(int))
    ends: list[tuple[float, str, str]] = []
    top = 0.0
    for place, (name, mine) in enumerate(by_strategy(runs).items()):
        curves = np.array([curve(run)[grid - 1] for run in mine])
        mean, (low, high) = curves.mean(axis=0), _band(_by_topic(curves, mine), np.random.default_rng(seed))
        colour = _COLOURS[place % len(_COLOURS)]
        line: Any = {"linestyle": _DASHES[place % len(_DASHES)], "color": colour, "linewidth": 1.8}
        marks = (len(grid) // 16 * (place % 5), max(1, len(grid) // 4))  # staggered, so that equal lines stay visible
        axes.plot(grid, mean, marker=_MARKERS[place % len(_MARKERS)], markevery=marks, markersize=5, **line)
        axes.fill_between(grid, low, high, color=colour, alpha=0.14, linewidth=0)
        ends.append((float(mean[-1]), name, colour))
        top = max(top, float(high.max()))
    top = min(1.02, 1.05 * top or 1.0)
    axes.set_xlim(0, budget)
    axes.set_ylim(0, top)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    _name_ends(axes, budget, ends, top)


def _by_topic(curves: Curves, runs: Sequence[Run]) -> Curves:
    """One curve a topic, since runs of one topic are not independent; the runs themselves where there is but one."""
    topics = [(run.web, run.topic) for run in runs]
    names = list(dict.fromkeys(topics))
    if len(names) == 1:
        return curves
    return np.array([curves[[t == name for t in topics]].mean(axis=0) for name in names])


def _band(curves: Curves, rng: np.random.Generator, resamples: int = 400) -> tuple[Curves, Curves]:
    picks = rng.integers(0, len(curves), (resamples, len(curves)))
    means = curves[picks].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def _name_ends(axes: "Axes", budget: int, ends: list[tuple[float, str, str]], top: float) -> None:
    """Names beside the ends of the lines, pushed apart where lines end close together."""
    ordered = sorted(ends)
    for (value, name, colour), height in zip(
        ordered, spread_out([e[0] for e in ordered], 0.055 * top, top), strict=True
    ):
        axes.annotate(
            name,
            xy=(budget, value),
            xytext=(budget * 1.04, height),
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2},
        )


def spread_out(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Rising heights moved as little as needed to be `gap` apart and not above `top`.

    >>> spread_out([0.0, 1.0, 1.0], 0.25, 1.0)
    [0.0, 0.75, 1.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    for place in range(len(placed) - 1, -1, -1):
        ceiling = top if place == len(placed) - 1 else placed[place + 1] - gap
        placed[place] = min(placed[place], ceiling)
    return placed


def _bars(axes: "Axes", runs: Sequence[Run], seed: int) -> None:
    """Mean auc_vs_oracle of each strategy with its interval, named on the left, in figures on the right."""
    groups = by_strategy(runs)
    for place, mine in enumerate(groups.values()):
        found = interval(mine, "auc_vs_oracle", np.random.default_rng(seed))
        error = [[found.mean - found.low], [found.high - found.mean]]
        axes.barh(place, found.mean, color=_COLOURS[place % len(_COLOURS)], height=0.62, alpha=0.85)
        axes.errorbar(found.mean, place, xerr=error, color="#222222", capsize=3, linewidth=1.2)
        axes.text(1.04, place, f"{found.mean:.2f}", va="center")
    axes.set_yticks(range(len(groups)), list(groups))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_xlim(0, 1.12)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.axvline(1.0, color="#555555", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="auc_vs_oracle (1 = oracle); 95 % interval over topics", title=f"Area against the oracle{_scope(runs)}"
    )


def _scope(runs: Sequence[Run]) -> str:
    webs = ", ".join(dict.fromkeys(r.web for r in runs))
    topics = len({(r.web, r.topic) for r in runs})
    return f" · {webs} · {topics} topic{'s' if topics > 1 else ''}"


KINDS: dict[str, Callable[["Axes", Sequence[Run], int], None]] = {
    "harvest": _harvest,
    "recall": _recall,
    "auc-vs-oracle": _bars,
}
