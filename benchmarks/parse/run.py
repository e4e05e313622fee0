"""How long parsing takes, whole and in parts, beside other parsers: CPU milliseconds a page, best of several rounds.

python benchmarks/parse/run.py --html /usr/share/doc --pages 300      real HTML files of documentation packages
python benchmarks/parse/run.py --warc some.warc.gz --pages 300        response records of a WARC file
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import turbohtml

from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_urls
from opilio.parse.html import HtmlParser


def from_folder(folder: Path, count: int) -> list[bytes]:
    files = sorted(p for p in folder.rglob("*.html") if p.is_file() and 2_000 < p.stat().st_size < 400_000)
    random.Random(1).shuffle(files)
    return [p.read_bytes() for p in files[:count]]


def from_warc(archive: Path, count: int) -> list[bytes]:
    from fastwarc.warc import ArchiveIterator

    with archive.open("rb") as stream:
        bodies = [record.reader.read() for record, _ in zip(ArchiveIterator(stream), range(count * 10), strict=False)]
    return random.Random(1).sample(bodies, min(count, len(bodies)))


def cpu_ms(work: Callable[[bytes], object], bodies: Sequence[bytes], rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        for body in bodies:
            work(body)
        best = min(best, time.process_time() - began)
    return best / len(bodies) * 1_000


def peers() -> dict[str, Callable[[bytes], object]]:
    """Trees only: what the other parsers need before any extraction."""
    found: dict[str, Callable[[bytes], object]] = {}
    try:
        from selectolax.lexbor import LexborHTMLParser

        found["selectolax, tree only"] = lambda body: LexborHTMLParser(body).root
    except ImportError:
        pass
    try:
        from resiliparse.parse.html import HTMLTree

        found["resiliparse, tree only"] = HTMLTree.parse_from_bytes
    except ImportError:
        pass
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--html", type=Path, default=Path("/usr/share/doc"))
    options.add_argument("--warc", type=Path)
    options.add_argument("--pages", type=int, default=300)
    chosen = options.parse_args()
    bodies = from_warc(chosen.warc, chosen.pages) if chosen.warc else from_folder(chosen.html, chosen.pages)
    parser = HtmlParser()
    base = "http://example.org/doc/a/page.html"

    def whole(body: bytes) -> object:
        return parser.parse(FetchResult(url=base, headers=(("Content-Type", "text/html"),), body=body))

    pages = [parser.parse(FetchResult(url=base, headers=(("Content-Type", "text/html"),), body=b)) for b in bodies]
    size = sum(map(len, bodies)) / len(bodies)
    links = sum(len(page.links) for page in pages) / len(pages)
    print(f"{len(bodies)} pages, {size / 1_000:.1f} KB and {links:.0f} links a page")
    tasks = {
        "turbohtml, tree only": lambda body: turbohtml.parse(body, positions=False),
        **peers(),
        "opilio, whole": whole,
    }
    for name, task in tasks.items():
        ms = cpu_ms(task, bodies)
        print(f"{name:24} {ms:7.3f} ms a page   {size / 1_000 / ms:6.1f} KB/ms   {1_000 / ms:6.0f} pages/s")
    hrefs = [[a.attr("href") or "" for a in turbohtml.parse(b).find_all("a")] for b in bodies]
    began = time.process_time()
    for many in hrefs:
        canonicalize_urls(many, base)
    rate = sum(map(len, hrefs)) / (time.process_time() - began) / 1_000
    print(f"canonical_all            {rate:7.0f} thousand addresses/s")


if __name__ == "__main__":
    main()
