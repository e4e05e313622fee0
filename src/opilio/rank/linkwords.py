"""The words at a link as indices of the committee's word model: of its URL, its anchor, around it, the heading above.

What does not depend on the page is worked out once: the same addresses and headings stand on page after page.
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkfeatures import ANCHOR, AROUND, HEADING, PREFIXES, SLOTS, URL, hashed, hashed_few, prefixes_of
from opilio.model.records import Link
from opilio.rank.linkscore import UrlTerms
from opilio.rank.measure import LinkTexts
from opilio.text.vocabulary import Vocabulary

Indices = NDArray[np.uint32]

ADDRESS = np.dtype(
    [("words", np.uint32, (SLOTS[URL],)), ("prefixes", np.uint32, (PREFIXES,)), ("depth", np.float32), ("query", "?")]
)
_REMEMBERED = 1 << 16
_ADDRESS = Struct(f"={SLOTS[URL]}I{PREFIXES}If?")
_HEADING = Struct(f"={SLOTS[HEADING]}I")
_SAID_KINDS = np.repeat(np.array([ANCHOR, AROUND], dtype=np.uint64), (SLOTS[ANCHOR], SLOTS[AROUND]))
_FIRST = {kind: np.arange(slots) for kind, slots in SLOTS.items()}


class Address(NamedTuple):
    """What an address says, whatever page links to it."""

    terms: Sequence[int]
    row: bytes  # of type ADDRESS


class LinkWords:
    """Finds and hashes the words at links."""

    def __init__(self, vocabulary: Vocabulary, url_terms: UrlTerms) -> None:
        self.vocabulary = vocabulary
        self._url_terms = url_terms
        self.address = lru_cache(_REMEMBERED)(self._address)
        self._heading = lru_cache(_REMEMBERED)(self._hashed_heading)

    def of(self, links: Sequence[Link], texts: LinkTexts, addresses: NDArray[np.void]) -> Indices:
        """One row of indices per link, the kinds of text in the order of SLOTS; 0: no word."""
        above = b"".join([self._heading(link.headings[0]) for link in links])
        headings = np.frombuffer(above, dtype=np.uint32).reshape(-1, SLOTS[HEADING])
        return np.concatenate((addresses["words"], hashed(_SAID_KINDS, _first_said(texts)), headings), axis=1)

    def named(self, link: Link, texts: LinkTexts, place: int) -> dict[int, tuple[int, int]]:
        """The words of one link by their indices: the kind of text each stands in, and its term."""
        said = _first_said(texts)[place].tolist()
        kinds = {
            URL: self.address(link.url).terms,
            ANCHOR: said[: SLOTS[ANCHOR]],
            AROUND: said[SLOTS[ANCHOR] :],
            HEADING: self.vocabulary.terms(link.headings[0]),
        }
        found: dict[int, tuple[int, int]] = {}
        for kind, terms in kinds.items():
            for index, term in zip(hashed_few(kind, terms, SLOTS[kind]), terms, strict=False):
                if index:
                    found.setdefault(index, (kind, term))
        return found

    def _address(self, url: str) -> Address:
        terms = self._url_terms([url])[0]
        words, depth = hashed_few(URL, terms, SLOTS[URL]), min(url.count("/") - 3, 6) / 6.0
        return Address(terms, _ADDRESS.pack(*words, *prefixes_of(url), depth, "?" in url))

    def _hashed_heading(self, heading: str) -> bytes:
        return _HEADING.pack(*hashed_few(HEADING, self.vocabulary.terms(heading), SLOTS[HEADING]))


def _first_said(texts: LinkTexts) -> NDArray[np.int64]:
    """The first words of each anchor and of the text around it, one row per link; 0 where there are no more.

    One look-up finds all words of all links.
    """
    (anchor, anchor_end), (around, around_end) = texts.anchors.T, texts.arounds.T
    before = np.maximum(around, anchor - SLOTS[AROUND] // 2)  # a little before the anchor
    at_anchor, at_around = anchor[:, None] + _FIRST[ANCHOR], before[:, None] + _FIRST[AROUND]
    nowhere = len(texts.said)
    at = np.concatenate(
        (
            np.where(at_anchor < anchor_end[:, None], at_anchor, nowhere),
            np.where(at_around < around_end[:, None], at_around, nowhere),
        ),
        axis=1,
    )
    said = np.zeros(nowhere + 1, dtype=np.int64)
    said[:-1] = texts.said
    return said.take(at)
