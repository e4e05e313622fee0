"""The context graph's classifier (Diligenti et al. 2000, S2-46): how many links a page is from a target. Pure.

Documents of each layer are back-links of the targets. The vocabulary is that of the targets and of the first layer; a
page is its forty words of highest tf·idf, of which those in the vocabulary count. One multinomial naive Bayes with a
model per layer, equal priors: a layer's size says how many pages were found, not how likely it is.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Terms = NDArray[np.int64]
Values = NDArray[np.float64]
REDUCED = 40  # words that represent a page
VOCABULARY_LAYERS = 2  # the targets and the first layer


class Layered(NamedTuple):
    """One document: its layer and its words with counts, most telling first."""

    layer: int
    words: Mapping[int, int]


class Place(NamedTuple):
    """Where a page belongs: the winning layer and how sure that is. `layer` == number of layers: none of them."""

    layer: int
    likelihood: float


class ContextModel:
    """Word probabilities per layer. Without documents every page belongs nowhere.

    `least` is the likelihood below which a page belongs to no layer: the winning posterior times the share of the
    page's words that the vocabulary knows. A page about something else shares few, whatever the posterior says.
    """

    def __init__(self, documents: Iterable[Layered] = (), least: float = 0.5) -> None:
        kept = list(documents)
        self.least = least
        self.layers = 1 + max((d.layer for d in kept), default=-1)
        known = {term for d in kept if d.layer < VOCABULARY_LAYERS for term in d.words}
        self._terms: Terms = np.array(sorted(known), dtype=np.int64)
        self._logs: Values = np.log(self._probabilities(kept))

    def _probabilities(self, documents: Sequence[Layered]) -> Values:
        """P(word | layer) with one count given to every word (Laplace)."""
        counts = np.ones((self.layers, len(self._terms)))
        place = {term: at for at, term in enumerate(self._terms.tolist())}
        for document in documents:
            said = [(place[term], count) for term, count in document.words.items() if term in place][:REDUCED]
            for at, count in said:
                counts[document.layer, at] += np.log1p(count)  # a word said fifty times is not fifty words
        return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))

    def place(self, terms: Terms, counts: Values) -> Place:
        """The layer of a page by its most telling words (already reduced)."""
        if not self.layers or not len(terms) or not len(self._terms):
            return Place(self.layers, 0.0)
        at = np.minimum(np.searchsorted(self._terms, terms), len(self._terms) - 1)
        known = self._terms[at] == terms
        weights = np.log1p(counts)
        logs = self._logs[:, at[known]] @ weights[known]
        chances = np.exp(logs - logs.max())
        winner = int(chances.argmax())
        likelihood = float(chances[winner] / chances.sum() * weights[known].sum() / weights.sum())
        return Place(winner if likelihood >= self.least else self.layers, likelihood)


def layered(
    documents: Iterable[tuple[int, Mapping[str, int]]], terms_of: Callable[[str], Sequence[int]]
) -> list[Layered]:
    """Documents whose words are written out, as terms."""
    found = []
    for layer, words in documents:
        counted: dict[int, int] = {}
        for word, count in words.items():
            for term in terms_of(word):
                counted[term] = counted.get(term, 0) + count
        found.append(Layered(layer, counted))
    return found
