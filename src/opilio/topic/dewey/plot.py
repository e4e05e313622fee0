"""The dots of a text as a figure: x = length of the D-number, y = the D-number, as Fig. 3 of the paper has its axes.

Draws what it is given (S2-19); decides nothing. Needs matplotlib, which comes with the extra `lab`.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opilio.model.errors import UsageError
from opilio.topic.dewey.galaxy import Dot, Galaxy
from opilio.topic.dewey.lexicon import Lexicon
from opilio.topic.dewey.number import digits_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEPT, DROPPED, ANCHOR = "#0072B2", "#999999", "#D55E00"  # Okabe and Ito's palette: told apart in grey too
BAND = "#F0E442"
FORMATS = (".svg", ".png")
WORDS = 8  # named beside the galaxy
NAMES = 0.5  # room for names, beside the room for dots
APART = 0.045  # words of one number, so that they can be told apart
_CELL = 3
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "opilio",
    "svg.fonttype": "none",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
}


def plot(dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon, path: Path, title: str = "") -> None:
    """Write the figure as SVG or PNG, by the name of the file. The same dots give the same bytes."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path}: the name must end in .svg or .png")
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("--plot: needs matplotlib; pip install 'opilio[lab]'") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.6, 5.6), layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure.add_subplot(), dots, galaxy, lexicon)
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        try:
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix.lower() == ".svg" else {})
        except OSError as error:
            raise UsageError(f"--plot {path}: can't be written: {error.strerror}") from error


def _draw(axes: "Axes", dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon) -> None:
    kept = {digits_of(cell.code)[:_CELL] for cell in galaxy.ranked}
    lengths = range(min((dot.x for dot in dots), default=_CELL), max((dot.x for dot in dots), default=_CELL) + 1)
    for (x, y), count, dot in _placed(dots):
        inside = digits_of(dot.number)[:_CELL] in kept
        colour = ANCHOR if dot.in_anchor else KEPT if inside else DROPPED
        size = 9.0 * count**0.6
        axes.scatter(x, y, s=size, edgecolors=colour, facecolors=colour if inside else "none", alpha=0.7, zorder=3)
    right = lengths[-1] + 0.55
    axes.set(xlabel="length of the D-number", ylabel="D-number", ylim=(-20, 1010))
    axes.set_xlim(lengths[0] - 0.55, right + NAMES * (right - lengths[0] + 0.55))
    axes.set_xticks(lengths)
    axes.set_yticks(range(0, 1000, 100), [f"{n:03}  {_short(lexicon.name_of(f'{n:03}'))}" for n in range(0, 1000, 100)])
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    _mark(axes, dots, galaxy, lexicon, right)


def _placed(dots: Sequence[Dot]) -> Iterator[tuple[tuple[float, float], int, Dot]]:
    """Each different dot where it stands, how often it is there, and itself; words of one number lie side by side."""
    beside: Counter[str] = Counter()
    for dot, count in Counter(dots).items():
        place = beside[dot.number]
        beside[dot.number] += 1
        side = (place + 1) // 2 * (1 if place % 2 else -1)
        yield (dot.x + max(-0.5, min(0.5, side * APART)), dot.y), count, dot


def _mark(axes: "Axes", dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon, right: float) -> None:
    """The galaxy's tens as a band, its name and words, and the names of the cells that came next."""
    if not galaxy.code:
        axes.text(0.5, 0.5, "no dots: no index term in the text", transform=axes.transAxes, ha="center")
        return
    cell = digits_of(galaxy.code)[:_CELL]
    tens = float(cell[:2].ljust(2, "0")) * 10
    axes.axhspan(tens, tens + 10, color=BAND, alpha=0.55, linewidth=0, zorder=1)
    said = Counter(dot.word for dot in dots if digits_of(dot.number).startswith(cell))
    words = ", ".join(word for word, _ in said.most_common(WORDS))
    name = _wrapped(f"galaxy: {galaxy.code} {lexicon.name_of(galaxy.code)}", 2)
    axes.text(right, tens + 14, name, va="bottom", weight="bold", fontsize=8)
    axes.text(right, tens - 4, _wrapped(words, 4), va="top", fontsize=7)
    taken = [tens]
    for code, _ in galaxy.ranked[1:]:
        height = float(digits_of(code)[:_CELL].ljust(_CELL, "0"))
        if len(taken) < WORDS and all(abs(height - other) > 30 for other in taken) and abs(height - tens) > 110:
            axes.text(right, height, _short(f"{code} {lexicon.name_of(code)}", 34), va="center", fontsize=7)
            taken.append(height)


def _short(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"{name[:most].rsplit(' ', 1)[0].rstrip(',')} …"


def _wrapped(text: str, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, 28)[:lines])
