"""What opening a web costs: first index, later opening, reading all pages, parsing all of them once, the oracle.

python benchmarks/lab/bench_web.py WEB
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from opilio.lab.evaluation.metrics import Referee
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb

T = TypeVar("T")


def timed(what: str, pages: int, job: Callable[[], T]) -> T:
    start = time.perf_counter()
    result = job()
    took = time.perf_counter() - start
    print(f"{what}: {took:.3f} s" + (f", {1e6 * took / pages:.0f} µs a page" if pages else ""))
    return result


def main() -> None:
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as cache_name:
        cache = Path(cache_name)
        web = timed("first index", 0, lambda: WarcWeb.open(folder, cache))
        size = len(web)
        print(f"{size} pages, {len(web.hosts)} hosts")
        timed("open again", 0, lambda: WarcWeb.open(folder, cache))
        timed("read every page", size, lambda: [len(web.response(n).body) for n in range(size)])
        pages = timed("parse every page, two processes", size, lambda: ParsedPages.open(web, cache))
        timed("look every page up", size, lambda: [pages.page(n) for n in range(size)])
        topics, _ = load_topics(folder)
        referee = Referee(web, pages, load_labels(web))
        for topic in topics[:4]:
            timed(f"oracle, {topic.name}, 1,000 fetches", 0, partial(referee.oracle, topic, topic.seed_sets[0], 1000))


if __name__ == "__main__":
    main()
