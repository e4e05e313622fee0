"""A page to its reading: one pass over the flow gives terms, anchors, the text around links and the main text.

The flow's marks pass the tokeniser as words of their own, so that all work after the one lookup per word is done
at marks only, in whole arrays. Fingerprints and signatures are worked out elsewhere and only put in.
"""

import re
from collections.abc import Callable

import numpy as np

from opilio.model.records import Page, Reading
from opilio.text.around import Around, InBlock, Layout, Offsets
from opilio.text.counting import TermList, Terms, array_of
from opilio.text.languages import code_of
from opilio.text.tokens import SENTENCE_END
from opilio.text.vocabulary import BLOCK_ENDED, LINK_CLOSED, Vocabulary
from opilio.text.wordcodes import Codes, WordCodes

_SENTENCE = re.compile("[.!?]+[\"')\\]\u201d\u2019\x03]*\\s|[\u3002\uff01\uff1f]")
_OPENING = np.array([BLOCK_ENDED], dtype=np.int64)
_CLOSING = np.array([LINK_CLOSED, BLOCK_ENDED], dtype=np.int64)

Identify = Callable[[str], str]


class Reader:
    """Reads pages with one vocabulary and one way to cut the text around links.

    `identify` names the language of a text; it is asked only for pages that declare none.
    """

    def __init__(self, vocabulary: Vocabulary, around: Around | None = None, identify: Identify | None = None) -> None:
        self.vocabulary = vocabulary
        self._codes_of = WordCodes(vocabulary).of
        self._around: Around = around or InBlock()
        self._identify = identify

    def read(self, page: Page, fingerprint: int = 0, simhash: int = 0) -> Reading:
        """The page's words as terms, with slices for link i at `anchors[i]` and `arounds[i]` (i is `Link.index`)."""
        flow = _SENTENCE.sub(rf"\g<0>{SENTENCE_END}", page.flow) if self._around.reads_sentences else page.flow
        terms, layout = _lay_out(flow, self._codes_of, page)
        return Reading(
            page=page,
            terms=terms,
            anchors=_pairs(layout.anchors),
            arounds=_pairs(self._around.slices(layout)),
            main=_main(layout, page.boilerplate),
            language=self._language_of(page),
            fingerprint=fingerprint,
            simhash=simhash,
        )

    def _language_of(self, page: Page) -> str:
        if page.language or self._identify is None:
            return code_of(page.language)
        return self._identify(page.flow)


def read(page: Page, vocabulary: Vocabulary, window: int = 20) -> Reading:
    """One page with the default policy: the link's block, at most `window` terms on each side of the anchor."""
    return Reader(vocabulary, InBlock(window)).read(page)


def main_terms(reading: Reading) -> Terms:
    """The terms of the main text; all where nothing else is left."""
    terms = array_of(reading.terms)
    texts = [terms[start:end] for start, end in reading.main if end > start]
    if len(texts) > 1:
        return np.concatenate(texts)
    return texts[0] if texts else terms


def _lay_out(flow: str, codes_of: Callable[[str], Codes], page: Page) -> tuple[TermList, Layout]:
    found = codes_of(flow)
    codes = np.concatenate((_OPENING, found[found != 0], _CLOSING))
    of_words = codes > 0
    marked = (~of_words).nonzero()[0]
    layout = Layout(marks=codes[marked], at=marked - np.arange(len(marked)), links=page.links)
    return TermList(codes[of_words].astype(np.uint32)), layout


def _main(layout: Layout, boilerplate: tuple[bool, ...]) -> list[tuple[int, int]]:
    """The slices of blocks that are not boiler-plate, neighbours joined; everything where nothing else is left."""
    edges = layout.at[layout.breaks]
    judged = min(len(boilerplate), len(edges) - 1)
    left_out = np.ones(judged + 2, dtype=bool)
    left_out[1:-1] = boilerplate[:judged]
    turns = np.flatnonzero(left_out[1:] != left_out[:-1])
    starts, ends = edges[turns[::2]].tolist(), edges[turns[1::2]].tolist()
    kept = [(start, end) for start, end in zip(starts, ends, strict=True) if end > start]
    return kept or [(0, layout.total)]


def _pairs(bounds: tuple[Offsets, Offsets]) -> list[tuple[int, int]]:
    starts, ends = bounds
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
