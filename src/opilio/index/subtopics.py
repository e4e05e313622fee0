"""Subtopics (S0-F1): relevant pages clustered by their words, and named by the words that set a cluster apart.

Spherical k-means over tf·idf. Deterministic: the same pages give the same subtopics, whatever order they came in.
Pure; nothing here reads a file.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

FEWEST_PAGES = 12  # fewer have no parts worth naming
SAMPLE = 3_000  # pages that the centres are made of; all are assigned to them
VOCABULARY = 3_000
MOST_PAGES = 0.4  # a word that more of them have sets none apart
SMALLEST = 3  # pages; a smaller cluster joins its neighbours
CENTRE_WORDS = 120
MOST = 16
TRIES, ROUNDS = 4, 25
NEAR = 0.08  # cosine below which a page belongs to none

Matrix = np.ndarray[Any, np.dtype[np.float32]]
Places = np.ndarray[Any, np.dtype[np.int64]]


class Word(msgspec.Struct, frozen=True, array_like=True):
    """A stem of a page: how it was written most often, and how often it stands there."""

    stem: str
    written: str
    count: int


class Centre(msgspec.Struct, frozen=True):
    """A subtopic: its name, the words that tell it, and the weights of its stems."""

    name: str
    words: tuple[str, ...]
    weights: dict[str, float]


class Subtopics:
    """Centres that pages are assigned to."""

    def __init__(self, centres: Sequence[Centre]) -> None:
        self.centres = tuple(centres)
        vocabulary = sorted({stem for centre in centres for stem in centre.weights})
        self._place = {stem: place for place, stem in enumerate(vocabulary)}
        self._matrix = np.zeros((len(vocabulary), len(centres)), dtype=np.float32)
        for number, centre in enumerate(centres):
            for stem, weight in centre.weights.items():
                self._matrix[self._place[stem], number] = weight

    def of(self, words: Sequence[Word]) -> str:
        """The name of the subtopic a page belongs to; empty where none is near."""
        if not self.centres:
            return ""
        known = [(self._place[w.stem], _damped(w.count)) for w in words if w.stem in self._place]
        length = math.sqrt(sum(_damped(w.count) ** 2 for w in words))
        if not known:
            return ""
        places, weights = zip(*known, strict=True)
        near = np.array(weights, dtype=np.float32) @ self._matrix[list(places)]
        best = int(near.argmax())
        return self.centres[best].name if near[best] >= NEAR * length else ""


def cluster(
    pages: Sequence[Sequence[Word]], telling: Callable[[str, str], float] = lambda *_: 1.0, seed: int = 1
) -> list[Centre]:
    """The subtopics of pages, which are given in an order of their own (by key): largest first.

    `telling` weighs a stem, and how it is written most often, by how much it tells at all: words of every day stand
    out by chance. Those without weight are left out.
    """
    if len(pages) < FEWEST_PAGES:
        return []
    step = max(1, len(pages) // SAMPLE)
    sample = pages[::step]
    written = _spellings(sample)
    stems, rarity = _vocabulary(sample, lambda stem: telling(stem, written[stem]))
    if len(stems) < 2:
        return []
    matrix = _matrix(sample, stems, rarity)
    centres = _best_means(matrix, _how_many(len(sample)), np.random.default_rng(seed))
    assigned = (matrix @ centres.T).argmax(axis=1)
    groups = [np.flatnonzero(assigned == number) for number in range(len(centres))]
    kept = sorted((g for g in groups if len(g) >= SMALLEST), key=lambda g: (-len(g), int(g[0])))
    return _named(written, list(stems), rarity, matrix, kept)


def _how_many(pages: int) -> int:
    """
    >>> [_how_many(n) for n in (12, 136, 1000)]
    [2, 6, 16]
    """
    return max(2, min(MOST, round(math.sqrt(pages / 4))))


def _damped(count: int) -> float:
    return 1.0 + math.log(count)


def _vocabulary(pages: Sequence[Sequence[Word]], telling: Callable[[str], float]) -> tuple[dict[str, int], Matrix]:
    """The stems that some pages have and others have not, and how rare each is."""
    frequency = Counter(word.stem for words in pages for word in words)
    middling = {s: telling(s) for s, n in frequency.items() if 2 <= n <= MOST_PAGES * len(pages)}
    chosen = sorted((s for s in middling if middling[s] > 0), key=lambda s: (-frequency[s], s))[:VOCABULARY]
    rarity = np.array([math.log(len(pages) / frequency[s]) * middling[s] for s in chosen], dtype=np.float32)
    return {stem: place for place, stem in enumerate(chosen)}, rarity


def _matrix(pages: Sequence[Sequence[Word]], stems: Mapping[str, int], rarity: Matrix) -> Matrix:
    matrix = np.zeros((len(pages), len(stems)), dtype=np.float32)
    for row, words in enumerate(pages):
        for word in words:
            place = stems.get(word.stem)
            if place is not None:
                matrix[row, place] = _damped(word.count)
    return _unit(matrix * rarity)


def _unit(matrix: Matrix) -> Matrix:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: Matrix = matrix / np.maximum(lengths, 1e-9)
    return unit


def _best_means(matrix: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """The centres of the best of a few tries."""
    tries = [_means(matrix, _apart(matrix, count, rng)) for _ in range(TRIES)]
    return max(tries, key=lambda centres: float((matrix @ centres.T).max(axis=1).sum()))


def _apart(matrix: Matrix, count: int, rng: np.random.Generator) -> Matrix:
    """Pages far from each other to begin with (k-means++)."""
    chosen = [int(rng.integers(len(matrix)))]
    nearest = matrix @ matrix[chosen[0]]
    while len(chosen) < count:
        chances = np.maximum(1.0 - nearest, 0.0).astype(np.float64) ** 2
        chosen.append(int(rng.choice(len(matrix), p=chances / chances.sum())) if chances.sum() > 0 else 0)
        nearest = np.maximum(nearest, matrix @ matrix[chosen[-1]])
    return matrix[chosen].copy()


def _means(matrix: Matrix, centres: Matrix) -> Matrix:
    assigned: Places = np.full(len(matrix), -1)
    for _ in range(ROUNDS):
        now = (matrix @ centres.T).argmax(axis=1)
        if (now == assigned).all():
            break
        assigned = now
        sums = np.zeros_like(centres)
        np.add.at(sums, assigned, matrix)
        centres = np.where(sums.any(axis=1, keepdims=True), _unit(sums), centres)
    return centres


def _named(
    written: Mapping[str, str], order: Sequence[str], rarity: Matrix, matrix: Matrix, groups: Sequence[Places]
) -> list[Centre]:
    """Each group with the words that stand out in it, no name twice. `order`: the stems, as in the matrix."""
    means = _unit(np.array([matrix[group].mean(axis=0) for group in groups], dtype=np.float32))
    centres, taken = list[Centre](), set[str]()
    for number, mean in enumerate(means):
        others = means[np.arange(len(means)) != number]
        spread = np.sqrt((matrix[groups[number]] > 0).mean(axis=0))  # a word of many of its pages names it better
        apart = (mean - (others.mean(axis=0) if len(others) else 0.0)) * spread
        words = [written[order[place]] for place in np.argsort(-apart, kind="stable")[:12] if apart[place] > 0]
        name = _name(words, taken)
        taken.add(name)
        heavy = np.argsort(-mean, kind="stable")[:CENTRE_WORDS]
        weights = {order[place]: round(float(mean[place] * rarity[place]), 5) for place in heavy if mean[place] > 0}
        centres.append(Centre(name, tuple(words), weights))
    return centres


def _name(words: Sequence[str], taken: Iterable[str]) -> str:
    """Three telling words; more where that name is taken."""
    for length in range(min(3, len(words)), len(words) + 1):
        name = ", ".join(words[:length])
        if name not in taken:
            return name
    return f"{', '.join(words[:3])} ({len(set(taken)) + 1})"


def _spellings(pages: Sequence[Sequence[Word]]) -> dict[str, str]:
    """How each stem is written most often."""
    seen: dict[str, Counter[str]] = {}
    for words in pages:
        for word in words:
            seen.setdefault(word.stem, Counter())[word.written] += word.count
    return {stem: min(spelt, key=lambda w: (-spelt[w], len(w), w)) for stem, spelt in seen.items()}
