"""What strangers write is shown harmlessly: scripts, markup, overrides of the writing direction, endless titles."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from checks.browsing import PHONE, chromium, tab
from checks.page_server import Client, crawled, pages_of
from checks.small_webs import BIRDS, HTML, SmallWeb, page
from opilio.fetch.decoding import RecordedResponse

SCRIPT = "<script>window.hacked=1;alert(1)</script>"
IMAGE = '"><img src=x onerror="window.hacked=1;alert(2)">'
TURNED = "\u202egnp.exe\u202c\u2066x\u2069\u200b"
ODD = "http://h0.example/a'%22%3E%3Csvg%20onload=alert(3)%3E.html?x=%3Cscript%3E&y=%E2%80%AE"


def hostile_web() -> SmallWeb:
    head = (
        f'<html lang="{IMAGE[:2]}x"><head><title>{TURNED} &lt;script&gt;window.hacked=1&lt;/script&gt; {IMAGE}</title>'
        f"<meta name='description' content='{SCRIPT}'></head>"
    )
    links = "".join(
        f'<p>bird wren <a href="{href}">{anchor} wren bird</a></p>'
        for href, anchor in (
            (ODD, f"&lt;script&gt;alert(4)&lt;/script&gt;{TURNED}"),
            ("/long.html", "wren " * 5000),
            ("/bytes.html", "bytes"),
            ("javascript:alert(5)", "script"),
            ("data:text/html,<script>alert(6)</script>", "data"),
            ("/{{7*7}}.html", "{{7*7}} ${7*7} {% raw %}"),
        )
    )
    body = f"{head}<body><p>{BIRDS} {TURNED} &lt;img src=x onerror=alert(7)&gt;</p>{links}</body></html>"
    long = page(BIRDS, title="wren " * 200_000)
    raw = b"<title>\xff\xfe\x00 wren \xc3( bird</title><p>" + BIRDS.encode() + b" \xed\xa0\x80 \x1b[31m \xf5</p>"
    return SmallWeb(
        {
            "http://h0.example/0.html": RecordedResponse(200, (HTML,), body.encode()),
            ODD: page(f"{BIRDS} odd {SCRIPT}", title="=HYPERLINK('http://evil.example')"),
            "http://h0.example/long.html": long,
            "http://h0.example/bytes.html": RecordedResponse(200, (("Content-Type", "text/html"),), raw),
            "http://h0.example/%7B%7B7*7%7D%7D.html": page(BIRDS + " braces", title="{{7*7}} wren"),
        }
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    home = tmp_path_factory.mktemp("hostile")
    folder = crawled(home / "hostile", source=hostile_web())
    with pages_of([folder], home) as client:
        yield client


def paths(client: Client) -> list[str]:
    """Every page that shows something of the web."""
    parts = ("", "/pages", "/queue", "/hosts", "/seeds", "/errors", "/events", "/topic", "/graph", "/subtopics")
    known = [p["url"] for p in client.get("/c/hostile/pages.json?relevant=all").data["pages"]]
    assert len(known) >= 4, known
    details = [f"/c/hostile/{view}?url={quote(url, safe='')}" for url in known for view in ("page", "copy")]
    return [*(f"/c/hostile{part}" for part in parts), *details, "/search?q=wren", f"/search?q={quote(SCRIPT + TURNED)}"]


def test_nothing_of_the_web_runs_or_breaks_out(hostile: Client) -> None:
    with chromium() as browser:
        _look_at_all(browser, hostile)


def _look_at_all(browser: Browser, client: Client) -> None:
    with tab(browser, client.base, viewport=PHONE) as one:
        for path in paths(client):
            shown = one.go(path)
            assert shown.evaluate("window.hacked") is None, path
            assert shown.locator("main img, main script, main iframe, main object").count() == 0, path
            assert one.overflow <= 0, path
            outward = shown.locator("main a[target]").evaluate_all("list => list.map(a => [a.protocol, a.rel])")
            assert all(p in ("http:", "https:") and "noopener" in rel for p, rel in outward), path
        assert one.problems == []  # a script that the policy blocked would be reported here


def test_text_that_turns_or_hides_is_not_in_the_html(hostile: Client) -> None:
    for path in paths(hostile):
        answer = hostile.get(path, Accept="text/html")
        assert answer.status == 200, path
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00\x1b]", answer.text), path
        assert "<img" not in answer.text
        assert len(answer.text) < 300_000


def test_title_is_shown_as_it_is_written(hostile: Client) -> None:
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in hostile.get("/c/hostile/pages").text
    assert "{{7*7}} wren" in hostile.get("/c/hostile/pages").text


@pytest.mark.parametrize("form", ["json", "csv"])
def test_data_is_well_formed(hostile: Client, form: str) -> None:
    for path in paths(hostile):
        bare, _, query = path.partition("?")
        answer = hostile.get(f"{bare}.{form}?{query}")
        assert answer.status == 200, path
        assert form == "csv" or answer.data["schema"] == 1
    assert "'=HYPERLINK" in hostile.get("/c/hostile/pages.csv?relevant=all").text


def test_hostile_host_of_an_older_collection_can_not_climb_out(hostile: Client, tmp_path: Path) -> None:
    for path in ("/static/../guard.py", "/static/%2e%2e/guard.py", "/c/..%2f..%2fetc", "/c/hostile/..%2fcrawl.db"):
        assert hostile.get(path).status in (400, 404)
