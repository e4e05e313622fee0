"""S1's training set from a finished collection (S1-13, S1-16, S1-17): its pages, read again from the WARC files.

Relevant and irrelevant rows are the pages judged so; the irrelevant ones are what a crawl meets on its way (S1-E1).
Parents are those that the crawl itself knows (S1-E6). Words are counted here once; the attributes are worked out
for a table, and the table for a set of pages, so that a test can build it without the pages it asks about (S1-E7).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opilio.judge.pagewords import PageWords
from opilio.learn.rows import Labels, Row, Rows, matrix
from opilio.learn.trial import Places
from opilio.model.errors import ParseError, UsageError
from opilio.model.records import Reading
from opilio.parse.html import HtmlParser
from opilio.rank.attributes import PARENTS, TOP, Attributes, KnownLink, attributes, top_table
from opilio.rank.measure import spans_of
from opilio.store.collection import Collection, reading
from opilio.store.warc import read_record
from opilio.text.around import Beside
from opilio.text.reading import Reader
from opilio.text.urlwords import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.living import Terms, sight_of
from opilio.topic.table import WeightTable, table_of
from opilio.topic.tables import NoiseFilter

MOST = 20_000  # pages, the first ones: a few kilobytes each
WINDOW = 20  # S1-24
_PAGES = (
    "SELECT key, url, host, relevant, warc, offset, length FROM page"
    " WHERE duplicate_of = 0 AND length > 0 ORDER BY seq LIMIT ?"
)
Weights = NDArray[np.float64]
Idf = Callable[[Terms], Weights]


@dataclass(slots=True)
class Example:
    """A page with its words, and all that the crawl knew of it from its first five parents."""

    url: str
    host: str
    relevant: bool
    terms: Terms = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    shares: Weights = field(default_factory=lambda: np.zeros(0))  # tf
    anchors: list[list[int]] = field(default_factory=list)
    arounds: list[list[int]] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)  # keys

    def meet(self, parent: int, anchor: list[int], around: list[int]) -> None:
        """One more page that links to it; the first five count, each once (S1-22)."""
        if len(self.parents) < PARENTS and parent not in self.parents:
            self.parents.append(parent)
            self.anchors.append(anchor)
            self.arounds.append(around)


class Pages:
    """A training set whose table is built when it is known which pages may be looked at (S1-E7)."""

    def __init__(self, examples: dict[int, Example], vocabulary: Vocabulary, idf: Idf) -> None:
        self._examples = list(examples.values())
        self._vocabulary = vocabulary
        url_terms = UrlTerms(vocabulary)
        self._known = [_known(one, examples, url_terms, idf) for one in self._examples]
        self.labels: Labels = np.array([one.relevant for one in self._examples], dtype=np.bool_)
        self.groups: Sequence[str] = [one.host for one in self._examples]
        sizes = [len(one.terms) for one in self._examples]
        self._page_of = np.repeat(np.arange(len(sizes)), sizes)
        every = np.concatenate([one.terms for one in self._examples]) if sizes else np.zeros(0, dtype=np.uint32)
        self._terms, self._number_of = np.unique(every, return_inverse=True)
        self._shares = np.concatenate([one.shares for one in self._examples]) if sizes else np.zeros(0)

    def __len__(self) -> int:
        return len(self._examples)

    def rows_for(self, known: Places) -> Rows:
        """Every row, by the table of the pages that may be known."""
        return matrix(self.rows(self.table(known)))[0]

    def rows(self, table: WeightTable) -> list[Row]:
        """Every row, by a given table."""
        sight = sight_of(table)
        return [_row(one, attributes(link, sight)) for one, link in zip(self._examples, self._known, strict=True)]

    def table(self, known: Places) -> WeightTable:
        """The topic's seven words (S1-17…S1-19): mean tf in relevant pages · log(N/n) over all pages, normalised."""
        chosen = np.zeros(len(self._examples), dtype=np.bool_)
        chosen[known] = True
        wanted = chosen & self.labels if (chosen & self.labels).any() else chosen
        here, relevant = chosen[self._page_of], wanted[self._page_of]
        size = len(self._terms)
        containing = np.bincount(self._number_of[here], minlength=size)
        told = np.bincount(self._number_of[relevant], minlength=size)
        shares = np.bincount(self._number_of[relevant], self._shares[relevant], minlength=size)
        documents = int(chosen.sum())
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = np.where(told > 0, shares * np.log(documents / containing), 0.0)
        return self._heaviest(np.nan_to_num(weights), told, int(wanted.sum()))

    def _heaviest(self, weights: Weights, told: NDArray[np.int64], documents: int) -> WeightTable:
        noise, kept, shown = NoiseFilter(), dict[str, float](), dict[str, str]()
        for at in np.lexsort((self._terms, -weights)).tolist():
            if len(kept) == TOP or weights[at] <= 0.0:
                break
            term = int(self._terms[at])
            stem = self._vocabulary.stem_of(term)
            if stem and noise.allows(stem, int(told[at]), documents):
                kept[stem] = float(weights[at])
                shown[stem] = self._vocabulary.surface_of(term)
        return table_of(kept, TOP, shown)


def _row(one: Example, found: Attributes) -> Row:
    return Row(url=one.url, group=one.host, values=found.values, missing=found.missing, relevant=one.relevant)


def _known(one: Example, examples: dict[int, Example], url_terms: UrlTerms, idf: Idf) -> KnownLink:
    """What the attributes are worked out from: tables of parents and surroundings are cut here, once (S1-23, S1-24)."""
    parents = [examples[key] for key in one.parents]
    contents = _summed([p.terms for p in parents], [p.shares * idf(p.terms) for p in parents])
    words = [np.array(around, dtype=np.uint32) for around in one.arounds]
    around = _summed(words, [idf(terms) for terms in words])
    return KnownLink(
        url=url_terms.of(one.url),
        anchors=one.anchors,
        parents=[contents] if contents else [],
        arounds=[around] if around else [],
    )


def _summed(terms: Sequence[Terms], weights: Sequence[Weights]) -> dict[int, float]:
    """The heaviest words of several texts together."""
    if not terms:
        return {}
    found, numbers = np.unique(np.concatenate(terms), return_inverse=True)
    summed = np.bincount(numbers, np.concatenate(weights), minlength=len(found))
    return top_table(dict(zip(found.tolist(), summed.tolist(), strict=True)))


def pages_of(folder: Path, vocabulary: Vocabulary, idf: Idf) -> Pages:
    """The training set of a collection; UsageError where it holds no page."""
    with reading(folder) as collection:
        examples = _gathered(collection, vocabulary)
    if not examples:
        raise UsageError(f"{folder}: holds no pages to learn from; crawl first")
    return Pages(examples, vocabulary, idf)


def _gathered(collection: Collection, vocabulary: Vocabulary) -> dict[int, Example]:
    rows = collection.connection.execute(_PAGES, (MOST,)).fetchall()
    examples = {key: Example(url, host, bool(relevant)) for key, url, host, relevant, *_ in rows}
    words = PageWords(vocabulary.terms)
    for key, read in _readings(collection, rows, Reader(vocabulary, Beside(WINDOW))):
        terms, counts = words.counts(read)
        examples[key].terms, examples[key].shares = terms, counts / max(1.0, counts.sum())
        _tell_links(key, read, examples)
    return examples


def _readings(
    collection: Collection, rows: Sequence[tuple[int, str, str, int, int, int, int]], reader: Reader
) -> Iterator[tuple[int, Reading]]:
    parser = HtmlParser()
    for key, _, _, _, warc, offset, length in rows:
        with suppress(ParseError):  # it was a page when it was fetched; without words it teaches nothing
            yield key, reader.read(parser.parse(read_record(collection.folder, warc, offset, length)))


def _tell_links(parent: int, read: Reading, examples: dict[int, Example]) -> None:
    """Let every page of the set know that this one links to it, and how."""
    links = [link for link in read.page.links if link.key in examples and link.key != parent]
    index = np.array([link.index for link in links], dtype=np.int64)
    anchors, arounds = spans_of(read.anchors, index).tolist(), spans_of(read.arounds, index).tolist()
    for link, anchor, around in zip(links, anchors, arounds, strict=True):
        examples[link.key].meet(parent, read.terms[slice(*anchor)], read.terms[slice(*around)])
