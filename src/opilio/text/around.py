"""The text around a link, cut in the ways the papers cut it (X-06). Pure array work on a page's marks.

Each policy gets the layout of a page and gives the first and one past the last term for every link, its anchor
included. Windows are counted in terms, that is without stop words, as S1 counts them.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Link
from opilio.text.vocabulary import BLOCK_ENDED, LINK_OPENED

Offsets = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the marks of a page stand. `at[m]` is the number of terms before mark m.

    A block's end is put before the first word, and a link's and a block's end behind the last: so every link has
    a close and lies between two breaks, and no array has to be padded (half the time on a short page).
    """

    marks: Offsets
    at: Offsets
    links: tuple[Link, ...] = ()
    breaks: Offsets = field(init=False)
    opens: Offsets = field(init=False)
    closes: Offsets = field(init=False)

    def __post_init__(self) -> None:
        marks = self.marks
        ends_of_links = (marks > BLOCK_ENDED).nonzero()[0]
        opens = (marks == LINK_OPENED).nonzero()[0]
        object.__setattr__(self, "breaks", (marks == BLOCK_ENDED).nonzero()[0])
        object.__setattr__(self, "opens", opens)
        # A link that is never closed ends where the next one opens.
        object.__setattr__(self, "closes", ends_of_links[ends_of_links.searchsorted(opens) + 1])

    @property
    def total(self) -> int:
        """The number of terms."""
        return int(self.at[-1])

    @property
    def anchors(self) -> tuple[Offsets, Offsets]:
        """First and one past the last term of every anchor."""
        return self.at[self.opens], self.at[self.closes]

    def between(self, breaks: Offsets) -> tuple[Offsets, Offsets]:
        """For every link, the terms between the break before it opens and the break after it closes."""
        edges = self.at[breaks]
        return edges[breaks.searchsorted(self.opens) - 1], edges[breaks.searchsorted(self.closes)]


class Around(Protocol):
    """A way to cut the text around links. `reads_sentences`: the flow must have sentence ends marked."""

    reads_sentences: ClassVar[bool]

    def slices(self, layout: Layout) -> tuple[Offsets, Offsets]: ...


@dataclass(frozen=True, slots=True)
class InBlock:
    """Ours: the link's block (paragraph, list item, cell), at most `window` terms on each side of the anchor."""

    window: int = 20
    reads_sentences: ClassVar[bool] = False

    def slices(self, layout: Layout) -> tuple[Offsets, Offsets]:
        starts, ends = layout.anchors
        first, last = layout.between(layout.breaks)
        return np.maximum(first, starts - self.window), np.minimum(last, ends + self.window)


@dataclass(frozen=True, slots=True)
class Beside:
    """S1: so many non-stop words before and after the anchor, whatever block they are in."""

    window: int = 20
    reads_sentences: ClassVar[bool] = False

    def slices(self, layout: Layout) -> tuple[Offsets, Offsets]:
        starts, ends = layout.anchors
        return np.maximum(0, starts - self.window), np.minimum(layout.total, ends + self.window)


@dataclass(frozen=True, slots=True)
class InSentence:
    """S3: the sentence or sentences the anchor stands in; a block's end ends a sentence."""

    reads_sentences: ClassVar[bool] = True

    def slices(self, layout: Layout) -> tuple[Offsets, Offsets]:
        return layout.between(np.flatnonzero(layout.marks <= BLOCK_ENDED))


@dataclass(frozen=True, slots=True)
class InParagraph:
    """S2: the whole paragraph, or for a list item the whole list.

    The flow does not mark lists. Links that follow each other under the same headings with the same path of tags
    down to their `li` are taken for one list, which then reaches from the first one's block to the last one's.
    """

    reads_sentences: ClassVar[bool] = False

    def slices(self, layout: Layout) -> tuple[Offsets, Offsets]:
        starts, ends = layout.between(layout.breaks)
        first = 0
        lists = _lists_of(layout.links, len(starts))
        for i in range(1, len(lists) + 1):
            if i == len(lists) or lists[i] != lists[first] or not lists[i]:
                starts[first:i] = starts[first]
                ends[first:i] = ends[i - 1]
                first = i
        return starts, ends


def _lists_of(links: tuple[Link, ...], n: int) -> list[str]:
    """For each link mark a name of the list it is in; empty outside lists."""
    names = [""] * n
    for link in links:
        steps = link.tag_path.replace("/", ">").split(">")
        names_li = [i for i, step in enumerate(steps) if step.strip().startswith("li") and step.strip() != "link"]
        if names_li and 0 <= link.index < n:
            names[link.index] = ">".join(steps[: names_li[-1]]) + "|" + "|".join(link.headings)
    return names
