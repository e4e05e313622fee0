"""Links of one site do not close another: what strangers link at a host counts apart from what it links itself."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.small_webs import BIRDS, stored, word
from opilio.core.records import FetchResult, Lead, url_key
from opilio.core.urls import host_of
from opilio.engine.politeness.traps import TrapDetector, TrapLimits, build_url_filter
from opilio.store.collection import Collection
from opilio.topic.setup import resolve_settings

GOOD, EVIL = "http://good.example/", "http://evil.example/"
# What a stranger links, and the pages that the site links itself.
FRAMES: dict[str, tuple[Callable[[int], str], Callable[[int], str]]] = {
    "parameters": (lambda n: f"index.php?a{n}=1", lambda n: f"index.php?id={n}"),
    "sessions": (lambda n: f"x?sessionid=a{n}", lambda n: f"{n}?sessionid=77"),
    "combinations": (lambda n: f"list?a=1&b=1&c=1&d={n}", lambda n: f"list?a=2&b=1&c=1&d={n}"),
    "dates": (lambda n: f"events/{1900 + n // 12}/{n % 12 + 1}/", lambda n: f"events/2020/{n % 12 + 1}/{n + 1}/"),
}
OWN = 10


def lead_to(url: str) -> Lead:
    return Lead(url=url, key=url_key(url), host=host_of(url))


def anchors(urls: list[str]) -> str:
    return "".join(f"<a href='{url}'>small birds</a>" for url in urls)


@pytest.mark.parametrize("through", ["links", "redirects"])
@pytest.mark.parametrize("frame", ["parameters", "sessions"])
def test_site_is_crawled_when_a_stranger_links_made_up_urls_of_it(tmp_path: Path, frame: str, through: str) -> None:
    foreign, own = FRAMES[frame]
    made_up = [f"{GOOD}{foreign(n)}" for n in range(70)]
    answers = {}
    if through == "redirects":
        targets, made_up = made_up, [f"{EVIL}{n}" for n in range(70)]
        answers = {
            url: FetchResult(url=url, status=302, location=target) for url, target in zip(made_up, targets, strict=True)
        }
    pages = [f"{GOOD}{own(n)}" for n in range(OWN)]
    answers |= {url: html(url, f"{BIRDS} {word(n)}") for n, url in enumerate(pages)}
    last = f"{EVIL}last"
    answers |= {
        EVIL: html(EVIL, f"{BIRDS} {word(100)} {anchors([*made_up, last])}"),
        last: html(last, f"{BIRDS} {word(101)} {anchors([GOOD])}"),
        GOOD: html(GOOD, f"{BIRDS} {word(102)} {anchors(pages)}"),
    }
    tree = plain_tree([EVIL])
    run_engine(tmp_path / "c", tree, PageFetcher(answers))
    assert set(pages) <= set(stored(tmp_path / "c"))
    # A later run counts the URLs of this one again.
    with closing(Collection.open_for_reading(tmp_path / "c")) as collection:
        resumed = build_url_filter(resolve_settings(tree), collection, resumed=True)
    assert resumed.refusal_reason(lead_to(f"{GOOD}index.php?more=1&sessionid=88")) == ""


@pytest.mark.parametrize("frame", FRAMES)
def test_urls_that_strangers_link_are_counted_apart(frame: str) -> None:
    foreign, own = FRAMES[frame]
    traps = TrapDetector(TrapLimits(current_year=2026))
    refused = [n for n in range(2_500) if traps.check(f"{GOOD}{foreign(n)}", "evil.example")]
    assert refused
    assert not any(traps.check(f"{GOOD}{own(n)}") for n in range(OWN))
    # A flood of such links does not make it forget what a site links itself.
    bounded = TrapDetector(TrapLimits(max_hosts=3, max_sessions=1))
    assert not bounded.check(f"{GOOD}?sessionid=1")
    for n in range(20):
        bounded.check(f"http://h{n}.example/?a=1", "evil.example")
    assert bounded.check(f"{GOOD}?sessionid=2")
    assert len(bounded._linked_hosts) == 3
