"""The components of all links of a page, as terms, each text once: links share headings, and items share their list."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Link, Reading

Indices = NDArray[np.int64]
TermsOf = Callable[[str], Sequence[int]]
Headings = tuple[str, str, str]
Span = tuple[int, int]
LONGEST = 120  # terms of a window: a list of hundreds of items is cut into stretches, which items still share


class LinkParts(NamedTuple):
    """Distinct headings and windows of a page, and which of them each link has.

    `heads` are (ISH, SH, MH) as terms; `windows` are the terms between the break points (DC).
    """

    heads: list[tuple[Sequence[int], Sequence[int], Sequence[int]]]
    windows: list[Sequence[int]]
    head_of: Indices
    window_of: Indices

    def of(self, link: int) -> tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """The four parts of one link, in the order of PARTS."""
        return (*self.heads[self.head_of[link]], self.windows[self.window_of[link]])


def link_parts(reading: Reading, terms_of: TermsOf) -> LinkParts:
    """The components of every link of a page. MH is the main heading, else the title."""
    page = reading.page
    known: dict[str, Sequence[int]] = {}
    heads: dict[Headings, int] = {}
    windows: dict[tuple[int, int], int] = {}
    head_of, window_at = [], []
    for link in page.links:
        head = (link.headings[0], link.headings[1], link.headings[2] or page.title)
        window = window_of_link(reading, link)
        head_of.append(heads.setdefault(head, len(heads)))
        window_at.append(windows.setdefault(window, len(windows)))
    for text in {text for head in heads for text in head}:
        known[text] = terms_of(text) if text else ()
    return LinkParts(
        [(known[ish], known[sh], known[mh]) for ish, sh, mh in heads],
        [reading.terms[start:end] for start, end in windows],
        np.array(head_of, dtype=np.int64),
        np.array(window_at, dtype=np.int64),
    )


def window_of_link(reading: Reading, link: Link) -> Span:
    """The terms between the link's break points (S2-23), or the stretch of them that the anchor is in."""
    if not 0 <= link.index < len(reading.arounds):
        return 0, 0
    (start, end), (anchor, _) = reading.arounds[link.index], reading.anchors[link.index]
    if end - start <= LONGEST:
        return start, end
    first = start + (min(anchor, end - 1) - start) // LONGEST * LONGEST
    return first, min(end, first + LONGEST)
