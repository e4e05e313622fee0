"""Traps are caught, honest size is not."""

from datetime import date, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.engine.politeness.traps import TrapDetector, TrapLimits

TODAY = TrapLimits(current_year=2026)


def caught(urls: list[str]) -> list[str]:
    traps = TrapDetector(TODAY)
    return [reason for url in urls if (reason := traps.check(url))]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a.example/" + "x" * 3000, "too long"),
        ("http://a.example/" + "/".join(f"p{i}" for i in range(30)), "too deep"),
        ("http://a.example/shop/shop/shop/item", "repeating path"),
        ("http://a.example/a1/b2/a1/b2/a1/b2", "repeating path"),
        ("http://a.example/x?" + "&".join(f"p{i}=1" for i in range(20)), "too many parameters"),
        ("http://a.example/pub/?C=M;O=D", "sorted listing"),
        ("http://a.example/?C=N&O=A", "sorted listing"),
        ("http://a.example/pub/?S=A", "sorted listing"),
        ("http://a.example/w/index.php?title=Wren&action=history", "wiki tool"),
        ("http://a.example/w/index.php?title=Talk:Wren&action=edit&redlink=1", "wiki tool"),
        ("http://a.example/w/index.php?title=Wren&action=info", "wiki tool"),
        ("http://a.example/wiki/Wren?oldid=9", "wiki tool"),
        ("http://a.example/w/index.php?title=Wren&diff=prev&oldid=9", "wiki tool"),
        ("http://a.example/doku.php?id=wren&do=revisions", "wiki tool"),
        ("http://a.example/wiki/Special:WhatLinksHere/Wren", "wiki tool"),
        ("http://a.example/w/index.php?title=Special:CreateAccount&returnto=Wren", "wiki tool"),
        ("http://a.example/wiki/Special:AllPages", ""),
        ("http://a.example/post?replytocom=12", "wiki tool"),
        ("http://a.example/w/index.php?title=Wren", ""),
        ("http://a.example/forum/posting.php?mode=reply&t=7", "forum tool"),
        ("http://a.example/viewtopic.php?t=7&view=print", "forum tool"),
        ("http://a.example/showthread.php?goto=newpost&t=7", "forum tool"),
        ("http://a.example/viewtopic.php?f=2&t=7", ""),
        ("http://a.example/viewtopic.php?p=7", ""),
        ("http://a.example/gallery.php?view=print", ""),
        ("http://a.example/shop?action=info&id=3", ""),
        ("http://a.example/view?action=editorial", ""),
        ("http://a.example/2031/04/", "calendar"),
        ("http://a.example/events?year=2999&month=1", "calendar"),
        ("http://a.example/calendar/0812-03-01", "calendar"),
    ],
)
def test_single_url_is_caught_when_it_cannot_be_honest(url: str, reason: str) -> None:
    assert TrapDetector(TODAY).check(url) == reason


def test_new_session_ids_are_caught_after_the_first_ones() -> None:
    urls = [f"http://a.example/page{i};jsessionid={i % 9:032x}" for i in range(90)]
    assert caught(urls) == ["session id"] * 70
    same = [f"http://a.example/page{i}?PHPSESSID=abc123" for i in range(90)]
    assert caught(same) == []


def test_facets_that_multiply_are_caught() -> None:
    names = [f"f{i}" for i in range(10)]
    urls = [
        "http://shop.example/list?" + "&".join(f"{n}=1" for n in chosen)
        for size in range(1, 5)
        for chosen in combinations(names, size)
    ]
    assert len(urls) - len(caught(urls)) == 64


def test_sort_orders_that_multiply_are_caught() -> None:
    urls = [f"http://a.example/list?a={i}&b={i}&c={i}&d={i}" for i in range(2_500)]
    assert caught(urls) == ["query explosion"] * 500


def test_calendar_of_empty_days_is_caught_in_the_end() -> None:
    day = date(2000, 1, 1)
    urls = [f"http://a.example/calendar/{day + timedelta(days=i):%Y/%m/%d}" for i in range(3_000)]
    assert caught(urls) == ["calendar"] * 2_000


@pytest.mark.parametrize(
    "urls",
    [
        [f"http://wiki.example/wiki/Article_{i}" for i in range(50_000)],
        [f"http://shop.example/item/{i}-{1 + i % 9}.html" for i in range(1_000, 4_000)],
        [f"http://forum.example/topic.php?id={i}" for i in range(8_000)],
        [f"http://forum.example/viewtopic.php?f={i % 9}&t={i}&start={i % 3 * 20}" for i in range(8_000)],
        [f"http://news.example/{1990 + i % 37}/{1 + i % 12:02}/{1 + i % 28:02}/story-{i}" for i in range(8_000)],
        [f"http://news.example/archive/{date(1990, 1, 1) + timedelta(days=i):%Y/%m/%d}/" for i in range(13_000)],
        [f"http://history.example/battles/{year}" for year in range(1000, 2026)],
        [f"http://gallery.example/photo/{i:04}-{1 + i % 12}" for i in range(1700, 2026)],
        [f"http://museum.example/events/{1900 + i % 120}/opening-{i}" for i in range(5_000)],
        [f"http://code.example/{a}/{b}/src/main/java/org/{a}/{b}/Main.java" for a in "abc" for b in "xyz"],
        [f"http://law.example/title/1/1/1/{i}" for i in range(50)],
        [f"http://a.example/search?q=word{i}&page={i % 5}" for i in range(5_000)],
        ["http://a.example/", "http://a.example", "http://a.example/?", "http://a.example/?x"],
    ],
    ids=lambda urls: urls[-1],
)
def test_honest_site_is_not_caught_however_large(urls: list[str]) -> None:
    assert caught(urls) == []


def test_memory_is_bounded_by_the_limits() -> None:
    traps = TrapDetector(TrapLimits(max_hosts=10, max_paths=5))
    for i in range(1_000):
        traps.check(f"http://h{i % 50}.example/p{i}?a=1&b=2&c=3")
    assert len(traps._hosts) == 10
    assert all(len(site.shapes) <= 5 and len(site.queries) <= 5 for site in traps._hosts.values())


@given(st.lists(st.text(alphabet="ab/?&=;1290-", max_size=40).map("http://a.example/{}".format), max_size=20))
def test_same_urls_give_the_same_answers(urls: list[str]) -> None:
    assert caught(urls) == caught(urls)
