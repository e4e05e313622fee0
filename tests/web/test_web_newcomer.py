"""A newcomer with only the browser: from a topic sentence to a labelled, exported collection.

The clicks are those that docs/tutorials/browser.md lists, in the same order.
"""

import json
import re
from pathlib import Path
from subprocess import Popen
from typing import Any
from urllib.parse import quote

import pytest
import tomli_w
from playwright.sync_api import Page, expect

from checks.browsing import WAIT_MS, chromium, tab
from checks.page_server import Client, mixed_web, pages_of
from checks.search_doubles import KEY, search_double
from checks.small_webs import served
from opilio.core.strategies import strategy_names
from opilio.manage.verify import verify
from opilio.web import processes
from opilio.web.pages import overview

expect.set_options(timeout=WAIT_MS)
TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "browser.md"
SEEDS = ["http://h0.example/0.html?about=garden-nests", "http://h0.example/0.html", "http://h1.example/1.html?nests"]


def listed_clicks() -> list[str]:
    """What the tutorial says to click, in its order: the words in bold of the numbered list."""
    steps = re.search(r"^1\. .*?(?=\n\n)", TUTORIAL.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert steps
    return [word.replace("\n   ", " ") for word in re.findall(r"\*\*(.+?)\*\*", steps[0], re.DOTALL)]


class Newcomer:
    """Clicks what is named, and remembers it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks: list[str] = []

    def click(self, name: str, role: str = "button") -> None:
        self.clicks.append(name)
        if role == "text":
            self.page.locator("summary", has_text=name).first.click()
        else:
            self.page.get_by_role(role, name=name, exact=role == "link").first.click()  # type: ignore[arg-type]

    def press(self, key: str) -> None:
        self.clicks.append(key)
        self.page.keyboard.press(key)


def test_newcomer_gets_from_a_sentence_to_an_exported_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TEST_SEARCH_KEY", KEY)
    (tmp_path / "home").mkdir()
    with served(mixed_web(hosts=4)) as server, search_double(brave=SEEDS) as double:
        engines = tmp_path / "config" / "opilio" / "engines.toml"
        engines.parent.mkdir(parents=True)
        engines.write_text(tomli_w.dumps({"mine": double.engine("brave")}), encoding="utf-8")
        # What a crawl of the web on this machine needs beside the newcomer's own choices.
        local = f'[fetch]\nproxy = "{server.proxy}"\n[engine]\nworkers = 0\n'
        with pages_of([], tmp_path / "home", allow_local=True) as client:
            _walk(client, f"/new?delay=0&toml={quote(local)}", tmp_path)


def _walk(client: Client, form: str, folder: Path) -> None:
    with chromium() as browser, tab(browser, client.base, accept_downloads=True) as one:
        newcomer = Newcomer(one.go("/"))
        page = newcomer.page
        newcomer.click("Start a crawl", "link")
        expect(page.locator("#n-topic")).to_be_visible()
        page.goto(f"{client.base}{form}")
        page.fill("#n-topic", "wrens and other small birds")
        newcomer.click("Suggest words and seeds")
        page.locator(".pick", has_text="nests").click()
        expect(page.locator("[name=seed]:checked")).to_have_count(3)
        newcomer.click("Try 20 pages")
        expect(page.get_by_role("button", name="Start the full crawl")).to_be_visible()
        assert page.locator("[data-row]").count() == 20
        wrong = page.locator("[data-row]", has_text="Not kept").first
        wrong.locator('button[value="irrelevant"]').click()
        newcomer.clicks.append("− Not")
        expect(wrong.locator('button[value="irrelevant"]')).to_have_attribute("aria-pressed", "true")
        newcomer.click("Start the full crawl")
        page.wait_for_url("**/c/wrens-and-other-small-birds*")
        page.wait_for_function("() => Number(document.querySelector('[data-count=pages]')?.textContent) > 40")
        expect(page.locator(".controls .chip").first).to_have_text("stopped")
        newcomer.click("Pages", "link")
        newcomer.click("Review", "link")
        expect(page.locator("[data-row].chosen")).to_have_count(1)
        newcomer.press("+")
        expect(page.locator("[data-judged=relevant]")).to_have_count(1)
        newcomer.click("Crawl", "link")
        newcomer.click("Export", "text")
        with page.expect_download() as download:
            newcomer.click("JSONL: text and metadata", "link")
        download.value.save_as(folder / "pages.jsonl")
        assert one.problems == []
    pages = [json.loads(line) for line in (folder / "pages.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(pages) > 20
    # The key + was pressed on the least certain page, whatever it is about.
    assert sum("wren" not in page["text"] for page in pages) <= 1
    assert verify(folder / "home" / "wrens-and-other-small-birds") == []
    assert newcomer.clicks == listed_clicks()


def test_strategies_are_folded_and_explained_in_one_line_each(tmp_path: Path) -> None:
    with pages_of([], tmp_path) as client, chromium() as browser, tab(browser, client.base) as one:
        page = one.go("/new?all=1")
        rows = page.locator(".strategies label")
        expect(rows.first).to_be_hidden()
        page.locator("summary", has_text="Strategy: opilio").click()
        expect(rows.first).to_be_visible()
        assert rows.locator("b").all_inner_texts() == sorted(
            strategy_names(), key=lambda name: (name != "opilio", name)
        )
        assert min(len(text.split()) for text in rows.locator(".muted").all_inner_texts()) > 2
        page.get_by_role("radio", name="breadth").check()
        assert one.problems == []


@pytest.mark.slow
def test_server_without_collections_offers_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Popen[bytes]] = []

    def start(*arguments: Any) -> Popen[bytes]:
        started.append(processes.start_command(*arguments))
        return started[0]

    monkeypatch.setattr(overview, "start_command", start)
    with pages_of([], tmp_path) as client, chromium() as browser, tab(browser, client.base) as one:
        page = one.go("/")
        try:
            page.get_by_role("button", name="Try the demo").click()
            page.wait_for_url("**/c/demo*")
            expect(page.locator("[data-note]")).to_contain_text("The demo crawls a small web on this machine.")
            expect(page.locator(".stream [data-id]").first).to_be_visible()
            assert client.post("/demo", {}).status == 400
        finally:
            started[0].terminate()
            started[0].wait()
