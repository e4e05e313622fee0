"""Makes src/opilio/text/data/thai_words.txt, the words by which the tokenizer divides Thai text.

Needs one package besides opilio: pip install pythainlp==5.4.0
Run from the root of the repository: python scripts/make_thai_words.py

The words are the most frequent ones of the Thai National Corpus, most frequent first, in the tokenizer's form.
scripts/make_word_vectors.py encodes the first of them.
"""

import re
import unicodedata
from pathlib import Path

from pythainlp.corpus.tnc import word_freqs

TARGET = Path(__file__).parent.parent / "src/opilio/text/data/thai_words.txt"
SIZE = 20_000
IS_WORD = re.compile("[\u0e01-\u0e4e]{2,}").fullmatch


def main() -> None:
    """Order the words by frequency, and write those of Thai letters only."""
    counted = sorted(word_freqs(), key=lambda pair: (-pair[1], pair[0]))
    words = dict.fromkeys(unicodedata.normalize("NFKC", word) for word, _ in counted if IS_WORD(word))
    TARGET.write_text("\n".join([*words][:SIZE]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
