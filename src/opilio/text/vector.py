"""Sparse vectors as plain dictionaries from term to weight, and how alike two of them are.

The papers divide by different norms (X-01): `topic_cosine` masks the page by the topic's terms (S0-23, S1),
`cosine` takes both vectors whole (S3-16, S4-17). For non-negative weights all results are in [0, 1].
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Set
from math import fsum, sqrt

Vector = Mapping[int, float]


def counts(terms: Iterable[int]) -> Counter[int]:
    """How often each term stands there."""
    return Counter(terms)


def tf(terms: Collection[int]) -> dict[int, float]:
    """Term frequency: occurrences over all terms of the document (S0-15, Eq. 1)."""
    total = len(terms)
    return {term: n / total for term, n in Counter(terms).items()}


def weighted(frequencies: Mapping[int, float], weights: Mapping[int, float]) -> dict[int, float]:
    """Frequencies times weights, for the terms that have a weight."""
    shorter, other = (frequencies, weights) if len(frequencies) <= len(weights) else (weights, frequencies)
    return {term: value * other[term] for term, value in shorter.items() if term in other}


def norm(vector: Vector) -> float:
    """The Euclidean length."""
    return sqrt(fsum(value * value for value in vector.values()))


def dot(a: Vector, b: Vector) -> float:
    """The inner product, over the shorter vector's terms."""
    if len(a) > len(b):
        a, b = b, a
    return fsum(value * b[term] for term, value in a.items() if term in b)


def cosine(a: Vector, b: Vector) -> float:
    """Both vectors whole: S3-16 Eq. 5, and S4-17 Eq. 4 (page norm over the page's terms)."""
    return _ratio(dot(a, b), norm(a) * norm(b))


def topic_cosine(topic: Vector, page: Vector) -> float:
    """The page's norm over the topic's terms only, as S0-23 Eq. 5 is printed: other words of the page don't count."""
    shared = {term: value for term, value in page.items() if term in topic}
    return _ratio(dot(topic, shared), norm(topic) * norm(shared))


def dice(a: Set[int], b: Set[int]) -> float:
    """Twice what two sets share over what they have together; 0 for two empty sets."""
    return _ratio(2.0 * len(a & b), float(len(a) + len(b)))


def overlap(a: Set[int], b: Set[int]) -> float:
    """What two sets share over the smaller of them; 0 when one is empty."""
    return _ratio(float(len(a & b)), float(min(len(a), len(b))))


def jaccard(a: Set[int], b: Set[int]) -> float:
    """What two sets share over their union; 0 for two empty sets."""
    shared = len(a & b)
    return _ratio(float(shared), float(len(a) + len(b) - shared))


def _ratio(part: float, whole: float) -> float:
    """Never above 1 by rounding; 0 where nothing is there to compare."""
    return min(1.0, part / whole) if whole > 0.0 else 0.0
