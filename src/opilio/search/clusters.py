"""Subtopics (S0-F1): relevant pages clustered by their words and what these mean.

A cluster is named by the words that distinguish it. Spherical k-means over tf·idf of each page's most frequent stems,
and the sum of their vectors; title and headings count more. Deterministic: the same pages give the same subtopics, in
whatever order they came in.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import tantivy

from opilio.search.results import IndexDocument, document_languages
from opilio.search.schema import EXACT_FIELD, index_terms
from opilio.text.languages import StemFunction, language_code, make_normalizer, stop_words
from opilio.text.term_arrays import load_default_idf
from opilio.text.tokens import is_short_word, tokenize
from opilio.text.vocabulary import term_id
from opilio.text.word_vectors import DIMENSIONS, load_surface_vectors

MIN_PAGES = 12  # fewer pages are not clustered
# Pages that determine the centroids; all pages are assigned to them.
MAX_SAMPLE_PAGES = 3_000
MAX_VOCABULARY = 3_000
MAX_DOCUMENT_SHARE = 0.4  # words on more pages distinguish none
MIN_CLUSTER_PAGES = 3  # smaller clusters are dropped
MAX_CENTROID_STEMS = 400
# Of the vectors of stems, beside the stems themselves; measured in docs/lab/meaning.md.
MEANING_WEIGHT = 0.25
MAX_CLUSTERS = 16
RESTARTS, MAX_ITERATIONS = 4, 25
# Cosine below which a page has no subtopic.
MIN_SIMILARITY = 0.08

Matrix = np.ndarray[Any, np.dtype[np.float32]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]


class StemCount(msgspec.Struct, frozen=True, array_like=True):
    """A stem of a page: its most common spelling, and its count."""

    stem: str
    spelling: str
    count: int


class SubtopicCentroid(msgspec.Struct, frozen=True):
    """A subtopic: its name, its distinctive words, and the weights of its stems."""

    name: str
    words: tuple[str, ...]
    weights: dict[str, float]


class SubtopicClassifier:
    """Assigns pages to the nearest centroid."""

    def __init__(self, centroids: Sequence[SubtopicCentroid]) -> None:
        self.centroids = tuple(centroids)
        vocabulary = sorted({stem for centroid in centroids for stem in centroid.weights})
        self._row_by_stem = {stem: place for place, stem in enumerate(vocabulary)}
        self._matrix = np.zeros((len(vocabulary), len(centroids)), dtype=np.float32)
        for number, centroid in enumerate(centroids):
            for stem, weight in centroid.weights.items():
                self._matrix[self._row_by_stem[stem], number] = weight

    def classify(self, words: Sequence[StemCount]) -> str:
        """The name of a page's subtopic; empty if none is near."""
        if not self.centroids:
            return ""
        known = [(self._row_by_stem[w.stem], _damped(w.count)) for w in words if w.stem in self._row_by_stem]
        length = math.sqrt(sum(_damped(w.count) ** 2 for w in words))
        if not known:
            return ""
        places, weights = zip(*known, strict=True)
        near = np.array(weights, dtype=np.float32) @ self._matrix[list(places)]
        best = int(near.argmax())
        return self.centroids[best].name if near[best] >= MIN_SIMILARITY * length else ""


def cluster_pages(
    pages: Sequence[Sequence[StemCount]], distinctiveness: Callable[[str, str], float] = lambda *_: 1.0, seed: int = 1
) -> list[SubtopicCentroid]:
    """The subtopics of pages, largest first. The order of the pages must be fixed (by key).

    `distinctiveness` weights a stem and its most common spelling: everyday words stand out by chance. Stems of weight 0
    are ignored.
    """
    if len(pages) < MIN_PAGES:
        return []
    step = max(1, len(pages) // MAX_SAMPLE_PAGES)
    sample = pages[::step]
    spellings = _spellings(sample)
    stems, rarity = _vocabulary(sample, lambda stem: distinctiveness(stem, spellings[stem]))
    if len(stems) < 2:
        return []
    matrix = _matrix(sample, stems, rarity)
    meanings = _meanings([spellings[stem] for stem in stems])
    points = _unit(np.hstack((matrix, matrix @ meanings)))
    centroids = _best_means(points, _cluster_count(len(sample)), np.random.default_rng(seed))
    assigned = (points @ centroids.T).argmax(axis=1)
    groups = [np.flatnonzero(assigned == number) for number in range(len(centroids))]
    kept = sorted((g for g in groups if len(g) >= MIN_CLUSTER_PAGES), key=lambda g: (-len(g), int(g[0])))
    weights = [_stem_weights(points[group].mean(axis=0), meanings) * rarity for group in kept]
    return _named(spellings, list(stems), weights, matrix, kept)


def _cluster_count(pages: int) -> int:
    """
    >>> [_cluster_count(n) for n in (12, 136, 1000)]
    [2, 6, 16]
    """
    return max(2, min(MAX_CLUSTERS, round(math.sqrt(pages / 4))))


def _damped(count: int) -> float:
    return 1.0 + math.log(count)


def _vocabulary(
    pages: Sequence[Sequence[StemCount]], distinctiveness: Callable[[str], float]
) -> tuple[dict[str, int], Matrix]:
    """The stems that are on some but not most pages, and the rarity of each."""
    frequency = Counter(word.stem for words in pages for word in words)
    middling = {s: distinctiveness(s) for s, n in frequency.items() if 2 <= n <= MAX_DOCUMENT_SHARE * len(pages)}
    chosen = sorted((s for s in middling if middling[s] > 0), key=lambda s: (-frequency[s], s))[:MAX_VOCABULARY]
    rarity = np.array([math.log(len(pages) / frequency[s]) * middling[s] for s in chosen], dtype=np.float32)
    return {stem: place for place, stem in enumerate(chosen)}, rarity


def _matrix(pages: Sequence[Sequence[StemCount]], stems: Mapping[str, int], rarity: Matrix) -> Matrix:
    matrix = np.zeros((len(pages), len(stems)), dtype=np.float32)
    for row, words in enumerate(pages):
        for word in words:
            place = stems.get(word.stem)
            if place is not None:
                matrix[row, place] = _damped(word.count)
    return _unit(matrix * rarity)


def _meanings(words: Sequence[str]) -> Matrix:
    """The vector of each word, without the mean of all of them; zeros for an unknown word."""
    table = load_surface_vectors()
    rows = table.rows(np.array([term_id(word) for word in words], dtype=np.uint32))
    known = np.flatnonzero(rows >= 0)
    vectors = np.zeros((len(words), DIMENSIONS), dtype=np.float32)
    if len(known):
        vectors[known] = table.vectors(rows[known], np.ones(len(known)))
        vectors[known] -= vectors[known].mean(axis=0)
    return MEANING_WEIGHT * vectors


def _stem_weights(mean: Matrix, meanings: Matrix) -> Matrix:
    """What each stem of a page adds to its similarity to a cluster: by itself, and by its meaning."""
    centroid = _unit(mean[None, :])[0]
    weights: Matrix = centroid[: len(meanings)] + meanings @ centroid[len(meanings) :]
    return weights


def _unit(matrix: Matrix) -> Matrix:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: Matrix = matrix / np.maximum(lengths, 1e-9)
    return unit


def _best_means(matrix: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """The centroids of the best of several runs."""
    tries = [_means(matrix, _initial_centroids(matrix, count, rng)) for _ in range(RESTARTS)]
    return max(tries, key=lambda centroids: float((matrix @ centroids.T).max(axis=1).sum()))


def _initial_centroids(matrix: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """Initial centroids: pages far from each other (k-means++)."""
    chosen = [int(rng.integers(len(matrix)))]
    nearest = matrix @ matrix[chosen[0]]
    while len(chosen) < count:
        chances = np.maximum(1.0 - nearest, 0.0).astype(np.float64) ** 2
        chosen.append(int(rng.choice(len(matrix), p=chances / chances.sum())) if chances.sum() > 0 else 0)
        nearest = np.maximum(nearest, matrix @ matrix[chosen[-1]])
    return matrix[chosen].copy()


def _means(matrix: Matrix, centroids: Matrix) -> Matrix:
    assigned: IntArray = np.full(len(matrix), -1)
    for _ in range(MAX_ITERATIONS):
        now = (matrix @ centroids.T).argmax(axis=1)
        if (now == assigned).all():
            break
        assigned = now
        sums = np.zeros_like(centroids)
        np.add.at(sums, assigned, matrix)
        centroids = np.where(sums.any(axis=1, keepdims=True), _unit(sums), centroids)
    return centroids


def _named(
    spellings: Mapping[str, str],
    order: Sequence[str],
    weights: Sequence[Matrix],
    matrix: Matrix,
    groups: Sequence[IntArray],
) -> list[SubtopicCentroid]:
    """Each group with its distinctive words and a unique name. `order`: the stems, as in the matrix."""
    means = _unit(np.array([matrix[group].mean(axis=0) for group in groups], dtype=np.float32))
    centroids, taken = list[SubtopicCentroid](), set[str]()
    for number, mean in enumerate(means):
        others = means[np.arange(len(means)) != number]
        # A word on many pages of the group names it better.
        spread = np.sqrt((matrix[groups[number]] > 0).mean(axis=0))
        apart = (mean - (others.mean(axis=0) if len(others) else 0.0)) * spread
        words = [spellings[order[place]] for place in np.argsort(-apart, kind="stable")[:12] if apart[place] > 0]
        name = _name(words, taken)
        taken.add(name)
        own = weights[number]
        heavy = np.argsort(-np.abs(own), kind="stable")[:MAX_CENTROID_STEMS]
        kept = {order[place]: round(float(own[place]), 5) for place in heavy if own[place]}
        centroids.append(SubtopicCentroid(name, tuple(words), kept))
    return centroids


def _name(words: Sequence[str], taken: Iterable[str]) -> str:
    """The three most distinctive words; more if that name is taken."""
    for length in range(min(3, len(words)), len(words) + 1):
        name = ", ".join(words[:length])
        if name not in taken:
            return name
    return f"{', '.join(words[:3])} ({len(set(taken)) + 1})"


def _spellings(pages: Sequence[Sequence[StemCount]]) -> dict[str, str]:
    """The most common spelling of each stem."""
    seen: dict[str, Counter[str]] = {}
    for words in pages:
        for word in words:
            seen.setdefault(word.stem, Counter())[word.spelling] += word.count
    return {stem: min(spelt, key=lambda w: (-spelt[w], len(w), w)) for stem, spelt in seen.items()}


MAX_PAGE_STEMS = 60
MAX_TEXT_CHARACTERS = 30_000
TITLE_WEIGHT, HEADINGS_WEIGHT = 5, 2  # counts of their words
_FIGURE = re.compile(r"\d")
# Captions and lists of pictures name files; their endings distinguish no subject.
_PICTURE_ENDING = re.compile(r"\.(?:jpe?g|png|gif|svg|webp)\b", re.IGNORECASE)
_decode = msgspec.msgpack.Decoder(list[StemCount]).decode
_encode = msgspec.msgpack.Encoder().encode


@lru_cache(maxsize=64)
def _stem(code: str) -> StemFunction:
    return make_normalizer(code, "stem")


def count_stems(page: IndexDocument) -> list[StemCount]:
    """The stems of a page, most frequent first."""
    code = language_code(page.language)
    counts = Counter(tokenize(_PICTURE_ENDING.sub(" ", page.body[:MAX_TEXT_CHARACTERS])))
    for text, times in ((page.title, TITLE_WEIGHT), (page.headings[:MAX_TEXT_CHARACTERS], HEADINGS_WEIGHT)):
        counts.update({word: times * n for word, n in Counter(tokenize(text[:MAX_TEXT_CHARACTERS])).items()})
    stem, stop = _stem(code), stop_words(code)
    # Stem -> most common spelling, its count, total count.
    by_stem: dict[str, tuple[str, int, int]] = {}
    for word, count in counts.items():
        # Not isalpha(), which is False for vowel signs.
        if is_short_word(word) or word in stop or _FIGURE.search(word):
            continue
        key = stem(word)
        best, most, total = by_stem.get(key, (word, 0, 0))
        by_stem[key] = (word, count, total + count) if count > most else (best, most, total + count)
    ranked = sorted(by_stem.items(), key=lambda pair: (-pair[1][2], pair[0]))[:MAX_PAGE_STEMS]
    return [StemCount(key, best, total) for key, (best, _, total) in ranked]


def pack_stems(found: list[StemCount]) -> bytes:
    """Encode stems for storage.

    >>> unpack_stems(pack_stems([StemCount("wren", "wrens", 2)]))
    [StemCount(stem='wren', spelling='wrens', count=2)]
    """
    return _encode(found)


def unpack_stems(blob: bytes) -> list[StemCount]:
    return _decode(blob) if blob else []


UNKNOWN_TERM = -1  # a term outside every table


class TermDistinctiveness:
    """Weights words of a collection from 0 to 1 by how well they distinguish pages."""

    def __init__(self, searcher: tantivy.Searcher) -> None:
        self._searcher = searcher
        self._background = load_default_idf()
        # Of all languages of the collection: the detected language of a page may be wrong, and the background table
        # contains no stop words, so a stop word of another language would look rare.
        self._stop_words = frozenset().union(*map(stop_words, ("en", *document_languages(searcher))))

    def weight(self, stem: str, spelling: str) -> float:
        """The weight of a stem: 0 for stop words and words on most pages, else its rarity in general."""
        if stem in self._stop_words or spelling in self._stop_words or self._is_ubiquitous(spelling):
            return 0.0
        share: float = self._background.idf(term_id(stem)) / self._background.idf(UNKNOWN_TERM)
        return math.pow(share, 1.5)

    def _is_ubiquitous(self, spelling: str) -> bool:
        """True for a word on most pages. Whole texts are counted: footer words are among the most frequent ones only on
        short pages, which would otherwise become a subtopic."""
        return any(
            self._searcher.doc_freq(EXACT_FIELD, t) > MAX_DOCUMENT_SHARE * self._searcher.num_docs
            for t in index_terms(spelling)
        )
