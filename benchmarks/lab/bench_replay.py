"""What a replayed run costs on one core, with the words of the pages read anew and looked up.

python benchmarks/lab/bench_replay.py WEB [FETCHES] [STRATEGY...]
"""

import sys
from pathlib import Path

from opilio.engine.wiring.assembly import build_page_reader
from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb


class ReadAnew(OfflineWeb):
    """Parsed pages, but every page's words are read as in a live crawl."""

    def readings(self, *_: object) -> "ReadAnew":  # type: ignore[override]
        return self

    reader = staticmethod(build_page_reader)


def main() -> None:
    folder, fetches = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    names = sys.argv[3:] or ["breadth", "best-first", "s0-earlier", "s0", "opilio"]
    web = WarcWeb.open(folder)
    pages = ParsedPages.open(web)
    topic = load_topics(folder)[0][0]
    kept, anew = OfflineWeb(web, pages), ReadAnew(web, pages)
    for name in names:
        settings = lab_settings(name, topic.brief, topic.seed_sets[0].urls, fetches)
        kept.readings(settings)
        spent = []
        for offline in (anew, kept):
            trace = replay_crawl(offline, settings)
            spent.append(f"{trace.cpu_s:5.1f} s ({1000 * trace.cpu_s / len(trace.fetches):.2f} ms each)")
        print(f"{name:12} {len(trace.fetches)} fetches: words read {spent[0]}, looked up {spent[1]}")


if __name__ == "__main__":
    main()
