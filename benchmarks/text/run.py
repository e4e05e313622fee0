"""How long words, stems and readings take, beside the fastest line found elsewhere: CPU ms per 1,360 words.

python benchmarks/text/run.py --warc some.warc.gz --pages 200      response records of a WARC file
python benchmarks/text/run.py --html /usr/share/doc --pages 200    real HTML files of documentation packages

The line to beat is bytes.translate + split + Counter + a dictionary of stems: it keeps no order, knows no links and
reads ASCII only. Ways are measured in turns, so that a busy machine slows all of them alike.
"""

import argparse
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import Stemmer

from opilio.core.records import FetchResult, Page
from opilio.parse.html import HtmlParser
from opilio.text.languages import identify_language, stop_words
from opilio.text.reading import PageReader, SentenceContext, WindowContext
from opilio.text.term_arrays import TermEncoder
from opilio.text.tokens import UrlTerms, tokenize, tokenize_marked
from opilio.text.vocabulary import Vocabulary

WORDS = 1_360  # of a page in the measurements this is compared with


def from_folder(folder: Path, count: int) -> list[bytes]:
    files = sorted(p for p in folder.rglob("*.html") if p.is_file() and 2_000 < p.stat().st_size < 400_000)
    random.Random(1).shuffle(files)
    return [p.read_bytes() for p in files[:count]]


def from_warc(archive: Path, count: int) -> list[bytes]:
    from fastwarc.warc import ArchiveIterator

    with archive.open("rb") as stream:
        bodies = [record.reader.read() for record, _ in zip(ArchiveIterator(stream), range(count * 10), strict=False)]
    return random.Random(1).sample(bodies, min(count, len(bodies)))


class StackLine:
    """bytes.translate + split + Counter + cached stems."""

    def __init__(self) -> None:
        self._table = bytes(ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else 32 for b in range(256))
        self._stem = Stemmer.Stemmer("english").stemWord
        self._stop = {word.encode() for word in stop_words("en")}
        self._stems: dict[bytes, str] = {}

    def counts(self, page: Page) -> dict[str, int]:
        found: dict[str, int] = {}
        stems = self._stems
        for word, n in Counter(page.flow.encode().translate(self._table).split()).items():
            stem = stems.get(word)
            if stem is None:
                stem = stems[word] = "" if word in self._stop else self._stem(word.decode())
            if stem:
                found[stem] = found.get(stem, 0) + n
        return found


def ways() -> dict[str, Callable[[Page], object]]:
    vocabulary = Vocabulary()
    urls = UrlTerms(vocabulary)
    reader = PageReader(vocabulary)
    codes = TermEncoder(vocabulary)
    return {
        "the line to beat: counts of stems": StackLine().counts,
        "stems, counted": lambda page: codes.count_terms(page.flow),
        "words": lambda page: tokenize(page.flow),
        "words with marks": lambda page: tokenize_marked(page.flow),
        "terms in order": lambda page: vocabulary.terms(page.flow),
        "terms in order, counted": lambda page: Counter(vocabulary.terms(page.flow)),
        "whole reading": reader.read,
        "whole reading, counted": lambda page: Counter(reader.read(page).terms),
        "whole reading, S1 windows": PageReader(vocabulary, WindowContext()).read,
        "whole reading, S3 sentences": PageReader(vocabulary, SentenceContext()).read,
        "terms of all links' URLs": lambda page: urls.terms_batch([link.url for link in page.links]),
        "language identified": lambda page: identify_language(page.flow),
    }


def measure(work: dict[str, Callable[[Page], object]], pages: Sequence[Page], rounds: int) -> dict[str, float]:
    """The best CPU seconds of each way over all pages; the first round only warms the caches."""
    best = dict.fromkeys(work, float("inf"))
    for round_ in range(rounds + 1):
        for name, way in work.items():
            began = time.process_time()
            for page in pages:
                way(page)
            best[name] = min(best[name], time.process_time() - began) if round_ else best[name]
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--warc", type=Path)
    options.add_argument("--html", type=Path, default=Path("/usr/share/doc"))
    options.add_argument("--pages", type=int, default=200)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    bodies = from_warc(given.warc, given.pages) if given.warc else from_folder(given.html, given.pages)
    parser, headers = HtmlParser(), (("Content-Type", "text/html"),)
    fetched = [
        FetchResult(url=f"http://example.org/{i}", status=200, headers=headers, body=b) for i, b in enumerate(bodies)
    ]
    pages = [parser.parse(answer) for answer in fetched]
    total = sum(len(tokenize(page.flow)) for page in pages)
    links = sum(page.flow.count("\x02") for page in pages)
    print(f"{len(pages)} pages, {total / len(pages):.0f} words and {links / len(pages):.0f} links a page")
    best = measure(ways(), pages, given.rounds)
    base = next(iter(best.values()))
    for name, seconds in best.items():
        print(
            f"{name:36s} {seconds / total * WORDS * 1000:7.3f} ms   {base / seconds:5.2f} x as fast as the line to beat"
        )


if __name__ == "__main__":
    main()
