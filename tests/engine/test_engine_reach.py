"""What is followed and what is kept: duplicates, tunnels, depth, redirects, content types, traps."""

from pathlib import Path

import pytest

from checks.engines import PageFetcher, decoded, html, plain_tree, run_engine, states
from checks.explanations import explained_page
from checks.small_webs import (
    BIRDS,
    TRAINS,
    SmallWeb,
    crawl,
    events,
    grid,
    page,
    rows,
    served,
    settings_for,
    stored,
    tree_of,
    word,
)
from opilio.core.events import TopicChanged, TrapFound
from opilio.core.records import FetchResult, url_key
from opilio.manage.why import why

DONE, FAILED, DROPPED = 2, 3, 4
ROOT = "http://a.example/"
LONG = " ".join(f"{BIRDS} {word(n)} {word(7 * n)}" for n in range(40))


def site(pages: dict[str, str]) -> dict[str, FetchResult]:
    return {ROOT + path: html(ROOT + path, body) for path, body in pages.items()}


def links(*paths: str) -> str:
    return "".join(f'<p><a href="/{path}">{path}</a></p>' for path in paths)


def test_pages_of_a_list_are_no_copies_when_they_share_their_introduction(tmp_path: Path) -> None:
    """S0-08: what distinguishes them are their links, each in a block of its own."""
    lists = {f"list/{n}": BIRDS + links(*(f"{word(10 * n + k)}" for k in range(4))) for n in range(3)}
    run_engine(tmp_path / "c", plain_tree([ROOT]), PageFetcher(site({"": links(*lists), **lists})))
    assert rows(tmp_path / "c", "SELECT url FROM page WHERE duplicate_of <> 0") == []
    found = rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE depth = 2")
    assert found == [(12,)]


def test_dates_to_come_are_a_calendar_in_a_crawl_of_today(tmp_path: Path) -> None:
    ahead = f"{ROOT}calendar/2090/01/"
    with served(SmallWeb({ROOT: page(BIRDS, [ahead, f"{ROOT}calendar/2012/01/"])})) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    dropped = rows(tmp_path / "c", "SELECT url, reason FROM frontier_url WHERE state = ?", DROPPED)
    assert dropped == [(ahead, "trap: calendar")]


@pytest.mark.parametrize(
    ("path", "followed"),
    [
        ("wiki/Node.js", True),
        ("wiki/File:Wren.jpg", True),
        ("wren.jpg", False),
        ("Paper.PDF?x=1", True),
        ("eggs.ZIP?x=1", False),
    ],
)
def test_links_to_files_are_not_followed_but_pages_named_like_files_are(
    tmp_path: Path, path: str, followed: bool
) -> None:
    web = site({"": BIRDS + links(path), path: f"{BIRDS} {word(3)}"})
    run_engine(tmp_path / "c", plain_tree([ROOT]), PageFetcher(web))
    assert (ROOT + path in stored(tmp_path / "c")) is followed


def test_exact_duplicate_is_recorded_and_its_links_are_not_followed(tmp_path: Path) -> None:
    """S0-08, S0-E5: the same text under another address."""
    web = site({"": links("one", "two"), "one": BIRDS + links("x"), "two": f"<b>{BIRDS}</b>" + "<a href='/y'>x</a>"})
    run_engine(tmp_path / "c", plain_tree([ROOT], seen={"follow": False}), PageFetcher(web))
    assert rows(tmp_path / "c", "SELECT url, duplicate_of FROM page WHERE duplicate_of <> 0") == [
        (ROOT + "two", url_key(ROOT + "one"))
    ]
    assert set(states(tmp_path / "c")) == {"", "one", "two", "x"}
    assert explained_page(tmp_path / "c", ROOT + "two").duplicate_of == ROOT + "one"
    assert rows(tmp_path / "c", "SELECT length FROM page WHERE duplicate_of <> 0") == [(0,)]


@pytest.mark.parametrize("near", [True, False])
def test_near_duplicate_counts_only_when_switched_on(tmp_path: Path, near: bool) -> None:
    web = site({"": links("one", "two"), "one": LONG + links("x"), "two": f"{LONG} wagtail <a href='/y'>x</a>"})
    run_engine(tmp_path / "c", plain_tree([ROOT], seen={"near": near, "follow": False}), PageFetcher(web))
    found = rows(tmp_path / "c", "SELECT url, near_duplicate FROM page WHERE duplicate_of <> 0")
    assert found == ([(ROOT + "two", 1)] if near else [])
    assert ("y" in states(tmp_path / "c")) is not near


@pytest.mark.parametrize(("depth", "reached"), [(-1, 5), (2, 3), (0, 1)])
def test_irrelevant_pages_are_crossed_as_far_as_the_tunnel_goes(tmp_path: Path, depth: int, reached: int) -> None:
    """S0-28: a relevant page behind irrelevant ones is found; S4-18 (0): none is crossed."""
    web = site({"": f"{TRAINS} {links('1')}"} | {str(n): f"{TRAINS} {word(n)} {links(str(n + 1))}" for n in (1, 2, 3)})
    web[ROOT + "4"] = html(ROOT + "4", BIRDS)
    tree = plain_tree([ROOT], rank={"kind": "parent", "tunnel_depth": depth})
    run_engine(tmp_path / "c", tree, PageFetcher(web))
    assert len(stored(tmp_path / "c")) == reached


@pytest.mark.parametrize(("bound", "pages"), [(0, 6), (2, 3)])
def test_links_are_followed_as_deep_as_allowed(tmp_path: Path, bound: int, pages: int) -> None:
    web = site({"": links("1")} | {str(n): f"{word(n)} {links(str(n + 1))}" for n in range(1, 5)} | {"5": word(5)})
    run_engine(tmp_path / "c", plain_tree([ROOT], frontier={"max_depth": bound}), PageFetcher(web))
    assert len(stored(tmp_path / "c")) == pages


def moved(path: str, target: str) -> FetchResult:
    return FetchResult(url=ROOT + path, status=301, location=target)


def test_redirect_becomes_a_lead_of_its_own(tmp_path: Path) -> None:
    web = {**site({"b": BIRDS}), ROOT + "a": moved("a", ROOT + "b")}
    run_engine(tmp_path / "c", plain_tree([ROOT + "a"]), PageFetcher(web))
    assert states(tmp_path / "c") == {"a": (DONE, f"redirects to {ROOT}b"), "b": (DONE, "")}
    assert why(tmp_path / "c", ROOT + "a").answers[0].location == ROOT + "b"


def test_redirects_end_when_they_turn_in_a_circle(tmp_path: Path) -> None:
    web = {ROOT + "a": moved("a", ROOT + "b"), ROOT + "b": moved("b", ROOT + "a"), ROOT + "s": moved("s", ROOT + "s")}
    fetcher = PageFetcher(web)
    run_engine(tmp_path / "c", plain_tree([ROOT + "a", ROOT + "s"]), fetcher)
    assert sorted(fetcher.asked) == [ROOT + "a", ROOT + "b", ROOT + "s"]


def test_redirects_end_when_there_are_too_many(tmp_path: Path) -> None:
    web = {ROOT + str(n): moved(str(n), ROOT + str(n + 1)) for n in range(50)}
    run_engine(tmp_path / "c", plain_tree([ROOT + "0"], fetch={"hops": 3}), PageFetcher(web))
    found = states(tmp_path / "c")
    assert sorted(found) == ["0", "1", "2", "3"]
    assert found["3"] == (FAILED, f"redirect-loop 3 redirects in a row, the next to {ROOT}4")


def test_answers_without_a_page_are_recorded(tmp_path: Path) -> None:
    """304 without a body is an end, other types are skipped, a page too large is a failure: all are recorded."""
    web = {
        **site({"": links("same", "gone", "picture", "teapot", "nowhere")}),
        ROOT + "same": FetchResult(url=ROOT + "same", status=304),
        ROOT + "gone": FetchResult(url=ROOT + "gone", status=410),
        ROOT + "picture": FetchResult(
            url=ROOT + "picture", status=200, headers=(("Content-Type", "image/png"),), body=b"\x89"
        ),
        ROOT + "nowhere": FetchResult(url=ROOT + "nowhere", status=302),
    }
    run_engine(tmp_path / "c", plain_tree([ROOT]), PageFetcher(web))
    found = states(tmp_path / "c")
    assert found["same"] == (DONE, "")
    assert found["gone"] == (FAILED, "status 410")
    assert found["nowhere"] == (FAILED, "status 302")
    assert found["picture"][0] == DROPPED
    assert found["picture"][1].startswith("content-type")
    assert stored(tmp_path / "c") == [ROOT]


def test_kind_of_content_is_skipped_when_fetched_over_http(tmp_path: Path) -> None:
    from opilio.fetch.decoding import RecordedResponse as Answer

    web = {
        ROOT: page(links=["/eggs", "/t.txt"]),
        ROOT + "eggs": Answer(200, (("Content-Type", "application/zip"),), b"PK"),
    }
    web[ROOT + "t.txt"] = Answer(200, (("Content-Type", "text/plain; charset=latin-1"),), b"caf\xe9 wren")
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    assert states(tmp_path / "c")["eggs"] == (DROPPED, "content-type application/zip")
    assert stored(tmp_path / "c") == [ROOT, ROOT + "t.txt"]


def test_trap_is_refused_recorded_and_reported_once(tmp_path: Path) -> None:
    web = site({"": links(*(f"shop?sid={n:016x}a1" for n in range(6)), "ok")})
    _, result = run_engine(tmp_path / "c", plain_tree([ROOT]), PageFetcher(web))
    dropped = [why for state, why in states(tmp_path / "c").values() if state == DROPPED]
    assert dropped == ["trap: session id"] * 4
    assert [(e.host, e.reason) for e in result if isinstance(e, TrapFound)] == [("a.example", "session id")]
    assert len(events(tmp_path / "c", "TrapFound")) == 1


def test_trap_is_still_known_when_the_crawl_is_resumed(tmp_path: Path) -> None:
    web = {ROOT: page(links=["/shop?sid=00000000000000a1", "/shop?sid=00000000000000a2", "/next"])}
    web[ROOT + "next"] = page(word(1), links=["/shop?sid=00000000000000a3"])
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], stop={"pages": 1}))
        crawl(tmp_path / "c", settings_for(server, [ROOT], stop={"pages": 0}))
    assert states(tmp_path / "c")["shop?sid=00000000000000a3"] == (DROPPED, "trap: session id")


def test_growth_of_the_topic_is_reported_and_kept(tmp_path: Path) -> None:
    """S0-21: the table grows by relevant pages; each version is in the collection."""
    pages = {str(n): f"{BIRDS} plumage feather {word(n)} {links(str(n + 1))}" for n in range(8)}
    tree = plain_tree([ROOT + "0"], strategy="s0", expansion={"kind": "periodic", "period": 3})
    _, result = run_engine(tmp_path / "c", tree, PageFetcher(site(pages)))
    changes = [e for e in result if isinstance(e, TopicChanged)]
    assert changes
    assert changes[0].added
    assert [decoded(e)["version"] for e in events(tmp_path / "c", "TopicChanged")] == [e.version for e in changes]
    versions = [
        v for (v,) in rows(tmp_path / "c", "SELECT version FROM snapshot WHERE name = 'topic' ORDER BY version")
    ]
    assert versions[-1] == changes[-1].version


@pytest.mark.slow
def test_pages_are_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    web = grid(4, 15)
    query = "SELECT url, title, score, words, fingerprint, relevant FROM page ORDER BY url"
    with served(SmallWeb(web)) as server:
        for workers in (0, 1, 2):
            tree = settings_for(server, ["http://h0.example/0.html"], strategy="s0", engine={"workers": workers})
            crawl(tmp_path / str(workers), tree | {"expansion": {"kind": "none"}})
    assert stored(tmp_path / "0") == tree_of(web)
    assert rows(tmp_path / "0", query) == rows(tmp_path / "1", query) == rows(tmp_path / "2", query)
