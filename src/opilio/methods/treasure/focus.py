"""The topical focus of every link of a page: is its galaxy a class of the topic (S2-02, S2-23, S2-38)?

The same arithmetic as `dewey.detect`, in matrices of links and three-digit classes: one by one, the galaxies of a page
with a hundred links take twenty times as long, and are computed only where a topic is a part of a class (598.9). A link
whose window has no index term is judged by its headings, then by the title.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.core.records import Link, Reading
from opilio.methods.dewey.detect import (
    RECOMMENDED_RULE,
    SCORE_DIGITS,
    Dot,
    Galaxy,
    GalaxyRule,
    LexiconHit,
    LexiconMatcher,
    digits_of,
    dots_from_hits,
    find_galaxy,
    first_galaxy,
    hits_in_window,
    is_related,
    shorten,
)
from opilio.methods.dewey.judge import DeweyTarget
from opilio.methods.treasure.graph import Span
from opilio.rank.link_scores import LinkTexts
from opilio.text.vocabulary import BLOCK_END_CODE

FloatColumn = NDArray[np.float64]
IndexArray = NDArray[np.int64]
CELL_DIGITS = 3
MAX_WINDOW_TERMS = 120


class LinkFocusScores(NamedTuple):
    """One row per link: is its densest class one of the topic, and how near to the topic it is (0..1)."""

    on_topic: NDArray[np.bool_]
    closeness: FloatColumn


class _ClassMasses(NamedTuple):
    """The weight of classes at links (rows: links). Only classes that occur on the page have a column."""

    cells: IndexArray  # ascending
    table: FloatColumn


class LinkFocusDetector:
    """Finds the focus of links by the lexicon and the classes of a target."""

    def __init__(self, target: DeweyTarget, rule: GalaxyRule) -> None:
        self.target = target
        self.rule = rule
        numbers = target.matcher.lexicon.classes
        cells = sorted({digits_of(shorten(number, rule.max_length))[:CELL_DIGITS] for number in numbers})
        # A topic of whole cells is compared by cells; parts of a cell (598.9) need the exact code of each link.
        self._topic_below_cells = rule.max_length > CELL_DIGITS and any(
            len(digits_of(code)) > CELL_DIGITS for code in target.classes
        )
        self._cell = {cell: at for at, cell in enumerate(cells)}
        self._topical = np.array(
            [any(is_related(c, wanted) for wanted in target.classes) for c in cells], dtype=np.bool_
        )
        self._tens = _group_ids([cell[:2] for cell in cells])
        self._hundreds = _group_ids([cell[:1] for cell in cells])
        # Index term -> its cells and their weights.
        self._cell_cache: dict[str, tuple[list[int], list[float]]] = {}

    def detect(self, reading: Reading) -> LinkFocusScores:
        """The focus of every link."""
        links = reading.page.links
        if not links:
            return LinkFocusScores(np.zeros(0, dtype=np.bool_), np.zeros(0))
        if self._topic_below_cells:
            return self._detect_by_code(reading)
        mass = self._masses(reading)
        scores, topical = self._scores(mass), self._topical[mass.cells]
        found = scores.max(axis=1, initial=0.0)
        best = scores.argmax(axis=1) if len(mass.cells) else np.zeros(len(links), dtype=np.int64)
        on_topic = found > 0.0
        on_topic[on_topic] = topical[best[on_topic]]
        focus = LinkFocusScores(on_topic, _closeness(scores, topical))
        self._widen_empty(reading, np.flatnonzero(found <= 0.0), focus)
        return focus

    def _detect_by_code(self, reading: Reading) -> LinkFocusScores:
        hits, links = self._hits(reading), reading.page.links
        starts = [hit.start for hit in hits]
        focus = LinkFocusScores(np.zeros(len(links), dtype=np.bool_), np.zeros(len(links)))
        without = []
        for at, link in enumerate(links):
            inside = hits_in_window(hits, starts, self._window(reading, link))
            if inside:
                dots = dots_from_hits(inside, _span_of_link(reading.anchors, link), self.rule.max_length)
                self._set_focus(focus, at, find_galaxy(dots, self.rule))
            else:
                without.append(at)
        self._widen_empty(reading, np.array(without, dtype=np.int64), focus)
        return focus

    def _hits(self, reading: Reading) -> list[LexiconHit]:
        spans = [_span_of_link(reading.link_contexts, link) for link in reading.page.links]
        return self.target.matcher.hits(_mask_outside(reading.terms, spans))

    def _masses(self, reading: Reading) -> _ClassMasses:
        links = reading.page.links
        hits = self._hits(reading)
        windows = np.array([self._window(reading, link) for link in links], dtype=np.int64)
        anchors = np.array([_span_of_link(reading.anchors, link) for link in links], dtype=np.int64)
        starts, ends = (np.array([hit[side] for hit in hits], dtype=np.int64) for side in (0, 1))
        # Hits do not overlap, so their ends are in order too.
        first, last = np.searchsorted(starts, windows[:, 0]), np.searchsorted(ends, windows[:, 1], "right")
        in_first, in_last = np.searchsorted(starts, anchors[:, 0]), np.searchsorted(ends, anchors[:, 1], "right")
        if self._counts_alike:
            return self._running_masses(hits, (first, last), (in_first, in_last))
        link_of, hit_of = _ranges(first, last)
        in_anchor = (hit_of >= in_first[link_of]) & (hit_of < in_last[link_of])
        return self._sum_masses(hits, link_of, hit_of, in_anchor, len(links))

    @property
    def _counts_alike(self) -> bool:
        """Does every occurrence of a word count the same, as in the paper?"""
        return self.rule.repeats == 1.0

    def _window(self, reading: Reading, link: Link) -> Span:
        """The span plotted for a link: from its words, or from its first break point, to the last one (S2-23)."""
        around, anchor = _span_of_link(reading.link_contexts, link), _span_of_link(reading.anchors, link)
        start, end = anchor[0] if self.rule.starts_at_link else around[0], around[1]
        if self._counts_alike and not self._topic_below_cells:
            return start, end
        # These add up the words of each window anew, so a long list is cut into stretches.
        if not self.rule.starts_at_link:
            start += (min(anchor[0], end - 1) - start) // MAX_WINDOW_TERMS * MAX_WINDOW_TERMS
        return start, min(end, start + MAX_WINDOW_TERMS)

    def _running_masses(
        self, hits: Sequence[LexiconHit], window: tuple[IndexArray, IndexArray], anchor: tuple[IndexArray, IndexArray]
    ) -> _ClassMasses:
        """Differences of running sums over the hits: a list of a thousand links is plotted from each of them."""
        rows = [(at, *pair) for at, hit in enumerate(hits) for pair in zip(*self._weighted_cells(hit), strict=True)]
        hit_of, cells, values = (np.array(column) for column in zip(*rows, strict=True)) if rows else np.zeros((3, 0))
        met, column = np.unique(cells.astype(np.int64), return_inverse=True)
        # Only the sums at the ends of windows and anchors are needed: a long page has more hits than links.
        ends = np.unique(np.concatenate((*window, *anchor)))
        place = np.searchsorted(ends, hit_of, "right") * len(met) + column
        size = (len(ends) + 1) * len(met)
        sums = np.bincount(place, values, minlength=size).reshape(len(ends) + 1, len(met))
        np.cumsum(sums, axis=0, out=sums)
        total, inside = (
            sums[np.searchsorted(ends, np.maximum(first, last))] - sums[np.searchsorted(ends, first)]
            for first, last in (window, anchor)
        )
        return _ClassMasses(met, (total + (self.rule.anchor_impact - 1.0) * inside).round(SCORE_DIGITS))

    def _sum_masses(
        self,
        hits: Sequence[LexiconHit],
        link_of: IndexArray,
        hit_of: IndexArray,
        in_anchor: NDArray[np.bool_],
        links: int,
    ) -> _ClassMasses:
        words: dict[str, int] = {}
        word_of = np.array([words.setdefault(hit.word, len(words)) for hit in hits], dtype=np.int64)
        # Equal words of a link are counted first: the rule may weight repeats less.
        keys = (link_of * max(1, len(words)) + word_of[hit_of]) * 2 + in_anchor
        distinct, counts = np.unique(keys, return_counts=True)
        weights = np.where(distinct % 2, self.rule.anchor_impact, 1.0) * counts**self.rule.repeats
        link, word = np.divmod(distinct // 2, max(1, len(words)))
        firsts = {hit.word: hit for hit in reversed(hits)}
        dots = [self._weighted_cells(firsts[name]) for name in words]
        sizes = np.array([len(cells) for cells, _ in dots], dtype=np.int64)
        cells = np.array([cell for found, _ in dots for cell in found], dtype=np.int64)
        values = np.array([value for _, found in dots for value in found])
        begins = np.cumsum(sizes) - sizes
        pair, at = _ranges(begins[word], begins[word] + sizes[word])
        met, column = np.unique(cells, return_inverse=True)
        place = link[pair] * len(met) + column[at]
        total = np.bincount(place, weights[pair] * values[at], minlength=links * len(met))
        return _ClassMasses(met, np.asarray(total, dtype=np.float64).reshape(links, len(met)))

    def _weighted_cells(self, hit: LexiconHit) -> tuple[list[int], list[float]]:
        """The cells of an index term with the weight of one dot in each (see `dewey.detect._prefix_masses`)."""
        known = self._cell_cache.get(hit.word)
        if known is None:
            rule = self.rule
            cut = list(dict.fromkeys(shorten(number, rule.max_length) for number in hit.numbers))
            base = hit.rarity**rule.rarity / len(cut) ** rule.ambiguity
            cells = [self._cell[digits_of(number)[:CELL_DIGITS]] for number in cut]
            weights = [base * (1.0 + rule.length_gain * (len(digits_of(number)) - CELL_DIGITS)) for number in cut]
            known = self._cell_cache[hit.word] = cells, weights
        return known

    def _scores(self, mass: _ClassMasses) -> FloatColumn:
        """Its own mass, half of the rest of the tens, a quarter of the rest of the hundred; 0 without own mass."""
        own, rule = mass.table, self.rule
        tens, hundreds = (_group_sums(own, groups[mass.cells]) for groups in (self._tens, self._hundreds))
        score: FloatColumn = own + rule.tens_share * (tens - own) + rule.hundreds_share * (hundreds - tens)
        score[own <= 0.0] = 0.0
        return score.round(SCORE_DIGITS)

    def _widen_empty(self, reading: Reading, without: IndexArray, focus: LinkFocusScores) -> None:
        """Links whose window has no dots: by their headings, then by the title; else they stay unknown."""
        known: dict[tuple[str, str, str], Galaxy] = {}
        for at in without.tolist():
            headings = reading.page.links[at].headings
            if headings not in known:
                texts = (" ".join(headings), reading.page.title)
                known[headings] = first_galaxy(map(self._dots_of_text, texts), self.rule)
            self._set_focus(focus, at, known[headings])

    def _set_focus(self, focus: LinkFocusScores, at: int, galaxy: Galaxy) -> None:
        focus.on_topic[at] = galaxy.on_topic(self.target.classes)
        focus.closeness[at] = galaxy.closeness(self.target.classes)

    def _dots_of_text(self, text: str) -> list[Dot]:
        matcher = self.target.matcher
        return dots_from_hits(matcher.hits(matcher.vocabulary.terms(text)), max_length=self.rule.max_length)


def _mask_outside(terms: Sequence[int], spans: Sequence[Span]) -> list[int]:
    """The terms inside the spans, at their places: two thirds of a page's words are near no link."""
    kept = [BLOCK_END_CODE] * len(terms)
    for start, end in set(spans):
        kept[start:end] = terms[start:end]
    return kept


def _group_ids(names: Sequence[str]) -> IndexArray:
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


def _group_sums(rows: FloatColumn, group_of: IndexArray) -> FloatColumn:
    """For every column the sum of its group; columns of one group are adjacent."""
    starts = np.flatnonzero(np.diff(group_of, prepend=-1))
    return np.repeat(np.add.reduceat(rows, starts, axis=1), np.diff(starts, append=len(group_of)), axis=1)


def _closeness(scores: FloatColumn, topical: NDArray[np.bool_]) -> FloatColumn:
    ours = scores[:, topical].max(axis=1, initial=0.0)
    theirs = scores[:, ~topical].max(axis=1, initial=0.0)
    return np.asarray(ours / np.maximum(ours + theirs, 1e-12))


def _span_of_link(spans: Sequence[Span], link: Link) -> Span:
    return spans[link.index] if 0 <= link.index < len(spans) else (0, 0)


def _ranges(first: IndexArray, last: IndexArray) -> tuple[IndexArray, IndexArray]:
    """(row, value) for every value of every range."""
    sizes = np.maximum(last - first, 0)
    ends = np.cumsum(sizes)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    values = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(first - ends + sizes, sizes)
    return rows, values


class GalaxyMember:
    """One number per link: 0 other classes or unknown, 0.5 the densest class is the topic's, 1 all are."""

    def __init__(self, matcher: LexiconMatcher, classes: Sequence[str], rule: GalaxyRule = RECOMMENDED_RULE) -> None:
        self._focus = LinkFocusDetector(DeweyTarget(matcher, tuple(classes)), rule)

    def __call__(self, reading: Reading, _: LinkTexts | None = None) -> NDArray[np.float64]:
        """In the order of the page's links."""
        return self._focus.detect(reading).closeness
