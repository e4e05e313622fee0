"""One style for all figures that matplotlib draws: reports of the lab, Dewey dots, harvest curves.

matplotlib comes with the extra `lab` and is imported only when a figure is drawn.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from opilio.core.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito (2008), readable with colour blindness; without yellow, which is too light on paper.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F")
GRID_COLOR = "#dddddd"
_PNG_DPI = 200
_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "opilio",
    "svg.fonttype": "none",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.parse_math": False,  # names may contain a dollar sign
}


@contextmanager
def new_figure(width: float, height: float) -> "Iterator[Figure]":
    """An empty figure in the common style, in inches; raises MissingExtraError where matplotlib is missing."""
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib; install it with: pip install 'opilio[lab]'") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def save_figure(figure: "Figure", target: Path | IO[bytes], kind: str) -> None:
    """Write a figure as `svg` or `png`. Without a date: equal figures give equal files."""
    figure.savefig(target, format=kind, dpi=_PNG_DPI, metadata={"Date": None} if kind == "svg" else {})
