"""How fast search answers, at 100,000 pages: the first page of hits with snippets, facets and suggestion.

    python benchmarks/search/speed.py --pages 100000 --into FOLDER [--words 400]

The pages are made: words by Zipf's law, the frequent ones those of the shipped word vectors, the others pronounceable;
titles of four words, a thousand hosts, five languages. A folder that exists is searched again. For comparison, the same
queries are run by SQLite's FTS5, text alone.
"""

import argparse
import io
import sqlite3
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np

from opilio.core.records import url_key
from opilio.frontier.schema import create_frontier_tables
from opilio.search.index import FullTextIndex, index_write_lock, prepare_index_folder
from opilio.search.indexer import DocumentIndexer
from opilio.search.manifest import IndexManifest, store_meanings
from opilio.search.results import IndexDocument, SearchFilters
from opilio.search.searcher import Searcher
from opilio.store.collection import Collection, collection_exists
from opilio.text.languages import is_stop_word

BATCH, VOCABULARY, KNOWN_WORDS, HOSTS = 1_000, 200_000, 40_000, 1_000
LANGUAGES = ("en", "en", "en", "de", "fr", "es", "ru")
FIRST_QUESTIONS = 5
SYLLABLES = "ba be bi bo da de di do fa fe fi ga ge go ka ke ki la le li lo ma me mi mo na ne no pa pe ra".split()


def word_list() -> list[str]:
    """A word for every rank: known ones first, without stop words."""
    data = files("opilio.text").joinpath("data/word_vectors.npz").read_bytes()
    with np.load(io.BytesIO(data)) as table:
        words = zlib.decompress(table["words"].tobytes()).decode().split("\n")[:KNOWN_WORDS]
    known = [word for word in words if not is_stop_word(word) and word.isascii() and len(word) > 2]
    return [*known, *map(made_word, range(VOCABULARY - len(known)))]


def made_word(number: int) -> str:
    """A different word for every number; low numbers give short words."""
    parts = []
    number += 1
    while number:
        number, digit = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[digit])
    return "".join(parts) + "nx"


def documents(pages: int, words: int) -> Iterator[IndexDocument]:
    rng = np.random.default_rng(1)
    names = word_list()
    for n in range(pages):
        drawn = np.minimum(rng.zipf(1.15, words + 4) - 1, VOCABULARY - 1)
        text = [names[i] for i in drawn]
        yield IndexDocument(
            key=url_key(url := f"http://host{n % HOSTS}.example/{n}"), seq=n, url=url, host=f"host{n % HOSTS}.example",
            title=" ".join(text[:4]), body=" ".join(text[4:]), anchors=(text[0],),
            language=LANGUAGES[n % len(LANGUAGES)], genre=("news", "", "blogs")[n % 3], score=float(rng.random()),
            relevant=n % 5 == 0, date=1.6e9 + n * 1000, fetched_at=1.7e9,
        )  # fmt: skip


def make(folder: Path, pages: int, words: int) -> None:
    Collection.create(folder, "", [create_frontier_tables]).close()
    started = time.process_time()
    with index_write_lock(folder):
        place = prepare_index_folder(folder)
        index, manifest = FullTextIndex(place), IndexManifest(place)
        plain = sqlite3.connect(folder / "fts.db")
        plain.execute("CREATE VIRTUAL TABLE t USING fts5(title, body)")
        with index.writer() as writer:
            intake = DocumentIndexer(writer, manifest)
            batch: list[IndexDocument] = []
            for document in documents(pages, words):
                batch.append(document)
                if len(batch) == BATCH:
                    intake.index_batch(batch, ())
                    plain.executemany("INSERT INTO t VALUES (?, ?)", [(d.title, d.body) for d in batch])
                    batch = []
            intake.index_batch(batch, ())
            spent = (time.process_time() - started) / pages * 1000
            print(f"indexed: {spent:.2f} ms of CPU a page, with making it and FTS5")
            started = time.process_time()
            intake.update_subtopics(FullTextIndex(place).searcher())
            print(f"subtopics: {time.process_time() - started:.1f} s of CPU")
        started = time.process_time()
        store_meanings(place, manifest)
        print(f"vectors: {time.process_time() - started:.1f} s of CPU")
        plain.commit()
        plain.close()
        manifest.close()
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    print(f"index: {size / pages / 1000:.1f} KB a page")


def timed(name: str, questions: Sequence[str], ask: Callable[[str], object]) -> None:
    took, busy = [], time.process_time()
    for question in questions:
        started = time.perf_counter()
        ask(question)
        took.append((time.perf_counter() - started) * 1000)
    cpu = (time.process_time() - busy) / len(took) * 1000
    ordered = sorted(took)
    p95 = ordered[int(len(ordered) * 0.95)]
    result = " | ".join(f"{ms:.1f}" for ms in (statistics.median(took), p95, ordered[-1], cpu))
    print(f"| {name} | {len(took)} | {result} |", flush=True)


def search(folder: Path) -> None:
    searcher = Searcher([folder])
    rng = np.random.default_rng(2)

    names = word_list()

    def drawn(low: int, high: int) -> list[str]:
        return [names[int(n)] for n in rng.integers(low, high, 60)]

    common, middle, rare = drawn(0, 50), drawn(200, 5_000), drawn(20_000, 100_000)
    pairs = [f"{a} {b}" for a, b in zip(middle, rare, strict=True)]
    print("| question | n | median ms | 95 % ms | worst ms | mean CPU ms |\n|---|---|---|---|---|---|")
    timed("first of a process, common word", common[:1], searcher.search)
    timed("one rare word", rare, searcher.search)
    timed("one middling word", middle, searcher.search)
    timed("one of the commonest words", common, searcher.search)
    timed("a middling and a rare word", pairs, searcher.search)
    timed("three common words", [" ".join(common[i : i + 3]) for i in range(50)], searcher.search)
    first_words = [" ".join(common[i : i + 2] + middle[i : i + 4]) for i in range(50)]
    timed("a question of six words, by meaning too", first_words, searcher.search)
    timed(
        "a question with a rare word",
        [f"what did {a} {b} {c}" for a, b, c in zip(rare, middle, common, strict=True)],
        searcher.search,
    )
    timed("passages of a question", first_words[:20], searcher.passages)
    timed("a phrase of common words", [f'"{a} {b}"' for a, b in pairwise(common)], searcher.search)
    timed("a beginning", [f"{w[:4]}*" for w in middle], searcher.search)
    timed("a nearly spelt word", [f"{w}~" for w in middle], searcher.search)
    timed("a misspelt word (suggestion)", [f"{w[:-3]}x{w[-2:]}" for w in rare], searcher.search)
    narrow = SearchFilters(languages=("de",), relevant=True, after="2020-10-01")
    timed("a common word with three filters", common, lambda q: searcher.search(q, narrow))
    facets = SearchFilters(languages=("de", "en"), genres=("news",), bands=("high", "low"))
    timed("a common word with three facets chosen", common, lambda q: searcher.search(q, facets))
    timed("browsing everything", [""] * 20, searcher.search)
    timed("page 50 of a common word", common[:20], lambda q: searcher.search(q, page=50))
    timed("pages like a page", [f"http://host{n}.example/{n}" for n in range(0, 900, 30)], searcher.similar)
    plain = sqlite3.connect(folder / "fts.db")
    ask = "SELECT snippet(t, 1, '[', ']', '…', 30) FROM t WHERE t MATCH ? ORDER BY rank LIMIT 10"
    timed("FTS5 alone: common words", common, lambda q: plain.execute(ask, (q,)).fetchall())
    timed("FTS5 alone: a middling and a rare word", pairs, lambda q: plain.execute(ask, (q,)).fetchall())


def ask_first(folder: Path) -> None:
    """The first question of a process, which reads the vectors of words and pages."""
    names, number = word_list(), time.time_ns() % 1_000
    searcher = Searcher([folder])
    timed("first question of a process, by meaning", [" ".join(names[number : number + 5])], searcher.search)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--first", action="store_true", help="only the first question of a process")
    args = parser.parse_args()
    if args.first:
        ask_first(args.into)
        return
    if not collection_exists(args.into):
        make(args.into, args.pages, args.words)
        subprocess.run([sys.executable, *sys.argv], check=True)  # what is asked first is asked by a new process
        return
    search(args.into)
    for _ in range(FIRST_QUESTIONS):
        subprocess.run([sys.executable, *sys.argv, "--first"], check=True)


if __name__ == "__main__":
    main()
