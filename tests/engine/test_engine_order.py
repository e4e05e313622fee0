"""Order: best first within what politeness allows; re-discovery raises a queued URL; breadth-first is by discovery."""

from pathlib import Path

import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, grid, page, rows, served, settings_for, word
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry

HTML = (("Content-Type", "text/html"),)
GOOD = (
    "wren",
    "small wren",
    "bird",
    "train",
    "small bird",
    "birds",
    "wrens and small birds",
    "engine",
    "rail",
    "small",
)


def asked(log: list[AccessLogEntry]) -> list[str]:
    return [f"http://{a.host}{a.target}" for a in log if a.target != "/robots.txt"]


def linked(links: dict[str, str], text: str = BIRDS) -> RecordedResponse:
    """A page whose links carry the given anchors."""
    items = "".join(f'<p><a href="{url}">{anchor}</a></p>' for url, anchor in links.items())
    return RecordedResponse(200, HTML, f"<p>{text}</p>{items}".encode())


@pytest.mark.parametrize("connections", [1, 4])
def test_order_is_best_first_when_all_hosts_are_free(tmp_path: Path, connections: int) -> None:
    targets = {f"http://h{n}.example/": GOOD[n % len(GOOD)] for n in range(40)}
    web = {"http://seed.example/": linked(targets)} | {url: page(word(n)) for n, url in enumerate(targets)}
    with served(SmallWeb(web)) as server:
        tree = settings_for(
            server,
            ["http://seed.example/"],
            strategy="s0",
            engine={"connections": connections, "batch": 1},
            politeness={"robots": False},
        )
        crawl(tmp_path / "c", tree)
    score = {url: place for url, *place in rows(tmp_path / "c", "SELECT url, tier, score FROM frontier_url")}
    scores = [score[url] for url in asked(server.log)]
    assert len(set(map(tuple, scores))) > 4
    for place, value in enumerate(scores):  # fewer better ones come later than can be in flight at once
        assert sum(later > value for later in scores[place:]) < connections


@pytest.mark.parametrize(("merge", "first"), [("max", "http://x.example/"), ("discard", "http://y.example/")])
def test_queued_url_rises_when_found_again_in_a_better_context(tmp_path: Path, merge: str, first: str) -> None:
    """X-15: with `max` the better link counts; with `discard`, as S4 does it, the first one does."""
    web = {
        "http://a.example/": linked(
            {"http://x.example/": "engine", "http://y.example/": "birds", "http://b.example/": "small wren bird birds"}
        ),
        "http://b.example/": linked({"http://x.example/": "wrens and other small birds"}),
        "http://x.example/": page(word(1)),
        "http://y.example/": page(word(2)),
    }
    with served(SmallWeb(web)) as server:
        tree = settings_for(
            server, ["http://a.example/"], strategy="s0", frontier={"merge": merge}, engine={"connections": 1}
        )
        crawl(tmp_path / "c", tree)
    order = asked(server.log)
    assert order[:2] == ["http://a.example/", "http://b.example/"]
    assert order[2] == first


def test_order_is_that_of_discovery_when_breadth_first(tmp_path: Path) -> None:
    with served(SmallWeb(grid(3, 12))) as server:
        crawl(tmp_path / "c", settings_for(server, ["http://h0.example/0.html"], engine={"connections": 1}))
    found = [url for (url,) in rows(tmp_path / "c", "SELECT url FROM frontier_url ORDER BY seq")]
    assert len(found) == 36
    depth = dict(rows(tmp_path / "c", "SELECT url, depth FROM frontier_url"))
    depths = [depth[url] for url in asked(server.log)]
    assert depths == sorted(depths)


def test_answers_are_numbered_in_the_order_of_commit(tmp_path: Path) -> None:
    with served(SmallWeb(grid(2, 6))) as server:
        crawl(tmp_path / "c", settings_for(server, ["http://h0.example/0.html"]))
    numbers = [seq for (seq,) in rows(tmp_path / "c", "SELECT seq FROM answer ORDER BY seq")]
    assert numbers == list(range(1, 13))
