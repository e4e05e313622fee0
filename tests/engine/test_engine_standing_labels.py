"""A label of a page is valid when the page changes, moves or returns, until it is removed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.explanations import explained_page
from checks.small_webs import BIRDS, SmallWeb, crawl, page, redirect, rows, served, settings_for, word
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why

ROOT = "http://a.example/"
DAY = 86_400.0
WEEK = 7 * DAY


def article(number: int, more: str = "", links: tuple[str, ...] = ()) -> RecordedResponse:
    return page(f"{BIRDS} {word(number)} {word(number + 100)} {more}", links)


class Site:
    """A site of birds, crawled by a judge that finds all of it relevant; a label says that /1 is not."""

    def __init__(self, folder: Path, server: Any, web: SmallWeb) -> None:
        self.folder, self._server, self.answers = folder, server, web.answers
        self._later_s = 0.0

    def visit(self, wait_s: float) -> None:
        self._later_s += wait_s
        wanted = {"on": wait_s > 0, "interval_s": WEEK, "probe": False}
        tree = settings_for(self._server, [ROOT], revisit=wanted, strategy="best-first")
        crawl(self.folder, tree, later_s=self._later_s)

    def say(self, path: str, relevant: bool | None) -> list[str]:
        return label_pages(self.folder, [LabelRequest(ROOT + path, relevant, "test")], self._later_s)[1]

    def verdict(self, path: str) -> tuple[bool, str]:
        found = explained_page(self.folder, ROOT + path)
        return found.relevant, found.reasons[0].name if found.score in (0.0, 1.0) else "judged"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    web = SmallWeb({ROOT: article(0, links=("/1", "/2")), **{f"{ROOT}{n}": article(n) for n in (1, 2)}})
    with served(web) as server:
        made = Site(tmp_path / "c", server, web)
        made.visit(0.0)
        assert made.say("1", relevant=False) == []
        yield made
    assert verify(made.folder) == []
    counted = rows(made.folder, "SELECT count(*) FROM page WHERE relevant AND duplicate_of = 0")
    assert counted == [(collection_status(made.folder).relevant,)]


BY_HAND = (False, "labelled by hand")


def test_word_stands_when_the_page_changes(site: Site) -> None:
    site.answers[ROOT + "1"] = article(1, f"Their nests are new. {word(77)}")
    site.visit(WEEK)
    assert len(rows(site.folder, "SELECT 1 FROM version")) == 1
    assert site.verdict("1") == BY_HAND
    assert site.say("1", None) == []
    assert site.verdict("1") == (True, "judged"), "of the text as it is now"


def test_word_stands_when_the_page_was_gone_for_a_while(site: Site) -> None:
    there = site.answers.pop(ROOT + "1")
    site.visit(WEEK)
    site.visit(2 * DAY)
    assert why(site.folder, ROOT + "1").page is None
    site.answers[ROOT + "1"] = there
    site.visit(5 * WEEK)
    assert site.verdict("1") == BY_HAND


def test_word_goes_along_when_the_page_moves_and_comes_back(site: Site) -> None:
    site.answers[ROOT + "1"], site.answers[ROOT + "new"] = redirect("/new"), article(1)
    site.visit(WEEK)
    assert site.verdict("new") == BY_HAND
    assert site.say("new", None) == []
    assert site.verdict("new") == (True, "judged")
    site.answers[ROOT + "1"], site.answers[ROOT + "new"] = article(1), redirect("/1")
    site.visit(WEEK)
    assert site.verdict("1") == (True, "judged"), "what was taken back does not come back"


@pytest.mark.parametrize("spoken", [False, True])
def test_label_follows_to_a_page_without_a_label(site: Site, spoken: bool) -> None:
    if spoken:
        site.say("2", relevant=True)
    site.answers[ROOT + "1"] = redirect("/2")
    site.visit(WEEK)
    assert site.verdict("2") == ((True, "labelled by hand") if spoken else BY_HAND)
