"""The topical focus of every link of a page: is its galaxy a class of the topic (S2-23, S2-38)? For all links at once.

The same arithmetic as `topic.dewey.galaxy`, in matrices of links and classes of three digits: one by one the galaxies
of a page with a hundred links take twenty times as long, and are made only where a topic is a part of a class (598.9).
A link whose window has no index term is looked up by its headings, then by the title.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Link, Reading
from opilio.text.vocabulary import BLOCK_ENDED
from opilio.tgraph.components import LONGEST, Span, window_of_link
from opilio.topic.dewey.detect import window
from opilio.topic.dewey.galaxy import EQUAL_DIGITS, Dot, Galaxy, Rule, dots_of, find, widened
from opilio.topic.dewey.matcher import Hit
from opilio.topic.dewey.number import digits_of, related, shorten
from opilio.topic.dewey.target import Target

Column = NDArray[np.float64]
Places = NDArray[np.int64]
CELL = 3


class Focus(NamedTuple):
    """One row per link: is its densest class one of the topic, and how near to the topic it is (0..1)."""

    on_topic: NDArray[np.bool_]
    closeness: Column


class _Masses(NamedTuple):
    """The weight of classes at links (rows: links). Only classes that the page speaks of have a column."""

    cells: Places  # ascending
    table: Column


class LinkFocus:
    """Finds the focus of links by the lexicon and the classes of a target."""

    def __init__(self, target: Target, rule: Rule) -> None:
        self.target = target
        self.rule = rule
        numbers = target.matcher.lexicon.classes
        cells = sorted({digits_of(shorten(number, rule.max_length))[:CELL] for number in numbers})
        # A topic of whole cells is told from others by cells; parts of one (598.9) by the code that each link ends at.
        self._in_parts = rule.max_length > CELL and any(len(digits_of(code)) > CELL for code in target.classes)
        self._cell = {cell: at for at, cell in enumerate(cells)}
        self._topical = np.array([any(related(c, wanted) for wanted in target.classes) for c in cells], dtype=np.bool_)
        self._tens = _numbered([cell[:2] for cell in cells])
        self._hundreds = _numbered([cell[:1] for cell in cells])
        self._known: dict[str, tuple[list[int], list[float]]] = {}  # index term -> its cells and their weights

    def of(self, reading: Reading) -> Focus:
        """The focus of every link."""
        links = reading.page.links
        if not links:
            return Focus(np.zeros(0, dtype=np.bool_), np.zeros(0))
        if self._in_parts:
            return self._one_by_one(reading)
        mass = self._masses(reading)
        scores, topical = self._scores(mass), self._topical[mass.cells]
        found = scores.max(axis=1, initial=0.0)
        best = scores.argmax(axis=1) if len(mass.cells) else np.zeros(len(links), dtype=np.int64)
        on_topic = found > 0.0
        on_topic[on_topic] = topical[best[on_topic]]
        focus = Focus(on_topic, _closeness(scores, topical))
        self._widen(reading, np.flatnonzero(found <= 0.0), focus)
        return focus

    def _one_by_one(self, reading: Reading) -> Focus:
        hits, links = self._hits(reading), reading.page.links
        starts = [hit.start for hit in hits]
        focus = Focus(np.zeros(len(links), dtype=np.bool_), np.zeros(len(links)))
        without = []
        for at, link in enumerate(links):
            inside = window(hits, starts, self._window(reading, link))
            if inside:
                dots = dots_of(inside, _span(reading.anchors, link), self.rule.max_length)
                self._set(focus, at, find(dots, self.rule))
            else:
                without.append(at)
        self._widen(reading, np.array(without, dtype=np.int64), focus)
        return focus

    def _hits(self, reading: Reading) -> list[Hit]:
        spans = [_span(reading.arounds, link) for link in reading.page.links]
        return self.target.matcher.hits(_only(reading.terms, spans))

    def _masses(self, reading: Reading) -> _Masses:
        links = reading.page.links
        hits = self._hits(reading)
        windows = np.array([self._window(reading, link) for link in links], dtype=np.int64)
        anchors = np.array([_span(reading.anchors, link) for link in links], dtype=np.int64)
        starts, ends = (np.array([hit[side] for hit in hits], dtype=np.int64) for side in (0, 1))
        first, last = np.searchsorted(starts, windows[:, 0]), np.searchsorted(starts, windows[:, 1])
        link_of, hit_of = _ranges(first, last)
        inside = ends[hit_of] <= windows[link_of, 1]
        link_of, hit_of = link_of[inside], hit_of[inside]
        in_anchor = (starts[hit_of] >= anchors[link_of, 0]) & (ends[hit_of] <= anchors[link_of, 1])
        return self._summed(hits, link_of, hit_of, in_anchor, len(links))

    def _window(self, reading: Reading, link: Link) -> Span:
        """What is plotted of a link: its block, or what stands from its words on (S2-23). At most LONGEST terms."""
        if not self.rule.starts_at_link:
            return window_of_link(reading, link)
        (start, _), (_, end) = _span(reading.anchors, link), _span(reading.arounds, link)
        return start, min(end, start + LONGEST)

    def _summed(
        self, hits: Sequence[Hit], link_of: Places, hit_of: Places, in_anchor: NDArray[np.bool_], links: int
    ) -> _Masses:
        words: dict[str, int] = {}
        word_of = np.array([words.setdefault(hit.word, len(words)) for hit in hits], dtype=np.int64)
        # Equal words of a link are counted first: the rule may let repeats count less.
        keys = (link_of * max(1, len(words)) + word_of[hit_of]) * 2 + in_anchor
        distinct, counts = np.unique(keys, return_counts=True)
        weights = np.where(distinct % 2, self.rule.anchor_impact, 1.0) * counts**self.rule.repeats
        link, word = np.divmod(distinct // 2, max(1, len(words)))
        firsts = {hit.word: hit for hit in reversed(hits)}
        dots = [self._dots(firsts[name]) for name in words]
        sizes = np.array([len(cells) for cells, _ in dots], dtype=np.int64)
        cells = np.array([cell for found, _ in dots for cell in found], dtype=np.int64)
        values = np.array([value for _, found in dots for value in found])
        begins = np.cumsum(sizes) - sizes
        pair, at = _ranges(begins[word], begins[word] + sizes[word])
        met, column = np.unique(cells, return_inverse=True)
        place = link[pair] * len(met) + column[at]
        total = np.bincount(place, weights[pair] * values[at], minlength=links * len(met))
        return _Masses(met, np.asarray(total, dtype=np.float64).reshape(links, len(met)))

    def _dots(self, hit: Hit) -> tuple[list[int], list[float]]:
        """The cells of an index term with the weight of one dot in each (see `galaxy._masses`)."""
        known = self._known.get(hit.word)
        if known is None:
            rule = self.rule
            cut = list(dict.fromkeys(shorten(number, rule.max_length) for number in hit.numbers))
            base = hit.rarity**rule.rarity / len(cut) ** rule.ambiguity
            cells = [self._cell[digits_of(number)[:CELL]] for number in cut]
            weights = [base * (1.0 + rule.length_gain * (len(digits_of(number)) - CELL)) for number in cut]
            known = self._known[hit.word] = cells, weights
        return known

    def _scores(self, mass: _Masses) -> Column:
        """Own mass, half of what the rest of the tens has, a quarter of the rest of the hundred; 0 without own mass."""
        own, rule = mass.table, self.rule
        tens, hundreds = (_shared(own, groups[mass.cells]) for groups in (self._tens, self._hundreds))
        score: Column = own + rule.tens_share * (tens - own) + rule.hundreds_share * (hundreds - tens)
        score[own <= 0.0] = 0.0
        return score.round(EQUAL_DIGITS)

    def _widen(self, reading: Reading, without: Places, focus: Focus) -> None:
        """Links whose window says nothing: by their headings, then by the title; else they stay unknown."""
        known: dict[tuple[str, str, str], Galaxy] = {}
        for at in without.tolist():
            headings = reading.page.links[at].headings
            if headings not in known:
                texts = (" ".join(headings), reading.page.title)
                known[headings] = widened(map(self._spoken, texts), self.rule)
            self._set(focus, at, known[headings])

    def _set(self, focus: Focus, at: int, galaxy: Galaxy) -> None:
        focus.on_topic[at] = galaxy.on_topic(self.target.classes)
        focus.closeness[at] = galaxy.closeness(self.target.classes)

    def _spoken(self, text: str) -> list[Dot]:
        matcher = self.target.matcher
        return dots_of(matcher.hits(matcher.vocabulary.terms(text)), max_length=self.rule.max_length)


def _only(terms: Sequence[int], spans: Sequence[Span]) -> list[int]:
    """The terms inside of the spans, where they stand: two thirds of a page's words are at no link."""
    kept = [BLOCK_ENDED] * len(terms)
    for start, end in set(spans):
        kept[start:end] = terms[start:end]
    return kept


def _numbered(names: Sequence[str]) -> Places:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


def _shared(rows: Column, group_of: Places) -> Column:
    """For every column the sum of its group; those of one group stand side by side."""
    starts = np.flatnonzero(np.diff(group_of, prepend=-1))
    return np.repeat(np.add.reduceat(rows, starts, axis=1), np.diff(starts, append=len(group_of)), axis=1)


def _closeness(scores: Column, topical: NDArray[np.bool_]) -> Column:
    ours = scores[:, topical].max(axis=1, initial=0.0)
    theirs = scores[:, ~topical].max(axis=1, initial=0.0)
    return np.asarray(ours / np.maximum(ours + theirs, 1e-12))


def _span(spans: Sequence[Span], link: Link) -> Span:
    return spans[link.index] if 0 <= link.index < len(spans) else (0, 0)


def _ranges(first: Places, last: Places) -> tuple[Places, Places]:
    """(row, value) for every value of every range."""
    sizes = np.maximum(last - first, 0)
    ends = np.cumsum(sizes)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    values = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - ends + sizes, sizes)
    return rows, values
