"""The four relevance attributes of S1 for every link: URL words, anchor, parent pages, surrounding text.

They are what S1's classifiers learn from, worked out in this one way for training rows and for queued links. What is
not known of a link (no anchor text, a seed without parents) is 0 with a flag that says so (S1-E6).

What a page says of the addresses it links to, as S1 wants it (S1-22…S1-24): small, and the same for every topic.

It goes with a link into the queue and can be added up over the pages that link to one address; `attribute_rows` makes
numbers of it. Training reads it from stored pages, a crawl from pages as they come: both by `page_evidence`.

From links to the rows of S1: the words of addresses and of pages, counted by the table that is in force.

The table is the head of the topic's, or the one that a trained learner brought with it.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.records import Lead, Reading
from opilio.methods.attributes.rows import Rows, stack_rows
from opilio.rank.four_part_score import UrlTerms
from opilio.rank.link_scores import flatten_slices, link_spans
from opilio.text.term_arrays import distinct
from opilio.topic.evolving import CompiledTable, EvolvingTopic, Terms, compile_table, term_array
from opilio.topic.weights import WeightTable

MAX_PARENTS = 5  # S1-22, S1-23: the first five parent pages
TABLE_SIZE = 7  # S1-17, S1-23: size of the topic's, the parent's and the surroundings' table
AROUND_TERMS = (
    20  # S1-24: words before and after the anchor, whatever `topic.around` is: a model must mean the same anywhere
)
ANCHOR_TERMS = 10  # words of anchors, the rarest ones; hardly any has more
EVIDENCE_DTYPE = np.dtype(
    [
        ("anchor", "<u4", (ANCHOR_TERMS,)),  # 0 is no term
        ("parent", "<u4", (TABLE_SIZE,)),
        ("parent_weights", "<f4", (TABLE_SIZE,)),
        ("around", "<u4", (TABLE_SIZE,)),
        ("around_weights", "<f4", (TABLE_SIZE,)),
    ]
)

WeightArray = NDArray[np.float64]
LinkNumbers = NDArray[np.int64]
LinkEvidence = NDArray[np.void]
IdfFunction = Callable[[Terms], WeightArray]


def heaviest_terms(
    owners: LinkNumbers, terms: Terms, weights: WeightArray, texts: int, size: int = TABLE_SIZE
) -> tuple[Terms, WeightArray]:
    """The table of each of so many texts: its `size` heaviest terms, normalised (S1-17, S1-19); 0 where it has fewer.

    A term that is told more than once for a text is added up. Ties go by term, to be the same everywhere.
    """
    table, heavy = np.zeros((texts, size), dtype=np.uint32), np.zeros((texts, size))
    told = np.flatnonzero(weights > 0.0)
    keys = (owners[told] << 32) | terms[told]
    order = keys.argsort(kind="stable")
    keys, weights = keys[order], weights[told[order]]
    first = np.flatnonzero(np.diff(keys, prepend=-1))  # runs of one term in one text; no key is below 0
    if not first.size:
        return table, heavy
    keys, summed = keys[first], np.add.reduceat(weights, first)
    order = np.lexsort((-summed, keys >> 32))  # terms that weigh the same stay in their order
    owner, term, summed = keys[order] >> 32, keys[order] & 0xFFFFFFFF, summed[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = np.flatnonzero(rank < size)
    table[owner[kept], rank[kept]], heavy[owner[kept], rank[kept]] = term[kept], summed[kept]
    return table, heavy / np.where(heavy[:, :1] > 0.0, heavy[:, :1], 1.0)


def page_evidence(reading: Reading, page: tuple[Terms, WeightArray], idf: IdfFunction) -> LinkEvidence:
    """What a page says of each of its links; `page` are its own terms with their tf·idf.

    All links to one address count together, so each of them says the same.
    """
    links = reading.page.links
    index = np.array([link.index for link in links], dtype=np.int64)
    keys, owners = np.unique(np.array([link.key for link in links], dtype=np.int64), return_inverse=True)
    found = np.zeros(len(keys), dtype=EVIDENCE_DTYPE)
    anchors = link_spans(reading.anchors, index)
    found["anchor"] = _slice_tables(reading, anchors, owners, idf, ANCHOR_TERMS)[0]
    stands = ((index >= 0) & (index < len(reading.anchors)))[:, None]  # else there is nothing around it
    beside = np.clip(anchors + np.array((-AROUND_TERMS, AROUND_TERMS)), 0, len(reading.terms))
    found["around"], found["around_weights"] = _slice_tables(
        reading, np.where(stands, beside, 0), owners, idf, TABLE_SIZE
    )
    terms, weights = page
    found["parent"], found["parent_weights"] = heaviest_terms(np.zeros(len(terms), dtype=np.int64), terms, weights, 1)
    return found[owners]


def _slice_tables(
    reading: Reading, spans: LinkNumbers, owners: LinkNumbers, idf: IdfFunction, size: int
) -> tuple[Terms, WeightArray]:
    """The heaviest words of slices of a page, by tf·idf, for the address that each slice is about."""
    terms, place = flatten_slices(term_array(reading.terms), spans)
    return heaviest_terms(owners[place], terms, idf(terms), int(owners.max(initial=-1)) + 1, size)


def pack_evidence(found: LinkEvidence) -> list[bytes]:
    """Each link's as bytes."""
    data, size = found.tobytes(), EVIDENCE_DTYPE.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def add_parent_evidence(known: MutableMapping[int, bytes], parent: int, said: bytes) -> bool:
    """One more page that links to an address: the first five count, each once (S1-22). Is it one of them?"""
    if parent in known or len(known) >= MAX_PARENTS or len(said) != EVIDENCE_DTYPE.itemsize:
        return False
    known[parent] = said
    return True


def gather_evidence(known: Sequence[Iterable[bytes]]) -> tuple[LinkEvidence, LinkNumbers]:
    """What all pages say of some addresses, in one array, with the number of the address that each row is about."""
    said = [list(each) for each in known]
    owners = np.repeat(np.arange(len(said)), [len(each) for each in said])
    return np.frombuffer(b"".join(row for each in said for row in each), dtype=EVIDENCE_DTYPE), owners


def attribute_rows(
    urls: Sequence[Sequence[int]], found: LinkEvidence, owners: LinkNumbers, sight: CompiledTable
) -> Rows:
    """A row for each address: `urls` are the words of each, `found` what pages say, about the address `owners` tells.

    The tables of the pages that link to an address are added up and cut again (S1-23, S1-24).
    """
    size = len(urls)
    of_url = np.repeat(np.arange(size), list(map(len, urls)))
    words = term_array([*chain.from_iterable(urls)])
    of_anchor, anchors = np.repeat(owners, found["anchor"].shape[-1]), found["anchor"].ravel()
    tables = [_merge_tables(found[name], found[f"{name}_weights"], owners, size) for name in ("parent", "around")]
    values = (
        _masked_cosine(of_url, words, size, sight),
        _masked_cosine(of_anchor, anchors, size, sight),
        *(_adjusted_cosine(*table, sight) for table in tables),
    )
    told = (
        np.bincount(of_url, minlength=size),
        np.bincount(of_anchor, anchors > 0, minlength=size),
        *(weights[:, 0] for _, weights in tables),
    )
    return stack_rows(np.column_stack(values), np.column_stack(told) <= 0)


def _masked_cosine(owners: LinkNumbers, terms: Terms, size: int, sight: CompiledTable) -> WeightArray:
    """Cosine of the table with its copy that keeps only the words present (S1-21): √(Σ matched w² / Σ w²)."""
    hit = np.flatnonzero(sight.weigh(terms))
    present = distinct((owners[hit] << 32) | terms[hit])  # a word counts once
    matched = sight.weigh(present.astype(np.uint32))  # the low half
    squares = np.bincount(present >> 32, matched * matched, minlength=size)
    return np.asarray(np.minimum(1.0, np.sqrt(squares) / (sight.norm or 1.0)))


def _merge_tables(terms: Terms, weights: WeightArray, owners: LinkNumbers, size: int) -> tuple[Terms, WeightArray]:
    return heaviest_terms(np.repeat(owners, terms.shape[-1]), terms.ravel(), weights.ravel().astype(np.float64), size)


def _adjusted_cosine(terms: Terms, weights: WeightArray, sight: CompiledTable) -> WeightArray:
    """Cosine of the topic's table with a table of the same keywords weighted by a text's own table (S1-23, S1-24)."""
    wanted = sight.weigh(terms)
    own = np.where(wanted > 0.0, weights, 0.0)
    length = np.sqrt((own * own).sum(axis=1)) * sight.norm
    return np.asarray(np.minimum(1.0, (own * wanted).sum(axis=1) / np.where(length > 0.0, length, 1.0)))


WeighTerms = Callable[[Reading], tuple[Terms, NDArray[np.float64]]]


class TermFunctions(msgspec.Struct, frozen=True):
    """How words are counted and weighed: those of addresses, a page's with their tf·idf, and the idf of any."""

    url_terms: UrlTerms
    weigh: WeighTerms
    idf: IdfFunction


class LinkRows:
    """Works rows out. `table`: the topic's heaviest words that count (S1-17: 7; 0: all).

    `given`: the table that a trained learner's rows were counted with; where there is one it counts instead.
    """

    def __init__(self, topic: EvolvingTopic, words: TermFunctions, table: int = TABLE_SIZE) -> None:
        self.topic = topic
        self.words = words
        self.table_size = table
        self.fixed_table = WeightTable()
        self._compiled: tuple[WeightTable, CompiledTable] | None = None

    @property
    def compiled_table(self) -> CompiledTable:
        """The words that count as they are now, ready for matching."""
        table = self.fixed_table if self.fixed_table.keywords else self.topic.table
        if self._compiled is None or self._compiled[0] is not table:
            cut = self.table_size and table is not self.fixed_table
            self._compiled = table, compile_table(table.top(self.table_size) if cut else table)
        return self._compiled[1]

    def rows_from_page(self, reading: Reading) -> tuple[Rows, LinkEvidence]:
        """The links' rows with this page as their only parent."""
        found = page_evidence(reading, self.words.weigh(reading), self.words.idf)
        urls = self.words.url_terms([link.url for link in reading.page.links])
        return attribute_rows(urls, found, np.arange(len(found)), self.compiled_table), found

    def rows(self, urls: Sequence[str], said: Sequence[Iterable[bytes]]) -> Rows:
        """The row of each address, from all that pages say of it."""
        return attribute_rows(self.words.url_terms(urls), *gather_evidence(said), self.compiled_table)

    def lead_row(self, lead: Lead) -> Rows:
        """The row of a link by the page it was taken from. Of a seed its address is all that is known (S1-E6)."""
        return self.rows([lead.url], [[lead.features] if len(lead.features) == EVIDENCE_DTYPE.itemsize else []])
