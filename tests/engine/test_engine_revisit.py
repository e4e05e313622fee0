"""Looking again over real HTTP: 304, changed, gone twice, moved, soft 404, flapping; versions stay (S1-02, S1-06)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checks.explanations import explained_page
from checks.killing import urls_in_warc
from checks.small_webs import (
    BIRDS,
    HTML,
    SmallWeb,
    crawl,
    events,
    grid,
    page,
    redirect,
    rows,
    served,
    settings_for,
    word,
)
from opilio.cli.text_output import format_history
from opilio.core.records import url_key
from opilio.engine.revisit.outcomes import probe_url
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.server import LabWebServer
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.pages import page_history
from opilio.manage.verify import verify
from opilio.manage.why import why

ROOT = "http://a.example/"
DAY = 86_400.0
WEEK = 7 * DAY


def article(number: int, more: str = "", links: tuple[str, ...] = ()) -> RecordedResponse:
    return page(f"{BIRDS} {word(number)} {word(number + 100)} {more}", links, title=f"Article {number}")


def marked(answer: RecordedResponse, *marks: tuple[str, str]) -> RecordedResponse:
    return RecordedResponse(answer.status, (*answer.headers, *marks), answer.body)


class Site:
    """A small site, a collection of it, and time."""

    def __init__(self, folder: Path, server: LabWebServer, web: SmallWeb) -> None:
        self.folder, self.server, self.web = folder, server, web
        self.later_s = 0.0

    def visit(self, wait_s: float = 0.0, **more: Any) -> list[tuple[str, int]]:
        """Crawl, or revisit later; returns the requests with their status."""
        self.later_s += wait_s
        self.server.log.clear()
        wanted = {"on": wait_s > 0, "interval_s": WEEK, "probe": False, **more}
        crawl(self.folder, settings_for(self.server, [ROOT], revisit=wanted), later_s=self.later_s)
        return sorted((a.target, a.status) for a in self.server.log if a.target != "/robots.txt")

    def pages(self) -> list[str]:
        return sorted(url.removeprefix(ROOT) for (url,) in rows(self.folder, "SELECT url FROM page"))

    def versions(self, path: str) -> list[tuple[str, str]]:
        return [(v.title, v.ended) for v in page_history(self.folder, ROOT + path).versions]

    def record(self, path: str, column: str) -> Any:
        found = rows(self.folder, f"SELECT {column} FROM revisit WHERE key = ?", url_key(ROOT + path))
        return found[0][0] if found else None


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    web = SmallWeb(
        {ROOT: article(0, links=("/1", "/2", "/3")), **{f"{ROOT}{n}": article(n) for n in (1, 2, 3)}},
    )
    with served(web) as server:
        found = Site(tmp_path / "c", server, web)
        yield found
        assert verify(found.folder) == []
        assert len(urls_in_warc(found.folder)) == len(rows(found.folder, "SELECT 1 FROM page WHERE length > 0")) + len(
            rows(found.folder, "SELECT 1 FROM version WHERE length > 0")
        )


def test_nothing_is_asked_for_again_before_it_is_due(site: Site) -> None:
    assert len(site.visit()) == 4
    assert site.visit(60.0) == []
    assert len(site.visit(WEEK)) == 4


def test_unchanged_page_costs_no_body_when_it_has_marks(site: Site) -> None:
    site.web.answers[ROOT + "1"] = marked(article(1), ("ETag", '"a"'))
    site.web.answers[ROOT + "2"] = marked(article(2), ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT"))
    site.visit()
    assert site.visit(WEEK) == [("/", 200), ("/1", 304), ("/2", 304), ("/3", 200)]
    assert site.visit(WEEK) == [("/", 200), ("/1", 304), ("/2", 304), ("/3", 200)]
    assert (site.record("1", "checks"), site.record("1", "changes")) == (2, 0)
    assert site.versions("1") == [("Article 1", "")]


def test_changed_page_keeps_its_older_version_s2_f6(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = marked(article(1, f"The nest is new. {word(77)}"), ("ETag", '"b"'))
    site.visit(WEEK)
    (old, new) = page_history(site.folder, ROOT + "1").versions
    assert (old.ended, new.ended, old.until) == ("changed", "", new.fetched_at)
    assert [line[:1] for line in new.difference] == ["-", "+"]
    assert word(77) in new.difference[1]
    assert site.record("1", "changes") == 1


def test_clock_counter_and_advert_are_no_change(site: Site) -> None:
    def with_noise(clock: str, advert: str) -> RecordedResponse:
        text = f"<p>{BIRDS} {word(1)}</p><p>It is {clock}. You are visitor 10{clock[:2]}.</p>"
        return RecordedResponse(
            200, (HTML,), f"<body><aside>{advert}</aside>{text}<footer>{clock}</footer></body>".encode()
        )

    site.web.answers[ROOT + "1"] = with_noise("10:15", "Buy our boots, they are the best of all boots")
    site.visit()
    site.web.answers[ROOT + "1"] = with_noise("23:59", "Fly to the sun with cheap flights from everywhere")
    site.visit(WEEK)
    assert (site.record("1", "checks"), site.record("1", "changes")) == (1, 0)
    assert len(site.versions("1")) == 1


def test_number_in_a_sentence_is_a_change_and_one_of_a_counter_is_not(site: Site) -> None:
    def with_numbers(turbines: int, count: int) -> str:
        counters = (
            f"Visits: {count}",
            f"This page has been accessed {count} times since the park was opened for the public.",
            f"It was changed on {count} November 2026 at 10:{count} by the team of the wind park.",
        )
        news = f"The council of the town said that the wind park has {turbines} turbines on two hills."
        return f"{BIRDS} {word(1)}</p>" + "".join(f"<p>{text}</p>" for text in (news, *counters))

    for turbines, count in ((33, 10), (33, 20), (99, 21)):
        site.web.answers[ROOT + "1"] = page(with_numbers(turbines, count), title="Park")
        site.visit(WEEK)
    (old, new) = page_history(site.folder, ROOT + "1").versions
    assert (old.ended, site.record("1", "checks"), site.record("1", "changes")) == ("changed", 2, 1)
    assert any("99 turbines" in line for line in new.difference)


def test_page_leaves_after_the_second_strike_only_s1_06(site: Site) -> None:
    site.visit()
    del site.web.answers[ROOT + "1"]
    site.visit(WEEK)
    assert "1" in site.pages(), "the first time it is only noted"
    assert site.visit(60.0) == [], "and not looked for again at once"
    assert ("/1", 404) in site.visit(DAY)
    assert site.pages() == ["", "2", "3"]
    assert site.versions("1") == [("Article 1", "gone")]
    history = format_history(page_history(site.folder, ROOT + "1"))
    assert history[1] == "  missing at the last 2 visits"
    assert [line for line in history if "revisited" in line] == []
    assert why(site.folder, ROOT + "1").state == "failed"
    assert why(site.folder, ROOT + "1").found_on[0].page == ROOT
    assert len(events(site.folder, "PageRemoved")) == 1


def test_page_that_became_another_type_of_content_leaves_after_the_second_strike(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = RecordedResponse(200, (("Content-Type", "image/png"),), b"\x89PNG")
    site.visit(WEEK)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (1, True)
    site.visit(DAY)
    assert site.versions("1") == [("Article 1", "gone")]
    assert "content-type" in (why(site.folder, ROOT + "1").reason or "")


def test_flapping_page_stays_when_it_is_back_at_the_second_look(site: Site) -> None:
    site.visit()
    there = site.web.answers.pop(ROOT + "1")
    site.visit(WEEK)
    site.web.answers[ROOT + "1"] = there
    assert ("/1", 200) in site.visit(2 * DAY)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (0, True)
    del site.web.answers[ROOT + "1"]
    site.visit(WEEK)
    assert "1" in site.pages(), "strikes are counted anew"


def test_page_that_came_back_after_it_left_goes_on_with_its_history(site: Site) -> None:
    site.visit()
    there = site.web.answers.pop(ROOT + "1")
    site.visit(WEEK)
    site.visit(2 * DAY)
    assert "1" not in site.pages()
    site.web.answers[ROOT + "1"] = there
    site.visit(5 * WEEK)
    assert "1" in site.pages()
    assert site.versions("1") == [("Article 1", "gone"), ("Article 1", "")]


def test_moved_page_takes_its_history_along(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = redirect("/new/1")
    site.web.answers[ROOT + "new/1"] = article(1)
    site.visit(WEEK)
    assert site.pages() == ["", "2", "3", "new/1"]
    assert site.versions("new/1") == [("Article 1", "moved"), ("Article 1", "")]
    facts = page_history(site.folder, ROOT + "1")
    assert (facts.moved_to, len(facts.versions)) == (ROOT + "new/1", 2)
    site.web.answers[ROOT + "new/1"], site.web.answers[ROOT + "1"] = redirect("/1"), article(1)
    site.visit(WEEK)
    assert site.pages() == ["", "1", "2", "3"], "and back again"
    assert len(site.versions("1")) == 3


def test_page_that_moved_for_a_while_stays(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = redirect("/2", 302)
    site.visit(WEEK)
    assert "1" in site.pages()
    assert site.record("1", "strikes") == 0


def test_redirect_to_the_front_page_is_a_page_that_is_gone(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = redirect("/")
    site.visit(WEEK)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (1, True)
    site.visit(2 * DAY)
    assert "1" not in site.pages()


def test_redirect_to_itself_is_a_page_that_is_gone(site: Site) -> None:
    """What servers do that want a cookie: it is no reason to let go of a page at once."""
    site.visit()
    there = site.web.answers[ROOT + "1"]
    site.web.answers[ROOT + "1"] = redirect("/1")
    assert site.visit(WEEK).count(("/1", 301)) == 1
    assert (site.record("1", "strikes"), "1" in site.pages()) == (1, True)
    site.web.answers[ROOT + "1"] = there
    site.visit(2 * DAY)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (0, True)


def test_page_that_moved_by_way_of_another_address_takes_its_history_along(site: Site) -> None:
    site.visit()
    label_pages(site.folder, [LabelRequest(ROOT + "1", False, "test")], 1.0)
    site.web.answers[ROOT + "1"], site.web.answers[ROOT + "by"] = redirect("/by"), redirect("/new")
    site.web.answers[ROOT + "new"] = article(1)
    site.visit(WEEK)
    assert site.pages() == ["", "2", "3", "new"]
    assert site.versions("new") == [("Article 1", "moved"), ("Article 1", "")]
    assert page_history(site.folder, ROOT + "1").moved_to == ROOT + "new"
    assert explained_page(site.folder, ROOT + "new").relevant is False, "as it is labelled"


@pytest.mark.parametrize("nowhere", ["/lost", "/circle", "/closed", "/2"])
def test_page_that_moved_to_where_no_page_is_comes_back_when_it_is_there_again(site: Site, nowhere: str) -> None:
    site.web.answers[ROOT + "robots.txt"] = RecordedResponse(200, (), b"User-agent: *\nDisallow: /closed")
    site.visit()
    before = dict(site.web.answers)
    site.web.answers |= {ROOT + "1": redirect(nowhere), ROOT + "circle": redirect("/1"), ROOT + "2": redirect("/1")}
    site.visit(WEEK)
    assert "1" not in site.pages()
    site.visit(5 * WEEK)
    site.web.answers = before
    site.visit(5 * WEEK)
    assert site.pages() == ["", "1", "2", "3"]
    assert site.versions("1")[0] == ("Article 1", "moved")
    assert site.versions("1")[-1] == ("Article 1", "")


def test_soft_404_is_recognised_by_what_it_says(site: Site) -> None:
    site.web.answers[ROOT + "3"] = page("Sorry, try the search.", title="Page not found – A")
    site.visit()
    assert site.pages() == ["", "1", "2"]
    assert why(site.folder, ROOT + "3").answers[0].failure == "soft-404"
    site.web.answers[ROOT + "1"] = page("Sorry, try the search.", title="404")
    site.visit(WEEK)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (1, True)
    site.visit(2 * DAY)
    assert "1" not in site.pages()


def test_soft_404_is_recognised_when_pages_of_a_host_come_to_say_the_same(site: Site) -> None:
    site.visit()
    empty = page(
        "Welcome to our shop. Boots, hats, tents, lamps, maps and ropes are on offer this season. Look around."
    )
    for number in (1, 2):
        site.web.answers[f"{ROOT}{number}"] = empty
    for wait_s in (WEEK, WEEK, 2 * DAY, 2 * DAY):
        site.visit(wait_s)
    assert site.pages() == ["", "3"]


def test_server_trouble_is_no_strike(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "1"] = RecordedResponse(500, (HTML,), b"oops")
    for _ in range(3):
        site.visit(WEEK)
    assert ("1" in site.pages(), site.record("1", "strikes")) == (True, 0)
    assert why(site.folder, ROOT + "1").state == "done"


def test_copy_stands_for_itself_when_what_it_repeated_is_gone(site: Site) -> None:
    site.web.answers[ROOT + "2"] = site.web.answers[ROOT + "1"]
    site.visit()
    (copy,) = rows(site.folder, "SELECT url FROM page WHERE duplicate_of <> 0")[0]
    original = ROOT + ("1" if copy.endswith("2") else "2")
    site.web.answers[original] = article(50)
    site.visit(WEEK)
    site.visit(WEEK)
    assert rows(site.folder, "SELECT length > 0, duplicate_of FROM page WHERE url = ?", copy) == [(1, 0)]


def test_new_links_of_a_changed_page_are_followed_and_credited(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT] = article(0, "More.", ("/1", "/2", "/3", "/4", "/5"))
    site.web.answers[ROOT + "4"] = article(4)
    site.web.answers[ROOT + "5"] = page("Trains and wagons on a railway, all day long.")
    site.visit(WEEK)
    assert "4" in site.pages()
    assert (site.record("", "found"), site.record("", "brought")) == (2, 1)
    assert rows(site.folder, "SELECT count(*) FROM tip") == [(0,)]
    assert getattr(why(site.folder, ROOT).revisits, "brought", None) == 1


def test_page_that_robots_txt_closes_stays_and_is_not_asked_for(site: Site) -> None:
    site.visit()
    site.web.answers[ROOT + "robots.txt"] = RecordedResponse(200, (), b"User-agent: *\nDisallow: /1\n")
    assert [target for target, _ in site.visit(WEEK)] == ["/", "/2", "/3"]
    assert "1" in site.pages()


def test_clock_set_back_loses_nothing(site: Site) -> None:
    site.visit()
    site.visit(WEEK)
    site.web.answers[ROOT + "1"] = article(1, word(9))
    site.later_s = -WEEK
    assert site.visit(1.0) == []
    site.later_s = 0.0
    site.visit(3 * WEEK)
    assert len(site.versions("1")) == 2


@pytest.mark.parametrize("policy", ["fixed", "proportional", "adaptive"])
def test_every_policy_looks_at_what_is_due(site: Site, policy: str) -> None:
    site.visit()
    assert len(site.visit(WEEK, policy=policy)) == 4


def sitemap(dates: dict[str, str]) -> RecordedResponse:
    entries = "".join(f"<url><loc>{ROOT}{path}</loc><lastmod>{date}</lastmod></url>" for path, date in dates.items())
    return RecordedResponse(
        200, (("Content-Type", "application/xml"),), f"<?xml version='1.0'?><urlset>{entries}</urlset>".encode()
    )


def test_sitemap_spares_looks_and_reports_new_pages(site: Site) -> None:
    site.web.answers[ROOT + "robots.txt"] = RecordedResponse(200, (), f"Sitemap: {ROOT}map.xml\n".encode())
    site.web.answers[ROOT + "9"] = article(9)
    site.web.answers[ROOT + "map.xml"] = sitemap({"1": "2001-01-01", "2": "2037-01-01", "9": "2001-01-01"})
    site.visit()
    asked = [target for target, _ in site.visit(2 * WEEK)]
    assert "/map.xml" in asked
    assert "9" in site.pages(), "which no page links to"
    assert site.record("1", "checked_at") > site.record("3", "checked_at"), "known to be unchanged when the map came"
    assert site.record("2", "hinted_at") > 2e9
    assert rows(site.folder, "SELECT entries FROM notice") == [(3,)]


def test_feed_of_a_page_is_asked_for(site: Site) -> None:
    feed = '<link rel="alternate" type="application/rss+xml" href="/feed">'
    site.web.answers[ROOT] = page(f"{BIRDS} {word(5)}", ("/1", "/2", "/3"), head=feed)
    item = f"<item><link>{ROOT}8</link><pubDate>Mon, 02 Nov 2026 00:00:00 GMT</pubDate></item>"
    kind = (("Content-Type", "application/rss+xml"),)
    site.web.answers[ROOT + "feed"] = RecordedResponse(200, kind, f"<rss>{item}</rss>".encode())
    site.web.answers[ROOT + "8"] = article(8)
    site.visit()
    site.visit(WEEK)
    site.visit(WEEK)
    assert "8" in site.pages()


def test_soft_404_is_recognised_by_what_the_host_shows_for_unknown_addresses(site: Site) -> None:
    empty = page(
        "Welcome to our shop. Boots, hats, tents, lamps, maps and ropes are on offer this season. Look around."
    )
    site.visit()
    del site.web.answers[ROOT + "1"]
    site.web.answers[probe_url(ROOT)] = empty
    site.web.answers[ROOT + "1"] = empty
    site.visit(WEEK, probe=True)
    assert (site.record("1", "strikes"), "1" in site.pages()) == (1, True)
    site.visit(2 * DAY, probe=True)
    assert site.pages() == ["", "2", "3"]


@pytest.mark.parametrize(("share", "least", "most"), [(0.25, 3, 7), (0.75, 13, 17), (1.0, 20, 20)])
def test_budget_is_split_between_new_urls_and_looks(tmp_path: Path, share: float, least: int, most: int) -> None:
    with served(SmallWeb(grid(1, 80))) as server:
        one = {"engine": {"connections": 1}, "frontier": {"per_host": 1}}
        tree = settings_for(server, ["http://h0.example/0.html"], **one)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 30}})
        revisit = {"on": True, "share": share, "probe": False, "interval_s": WEEK}
        more = {"revisit": revisit, "stop": {"pages": 0, "fetches": 50}}
        crawl(tmp_path / "c", {**tree, **more}, later_s=2 * WEEK)
    asked = rows(tmp_path / "c", "SELECT count(*), count(DISTINCT key) FROM answer")[0]
    assert asked[0] == 50
    assert least <= asked[0] - asked[1] <= most
