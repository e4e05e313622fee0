"""Inverse document frequencies from a background corpus of general English (X-14, S0-E10).

Among pages that are all on topic, the topic's own words would have an idf of 0. So document frequencies come from a
background table that is shipped with the package and made by scripts/make_background.py.
"""

import io
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.resources import files
from math import log

import numpy as np
from numpy.typing import NDArray

_DATA_FILE = "data/background.npz"
_CACHE_SIZE = 200_000


class BackgroundIdf(dict[int, float]):
    """term -> idf, computed on first use; a term outside the table has a frequency of 0.

    idf = ln(1 + documents / (frequency + 1)): positive for every term once there is a document.
    """

    def __init__(self, documents: int, terms: NDArray[np.uint32], frequencies: NDArray[np.uint32]) -> None:
        order = np.argsort(terms)
        self.documents = documents
        self._terms = terms[order]
        self._frequencies = frequencies[order]
        super().__init__()

    def __missing__(self, term: int) -> float:
        if len(self) >= _CACHE_SIZE:
            self.clear()
        self[term] = idf = log(1.0 + self.documents / (self.frequency(term) + 1.0))
        return idf

    def __reduce__(self) -> tuple[type["BackgroundIdf"], tuple[int, NDArray[np.uint32], NDArray[np.uint32]]]:
        return BackgroundIdf, (self.documents, self._terms, self._frequencies)

    def frequency(self, term: int) -> int:
        """The number of documents that contain the term; 0 for a term outside the table."""
        if not 0 <= term < 1 << 32:
            return 0
        at = int(self._terms.searchsorted(np.uint32(term)))
        return int(self._frequencies[at]) if at < len(self._terms) and self._terms[at] == term else 0

    def idf(self, term: int) -> float:
        """The smoothed inverse document frequency."""
        return self[term]

    def weigh(self, frequencies: Mapping[int, float]) -> dict[int, float]:
        """Counts or term frequencies times idf."""
        return {term: value * self[term] for term, value in frequencies.items()}


def load_default_idf() -> BackgroundIdf:
    """The table shipped with the package: the most common stems and words of general English."""
    return idf_from_bytes(files("opilio.text").joinpath(_DATA_FILE).read_bytes())


def build_idf(documents: Iterable[Iterable[int]], limit: int | None = None) -> BackgroundIdf:
    """A table of documents given as terms, with the `limit` most common terms."""
    frequencies: Counter[int] = Counter()
    total = 0
    for document in documents:
        frequencies.update(set(document))
        total += 1
    most_common = frequencies.most_common(limit)
    terms = np.array([term for term, _ in most_common], dtype=np.uint32)
    return BackgroundIdf(total, terms, np.array([n for _, n in most_common], dtype=np.uint32))


def idf_to_bytes(background: BackgroundIdf) -> bytes:
    """The table as a compressed NumPy archive."""
    _, (documents, terms, frequencies) = background.__reduce__()
    target = io.BytesIO()
    np.savez_compressed(target, documents=np.array(documents), terms=terms, frequencies=frequencies)
    return target.getvalue()


def idf_from_bytes(data: bytes) -> BackgroundIdf:
    """The table from the bytes that `idf_to_bytes` returned."""
    with np.load(io.BytesIO(data), allow_pickle=False) as table:
        return BackgroundIdf(int(table["documents"]), table["terms"], table["frequencies"])
