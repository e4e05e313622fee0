"""Counts the background table of src/opilio/text/data from text that every Debian machine can get.

Run from the root of the repository: python scripts/make_background.py [folder with the .deb files]
Without a folder the packages are downloaded with apt-get. One dictionary entry, saying or section is one document.
"""

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from opilio.text.term_arrays import build_idf, idf_to_bytes
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary

PACKAGES = (
    *("wordnet-base", "dict-gcide", "dict-foldoc", "dict-jargon", "dict-devil", "dict-elements"),
    *("fortunes", "anarchism", "debian-handbook"),
)
TARGET = Path(__file__).parent.parent / "src/opilio/text/data/background.npz"
SIZE = 120_000  # terms: stems, and the surface forms that differ from them
SECTION_WORDS = 150

_DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}
_NOT_PROSE = re.compile(r"\\[^\\\n]*\\|\[[^\]]*\]|--[A-Z]\w*\.?")  # pronunciation, sources and authors in GCIDE
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]+>", re.DOTALL | re.IGNORECASE)


def main() -> None:
    """Download where needed, unpack, count, write."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        unpack(Path(sys.argv[1]) if len(sys.argv) > 1 else download(root), root)
        background = build_idf((document_terms(text) for text in documents(root)), limit=SIZE)
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_bytes(idf_to_bytes(background))
    sys.stderr.write(f"{background.documents} documents, {TARGET.stat().st_size} bytes\n")


def download(root: Path) -> Path:
    """The packages, fetched by apt-get into a folder."""
    folder = root / "debs"
    folder.mkdir()
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True)
    return folder


def unpack(folder: Path, root: Path) -> None:
    """Unpack each package below `root`."""
    for name in PACKAGES:
        package = max(folder.glob(f"{name}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(package), str(root)], check=True)


def documents(root: Path) -> Iterator[str]:
    """Every document of every source, in a fixed order."""
    share = root / "usr/share"
    return chain(
        chain.from_iterable(map(glosses, sorted(share.glob("wordnet/data.*")))),
        chain.from_iterable(map(entries, sorted(share.glob("dictd/*.index")))),
        chain.from_iterable(map(sayings, sorted(share.glob("games/fortunes/*.u8")))),
        chain.from_iterable(map(sections, sorted(share.glob("doc/anarchism/markdown/**/*.md*")))),
        chain.from_iterable(map(sections, sorted(share.glob("doc/debian-handbook/html/en-US/*.html")))),
    )


def glosses(path: Path) -> Iterator[str]:
    """WordNet: the words of a synset and their gloss."""
    for line in path.read_text("utf-8", "replace").splitlines():
        fields, bar, gloss = line.partition(" | ")
        if bar and not line.startswith("  "):
            parts = fields.split()
            yield " ".join(parts[4 : 4 + 2 * int(parts[3], 16) : 2]).replace("_", " ") + " . " + gloss


def entries(index: Path) -> Iterator[str]:
    """dictd: one text per entry; several headwords may point to the same one."""
    body = gzip.decompress(index.with_suffix(".dict.dz").read_bytes())
    rows = (line.split("\t") for line in index.read_text("utf-8", "replace").splitlines())
    places = {(number(row[1]), number(row[2])) for row in rows if not row[0].startswith("00")}
    for start, length in sorted(places):
        yield _NOT_PROSE.sub(" ", body[start : start + length].decode("utf-8", "replace"))


def number(digits: str) -> int:
    """A number as dictd writes it: base 64, most significant digit first."""
    value = 0
    for digit in digits:
        value = value * 64 + _DIGITS[digit]
    return value


def sayings(path: Path) -> Iterator[str]:
    """fortune: sayings between lines with a percent sign."""
    yield from path.read_text("utf-8", "replace").split("\n%\n")


def sections(path: Path) -> Iterator[str]:
    """A long text in runs of whole paragraphs of at least SECTION_WORDS words."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    run: list[str] = []
    for paragraph in _TAG.sub(" ", raw.decode("utf-8", "replace")).split("\n\n"):
        run.append(paragraph)
        if sum(len(part.split()) for part in run) >= SECTION_WORDS:
            yield "\n".join(run)
            run = []
    yield "\n".join(run)


_STEMS = Vocabulary("english", "stem", capacity=2_000_000)
_PORTER = Vocabulary("english", "porter", capacity=2_000_000)
_FORMS = Vocabulary("english", "none", capacity=2_000_000)


def document_terms(text: str) -> Iterable[int]:
    """Stems of both kinds and surface forms, so that one table serves every normaliser."""
    found = set(tokenize(text))
    terms = {vocabulary[word] for vocabulary in (_STEMS, _PORTER, _FORMS) for word in found}
    return terms - {0}


if __name__ == "__main__":
    main()
