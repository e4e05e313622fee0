"""From links to the rows of S1: the words of addresses and of pages, counted by the table that is in force.

The table is the head of the topic's, or the one that a trained learner brought with it.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.rows import Rows
from opilio.model.records import Lead, Reading
from opilio.rank.attributes import attributes
from opilio.rank.evidence import EVIDENCE, TOP, Evidence, Idf, gathered, page_evidence
from opilio.rank.linkscore import UrlTerms
from opilio.topic.living import LivingTopic, Sight, Terms, sight_of
from opilio.topic.table import WeightTable

Weigh = Callable[[Reading], tuple[Terms, NDArray[np.float64]]]


class Words(msgspec.Struct, frozen=True):
    """How words are counted and weighed: those of addresses, a page's with their tf·idf, and the idf of any."""

    of_urls: UrlTerms
    weigh: Weigh
    idf: Idf


class LinkRows:
    """Works rows out. `table`: the topic's heaviest words that count (S1-17: 7; 0: all).

    `given`: the table that a trained learner's rows were counted with; where there is one it counts instead.
    """

    def __init__(self, topic: LivingTopic, words: Words, table: int = TOP) -> None:
        self.topic = topic
        self.words = words
        self.table = table
        self.given = WeightTable()
        self._sight: tuple[WeightTable, Sight] | None = None

    @property
    def head(self) -> Sight:
        """The words that count as they are now, ready for matching."""
        table = self.given if self.given.keywords else self.topic.table
        if self._sight is None or self._sight[0] is not table:
            cut = self.table and table is not self.given
            self._sight = table, sight_of(table.top(self.table) if cut else table)
        return self._sight[1]

    def alone(self, reading: Reading) -> tuple[Rows, Evidence]:
        """The links' rows with this page as their only parent."""
        found = page_evidence(reading, self.words.weigh(reading), self.words.idf)
        urls = self.words.of_urls([link.url for link in reading.page.links])
        return attributes(urls, found, np.arange(len(found)), self.head), found

    def rows(self, urls: Sequence[str], said: Sequence[Iterable[bytes]]) -> Rows:
        """The row of each address, from all that pages say of it."""
        return attributes(self.words.of_urls(urls), *gathered(said), self.head)

    def of_lead(self, lead: Lead) -> Rows:
        """The row of a link by the page it was taken from. Of a seed its address is all that is known (S1-E6)."""
        return self.rows([lead.url], [[lead.features] if len(lead.features) == EVIDENCE.itemsize else []])
