"""How much a word can tell of what sets pages of a collection apart: what subtopics are made of and named by."""

import math

import tantivy

from opilio.index.analysis import terms
from opilio.index.facets import languages_of
from opilio.index.schema import EXACT
from opilio.index.subtopics import MOST_PAGES
from opilio.text.background import shipped
from opilio.text.stopwords import stop_words
from opilio.text.vocabulary import term_of

UNSEEN = -1  # a term that no table has


class Telling:
    """Weighs words from 0 to 1, for one collection."""

    def __init__(self, searcher: tantivy.Searcher) -> None:
        self._searcher = searcher
        self._general = shipped()
        # Of all its languages: those of single pages are guessed, and the general table has no stop words at all, so
        # one that gets past the guess would pass for a rare word.
        self._stops = frozenset().union(*map(stop_words, ("en", *languages_of(searcher))))

    def weight(self, stem: str, written: str) -> float:
        """Of a stem that is written most often so: 0 for stop words and what is everywhere, else its general rarity."""
        if stem in self._stops or written in self._stops or self._is_everywhere(written):
            return 0.0
        share: float = self._general.idf(term_of(stem)) / self._general.idf(UNSEEN)
        return math.pow(share, 1.5)

    def _is_everywhere(self, written: str) -> bool:
        """Counted over whole texts: a page is clustered by its most frequent words, among which the words of a footer
        are on short pages only, and would make these a subtopic."""
        return any(self._searcher.doc_freq(EXACT, t) > MOST_PAGES * self._searcher.num_docs for t in terms(written))
