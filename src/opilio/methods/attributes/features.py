"""The four relevance attributes of S1 for every link: URL words, anchor, parent pages, surrounding text.

S1's classifiers learn from them; training rows and queued links are computed in the same way. A row has the four
attributes within 0..1 and a flag for each missing one (no anchor text, a seed without parents: 0 with a flag, S1-E6).

`page_evidence` extracts what a page contributes to the attributes of its links (S1-22…S1-24): small, and independent of
the topic. It is queued with the link and can be summed over all pages that link to one URL; `attribute_rows` turns it
into numbers. The table of topic words is the head of the topic's own, or the one that a trained learner was saved with.

Training sets are CSV (S1-25): URL, the four attributes, what is missing, and the label yes or no. The functions work on
lines, not on files; every error names the line and what is expected.
"""

import csv
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain
from typing import TextIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import UsageError
from opilio.core.records import Lead, Reading
from opilio.core.urls import host_of
from opilio.rank.baselines import TermsOfUrls
from opilio.rank.link_scores import flatten_slices, link_spans, outside_spans
from opilio.text.term_arrays import Terms, distinct, term_array
from opilio.topic.evolving import CompiledTable, EvolvingTopic, compile_table
from opilio.topic.weights import WeightTable

ATTRIBUTES = ("url", "anchor", "parent", "around")  # S1-13
# Attributes, then the flags of what is missing.
ROW_WIDTH = 2 * len(ATTRIBUTES)
MAX_TRAINING_ROWS = 5_000

Rows = NDArray[np.float64]
Labels = NDArray[np.bool_]
AttributeValues = tuple[float, float, float, float]
MissingFlags = tuple[bool, bool, bool, bool]


class TrainingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One page with what was known of it before it was fetched, and whether it is relevant (S1-13)."""

    url: str
    # The host: rows of one group are never on both sides of a test (S1-E4).
    group: str
    values: AttributeValues
    missing: MissingFlags
    relevant: bool


def stack_rows(values: NDArray[np.float64], missing: NDArray[np.bool_]) -> Rows:
    """Attributes and flags side by side."""
    return np.column_stack((values, missing)).astype(np.float64).reshape(-1, ROW_WIDTH)


def rows_to_arrays(rows: Sequence[TrainingRow]) -> tuple[Rows, Labels]:
    """Rows as arrays."""
    values = np.array([(*row.values, *row.missing) for row in rows], dtype=np.float64).reshape(-1, ROW_WIDTH)
    return values, np.array([row.relevant for row in rows], dtype=np.bool_)


def sanitize_rows(rows: Rows) -> Rows:
    """Rows of the right width with every number within 0..1."""
    if rows.ndim != 2 or rows.shape[1] != ROW_WIDTH:
        raise ValueError(f"rows must have {ROW_WIDTH} columns, not shape {rows.shape}")
    return np.clip(np.nan_to_num(rows, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)


class RowMemory:
    """The rows to learn from, at most `capacity`: when full, the oldest row of the larger class is dropped.

    So both classes stay known in a long crawl, and the model follows the web as it is now.
    """

    def __init__(self, capacity: int = MAX_TRAINING_ROWS) -> None:
        self.capacity = max(2, capacity)
        # Irrelevant, relevant; float32 rows.
        self._by_class: tuple[deque[bytes], deque[bytes]] = (deque(), deque())

    def __len__(self) -> int:
        return sum(map(len, self._by_class))

    @property
    def smaller_class_size(self) -> int:
        """The number of rows of the smaller class."""
        return min(map(len, self._by_class))

    def add(self, rows: Rows, labels: Labels) -> None:
        """Remember more rows."""
        small = sanitize_rows(rows).astype(np.float32)
        for row, label in zip(small, labels.tolist(), strict=True):
            self._by_class[int(label)].append(row.tobytes())
            if len(self) > self.capacity:
                max(self._by_class, key=len).popleft()

    def relabel(self, row: Rows, label: bool) -> bool:
        """Change the label of a stored row with the other label; False without one."""
        (data,) = (one.tobytes() for one in sanitize_rows(row).astype(np.float32))
        if data not in self._by_class[not label]:
            return False
        self._by_class[not label].remove(data)
        self._by_class[label].append(data)
        return True

    def arrays(self) -> tuple[Rows, Labels]:
        """All rows, irrelevant ones first, each class from old to new."""
        data = b"".join(row for kept in self._by_class for row in kept)
        rows = np.frombuffer(data, dtype=np.float32).reshape(-1, ROW_WIDTH).astype(np.float64)
        return rows, np.arange(len(rows)) >= len(self._by_class[0])

    def pack(self) -> tuple[bytes, bytes]:
        """The rows of each class as plain numbers."""
        return b"".join(self._by_class[0]), b"".join(self._by_class[1])

    def unpack(self, packed: tuple[bytes, bytes]) -> None:
        """Load the result of `pack`."""
        size = 4 * ROW_WIDTH
        for kept, data in zip(self._by_class, packed, strict=True):
            if len(data) % size:
                raise ValueError("rows of a snapshot are cut off")
            kept.clear()
            kept.extend(data[at : at + size] for at in range(0, len(data), size))


ATTRIBUTE_COLUMNS = {name: f"{name}_relevancy" for name in ATTRIBUTES}
HEADER = ("url", *ATTRIBUTE_COLUMNS.values(), "missing", "relevant")
_REQUIRED_COLUMNS = [name for name in HEADER if name != "missing"]
_LABELS = {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}


def write_rows(rows: Iterable[TrainingRow], out: TextIO) -> int:
    """Write a header and one line a row; returns how many rows."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    count = 0
    for row in rows:
        missing = " ".join(name for name, gone in zip(ATTRIBUTES, row.missing, strict=True) if gone)
        values = [format(value, ".6g") for value in row.values]
        writer.writerow((row.url, *values, missing, "yes" if row.relevant else "no"))
        count += 1
    return count


def read_rows(lines: Iterable[str], source: str) -> list[TrainingRow]:
    """The rows of a file; UsageError for an invalid one."""
    try:
        found = list(_parse_rows(lines, source))
    except csv.Error as error:
        raise UsageError(f"{source}: not a CSV file: {error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    if not found:
        raise UsageError(f"{source}: has no rows below its header")
    return found


def _parse_rows(lines: Iterable[str], source: str) -> Iterator[TrainingRow]:
    reader = csv.DictReader(lines, skipinitialspace=True, strict=True)
    if reader.fieldnames is None:
        raise UsageError(f"{source}: is empty; its first line must be {','.join(HEADER)}")
    reader.fieldnames = [name.strip().lstrip("\ufeff").lower() for name in reader.fieldnames]
    for name in _REQUIRED_COLUMNS:
        if name not in reader.fieldnames:
            raise UsageError(f"{source}: has no column '{name}'; its first line must be {','.join(HEADER)}")
    for record in reader:
        where = f"{source} line {reader.line_num}"
        if None in record or None in record.values():
            raise UsageError(f"{where}: the number of fields differs from the header")
        yield _parse_row(record, where)


def _parse_row(record: dict[str, str], where: str) -> TrainingRow:
    url = record["url"].strip()
    if not url:
        raise UsageError(f"{where}: the url is empty")
    label = record["relevant"].strip().lower()
    if label not in _LABELS:
        raise UsageError(f"{where}: relevant is '{label}'; it must be yes or no")
    one, two, three, four = (_parse_number(record, column, where) for column in ATTRIBUTE_COLUMNS.values())
    values: AttributeValues = (one, two, three, four)
    return TrainingRow(
        url=url, group=_host_group(url), values=values, missing=_parse_missing(record, where), relevant=_LABELS[label]
    )


def _parse_number(record: dict[str, str], column: str, where: str) -> float:
    text = record[column].strip()
    try:
        value = float(text)
    except ValueError as error:
        raise UsageError(f"{where}: {column} is '{text}'; it must be a number from 0 to 1") from error
    if not (math.isfinite(value) and 0.0 <= value <= 1.0):
        raise UsageError(f"{where}: {column} is {text}; it must be a number from 0 to 1")
    return value


def _parse_missing(record: dict[str, str], where: str) -> MissingFlags:
    named = set(record.get("missing", "").split())
    if unknown := named - set(ATTRIBUTES):
        raise UsageError(f"{where}: missing names '{min(unknown)}'; known: {' '.join(ATTRIBUTES)}")
    url, anchor, parent, around = (name in named for name in ATTRIBUTES)
    return url, anchor, parent, around


def _host_group(url: str) -> str:
    return (host_of(url) if "://" in url else "") or url


# S1-22, S1-23: the first five parent pages.
MAX_PARENTS = 5
# S1-17, S1-23: size of the topic's, the parent's and the surroundings' table.
TABLE_SIZE = 7
# S1-24: words before and after the anchor. It does not follow `topic.around`: a model must mean the same anywhere.
AROUND_TERMS = 20
# The rarest words of anchors; hardly any anchor has more.
ANCHOR_TERMS = 10
# Terms kept of one parent and of the text around its link. The seven words are chosen from all parents together
# (S1-23), so each keeps more than seven, with weights that can be added up.
PARENT_TERMS = 20
CONTEXT_TERMS = 12
EVIDENCE_DTYPE = np.dtype(
    [
        ("anchor", "<u4", (ANCHOR_TERMS,)),  # 0 is no term
        ("parent", "<u4", (PARENT_TERMS,)),
        ("parent_weights", "<f4", (PARENT_TERMS,)),
        ("around", "<u4", (CONTEXT_TERMS,)),
        ("around_weights", "<f4", (CONTEXT_TERMS,)),
    ]
)

WeightArray = NDArray[np.float64]
LinkNumbers = NDArray[np.int64]
LinkEvidence = NDArray[np.void]
IdfFunction = Callable[[Terms], WeightArray]


def heaviest_terms(
    owners: LinkNumbers, terms: Terms, weights: WeightArray, texts: int, size: int = TABLE_SIZE
) -> tuple[Terms, WeightArray]:
    """For each of `texts` texts, its `size` heaviest terms with their weights; 0 where it has fewer.

    The weights of a term that occurs more than once in a text are added up. Ties are broken by term.
    """
    table, heavy = np.zeros((texts, size), dtype=np.uint32), np.zeros((texts, size))
    weighted = np.flatnonzero(weights > 0.0)
    keys = (owners[weighted] << 32) | terms[weighted]
    order = keys.argsort(kind="stable")
    keys, weights = keys[order], weights[weighted[order]]
    # Runs of one term in one text; no key is below 0.
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if not first.size:
        return table, heavy
    keys, summed = keys[first], np.add.reduceat(weights, first)
    # Terms of equal weight keep their order.
    order = np.lexsort((-summed, keys >> 32))
    owner, term, summed = keys[order] >> 32, keys[order] & 0xFFFFFFFF, summed[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = np.flatnonzero(rank < size)
    table[owner[kept], rank[kept]], heavy[owner[kept], rank[kept]] = term[kept], summed[kept]
    return table, heavy


def page_evidence(reading: Reading, page: tuple[Terms, WeightArray], idf: IdfFunction) -> LinkEvidence:
    """The evidence of a page for each of its links; `page` are its own terms with their tf·idf.

    All links to one URL count together, so their evidence is equal.
    """
    links = reading.page.links
    index = np.array([link.index for link in links], dtype=np.int64)
    keys, owners = np.unique(np.array([link.key for link in links], dtype=np.int64), return_inverse=True)
    found = np.zeros(len(keys), dtype=EVIDENCE_DTYPE)
    anchors = link_spans(reading.anchors, index)
    found["anchor"] = _slice_tables(reading, anchors, owners, idf, ANCHOR_TERMS)[0]
    # Without an anchor in the text there is nothing around the link.
    stands = ((index >= 0) & (index < len(reading.anchors)))[:, None]
    beside = np.clip(anchors + np.array((-AROUND_TERMS, AROUND_TERMS)), 0, len(reading.terms))
    # S1-24: the text before and after; the anchor is an attribute of its own.
    spans = np.concatenate([np.where(stands, side, 0) for side in outside_spans(beside, anchors)])
    found["around"], found["around_weights"] = _slice_tables(
        reading, spans, np.concatenate((owners, owners)), idf, CONTEXT_TERMS
    )
    terms, weights = page
    alone = np.zeros(len(terms), dtype=np.int64)
    found["parent"], found["parent_weights"] = heaviest_terms(alone, terms, weights, 1, PARENT_TERMS)
    return found[owners]


def _slice_tables(
    reading: Reading, spans: LinkNumbers, owners: LinkNumbers, idf: IdfFunction, size: int
) -> tuple[Terms, WeightArray]:
    """The heaviest words of slices of a page, by tf·idf, for the URL that each slice belongs to."""
    terms, place = flatten_slices(term_array(reading.terms), spans)
    return heaviest_terms(owners[place], terms, idf(terms), int(owners.max(initial=-1)) + 1, size)


def pack_evidence(found: LinkEvidence) -> list[bytes]:
    """The evidence of each link as bytes."""
    data, size = found.tobytes(), EVIDENCE_DTYPE.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def add_parent_evidence(known: MutableMapping[int, bytes], parent: int, evidence: bytes) -> bool:
    """Add the evidence of another parent: the first five count, each once (S1-22). Returns whether it was added."""
    if parent in known or len(known) >= MAX_PARENTS or len(evidence) != EVIDENCE_DTYPE.itemsize:
        return False
    known[parent] = evidence
    return True


def gather_evidence(known: Sequence[Iterable[bytes]]) -> tuple[LinkEvidence, LinkNumbers]:
    """The evidence of all parents of some URLs in one array, with the index of the URL for each row."""
    rows = [list(each) for each in known]
    owners = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    return np.frombuffer(b"".join(row for each in rows for row in each), dtype=EVIDENCE_DTYPE), owners


def attribute_rows(
    urls: Sequence[Sequence[int]], found: LinkEvidence, owners: LinkNumbers, compiled: CompiledTable
) -> Rows:
    """A row for each URL: `urls` are the words of each, `found` the evidence, `owners` the URL of each row of it.

    The tables of the pages that link to a URL are added up and cut again (S1-23, S1-24).
    """
    size = len(urls)
    of_url = np.repeat(np.arange(size), list(map(len, urls)))
    words = term_array([*chain.from_iterable(urls)])
    of_anchor, anchors = np.repeat(owners, found["anchor"].shape[-1]), found["anchor"].ravel()
    tables = [_merge_tables(found[name], found[f"{name}_weights"], owners, size) for name in ("parent", "around")]
    values = (
        _masked_cosine(of_url, words, size, compiled),
        _masked_cosine(of_anchor, anchors, size, compiled),
        *(_adjusted_cosine(*table, compiled) for table in tables),
    )
    present = (
        np.bincount(of_url, minlength=size),
        np.bincount(of_anchor, anchors > 0, minlength=size),
        *(weights[:, 0] for _, weights in tables),
    )
    return stack_rows(np.column_stack(values), np.column_stack(present) <= 0)


def _masked_cosine(owners: LinkNumbers, terms: Terms, size: int, compiled: CompiledTable) -> WeightArray:
    """Cosine of the table with its copy that keeps only the words present (S1-21): √(Σ matched w² / Σ w²)."""
    hit = np.flatnonzero(compiled.weigh(terms))
    # A word counts once.
    present = distinct((owners[hit] << 32) | terms[hit])
    # The low half.
    matched = compiled.weigh(present.astype(np.uint32))
    squares = np.bincount(present >> 32, matched * matched, minlength=size)
    return np.asarray(np.minimum(1.0, np.sqrt(squares) / (compiled.norm or 1.0)))


def _merge_tables(terms: Terms, weights: WeightArray, owners: LinkNumbers, size: int) -> tuple[Terms, WeightArray]:
    return heaviest_terms(np.repeat(owners, terms.shape[-1]), terms.ravel(), weights.ravel().astype(np.float64), size)


def _adjusted_cosine(terms: Terms, weights: WeightArray, compiled: CompiledTable) -> WeightArray:
    """Cosine of the topic's table with a table of the same keywords weighted by a text's own table (S1-23, S1-24)."""
    wanted = compiled.weigh(terms)
    own = np.where(wanted > 0.0, weights, 0.0)
    length = np.sqrt((own * own).sum(axis=1)) * compiled.norm
    return np.asarray(np.minimum(1.0, (own * wanted).sum(axis=1) / np.where(length > 0.0, length, 1.0)))


WeighTerms = Callable[[Reading], tuple[Terms, NDArray[np.float64]]]


class TermFunctions(msgspec.Struct, frozen=True):
    """How words are counted and weighted: those of URLs, a page's with their tf·idf, and the idf of any word."""

    url_terms: TermsOfUrls
    weigh: WeighTerms
    idf: IdfFunction


class LinkRows:
    """Computes rows. `table`: how many of the topic's heaviest words count (S1-17: 7; 0: all).

    `given`: the table that a trained learner's rows were computed with; it replaces the topic's.
    """

    def __init__(self, topic: EvolvingTopic, words: TermFunctions, table: int = TABLE_SIZE) -> None:
        self.topic = topic
        self.words = words
        self.table_size = table
        self.fixed_table = WeightTable()
        self._compiled: tuple[WeightTable, CompiledTable] | None = None

    @property
    def compiled_table(self) -> CompiledTable:
        """The current table, ready for matching."""
        table = self.fixed_table if self.fixed_table.keywords else self.topic.table
        if self._compiled is None or self._compiled[0] is not table:
            cut = self.table_size and table is not self.fixed_table
            self._compiled = table, compile_table(table.top(self.table_size) if cut else table)
        return self._compiled[1]

    def rows_from_page(self, reading: Reading) -> tuple[Rows, LinkEvidence]:
        """The rows of a page's links with this page as their only parent."""
        found = page_evidence(reading, self.words.weigh(reading), self.words.idf)
        urls = self.words.url_terms([link.url for link in reading.page.links])
        return attribute_rows(urls, found, np.arange(len(found)), self.compiled_table), found

    def rows(self, urls: Sequence[str], evidence: Sequence[Iterable[bytes]]) -> Rows:
        """The row of each URL, from all its evidence."""
        return attribute_rows(self.words.url_terms(urls), *gather_evidence(evidence), self.compiled_table)

    def lead_row(self, lead: Lead) -> Rows:
        """The row of a link by the page it was found on. Of a seed only the URL is known (S1-E6)."""
        return self.rows([lead.url], [[lead.features] if len(lead.features) == EVIDENCE_DTYPE.itemsize else []])
