"""S1's training set from a finished collection (S1-13, S1-16, S1-17): its pages, read again from the WARC files.

Relevant and irrelevant rows are the pages judged so; the irrelevant ones are what a crawl meets on its way (S1-E1).
Parents are those that the crawl itself knew when it fetched a page (S1-E6): pages that came later are the future.
Words are counted here once; the attributes are worked out for a table as a crawl does it, and the table for a set of
pages, so that a test can build it without the pages it asks about (S1-E7).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opilio.judge.pagewords import PageWords
from opilio.learn.rows import Labels, Row, Rows
from opilio.learn.trial import Places
from opilio.model.errors import ParseError, UsageError
from opilio.model.records import Reading
from opilio.parse.html import HtmlParser
from opilio.rank.attributes import attributes
from opilio.rank.evidence import TOP, gathered, meet, packed, page_evidence
from opilio.rank.scores import refused
from opilio.store.collection import Collection, reading
from opilio.store.warc import read_record
from opilio.text.reading import Reader
from opilio.text.urlwords import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.living import Terms, sight_of
from opilio.topic.table import WeightTable, table_of
from opilio.topic.tables import NoiseFilter

MOST = 20_000  # pages, the first ones: a few kilobytes each
_PAGES = (
    "SELECT key, url, host, relevant, warc, offset, length FROM page"
    " WHERE duplicate_of = 0 AND length > 0 ORDER BY seq LIMIT ?"
)
Weights = NDArray[np.float64]
Idf = Callable[[Terms], Weights]


@dataclass(slots=True)
class Example:
    """A page with its words, and what its first parents said of it before it was fetched (evidence by key)."""

    url: str
    host: str
    relevant: bool
    terms: Terms = field(default_factory=lambda: np.zeros(0, dtype=np.uint32))
    shares: Weights = field(default_factory=lambda: np.zeros(0))  # tf
    said: dict[int, bytes] = field(default_factory=dict)


class Pages:
    """A training set whose table is built when it is known which pages may be looked at (S1-E7)."""

    def __init__(self, examples: Sequence[Example], vocabulary: Vocabulary) -> None:
        self._examples = examples
        self._vocabulary = vocabulary
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
        return self._matrix(self.table(known))

    def rows(self, table: WeightTable) -> list[Row]:
        """Every row, by a given table."""
        return [_row(*of) for of in zip(self._examples, self._matrix(table).tolist(), strict=True)]

    def _matrix(self, table: WeightTable) -> Rows:
        urls = UrlTerms(self._vocabulary).of_all([one.url for one in self._examples])
        return attributes(urls, *gathered([one.said.values() for one in self._examples]), sight_of(table))

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


def _row(one: Example, found: Sequence[float]) -> Row:
    a, b, c, d, *missing = found
    flags = missing[0] > 0, missing[1] > 0, missing[2] > 0, missing[3] > 0
    return Row(url=one.url, group=one.host, values=(a, b, c, d), missing=flags, relevant=one.relevant)


def pages_of(folder: Path, vocabulary: Vocabulary, idf: Idf) -> Pages:
    """The training set of a collection; UsageError where it holds no page."""
    with reading(folder) as collection:
        examples = _gathered(collection, PageWords(vocabulary.terms, idf, weights="tfidf"), Reader(vocabulary))
    if not examples:
        raise UsageError(f"{folder}: holds no pages to learn from; crawl first")
    return Pages(list(examples.values()), vocabulary)


def _gathered(collection: Collection, words: PageWords, reader: Reader) -> dict[int, Example]:
    rows = collection.connection.execute(_PAGES, (MOST,)).fetchall()
    examples = {key: Example(url, host, bool(relevant)) for key, url, host, relevant, *_ in rows}
    later = dict(examples)
    for key, read in _readings(collection, rows, reader):
        later.pop(key)  # what is left was fetched after it
        if read is not None:
            terms, counts = words.counts(read)
            examples[key].terms, examples[key].shares = terms, counts / max(1.0, counts.sum())
            _tell_links(key, read, words, later)
    return examples


def _readings(
    collection: Collection, rows: Sequence[tuple[int, str, str, int, int, int, int]], reader: Reader
) -> Iterator[tuple[int, Reading | None]]:
    """Each page again; nothing for one that no longer reads as a page: without words it teaches nothing."""
    parser = HtmlParser()
    for key, _, _, _, warc, offset, length in rows:
        read = None
        with suppress(ParseError):
            read = reader.read(parser.parse(read_record(collection.folder, warc, offset, length)))
        yield key, read


def _tell_links(parent: int, read: Reading, words: PageWords, later: dict[int, Example]) -> None:
    """Let every page that was fetched later know that this one links to it, and how."""
    found = packed(page_evidence(read, words.weigh(read), words.idf))
    dropped = refused(read.page)
    for at, (link, said) in enumerate(zip(read.page.links, found, strict=True)):
        if link.key in later and at not in dropped:
            meet(later[link.key].said, parent, said)
