"""The dots of a text as text: x = length of the D-number, y = the D-number (S2-19). Draws, decides nothing."""

from collections.abc import Sequence

from opilio.topic.dewey.galaxy import Dot, Galaxy
from opilio.topic.dewey.number import digits_of

_WIDTH = 8
_WORDS = 4


def picture(dots: Sequence[Dot], galaxy: Galaxy) -> str:
    """A line per three-digit class, the highest above: `o` a dot, `*` a dot of the anchor, then some of the words."""
    if not dots:
        return "no dots: no index term in the text"
    lengths = range(min(dot.x for dot in dots), max(dot.x for dot in dots) + 1)
    rows: dict[str, list[Dot]] = {}
    for dot in dots:
        rows.setdefault(digits_of(dot.number)[:3], []).append(dot)
    kept = {digits_of(cell.code)[:3] for cell in galaxy.ranked}
    best = digits_of(galaxy.code)[:3]
    head = "     " + "".join(f"{length:<{_WIDTH}}" for length in lengths)
    lines = [_row(cell, rows[cell], lengths) + _note(cell, best, kept) for cell in sorted(rows, reverse=True)]
    return "\n".join([head.rstrip(), *lines])


def _row(cell: str, dots: list[Dot], lengths: range) -> str:
    marks = ("".join("*" if dot.in_anchor else "o" for dot in dots if dot.x == length) for length in lengths)
    cells = "".join(f"{mark if len(mark) < _WIDTH else f'{len(mark)} dots':<{_WIDTH}}" for mark in marks)
    words = list(dict.fromkeys(dot.word for dot in dots))
    return f"{cell:<5}{cells}{', '.join(words[:_WORDS])}{' …' if len(words) > _WORDS else ''}"


def _note(cell: str, best: str, kept: set[str]) -> str:
    if cell == best:
        return "  <- galaxy"
    return "" if cell in kept else "  (outlier)"
