"""What `opilio topic dewey` shows for a text or a page: dots as text or as a figure, galaxy, classes, classes of links.

The axes are those of Fig. 3 of the paper. The figure needs matplotlib, which comes with the extra `lab`.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from opilio.core.display import GRID_COLOR, PALETTE, new_figure, save_figure
from opilio.core.errors import UsageError
from opilio.core.records import Page
from opilio.core.settings import Settings
from opilio.methods.dewey.detect import (
    Dot,
    Galaxy,
    GalaxyRule,
    Lexicon,
    LexiconMatcher,
    digits_of,
    dots_from_hits,
    find_galaxy,
    link_galaxies,
    main_terms,
)
from opilio.methods.dewey.judge import load_lexicon
from opilio.text.reading import PageReader, ParagraphContext
from opilio.topic.setup import background_frequencies, build_vocabulary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMN_WIDTH = 8
_WORDS_PER_ROW = 4


def draw_dots(dots: Sequence[Dot], galaxy: Galaxy) -> str:
    """One line per three-digit class, the highest first: `o` a dot, `*` a dot of the anchor, then some of the words."""
    if not dots:
        return "no dots: no index term in the text"
    lengths = range(min(dot.x for dot in dots), max(dot.x for dot in dots) + 1)
    rows: dict[str, list[Dot]] = {}
    for dot in dots:
        rows.setdefault(digits_of(dot.number)[:3], []).append(dot)
    kept = {digits_of(cell.code)[:3] for cell in galaxy.ranked}
    best = digits_of(galaxy.code)[:3]
    head = "     " + "".join(f"{length:<{_COLUMN_WIDTH}}" for length in lengths)
    lines = [_row(cell, rows[cell], lengths) + _note(cell, best, kept) for cell in sorted(rows, reverse=True)]
    return "\n".join([head.rstrip(), *lines])


def _row(cell: str, dots: list[Dot], lengths: range) -> str:
    marks = ("".join("*" if dot.in_anchor else "o" for dot in dots if dot.x == length) for length in lengths)
    cells = "".join(f"{mark if len(mark) < _COLUMN_WIDTH else f'{len(mark)} dots':<{_COLUMN_WIDTH}}" for mark in marks)
    words = list(dict.fromkeys(dot.word for dot in dots))
    return f"{cell:<5}{cells}{', '.join(words[:_WORDS_PER_ROW])}{' …' if len(words) > _WORDS_PER_ROW else ''}"


def _note(cell: str, best: str, kept: set[str]) -> str:
    if cell == best:
        return "  <- galaxy"
    return "" if cell in kept else "  (outlier)"


KEPT_COLOR, ANCHOR_COLOR, DROPPED_COLOR = PALETTE[0], PALETTE[1], "#999999"
BAND_COLOR = "#F0E442"
PLOT_FORMATS = (".svg", ".png")
MAX_LABELS = 8  # words listed beside the galaxy
# Width for names, relative to the width for dots.
NAME_SPACE_SHARE = 0.5
# Words of one number are drawn side by side, so that they stay distinct.
DOT_SPACING = 0.045
_PLOT_CELL_DIGITS = 3


def plot_dots(dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon, path: Path, title: str = "") -> None:
    """Write the figure as SVG or PNG, by the name of the file. The same dots give the same bytes."""
    if path.suffix.lower() not in PLOT_FORMATS:
        raise UsageError(f"--plot {path}: the name must end in .svg or .png")
    with new_figure(7.6, 5.6) as figure:
        _draw(figure.add_subplot(), dots, galaxy, lexicon)
        figure.suptitle(title, x=0.01, ha="left", fontsize=10)
        try:
            save_figure(figure, path, path.suffix.lower().removeprefix("."))
        except OSError as error:
            raise UsageError(f"--plot {path}: can't be written: {error.strerror}") from error


def _draw(axes: "Axes", dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon) -> None:
    kept = {digits_of(cell.code)[:_PLOT_CELL_DIGITS] for cell in galaxy.ranked}
    lengths = range(
        min((dot.x for dot in dots), default=_PLOT_CELL_DIGITS),
        max((dot.x for dot in dots), default=_PLOT_CELL_DIGITS) + 1,
    )
    for (x, y), count, dot in _positioned_dots(dots):
        inside = digits_of(dot.number)[:_PLOT_CELL_DIGITS] in kept
        colour = ANCHOR_COLOR if dot.in_anchor else KEPT_COLOR if inside else DROPPED_COLOR
        size = 9.0 * count**0.6
        axes.scatter(x, y, s=size, edgecolors=colour, facecolors=colour if inside else "none", alpha=0.7, zorder=3)
    right = lengths[-1] + 0.55
    axes.set(xlabel="length of the D-number", ylabel="D-number", ylim=(-20, 1010))
    axes.set_xlim(lengths[0] - 0.55, right + NAME_SPACE_SHARE * (right - lengths[0] + 0.55))
    axes.set_xticks(lengths)
    axes.set_yticks(
        range(0, 1000, 100), [f"{n:03}  {_shortened(lexicon.name_of(f'{n:03}'))}" for n in range(0, 1000, 100)]
    )
    axes.grid(axis="y", color=GRID_COLOR, linewidth=0.6)
    _annotate_galaxy(axes, dots, galaxy, lexicon, right)


def _positioned_dots(dots: Sequence[Dot]) -> Iterator[tuple[tuple[float, float], int, Dot]]:
    """Each distinct dot with its position and count; words of one number are drawn side by side."""
    beside: Counter[str] = Counter()
    for dot, count in Counter(dots).items():
        place = beside[dot.number]
        beside[dot.number] += 1
        side = (place + 1) // 2 * (1 if place % 2 else -1)
        yield (dot.x + max(-0.5, min(0.5, side * DOT_SPACING)), dot.y), count, dot


def _annotate_galaxy(axes: "Axes", dots: Sequence[Dot], galaxy: Galaxy, lexicon: Lexicon, right: float) -> None:
    """The galaxy's tens as a band, its name and words, and the names of the next cells."""
    if not galaxy.code:
        axes.text(0.5, 0.5, "no dots: no index term in the text", transform=axes.transAxes, ha="center")
        return
    cell = digits_of(galaxy.code)[:_PLOT_CELL_DIGITS]
    tens = float(cell[:2].ljust(2, "0")) * 10
    axes.axhspan(tens, tens + 10, color=BAND_COLOR, alpha=0.55, linewidth=0, zorder=1)
    word_counts = Counter(dot.word for dot in dots if digits_of(dot.number).startswith(cell))
    words = ", ".join(word for word, _ in word_counts.most_common(MAX_LABELS))
    name = _wrapped(f"galaxy: {galaxy.code} {lexicon.name_of(galaxy.code)}", 2)
    axes.text(right, tens + 14, name, va="bottom", weight="bold", fontsize=8)
    axes.text(right, tens - 4, _wrapped(words, 4), va="top", fontsize=7)
    taken = [tens]
    for code, _ in galaxy.ranked[1:]:
        height = float(digits_of(code)[:_PLOT_CELL_DIGITS].ljust(_PLOT_CELL_DIGITS, "0"))
        if len(taken) < MAX_LABELS and all(abs(height - other) > 30 for other in taken) and abs(height - tens) > 110:
            axes.text(right, height, _shortened(f"{code} {lexicon.name_of(code)}", 34), va="center", fontsize=7)
            taken.append(height)


def _shortened(name: str, most: int = 26) -> str:
    return name if len(name) <= most else f"{name[:most].rsplit(' ', 1)[0].rstrip(',')} …"


def _wrapped(text: str, lines: int) -> str:
    return "\n".join(textwrap.wrap(text, 28)[:lines])


class DeweyView(msgspec.Struct, frozen=True):
    """Everything to be shown; `links` are (anchor, address, galaxy)."""

    dots: Sequence[Dot]
    galaxy: Galaxy
    lexicon: Lexicon
    links: Sequence[tuple[str, str, Galaxy]] = ()


def build_dewey_view(page: Page, settings: Settings, rule: GalaxyRule) -> DeweyView:
    """A page (or a text put into one) seen through a lexicon."""
    vocabulary = build_vocabulary(settings)
    matcher = LexiconMatcher(load_lexicon(settings), vocabulary, background_frequencies())
    reading = PageReader(vocabulary, ParagraphContext()).read(page)
    dots = dots_from_hits(matcher.hits(main_terms(reading, matcher)), max_length=rule.max_length)
    galaxies = link_galaxies(reading, matcher, rule)
    links = [(link.anchor, link.url, found) for link, found in zip(page.links, galaxies, strict=True)]
    return DeweyView(dots, find_galaxy(dots, rule), matcher.lexicon, links)


def dewey_view_to_dict(view: DeweyView, top: int) -> dict[str, Any]:
    """A view for machines."""
    counted = Counter((dot.word, dot.number) for dot in view.dots)
    return {
        "galaxy": view.galaxy.code,
        "classes": [_class(view, code, score) for code, score in view.galaxy.ranked[:top]],
        "outliers": [_class(view, code, score) for code, score in view.galaxy.outliers],
        "dots": [{"word": word, "number": number, "count": count} for (word, number), count in counted.items()],
        "links": [{"anchor": anchor, "url": url, "galaxy": galaxy.code} for anchor, url, galaxy in view.links],
    }


def format_classes(view: DeweyView, top: int) -> list[str]:
    """The best classes with their scores, best first."""
    return [f"{code:<8}{score:8.2f}  {view.lexicon.name_of(code)}" for code, score in view.galaxy.ranked[:top]]


def format_links(view: DeweyView) -> list[str]:
    """Each link with the class that the words from its anchor on speak of (S2-02, S2-23)."""
    return [
        f"{galaxy.code or '?':<8}{(anchor or url)[:60]:60}  {view.lexicon.name_of(galaxy.code) if galaxy.code else ''}"
        for anchor, url, galaxy in view.links
    ]


def _class(view: DeweyView, code: str, score: float) -> dict[str, Any]:
    return {"class": code, "name": view.lexicon.name_of(code), "score": round(score, 4)}
