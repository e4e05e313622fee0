"""A page as weighted words: its main text, with title and description counted in.

Weights are count · idf of a background corpus (X-03, X-14); the count is enough where the paper has tf, since
cosine does not see a factor common to all words.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from opilio.model.records import Reading

TermsOf = Callable[[str], Sequence[int]]
Idf = Callable[[int], float]


def flat_idf(term: int) -> float:
    """Every word weighs the same: where there is no background corpus."""
    del term
    return 1.0


class PageWords:
    """Counts the words of pages. `title` and `description` say how often a word there counts."""

    def __init__(self, terms_of: TermsOf, idf: Idf = flat_idf, title: int = 3, description: int = 1) -> None:
        self._terms_of = terms_of
        self.idf = idf
        self._title = title
        self._description = description

    def terms(self, text: str) -> Sequence[int]:
        """The terms of a text."""
        return self._terms_of(text)

    def counts(self, reading: Reading) -> Mapping[int, int]:
        """Term to count over the main text (all text where nothing else is left), title and description."""
        main: list[int] = []
        for start, end in reading.main:
            main += reading.terms[start:end]
        counts = Counter(main or reading.terms)
        for text, times in ((reading.page.title, self._title), (reading.page.description, self._description)):
            if text and times:
                for term in self._terms_of(text):
                    counts[term] += times
        return counts

    def weights(self, counts: Mapping[int, int]) -> dict[int, float]:
        """Term to count · idf."""
        idf = self.idf
        return {term: n * idf(term) for term, n in counts.items()}


def norm_of(weights: Mapping[int, float]) -> float:
    """Euclidean length of a sparse vector."""
    return math.sqrt(math.fsum(w * w for w in weights.values()))
