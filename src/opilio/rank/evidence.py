"""What a page says of the addresses it links to, as S1 wants it (S1-22…S1-24): small, and the same for every topic.

It goes with a link into the queue and can be added up over the pages that link to one address; `attributes` makes
numbers of it. Training reads it from stored pages, a crawl from pages as they come: both by `page_evidence`.
"""

from collections.abc import Callable, Iterable, MutableMapping, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.rank.measure import flat, spans_of
from opilio.topic.living import Terms, array_of

PARENTS = 5  # S1-22, S1-23: the first five parent pages
TOP = 7  # S1-17, S1-23: size of the topic's, the parent's and the surroundings' table
WINDOW = 20  # S1-24: words before and after the anchor, whatever `topic.around` is: a model must mean the same anywhere
ANCHOR = 10  # words of anchors, the rarest ones; hardly any has more
EVIDENCE = np.dtype(
    [
        ("anchor", "<u4", (ANCHOR,)),  # 0 is no term
        ("parent", "<u4", (TOP,)),
        ("parent_weights", "<f4", (TOP,)),
        ("around", "<u4", (TOP,)),
        ("around_weights", "<f4", (TOP,)),
    ]
)

Weights = NDArray[np.float64]
Numbers = NDArray[np.int64]
Evidence = NDArray[np.void]
Idf = Callable[[Terms], Weights]


def heaviest(owners: Numbers, terms: Terms, weights: Weights, texts: int, size: int = TOP) -> tuple[Terms, Weights]:
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


def page_evidence(reading: Reading, page: tuple[Terms, Weights], idf: Idf) -> Evidence:
    """What a page says of each of its links; `page` are its own terms with their tf·idf.

    All links to one address count together, so each of them says the same.
    """
    links = reading.page.links
    index = np.array([link.index for link in links], dtype=np.int64)
    keys, owners = np.unique(np.array([link.key for link in links], dtype=np.int64), return_inverse=True)
    found = np.zeros(len(keys), dtype=EVIDENCE)
    anchors = spans_of(reading.anchors, index)
    found["anchor"] = _tables(reading, anchors, owners, idf, ANCHOR)[0]
    stands = ((index >= 0) & (index < len(reading.anchors)))[:, None]  # else there is nothing around it
    beside = np.clip(anchors + np.array((-WINDOW, WINDOW)), 0, len(reading.terms))
    found["around"], found["around_weights"] = _tables(reading, np.where(stands, beside, 0), owners, idf, TOP)
    terms, weights = page
    found["parent"], found["parent_weights"] = heaviest(np.zeros(len(terms), dtype=np.int64), terms, weights, 1)
    return found[owners]


def _tables(reading: Reading, spans: Numbers, owners: Numbers, idf: Idf, size: int) -> tuple[Terms, Weights]:
    """The heaviest words of slices of a page, by tf·idf, for the address that each slice is about."""
    terms, place = flat(array_of(reading.terms), spans)
    return heaviest(owners[place], terms, idf(terms), int(owners.max(initial=-1)) + 1, size)


def packed(found: Evidence) -> list[bytes]:
    """Each link's as bytes."""
    data, size = found.tobytes(), EVIDENCE.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def meet(known: MutableMapping[int, bytes], parent: int, said: bytes) -> bool:
    """One more page that links to an address: the first five count, each once (S1-22). Is it one of them?"""
    if parent in known or len(known) >= PARENTS or len(said) != EVIDENCE.itemsize:
        return False
    known[parent] = said
    return True


def gathered(known: Sequence[Iterable[bytes]]) -> tuple[Evidence, Numbers]:
    """What all pages say of some addresses, in one array, with the number of the address that each row is about."""
    said = [list(each) for each in known]
    owners = np.repeat(np.arange(len(said)), [len(each) for each in said])
    return np.frombuffer(b"".join(row for each in said for row in each), dtype=EVIDENCE), owners
