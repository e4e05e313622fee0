"""A curator tags pages, writes notes and makes a list; a journalist saves a search and follows its feed."""

import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from checks.browsing import WAIT_MS, chromium, tab
from checks.page_server import Client, crawled, pages_of
from checks.small_webs import SmallWeb, page

expect.set_options(timeout=WAIT_MS)
SEED, OTHER = "http://h0.example/0.html", "http://h0.example/1.html"


@pytest.fixture
def client(birds: Path, tmp_path: Path) -> Iterator[Client]:
    shutil.copytree(birds, tmp_path / "birds")
    with pages_of([tmp_path / "birds"], tmp_path) as found:
        yield found


def test_curator_tags_notes_and_exports_a_list(client: Client) -> None:
    with chromium() as browser, tab(browser, client.base) as one:
        found = one.go("/search?q=wren&host=h1.example")
        hit = found.locator(".hit").first
        hit.get_by_label("Add a tag").fill("song")
        hit.get_by_label("Add a tag").press("Enter")
        expect(hit.locator(".tags")).to_contain_text("song")
        expect(found.locator("[data-note]")).to_contain_text("tagged song")
        one.go("/search?q=wren&tag=song")
        expect(found.locator(".hit")).to_have_count(1)
        expect(found.locator(".facet a[aria-current]")).to_contain_text("song")
        hit.get_by_role("link", name="Why").click()
        found.get_by_label("Add to a list").fill("cite")
        found.get_by_label("Add to a list").press("Enter")
        expect(found.locator("#main")).to_contain_text("On the list cite")
        found.locator("#page-note").fill("a fine page")
        found.get_by_role("button", name="Save note").click()
        found.get_by_role("link", name="cite", exact=True).click()
        expect(found.locator(".hit")).to_have_count(2)
        found.locator(".hit").nth(1).get_by_role("button", name="up").click()
        expect(found.locator(".hit").first).to_contain_text("a fine page")
        found.locator(".menu summary").click()
        address = found.get_by_role("link", name="BibTeX").get_attribute("href")
        assert one.problems == []
    cited = client.get(str(address))
    assert cited.text.count("@misc") == 2
    assert cited.text.index("a fine page") < cited.text.index("to quote")


def test_tag_is_removed_and_a_list_renamed_and_deleted(client: Client) -> None:
    done = client.post("/c/birds/annotate", {"url": SEED, "do": "untag", "value": "wren"}, Accept="application/json")
    assert done.data["tags"] == []
    assert client.post("/c/birds/annotate", {"url": SEED, "do": "tag"}).status == 400
    assert client.post("/c/birds/annotate", {"url": "http://x.example/", "do": "tag", "value": "a"}).status == 400
    assert client.post("/c/birds/lists", {"list": "cite", "do": "rename", "value": "read"}).status == 200
    assert client.get("/c/birds/list?list=cite").status == 404
    assert [row["url"] for row in client.get("/c/birds/list.json?list=read").data["pages"]] == [SEED]
    client.post("/c/birds/lists", {"list": "read", "do": "delete"})
    assert client.get("/c/birds/lists.json").data["lists"] == []


def test_journalist_saves_a_search_and_finds_its_feed(client: Client) -> None:
    with chromium() as browser, tab(browser, client.base) as one:
        page = one.go("/search?q=wren&host=h0.example")
        page.locator(".save-search summary").click()
        page.fill("#save-name", "wrens")
        page.locator(".save-search button").click()
        saved = one.go("/c/birds/lists").locator("[data-row]", has_text="wrens")
        expect(saved).to_contain_text("nothing new")
        address = str(saved.get_by_role("link", name="RSS").get_attribute("href"))
        saved.get_by_role("link", name="wrens").click()
        expect(page.locator(".chips a", has_text="host: h0.example")).to_have_count(1)
        assert page.input_value("#big-find") == "wren"
        assert one.problems == []
    assert client.get(address).headers["Content-Type"].startswith("application/rss+xml")


def test_saved_search_counts_and_feeds_new_pages(client: Client, tmp_path: Path) -> None:
    client.post("/searches", {"do": "save", "search": "wrens", "q": "wren", "host": "h0.example"})
    (saved,) = client.get("/c/birds/lists.json").data["searches"]
    assert (saved["new"], "host=h0.example" in saved["address"]) == (0, True)
    atom = "{http://www.w3.org/2005/Atom}"
    feed = ET.fromstring(client.get(saved["feeds"]["atom"]).text)
    assert (feed.findtext(f"{atom}title"), feed.findall(f"{atom}entry")) == ("wrens – birds – Opilio", [])
    rss = ET.fromstring(client.get(saved["feeds"]["rss"]).text)
    assert (rss.findtext("channel/title"), rss.findall("channel/item")) == ("wrens – birds – Opilio", [])
    assert client.get("/search.json?q=wren&since=1").data["total"] == client.get("/search.json?q=wren").data["total"]
    assert client.get(saved["new_address"].replace("/search", "/search.json")).data["total"] == 0
    assert client.post("/searches", {"do": "delete", "search": "none", "q": ""}).status == 400
    client.post("/searches", {"do": "delete", "search": "wrens"})
    assert client.get("/c/birds/lists.json").data["searches"] == []


def test_facets_over_collections_count_each_page_once(birds: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(birds, tmp_path / "other"))
    third = crawled(tmp_path / "third", source=SmallWeb({"http://z.example/0.html": page("birds wren", title="Z")}))
    with pages_of([birds, other, third], tmp_path) as client:
        for query in ("q=wren", "", "q=wren&relevant=yes", "q=small%20birds%20wren"):
            found = client.get(f"/search.json?{query}").data
            counts = {facet["name"]: sum(value["count"] for value in facet["values"]) for facet in found["facets"]}
            assert counts["hosts"] == counts["bands"] == found["total"], query
        assert next(f for f in found["facets"] if f["name"] == "tags")["values"][0]["count"] == 1
