"""Pages parsed once, the link graph of a web, and what a web's summary says."""

import errno
import os
import time
from pathlib import Path

import pytest

from opilio.core.errors import OfflineWebError, ParseError
from opilio.core.records import FetchResult, Page
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.plan_builder import make_plan
from opilio.lab.webs import pages as lab_pages
from opilio.lab.webs.labels import summarize_web
from opilio.lab.webs.pages import CachedParser, ParsedPages, to_fetched
from opilio.lab.webs.resources import prune, write_atomically
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.parse.html import HtmlParser

SMALL = WebShape(
    pages=150, hosts=6, topics=2, trap_pages=8, seed_sets=2, mirrors=0.05, near_mirrors=0.05, redirects=0.05
)


class NoParser:
    """A parser that must not be asked."""

    def parse(self, fetched: FetchResult) -> Page:
        raise ParseError(f"asked for {fetched.url}")


@pytest.fixture
def parsed(small_web: WarcWeb, lab_cache: Path) -> ParsedPages:
    return ParsedPages.open(small_web, lab_cache, processes=1)


def test_cached_pages_equal_parsed_ones(small_web: WarcWeb, parsed: ParsedPages) -> None:
    cached = CachedParser(small_web, parsed, NoParser())
    for number in range(0, len(small_web), 11):
        answer = small_web.response(number)
        if answer.status == 200:
            fetched = to_fetched(small_web.urls[number], answer)
            assert cached.parse(fetched) == HtmlParser(lists=True).parse(fetched)


def test_cached_parser_parses_anew_when_the_body_differs(small_web: WarcWeb, parsed: ParsedPages) -> None:
    cached = CachedParser(small_web, parsed, HtmlParser(lists=True))
    changed = FetchResult(url=small_web.urls[0], status=200, headers=(("Content-Type", "text/html"),), body=b"<p>new")
    assert cached.parse(changed).text == "new"


def test_graph_holds_the_links_of_the_plan(small_web: WarcWeb, parsed: ParsedPages) -> None:
    """The truth of a synthetic web: the parser must find exactly the links that were planned."""
    plan = make_plan(SMALL)
    for number in range(0, len(plan.pages), 7):
        page = small_web.number_of(plan.url(number))
        assert page is not None
        planned = {plan.url(t) for t in plan.targets(number)} - {plan.url(number)}
        found = {small_web.urls[t] for t in parsed.graph.out_links(page).tolist() if t < len(small_web)}
        assert planned <= found
        assert all("/calendar/" in u or "/facets/" in u or "/session/" in u for u in found - planned)


def test_pages_are_parsed_in_processes_when_there_are_many(
    small_web: WarcWeb, parsed: ParsedPages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_pages, "_MIN_PAGES_FOR_POOL", 1)
    again = ParsedPages.open(small_web, tmp_path, processes=2)
    assert again.graph.targets.tolist() == parsed.graph.targets.tolist()
    assert len(again) == len(small_web)


def test_summary_counts_what_topics_promise(small_folder: Path, lab_cache: Path) -> None:
    summary = summarize_web(small_folder, lab_cache, processes=1)
    topics, _ = load_topics(small_folder)
    promised = [[s.reaches for s in t.seed_sets] for t in topics]
    assert [[s.relevant for s in t.seed_sets] for t in summary.topics] == promised
    assert all(s.at_depth[0] == 3 for t in summary.topics for s in t.seed_sets if s.name.startswith("on-topic"))
    assert summary.dead_links > 0
    assert not summary.problems


def test_summary_of_a_collection_needs_no_labels(small_folder: Path, tmp_path: Path, lab_cache: Path) -> None:
    (tmp_path / "pages-00001.warc.gz").write_bytes((small_folder / "web.warc.gz").read_bytes())
    summary = summarize_web(tmp_path, lab_cache, processes=1)
    assert (summary.topics, summary.labels) == ((), 0)
    assert "no labels" in summary.problems[0].detail


@pytest.mark.slow
def test_real_web_reaches_what_its_topics_say_when_present(real_webs: Path, lab_cache: Path) -> None:
    folder = real_webs / "schools-wikipedia-nohubs"
    summary = summarize_web(folder, lab_cache)
    topics, _ = load_topics(folder)
    promised = [s.reaches for t in topics for s in t.seed_sets]
    assert [s.relevant for t in summary.topics for s in t.seed_sets] == promised


def test_cache_keeps_the_newest_editions_and_those_used_of_late(tmp_path: Path) -> None:
    used = tmp_path / "read-now"
    ages = {"read-now": 9.0, "read-late": 0.5, "read-older": 1.5, "read-old": 2.0, "read-oldest": 3.0}  # days
    for name, days in ages.items():
        (tmp_path / name).mkdir()
        at = time.time() - days * 86_400
        os.utime(tmp_path / name, (at, at))
    (tmp_path / "packed").touch()
    prune(used, "read-*", keep=3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["packed", "read-late", "read-now", "read-older"]
    prune(used, "read-*", keep=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["packed", "read-late", "read-now"]


def test_pages_are_parsed_anew_when_the_cache_was_cut_off(
    small_web: WarcWeb, parsed: ParsedPages, tmp_path: Path
) -> None:
    kept = ParsedPages.open(small_web, tmp_path, processes=1).folder / "packed"
    kept.write_bytes(kept.read_bytes()[:1000])
    again = ParsedPages.open(small_web, tmp_path, processes=1)
    last = len(small_web) - 1
    assert again.page(last) == parsed.page(last) is not None


def test_cache_without_room_is_reported_and_left_clean(tmp_path: Path) -> None:
    def fill() -> None:
        with write_atomically(tmp_path / "packed") as file:
            file.write(b"some")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        OfflineWebError, match="no cache: No space left on device; set XDG_CACHE_HOME to a folder with room"
    ):
        fill()
    assert not list(tmp_path.iterdir())
