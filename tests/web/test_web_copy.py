"""The stored copy of a page: readable, as it was in a sandbox, and compared with another version."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import expect

from checks.browsing import chromium, tab
from checks.page_server import Client, pages_of
from checks.small_webs import BIRDS, HTML, SmallWeb, crawl, served, settings_for
from opilio.fetch.decoding import RecordedResponse

URL = "http%3A%2F%2Fh0.example%2F"
WEEK_S = 7 * 86_400.0


EDITIONS = {1: "first draft by Smith", 2: "second draft with warblers and finches"}


def changing_page(version: int) -> RecordedResponse:
    body = f"""<html><head><title>Wrens {version}</title><style>p {{ color: rgb(1, 2, 3) }}</style></head><body>
<script>parent.hacked = 1; document.title = "hacked"</script><h1>Wrens</h1><p>{BIRDS} {BIRDS}</p>
<p>Edition {version}, {EDITIONS[version]}.</p><img src="http://h0.example/wren.png" alt="A wren">
<form action="http://h0.example/send"><button>Send</button></form><a id="away" href="http://h0.example/other">Other</a>
<table><tr><th>Bird</th><th>Eggs</th></tr><tr><td>wren</td><td>6</td></tr></table></body></html>"""
    return RecordedResponse(200, (HTML,), body.encode())


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("copy")
    web = SmallWeb({"http://h0.example/": changing_page(1)})
    with served(web) as server, ThreadPoolExecutor(1) as thread:
        again = {"interval_s": WEEK_S, "probe": False}
        tree = settings_for(server, ["http://h0.example/"], revisit=again)
        thread.submit(crawl, home / "birds", tree).result()
        web.answers["http://h0.example/"] = changing_page(2)
        thread.submit(crawl, home / "birds", {"revisit": again | {"on": True}}, None, 2 * WEEK_S).result()
    with pages_of([home / "birds"], home) as found:
        yield found


def test_copy_shows_main_text_of_each_version(client: Client) -> None:
    newest = client.get(f"/c/birds/copy.json?url={URL}").data
    assert [version["title"] for version in newest["versions"]] == ["Wrens 1", "Wrens 2"]
    assert (newest["number"], "Edition 2" in newest["markdown"]) == (2, True)
    assert "Edition 1" in client.get(f"/c/birds/copy.json?url={URL}&version=1").data["markdown"]
    shown = client.get(f"/c/birds/copy?url={URL}", Accept="text/html").text
    assert "<td>wren</td>" in shown
    assert "<img" not in shown


def test_words_and_phrases_of_a_query_are_marked_in_the_copy(client: Client) -> None:
    shown = client.get(f"/c/birds/copy?url={URL}&q=%22second+draft%22+finches+the", Accept="text/html").text
    assert '<mark id="first-match">second draft</mark>' in shown
    assert "<mark>finches</mark>" in shown
    assert "2 matches of" in shown
    assert "is not in the text" in client.get(f"/c/birds/copy?url={URL}&q=zebra", Accept="text/html").text
    assert "<mark" not in client.get(f"/c/birds/copy?url={URL}&q=%22open", Accept="text/html").text


def test_changes_between_versions_are_marked(client: Client) -> None:
    changes = client.get(f"/c/birds/copy.json?url={URL}&view=changes").data["changes"]
    kinds = {change["kind"]: change["text"] for change in changes if change["kind"] in ("added", "removed")}
    assert ("Edition 1" in kinds["removed"], "Edition 2" in kinds["added"]) == (True, True)
    shown = client.get(f"/c/birds/copy?url={URL}&view=changes", Accept="text/html").text
    assert "<del>Edition 1" in shown
    assert "<ins>Edition 2" in shown
    same = client.get(f"/c/birds/copy?url={URL}&view=changes&against=2", Accept="text/html").text
    assert "The main text is the same" in same


@pytest.mark.parametrize(
    ("query", "status", "problem"),
    [
        ("url=http%3A%2F%2Fh1.example%2F", 404, "no stored page has this URL"),
        ("url=wren", 400, "not a valid http(s) URL"),
        (f"url={URL}&version=3", 400, "this page has 2 stored versions"),
        (f"url={URL}&view=changes&against=3", 400, "this page has 2 stored versions"),
    ],
)
def test_copy_that_does_not_exist_is_an_error(client: Client, query: str, status: int, problem: str) -> None:
    answer = client.get(f"/c/birds/copy.json?{query}")
    assert (answer.status, problem in answer.data["error"]) == (status, True), answer.text


def test_original_is_shown_in_a_sandbox(client: Client) -> None:
    answer = client.get(f"/c/birds/original?url={URL}&version=1")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "frame-ancestors 'self'" in policy
    with chromium() as browser, tab(browser, client.base) as one:
        page = one.go(f"/c/birds/copy?url={URL}&view=original&version=1")
        frame = page.frame_locator("iframe.original")
        expect(frame.locator("body")).to_contain_text("Edition 1")
        assert frame.locator("p").first.evaluate("e => getComputedStyle(e).color") == "rgb(1, 2, 3)"
        assert page.evaluate("window.hacked") is None
        frame.locator("#away").click()
        page.locator(".versions a", has_text="Version 2").click()
        expect(frame.locator("body")).to_contain_text("Edition 2")
        assert page.url.startswith(client.base)


def test_reader_switches_versions_compares_them_and_labels_the_page(client: Client) -> None:
    with chromium() as browser, tab(browser, client.base) as one:
        page = one.go(f"/c/birds/copy?url={URL}")
        expect(page.locator("article.reading")).to_contain_text("Edition 2")
        page.locator(".versions a", has_text="Version 1").click()
        expect(page.locator("article.reading")).to_contain_text("Edition 1")
        page.locator(".versions a", has_text="Version 2").click()
        page.locator(".tabs a", has_text="Changes").click()
        expect(page.locator(".changes del")).to_contain_text("Edition 1")
        expect(page.locator(".changes ins")).to_contain_text("Edition 2")
        # The label is at the top, and the verdict follows it, also after a reload.
        page.keyboard.press("-")
        expect(page.locator("[data-verdict]")).to_have_text("not relevant")
        page.reload()
        expect(page.locator('button[value="irrelevant"]')).to_have_attribute("aria-pressed", "true")
        page.locator('button[value="undo"]').click()
        expect(page.locator("[data-verdict]")).to_have_text("relevant")
        assert one.problems == []


def test_page_links_its_copy_and_its_changes(client: Client, tmp_path: Path) -> None:
    shown = client.get(f"/c/birds/page?url={URL}", Accept="text/html").text
    assert f'href="/c/birds/copy?url={URL}"' in shown
    assert "view=changes" in shown
