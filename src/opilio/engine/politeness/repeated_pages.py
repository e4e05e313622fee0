"""Recognizes pages that bring nothing new: copies, other views of a page, and relevant pages in the same words.

Words are compared by the samples that a learning judge keeps of relevant pages; without such a judge only copies with
equal text and soft 404s are recognized.
"""

from collections import deque

import numpy as np

from opilio.core.caches import evict_oldest
from opilio.core.records import SOFT_404, Outcome

# Shares of the terms of two pages of one host, and of two pages with the same path.
SAME_WORDS, VIEW_WORDS = 0.6, 0.9
# Last relevant pages of a host that the next one is compared with, and how many of them must have its words.
_RECENT_PAGES, _MIN_SAME = 4, 2
_MAX_PATHS = 2_000


class SeenWords:
    """The words of the relevant pages of a host or domain."""

    __slots__ = ("new", "recent")

    def __init__(self) -> None:
        # Relevant pages in other words than those before.
        self.new = 0
        self.recent: deque[frozenset[int]] = deque(maxlen=_RECENT_PAGES)


class RepeatedPages:
    """Decides whether a page repeats others.

    `min_new`: the number of pages elsewhere with words of their own from which equal words count.
    """

    def __init__(self, min_new: int) -> None:
        self._min_new = min_new
        self._new = 0
        # URL without its query -> sample of the terms of the last relevant page there.
        self._path_samples: dict[str, bytes] = {}

    def repeats(self, outcome: Outcome, seen: SeenWords) -> bool:
        """Is it a copy, another view of a page, a soft 404, or a relevant page in the words of those before it?"""
        analysis = outcome.analysis
        if analysis is None:
            return False
        if outcome.duplicate_of or (analysis.failure is not None and analysis.failure.kind == SOFT_404):
            return True
        if not outcome.relevant:
            return False
        terms = _terms_of(analysis.sample_terms)
        if self._is_view(outcome.lead.url, analysis.sample_terms, terms):
            return True
        same = sum(len(terms & other) > SAME_WORDS * len(terms) for other in seen.recent)
        if terms:
            seen.recent.append(terms)
        if same < _MIN_SAME:
            seen.new += 1
            self._new += 1
            return False
        # Nothing to compare with where all relevant pages are here: then they are what the crawl is for.
        return self._new - seen.new >= self._min_new

    def _is_view(self, url: str, sample: bytes, terms: frozenset[int]) -> bool:
        """Has the page next to the same words as the last relevant one with this path and another query?"""
        if not terms:
            return False
        path = url.partition("?")[0]
        known = self._path_samples.pop(path, b"")
        self._path_samples[path] = sample
        evict_oldest(self._path_samples, _MAX_PATHS)
        return len(terms & _terms_of(known)) > VIEW_WORDS * len(terms)


def _terms_of(sample: bytes) -> frozenset[int]:
    return frozenset(np.frombuffer(sample, dtype=np.uint32).tolist())
