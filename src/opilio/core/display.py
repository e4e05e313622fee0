"""Results as rich renderables for terminals and as HTML for notebooks, and one style for figures of matplotlib.

matplotlib comes with the extra `lab` and is imported only when a figure is drawn.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

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


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNDISPLAYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def strip_controls(text: str) -> str:
    """Text of the web for files that are read in terminals: escape sequences in it would be carried out there.

    >>> strip_controls("wren\\x1b]0;owned\\x07\\n")
    'wren]0;owned\\n'
    """
    return _CONTROLS.sub("", text)


def pluralize(number: int, noun: str) -> str:
    """
    >>> pluralize(1, "page"), pluralize(0, "page"), pluralize(2_000, "fetch")
    ('1 page', '0 pages', '2,000 fetches')
    """
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{ending}"


MAX_CHARACTERS = 300  # of one value
MAX_ROWS = 20  # of one table
MAX_PROMPT_CHARACTERS = 70  # of one value at the Python prompt


class Displayable:
    """Gives a msgspec struct a short text for the Python prompt, and a rich and an HTML representation by field."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}  # type: ignore[attr-defined]
        shown = ", ".join(f"{name}={_prompt_text(value)}" for name, value in fields.items() if not _empty(value))
        return f"{type(self).__name__}({shown})"

    def __rich__(self) -> Any:  # noqa: ANN401 - rich is imported where it is used
        return rich_fields(msgspec.to_builtins(self))

    def _repr_html_(self) -> str:
        return html_fields(msgspec.to_builtins(self))


def html_fields(values: Mapping[str, Any]) -> str:
    """A mapping as an HTML table of names and values; nested mappings and lists become tables in cells.

    >>> html_fields({"title": "<b>", "empty": []})
    '<table><tr><th style="text-align:left">title</th><td style="text-align:left">&lt;b&gt;</td></tr></table>'
    """
    shown = {name: _readable(name, value) for name, value in values.items() if not _empty(value)}
    return _html_table([[escape(_label(name)), _html_value(value)] for name, value in shown.items()])


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as an HTML table with a header."""
    head = "".join(f"<th>{escape(_label(name))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell_text(v))}</td>' for v in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def rich_fields(values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The same mapping for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        if not _empty(value):
            shown = rich_fields(value) if isinstance(value, Mapping) else Text(cell_text(_readable(name, value)))
            table.add_row(Text(_label(name), "dim"), shown)
    return table


def rich_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:  # noqa: ANN401
    """Rows with a header for a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in columns:
        table.add_column(_label(name))
    for row in rows:
        table.add_row(*(Text(cell_text(value)) for value in row))
    return table


def cell_text(value: object) -> str:
    """A value as a short line, without control characters and changes of the writing direction.

    >>> cell_text(0.123456), cell_text(True), cell_text(["a", "b"]), cell_text({"a": 1}), cell_text("a\\x1bb")
    ('0.123', 'yes', 'a, b', 'a 1', 'ab')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, Mapping):
        shown = {name: _readable(name, inner) for name, inner in value.items() if not _empty(inner)}
        text = ", ".join(f"{_label(name)} {cell_text(inner)}" for name, inner in shown.items())
    elif isinstance(value, list | tuple):
        text = "\n".join(map(cell_text, value)) if any(map(_nested, value)) else ", ".join(map(cell_text, value))
    else:
        text = _UNDISPLAYED.sub("", str(value))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} …"


def _prompt_text(value: object) -> str:
    """A value at the Python prompt; of records and long lists only what they are.

    >>> _prompt_text(("wren", "robin")), _prompt_text([1, 2, 3, 4]), _prompt_text("w" * 100)[-4:]
    ("('wren', 'robin')", '[4 items]', "ww…'")
    """
    if isinstance(value, msgspec.Struct):
        return f"{type(value).__name__}(…)"
    # Marked text.
    if isinstance(value, tuple) and type(value) is not tuple:
        value = str(value)
    if isinstance(value, str) and len(value) > MAX_PROMPT_CHARACTERS:
        value = f"{value[:MAX_PROMPT_CHARACTERS]}…"
    if isinstance(value, list | tuple) and (len(value) > 3 or any(isinstance(one, msgspec.Struct) for one in value)):
        return f"[{len(value)} items]" if len(value) > 1 else "[1 item]"
    return repr(value)


def _html_value(value: object) -> str:
    if isinstance(value, Mapping):
        return html_fields(value)
    if isinstance(value, list | tuple) and any(map(_nested, value)):
        more = [f"and {len(value) - MAX_ROWS} more"] if len(value) > MAX_ROWS else []
        return "".join([*(_html_value(inner) for inner in value[:MAX_ROWS]), *more])
    return escape(cell_text(value))


def _readable(name: str, value: object) -> object:
    """Times are stored as seconds since 1970; fields with a time are named `at`, `until` or `…_at`."""
    if isinstance(value, float) and (name in ("at", "until") or name.endswith("_at")):
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return value


def _html_table(rows: Iterable[Sequence[str]]) -> str:
    left = 'style="text-align:left"'
    body = "".join(f"<tr><th {left}>{name}</th><td {left}>{value}</td></tr>" for name, value in rows)
    return f"<table>{body}</table>"


def _label(name: str) -> str:
    return name.replace("_", " ")


def _nested(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)


def _empty(value: object) -> bool:
    return value is None or value in ("", [], {}, ())
