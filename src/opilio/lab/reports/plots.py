"""Plots of an experiment as SVG and PNG: readable in print, in grey, and with colour blindness.

Each strategy has its own colour (Okabe and Ito's palette), line style and marker, and a label at the end of its line.
With many strategies only the best and the reference stand out; the others are thin and grey, with labels too. A
strategy has the same style in every plot of an experiment. Nothing is computed here that the report does not print.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.core.display import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.lab.experiments.declarations import Experiment, PaperTable, Plot, Variant, paper_tables
from opilio.lab.experiments.results import RunResult
from opilio.lab.reports.tables import group_by_strategy, measure_interval, run_indices_by_case

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PLOT_FORMATS = ("svg", "png")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1)), (0, (1, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GRAY = "#8C8C8C"
# That can be distinguished in one figure.
_MAX_DISTINCT_STRATEGIES = 6
# Emphasized ones if there are more, beside the reference.
_HIGHLIGHTED_STRATEGIES = 4
_BASELINE_STRATEGY = "breadth"
_BLOCK_COUNT = 10
_GRID_POINTS = 200  # along the horizontal axis
# The first 1/50 of the fetches depends on the seeds only, and would flatten the rest.
_SKIPPED_START_DIVISOR = 50
Curves = NDArray[np.float64]


class LineStyle(NamedTuple):
    """The line style of a strategy."""

    color: str
    dashes: Any
    marker: str
    emphasized: bool = True  # thick, with its band


LineStyles = dict[str, LineStyle]
Draw = Callable[["Axes", Sequence[RunResult], LineStyles, int], None]


def draw_plots(
    runs: Sequence[RunResult], folder: Path, experiment: Experiment | None = None, seed: int = 0
) -> list[str]:
    """The three plots of a comparison and those that an experiment adds, as SVG and PNG; returns their names."""
    extra = experiment.plot if experiment else ()
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    styles = assign_line_styles(runs)
    for plot in (*(Plot(file=kind, kind=kind) for kind in DEFAULT_PLOTS), *extra):
        mine = [run for run in runs if not plot.variants or run.strategy in plot.variants]
        if mine:
            # A plot of few variants needs no grey lines.
            own = assign_line_styles(mine) if plot.variants and len(styles) > _MAX_DISTINCT_STRATEGIES else styles
            lines = len(group_by_strategy(mine)) if plot.kind != "sweep" else 0
            with new_figure(6.4, max(3.6, 1.4 + 0.3 * lines)) as figure:
                if plot.kind == "sweep" and experiment is not None:
                    _draw_sweep(figure.add_subplot(), mine, plot, experiment.variants)
                elif plot.kind == "precision":
                    _draw_precision_bars(figure.add_subplot(), mine, plot)
                elif plot.kind == "blocks":
                    _draw_blocks(figure.add_subplot(), mine, own, experiment.window if experiment else 0)
                else:
                    axes = figure.add_subplot()
                    DRAW_FUNCTIONS[plot.kind](axes, mine, own, seed)
                    if plot.kind == "harvest" and experiment is not None:
                        shown = {name: own[name] for name in group_by_strategy(mine)}
                        _draw_paper_values(axes, shown, paper_tables().get(experiment.paper))
                for form in PLOT_FORMATS:
                    save_figure(figure, folder / f"{plot.file}.{form}", form)
            drawn.append(plot.file)
    return drawn


def assign_line_styles(runs: Sequence[RunResult]) -> LineStyles:
    """A line style for every strategy; with many strategies, most are grey."""
    groups = group_by_strategy(runs)
    strong = list(groups)
    if len(groups) > _MAX_DISTINCT_STRATEGIES:
        means = {name: float(np.mean([run.auc_vs_oracle for run in mine])) for name, mine in groups.items()}
        best = sorted(groups, key=lambda name: -means[name])[:_HIGHLIGHTED_STRATEGIES]
        strong = [name for name in groups if name in best or name == _BASELINE_STRATEGY]
    own = {
        name: LineStyle(PALETTE[n % len(PALETTE)], _DASHES[n % len(_DASHES)], _MARKERS[n % len(_MARKERS)])
        for n, name in enumerate(strong)
    }
    return {name: own.get(name, LineStyle(_GRAY, "-", "", emphasized=False)) for name in groups}


def _draw_harvest(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:
    def rates(run: RunResult) -> Curves:
        return np.asarray(run.found_curve / np.arange(1, run.budget + 1))

    _draw_curves(axes, runs, rates, styles, seed)
    axes.set(xlabel="fetches", ylabel="harvest (relevant share)", title=_title("Harvest against pages", runs))


def _draw_paper_values(axes: "Axes", styles: LineStyles, paper: PaperTable | None) -> None:
    """The values of the paper's table as hollow markers, in the colour of the strategy."""
    if paper is None:
        return
    count = sum(at <= axes.get_xlim()[1] for at in paper.at)
    for name in styles.keys() & paper.values.keys():
        theirs, color = paper.values[name][:count], styles[name].color
        axes.plot(paper.at[:count], theirs, "o", markersize=5, markerfacecolor="none", color=color, clip_on=False)
    axes.set_xlabel("fetches (hollow: the paper)")


def _draw_recall(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:
    def shares(run: RunResult) -> Curves:
        return np.asarray(run.found_curve / max(1, run.relevant_reachable))

    _draw_curves(axes, runs, shares, styles, seed)
    axes.set(xlabel="fetches", ylabel="recall of the reachable", title=_title("Recall against pages", runs))


def _draw_curves(
    axes: "Axes",
    runs: Sequence[RunResult],
    curve: Callable[[RunResult], Curves],
    styles: LineStyles,
    seed: int,
    *,
    shares: bool = True,
) -> None:
    """Mean curve of each strategy with its 95 % band over topics, labelled at its end. `shares`: none is above 1."""
    budget = min(r.budget for r in runs)
    grid = np.unique(np.linspace(1 + budget // _SKIPPED_START_DIVISOR, budget, min(_GRID_POINTS, budget)).astype(int))
    ends: list[tuple[float, str]] = []
    top = 0.0
    for place, (name, mine) in enumerate(group_by_strategy(runs).items()):
        curves = np.array([curve(run)[grid - 1] for run in mine])
        mean = curves.mean(axis=0)
        _draw_line(axes, grid, mean, styles[name], place)
        if styles[name].emphasized:
            low, high = _confidence_band(_by_topic(curves, mine), np.random.default_rng(seed))
            axes.fill_between(grid, low, high, color=styles[name].color, alpha=0.14, linewidth=0)
            # A wide band at the beginning may be cut off.
            top = max(top, float(high[len(grid) // 10 :].max()))
        ends.append((float(mean[-1]), name))
        top = max(top, float(mean.max()))
    top = 1.05 * top or 1.0
    top = min(1.02, top) if shares else top
    axes.set_xlim(0, budget)
    axes.set_ylim(0, top)
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    _label_line_ends(axes, budget, ends, styles, top)


def _draw_line(axes: "Axes", grid: NDArray[np.int_], mean: Curves, style: LineStyle, place: int) -> None:
    if style.emphasized:
        # Staggered, so that equal lines stay visible.
        marks = (len(grid) // 16 * (place % 5), max(1, len(grid) // 4))
        drawn: Any = {"linewidth": 1.8, "marker": style.marker, "markevery": marks, "markersize": 5, "zorder": 3}
    else:
        drawn = {"linewidth": 0.9, "zorder": 2}
    axes.plot(grid, mean, color=style.color, linestyle=style.dashes, **drawn)


def _by_topic(curves: Curves, runs: Sequence[RunResult]) -> Curves:
    """One curve per topic, since runs of one topic are not independent; with one topic, one per case."""
    topics = [(run.web, run.topic) for run in runs]
    names = list(dict.fromkeys(topics))
    if len(names) == 1:
        return np.array([curves[places].mean(axis=0) for places in run_indices_by_case(runs).values()])
    return np.array([curves[[t == name for t in topics]].mean(axis=0) for name in names])


def _confidence_band(curves: Curves, rng: np.random.Generator, resamples: int = 400) -> tuple[Curves, Curves]:
    picks = rng.integers(0, len(curves), (resamples, len(curves)))
    means = curves[picks].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return low, high


def _label_line_ends(axes: "Axes", budget: int, ends: list[tuple[float, str]], styles: LineStyles, top: float) -> None:
    """Labels beside the ends of the lines, moved apart where lines end close together."""
    ordered = sorted(ends)
    heights = spread_labels([value for value, _ in ordered], 0.055 * top, top)
    for (value, name), height in zip(ordered, heights, strict=True):
        style = styles[name]
        axes.plot([budget * 1.005, budget * 1.04], [value, height], color=style.color, linewidth=0.5, clip_on=False)
        # Thin letters need more contrast than lines.
        colour = style.color if style.emphasized else "#6A6A6A"
        weight = "bold" if style.emphasized and len(styles) > _MAX_DISTINCT_STRATEGIES else "normal"
        axes.text(budget * 1.05, height, name, color=colour, fontweight=weight, va="center")


def spread_labels(heights: Sequence[float], gap: float, top: float) -> list[float]:
    """Rising heights moved as little as needed to be `gap` apart and, if they fit, between 0 and `top`.

    >>> spread_labels([0.0, 0.5, 0.5], 0.25, 1.0)
    [0.0, 0.375, 0.625]
    """
    # Labels that touch move together, to the mean of their wanted heights.
    groups: list[list[float]] = []
    for place, height in enumerate(heights):
        groups.append([height - place * gap])
        while len(groups) > 1 and np.mean(groups[-2]) >= np.mean(groups[-1]):
            last = groups.pop()
            groups[-1] += last
    levels = [float(np.mean(group)) for group in groups for _ in group]
    # Above it the last label would leave the figure.
    room = top - gap * (len(levels) - 1)
    return [max(0.0, min(level, room)) + place * gap for place, level in enumerate(levels)]


def _draw_auc_bars(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:
    """Mean auc_vs_oracle of each strategy with its interval, names on the left, values on the right."""
    groups = group_by_strategy(runs)
    found = {
        name: measure_interval(mine, "auc_vs_oracle", np.random.default_rng(seed)) for name, mine in groups.items()
    }
    if len(groups) > _MAX_DISTINCT_STRATEGIES:
        found = dict(sorted(found.items(), key=lambda item: -item[1].mean))
    for place, (name, mean) in enumerate(found.items()):
        error = [[mean.mean - mean.low], [mean.high - mean.mean]]
        axes.barh(place, mean.mean, color=styles[name].color, height=0.62, alpha=0.6)
        axes.errorbar(mean.mean, place, xerr=error, color="#222222", capsize=3, linewidth=1.2)
        axes.text(1.04, place, f"{mean.mean:.2f}", va="center")
    axes.set_yticks(range(len(groups)), list(found))
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.set_xlim(0, 1.12)
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.axvline(1.0, color="#555555", linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="auc_vs_oracle (1 = oracle); 95 % interval over topics", title=_title("Area against the oracle", runs)
    )


def _title(what: str, runs: Sequence[RunResult]) -> str:
    """What is drawn, with the number of runs; on two lines with several webs."""
    webs = list(dict.fromkeys(r.web for r in runs))
    topics = len({(r.web, r.topic) for r in runs})
    scope = f"{', '.join(webs)} · {topics} topic{'s' if topics > 1 else ''}"
    return f"{what}\n{scope}" if len(webs) > 1 else f"{what} · {scope}"


def _draw_blocks(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, size: int) -> None:
    """Relevant pages in each block of fetches (S2-43, Figs 5 and 6), one bar per strategy; a tenth of the run where no
    size is declared."""
    budget = min(run.budget for run in runs)
    size = min(size, budget) or max(1, budget // _BLOCK_COUNT)
    ends = np.arange(size, budget + 1, size)
    groups = group_by_strategy(runs)
    for place, (name, mine) in enumerate(groups.items()):
        found = np.mean([np.concatenate(([0.0], run.found_curve)) for run in mine], axis=0)
        left = np.arange(len(ends)) + (place - (len(groups) - 1) / 2) * 0.8 / len(groups)
        color = styles[name].color
        axes.bar(left, found[ends] - found[ends - size], 0.8 / len(groups), color=color, label=name, alpha=0.85)
    axes.set_axisbelow(True)
    axes.set_xticks(range(len(ends)), [f"{end - size + 1:,}–{end:,}" for end in ends.tolist()])
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    axes.legend(frameon=False)
    axes.set(xlabel="fetches", ylabel=f"relevant in {size:,} fetches", title=_title("Relevant pages by block", runs))


def _draw_sweep(axes: "Axes", runs: Sequence[RunResult], plot: Plot, variants: Sequence[Variant]) -> None:
    """A measure over the `x` of the variants: one line for each `line`, and for each topic if there are several."""
    places = {variant.name: variant for variant in variants}
    topics = len({run.topic for run in runs}) > 1
    lines: dict[str, dict[float, list[RunResult]]] = {}
    for run in runs:
        if run.strategy in places:
            variant = places[run.strategy]
            name = ", ".join(part for part in (variant.line, run.topic if topics else "") if part)
            lines.setdefault(name, {}).setdefault(variant.x, []).append(run)
    for number, (name, points) in enumerate(lines.items()):
        xs = sorted(points)
        values = [[float(getattr(run, plot.measure)) for run in points[x]] for x in xs]
        means, spread = [float(np.mean(v)) for v in values], [float(np.std(v)) for v in values]
        color, dashes, marker = PALETTE[number % len(PALETTE)], _DASHES[number % len(_DASHES)], _MARKERS[number % 8]
        axes.errorbar(
            xs, means, yerr=spread, color=color, linestyle=dashes, marker=marker, capsize=3, label=name or None
        )
    # Room for the markers of the highest points.
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    axes.set(xlabel=plot.xlabel, ylabel=plot.ylabel, title=_title(plot.ylabel or plot.measure, runs))
    if any(lines):
        axes.legend(frameon=False)


def _draw_cumulative(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:
    _draw_curves(axes, runs, lambda run: np.asarray(run.found_curve), styles, seed, shares=False)
    axes.set(xlabel="fetches", ylabel="relevant pages found", title=_title("Relevant pages found", runs))


def _draw_irrelevant(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:
    """Irrelevant pages over all pages (S3-35, Fig. 5)."""

    def rest(run: RunResult) -> Curves:
        return np.asarray(np.arange(1, run.budget + 1) - run.found_curve)

    _draw_curves(axes, runs, rest, styles, seed, shares=False)
    axes.set(xlabel="fetches", ylabel="irrelevant pages", title=_title("Irrelevant pages", runs))


def _draw_deeper(axes: "Axes", runs: Sequence[RunResult], styles: LineStyles, seed: int) -> None:  # noqa: ARG001 no band
    """The share of the common hosts explored deeper, after each tenth of a crawl (S3-34, Fig. 4)."""
    for name, mine in group_by_strategy(runs).items():
        shares = [run.beyond.deeper for run in mine if run.beyond is not None]
        if shares:
            ends = np.arange(1, len(shares[0]) + 1) * mine[0].budget / len(shares[0])
            style = styles[name]
            line: Any = {"color": style.color, "linestyle": style.dashes, "marker": style.marker}
            axes.errorbar(ends, np.mean(shares, axis=0), yerr=np.std(shares, axis=0), capsize=3, label=name, **line)
    axes.set_ylim(0, 1)
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    axes.legend(frameon=False)
    axes.set(xlabel="fetches", ylabel="share of the common hosts", title=_title("Hosts explored deeper", runs))


def _draw_precision_bars(axes: "Axes", runs: Sequence[RunResult], plot: Plot) -> None:
    """A measure of each strategy, one bar for each topic (S3-39, Fig. 8), with the spread over its runs."""
    groups = group_by_strategy(runs)
    topics = list(dict.fromkeys(run.topic for run in runs))
    for place, topic in enumerate(topics):
        values = [[float(getattr(run, plot.measure)) for run in mine if run.topic == topic] for mine in groups.values()]
        left = np.arange(len(groups)) + (place - (len(topics) - 1) / 2) * 0.8 / len(topics)
        means, spread = [float(np.mean(v)) for v in values], [float(np.std(v)) for v in values]
        color = PALETTE[place % len(PALETTE)]
        axes.bar(left, means, 0.8 / len(topics), yerr=spread, capsize=2, color=color, label=topic, alpha=0.85)
    axes.set_axisbelow(True)
    axes.set_xticks(range(len(groups)), list(groups))
    # Room for the legend above the bars.
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    axes.legend(frameon=False, ncols=3, loc="upper left")
    axes.set(ylabel=plot.ylabel or "precision by label", title=_title("Precision", runs))


DEFAULT_PLOTS = ("harvest", "recall", "auc-vs-oracle")
DRAW_FUNCTIONS: dict[str, Draw] = {
    "harvest": _draw_harvest,
    "recall": _draw_recall,
    "auc-vs-oracle": _draw_auc_bars,
    "cumulative": _draw_cumulative,
    "irrelevant": _draw_irrelevant,
    "deeper": _draw_deeper,
}
