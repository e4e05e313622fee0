"""Errors by cause and host with a retry, events as sentences, and the graph of hosts under the pointer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, expect

from checks.browsing import WAIT_MS, chromium, tab
from checks.page_addresses import addresses
from checks.page_server import Client, crawled, pages_of
from checks.small_webs import BIRDS, HTML, SmallWeb, page, rows
from opilio.core import events
from opilio.fetch.decoding import RecordedResponse
from opilio.web.pages.crawl import KINDS
from opilio.web.sentences import event_sentence

expect.set_options(timeout=WAIT_MS)
GONE = RecordedResponse(404, (HTML,), b"<p>not here")
HOSTS = 14
LONG = "http://a-very-long-name-of-a-host-without-any-break.and-a-long-domain.example/"


def web_with_failures() -> SmallWeb:
    hosts = [f"http://site-{number}.example/" for number in range(HOSTS)]
    links = ["http://h0.example/gone1", "http://h0.example/gone2", "http://h1.example/gone", "http://h1.example/form"]
    answers: dict[str, Any] = {
        "http://h0.example/0.html": page(BIRDS, [*links, *hosts, LONG], "Start"),
        "http://h1.example/form": RecordedResponse(403, (HTML,), b"<p>no"),
        **dict.fromkeys(links[:3], GONE),
        LONG: page(f"{BIRDS} long", title="A_very_long_title_without_any_break" * 4),
    }
    return SmallWeb(answers | {url: page(f"{BIRDS} {url}", hosts, url) for url in hosts})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crawled(tmp_path_factory.mktemp("log") / "birds", source=web_with_failures())


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with pages_of([folder], folder.parent) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_errors_are_grouped_by_host_and_cause(client: Client) -> None:
    data = client.get("/c/birds/errors.json").data
    groups = {(group["host"], group["cause"]): group["urls"] for group in data["hosts"]}
    expected = {("h0.example", "status 404"): 2, ("h1.example", "status 404"): 1, ("h1.example", "status 403"): 1}
    assert groups == expected
    assert {group["words"] for group in data["hosts"]} == {"HTTP 404, not found", "HTTP 403, forbidden"}


@pytest.mark.parametrize(
    ("query", "urls"), [("cause=status 404", 3), ("host=h1.example", 2), ("cause=status 404&host=h1.example", 1)]
)
def test_errors_are_filtered_by_cause_and_host(client: Client, query: str, urls: int) -> None:
    data = client.get(f"/c/birds/errors.json?{quote(query, safe='=&')}").data
    assert (sum(group["urls"] for group in data["hosts"]), len(data["examples"])) == (urls, urls)


def test_skipped_urls_are_grouped_by_reason_after_all_failed_ones(tmp_path: Path) -> None:
    outside = [f"http://a{number}.elsewhere/" for number in range(250)]
    web = web_with_failures()
    web.answers["http://h0.example/0.html"] = page(BIRDS, [*outside, "http://h0.example/gone1"], "Start")
    folder = crawled(tmp_path / "birds", source=web, scope={"allow": ["h0.example"]})
    with pages_of([folder], tmp_path) as client:
        data = client.get("/c/birds/errors.json").data
        assert [(group["reason"], group["urls"]) for group in data["skipped"]] == [
            ("out of scope: no rule of --site or --allow (scope.allow) matches", 250)
        ]
        assert data["examples"][0]["url"] == "http://h0.example/gone1"
        shown = client.get("/c/birds/errors").text
        assert shown.count("no rule of --site or --allow (scope.allow) matches") == 1


def test_user_filters_by_a_click_and_retries(browser: Browser, client: Client, folder: Path) -> None:
    with tab(browser, client.base) as one:
        shown = one.go("/c/birds/errors")
        shown.locator("table.bars a", has_text="HTTP 404").click()
        expect(shown.locator(".chips a")).to_contain_text("cause: HTTP 404, not found")
        shown.locator("table.cards a", has_text="h1.example").first.click()
        expect(shown.locator(".chips a")).to_have_count(2)
        shown.get_by_role("button", name="Retry these").click()
        expect(shown.locator("[data-note]")).to_contain_text("failed URLs are queued again")
        expect(shown.locator(".empty")).to_contain_text("No failed URL matches")
        assert one.problems == []
    assert rows(folder, "SELECT url FROM frontier_url WHERE state = 0") == [("http://h1.example/gone",)]
    assert client.post("/c/birds/command", {"do": "retry", "target": "*"}).status == 200
    assert len(rows(folder, "SELECT url FROM frontier_url WHERE state = 0")) == 4
    assert rows(folder, "SELECT queued, failed FROM frontier_count") == [(4, 0)]


def test_every_event_is_a_sentence() -> None:
    for kind in KINDS:
        fields = {field.name: _example(field.type) for field in msgspec.structs.fields(getattr(events, kind))}
        assert len(event_sentence(kind, fields).split()) > 2, kind


def _example(kind: object) -> object:
    """A value of a field."""
    return {str: "word", bool: True, int: 3, float: 2.0}.get(kind, ["word"])  # type: ignore[call-overload]


def overlapping(texts: Locator) -> list[tuple[str, str]]:
    """Pairs of visible labels that touch each other."""
    boxes: list[tuple[str, list[float]]] = texts.evaluate_all(
        """all => all.filter(t => getComputedStyle(t).display !== "none").map(t => {
        const b = t.getBoundingClientRect(); return [t.textContent, [b.left, b.top, b.right, b.bottom]]; })"""
    )
    assert boxes
    return [
        (name, other)
        for number, (name, a) in enumerate(boxes)
        for other, b in boxes[number + 1 :]
        if a[0] < b[2] and a[2] > b[0] and a[1] < b[3] and a[3] > b[1]
    ]


@pytest.mark.parametrize("width", [1280, 390])
def test_graph_zooms_and_labels_never_overlap(browser: Browser, client: Client, width: int) -> None:
    with tab(browser, client.base, viewport={"width": width, "height": 900}) as one:
        shown = one.go("/c/birds/graph")
        svg, labels = shown.locator("svg.graph"), shown.locator("svg.graph [data-labels] text")
        expect(svg).to_have_attribute("data-zoom", "1.00")
        assert overlapping(labels) == []
        # The largest host has a label, also at an edge.
        expect(labels.first).not_to_have_class(re.compile("crowded"))
        for _ in range(3):
            shown.click("[data-zoom=in]")
        expect(svg).to_have_attribute("data-zoom", "3.37")
        assert overlapping(labels) == []
        frame = svg.bounding_box()
        assert frame is not None
        for label in shown.locator("svg.graph text:not(.crowded)").all():
            box = label.bounding_box()
            assert box is not None
            assert frame["x"] <= box["x"] + 1 <= box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
        shown.click("[data-zoom=all]")
        expect(svg).to_have_attribute("data-zoom", "1.00")
        assert one.problems == []


def test_graph_names_the_host_under_the_pointer_and_opens_it(browser: Browser, client: Client) -> None:
    with tab(browser, client.base) as one:
        shown = one.go("/c/birds/graph")
        expect(shown.locator("svg.graph")).to_have_attribute("data-zoom", "1.00")
        node = shown.locator('svg.graph a[aria-label^="h0.example"]')
        node.hover()
        expect(shown.locator("[data-graph-note]")).to_contain_text("h0.example: 1 page,")
        assert shown.locator("svg.graph line.near").count() > 0
        node.click()
        shown.wait_for_url("**/host?host=h0.example")


def test_narrow_phone_scrolls_only_downwards_with_failures(browser: Browser, client: Client) -> None:
    """Rows of failures, waiting hosts and long names fit into 320 pixels too (WCAG 1.4.10)."""
    paths = [path for path in addresses() if "url=" not in path and "host=" not in path]
    with tab(browser, client.base, viewport={"width": 320, "height": 640}) as one:
        assert [path for path in paths if one.go(path) and one.overflow > 0] == []
