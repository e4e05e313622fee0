"""A page to its reading: one pass over the flow gives terms, anchors, the text around links and the main text.

The flow's marks pass the tokenizer as words, so that everything after the term lookup works on marks, as whole arrays.
The text around a link is cut in the ways the papers do (X-06): each `ContextPolicy` returns the first and one past the
last term of every link's text, anchor included. Windows are counted in terms, that is without stop words, as in S1.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from opilio.core.records import Page, Reading
from opilio.text.languages import language_code
from opilio.text.term_arrays import Codes, TermEncoder, TermList, Terms, term_array
from opilio.text.tokens import SENTENCE_END
from opilio.text.vocabulary import BLOCK_END_CODE, LINK_END_CODE, LINK_START_CODE, Vocabulary

Offsets = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class PageLayout:
    """The positions of a page's marks. `term_offsets[m]` is the number of terms before mark m.

    A block end is added before the first word, and a link end and a block end after the last, so that every link has
    an end and lies between two breaks, and no array has to be padded.
    """

    marks: Offsets
    term_offsets: Offsets
    lists: tuple[tuple[int, int], ...] = ()  # blocks
    breaks: Offsets = field(init=False)
    opens: Offsets = field(init=False)
    closes: Offsets = field(init=False)

    def __post_init__(self) -> None:
        marks = self.marks
        ends_of_links = (marks > BLOCK_END_CODE).nonzero()[0]
        opens = (marks == LINK_START_CODE).nonzero()[0]
        object.__setattr__(self, "breaks", (marks == BLOCK_END_CODE).nonzero()[0])
        object.__setattr__(self, "opens", opens)
        # A link without an end mark ends where the next one begins.
        object.__setattr__(self, "closes", ends_of_links[ends_of_links.searchsorted(opens) + 1])

    @property
    def total(self) -> int:
        """The number of terms."""
        return int(self.term_offsets[-1])

    @property
    def anchors(self) -> tuple[Offsets, Offsets]:
        """The first and one past the last term of every anchor."""
        return self.term_offsets[self.opens], self.term_offsets[self.closes]

    def slices_between(self, breaks: Offsets) -> tuple[Offsets, Offsets]:
        """For every link, the terms between the last break before it and the first break after it."""
        edges = self.term_offsets[breaks]
        return edges[breaks.searchsorted(self.opens) - 1], edges[breaks.searchsorted(self.closes)]


class ContextPolicy(Protocol):
    """A way to cut the text around links. `needs_sentences`: the flow must contain sentence marks."""

    needs_sentences: ClassVar[bool]

    def slices(self, layout: PageLayout) -> tuple[Offsets, Offsets]: ...


@dataclass(frozen=True, slots=True)
class BlockContext:
    """The link's block (paragraph, list item, cell), at most `window` terms on each side of the anchor. The default."""

    window: int = 20
    needs_sentences: ClassVar[bool] = False

    def slices(self, layout: PageLayout) -> tuple[Offsets, Offsets]:
        starts, ends = layout.anchors
        first, last = layout.slices_between(layout.breaks)
        return np.maximum(first, starts - self.window), np.minimum(last, ends + self.window)


@dataclass(frozen=True, slots=True)
class WindowContext:
    """S1: `window` terms before and after the anchor, across blocks."""

    window: int = 20
    needs_sentences: ClassVar[bool] = False

    def slices(self, layout: PageLayout) -> tuple[Offsets, Offsets]:
        starts, ends = layout.anchors
        return np.maximum(0, starts - self.window), np.minimum(layout.total, ends + self.window)


@dataclass(frozen=True, slots=True)
class SentenceContext:
    """S3: the sentences that contain the anchor; a block end also ends a sentence."""

    needs_sentences: ClassVar[bool] = True

    def slices(self, layout: PageLayout) -> tuple[Offsets, Offsets]:
        return layout.slices_between(np.flatnonzero(layout.marks <= BLOCK_END_CODE))


@dataclass(frozen=True, slots=True)
class ParagraphContext:
    """S2: the whole paragraph, or for a link in a list the whole list, of nested ones the innermost (S2-23)."""

    needs_sentences: ClassVar[bool] = False

    def slices(self, layout: PageLayout) -> tuple[Offsets, Offsets]:
        edges = layout.term_offsets[layout.breaks]
        first = np.arange(len(edges) - 1)
        last = first + 1
        # The widest first: the lists inside it follow.
        for start, end in sorted(layout.lists, key=lambda span: span[0] - span[1]):
            first[start:end], last[start:end] = start, min(end, len(first))
        opens, closes = (layout.breaks.searchsorted(marks) - 1 for marks in (layout.opens, layout.closes))
        return edges[first[opens]], edges[last[closes]]


# Starts only at the beginning of a run of stops and never gives one back, so that it is linear.
_SENTENCE_BREAK = re.compile("(?<![.!?])[.!?]++[\"')\\]\u201d\u2019\x03]*+\\s|[\u3002\uff01\uff1f]")
_LEADING_MARKS = np.array([BLOCK_END_CODE], dtype=np.int64)
_TRAILING_MARKS = np.array([LINK_END_CODE, BLOCK_END_CODE], dtype=np.int64)
_BEFORE_ALL, _ONE_EACH = np.zeros(1, dtype=np.intp), np.ones(2, dtype=np.intp)

IdentifyLanguage = Callable[[str], str]


class PageReader:
    """Reads pages with one vocabulary and one `ContextPolicy`.

    `identify` detects the language of a text; it is called only for pages that declare none.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        link_context: ContextPolicy | None = None,
        identify: IdentifyLanguage | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self._encode = TermEncoder(vocabulary).encode
        self._link_context: ContextPolicy = link_context or BlockContext()
        self._identify = identify

    def read(self, page: Page) -> Reading:
        """The reading of a page; link i has its slices at `anchors[i]` and `link_contexts[i]` (i is `Link.index`)."""
        flow = (
            _SENTENCE_BREAK.sub(rf"\g<0>{SENTENCE_END}", page.flow) if self._link_context.needs_sentences else page.flow
        )
        terms, layout = _build_layout(flow, self._encode, page)
        return Reading(
            page=page,
            terms=terms,
            anchors=_slice_pairs(layout.anchors),
            link_contexts=_slice_pairs(self._link_context.slices(layout)),
            main_slices=_main_slices(layout, page.boilerplate),
            language=self._detect_language(page),
        )

    def _detect_language(self, page: Page) -> str:
        if page.language or self._identify is None:
            return language_code(page.language)
        return self._identify(page.flow)


def read_page(page: Page, vocabulary: Vocabulary, window: int = 20) -> Reading:
    """Read one page with the default context: the link's block, at most `window` terms on each side of the anchor."""
    return PageReader(vocabulary, BlockContext(window)).read(page)


def main_terms(reading: Reading) -> Terms:
    """The terms of the main text; all terms if nothing else is left."""
    terms = term_array(reading.terms)
    texts = [terms[start:end] for start, end in reading.main_slices if end > start]
    if len(texts) > 1:
        return np.concatenate(texts)
    return texts[0] if texts else terms


def _build_layout(flow: str, encode: Callable[[str], Codes], page: Page) -> tuple[TermList, PageLayout]:
    found = encode(flow)
    words_at, marks_at = (found > 0).nonzero()[0], (found < 0).nonzero()[0]
    # The marks at the beginning and the end are not in the flow.
    marks = np.concatenate((_LEADING_MARKS, found.take(marks_at), _TRAILING_MARKS))
    term_offsets = np.concatenate((_BEFORE_ALL, words_at.searchsorted(marks_at), _ONE_EACH * words_at.size))
    terms = TermList(found.take(words_at).astype(np.uint32))
    return terms, PageLayout(marks=marks, term_offsets=term_offsets, lists=page.lists)


def _main_slices(layout: PageLayout, boilerplate: tuple[bool, ...]) -> list[tuple[int, int]]:
    """The slices of blocks that are not boilerplate, adjacent ones joined; everything if nothing else is left."""
    edges = layout.term_offsets[layout.breaks]
    judged = min(len(boilerplate), len(edges) - 1)
    excluded = np.ones(judged + 2, dtype=bool)
    excluded[1:-1] = boilerplate[:judged]
    edges_at = np.flatnonzero(excluded[1:] != excluded[:-1])
    starts, ends = edges[edges_at[::2]].tolist(), edges[edges_at[1::2]].tolist()
    kept = [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
    return kept or [(0, layout.total)]


def _slice_pairs(bounds: tuple[Offsets, Offsets]) -> list[tuple[int, int]]:
    starts, ends = bounds
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
