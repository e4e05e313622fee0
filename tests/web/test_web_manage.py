"""Collections are renamed, annotated, archived and deleted; runs are compared by their figures and settings."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from checks.browsing import WAIT_MS, chromium, tab
from checks.page_server import Client, crawled, pages_of
from opilio.store.collection import Collection

expect.set_options(timeout=WAIT_MS)


@pytest.fixture
def home(birds: Path, tmp_path: Path) -> Path:
    shutil.copytree(birds, tmp_path / "birds")
    return tmp_path


@pytest.fixture
def client(home: Path) -> Iterator[Client]:
    with pages_of([home / "birds"], home) as found:
        yield found


def test_user_renames_archives_and_deletes_a_collection(client: Client, home: Path) -> None:
    (home / "birds" / "notes.txt").write_text("mine", encoding="utf-8")
    with chromium() as browser, tab(browser, client.base) as one:
        page = one.go("/")
        page.get_by_role("link", name="Manage").click()
        page.fill("#m-title", "Wrens of Europe")
        page.fill("#m-notes", "first try, default settings")
        page.click("button[value=save]")
        expect(page.locator("[data-note]")).to_contain_text("Saved")
        one.go("/")
        expect(page.locator(".card h3")).to_have_text("Wrens of Europe")
        expect(page.locator(".card-note")).to_have_text("first try, default settings")
        one.go("/c/birds/manage").click("button[value=archive]")
        expect(page.locator(".archive summary")).to_have_text("1 archived collection")
        expect(page.locator(".card")).to_be_hidden()
        one.go("/c/birds/manage")
        page.fill("#m-confirm", "bird")
        page.click("button[value=delete]")
        expect(page.locator("main")).to_contain_text("type its name 'birds'")
        assert (home / "birds" / "crawl.db").exists()
        one.go("/c/birds/manage").fill("#m-confirm", "birds")
        page.click("button[value=delete]")
        expect(page.locator("[data-note]")).to_contain_text("Other files in the folder were kept")
        expect(page.locator("main")).to_contain_text("Start a crawl")
    assert [path.name for path in (home / "birds").iterdir()] == ["notes.txt"]
    assert client.get("/c/birds").status == 404


def test_collection_that_is_written_to_is_not_deleted(client: Client, home: Path) -> None:
    collection = Collection.open_for_writing(home / "birds")
    try:
        answer = client.post("/c/birds/manage", {"do": "delete", "confirm": "birds"})
    finally:
        collection.close()
    assert (answer.status, "another" in answer.data["error"]) == (503, True), answer.text
    assert client.get("/c/birds.json").status == 200


def test_deleted_collection_gives_its_name_free(client: Client, home: Path) -> None:
    assert client.get("/search.json?q=wren").data["total"] > 0
    assert client.post("/c/birds/manage", {"do": "delete", "confirm": "birds"}).status == 200
    assert not (home / "birds").exists()
    assert client.get("/search.json?q=wren").data["hits"] == []
    assert client.get("/index.json").data["collections"] == []


def test_server_without_arguments_serves_the_collections_of_its_home(birds: Path, tmp_path: Path) -> None:
    """A crawl that was started in the browser is there when the server is started again."""
    crawled(tmp_path / "trees", "breadth", stop={"pages": 2})
    (tmp_path / "notes").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "crawl.db").write_bytes(b"not a database")
    with pages_of([], tmp_path) as client:
        problems = {card["name"]: card["problem"] for card in client.get("/index.json").data["collections"]}
        assert client.get("/c/trees").status == 200
    assert sorted(problems) == ["broken", "trees"]
    assert problems["broken"]
    assert problems["trees"] == ""
    with pages_of([birds], tmp_path) as client:
        assert [card["name"] for card in client.get("/index.json").data["collections"]] == ["birds"]


def test_collection_that_is_made_beside_the_server_is_served(tmp_path: Path) -> None:
    with pages_of([], tmp_path) as client:
        assert client.get("/c/trees").status == 404
        crawled(tmp_path / "trees", "breadth", stop={"pages": 2})
        assert client.get("/c/trees").status == 200
        crawled(tmp_path / "apples", "breadth", stop={"pages": 2})
        names = {card["name"] for card in client.get("/index.json").data["collections"]}
    assert names == {"apples", "trees"}


def test_read_only_server_changes_nothing(home: Path) -> None:
    with pages_of([home / "birds"], home, read_only=True) as client:
        answer = client.post("/c/birds/manage", {"do": "delete", "confirm": "birds"})
        assert answer.status == 403
        assert "Delete collection" not in client.get("/c/birds/manage", Accept="text/html").text
    assert (home / "birds" / "crawl.db").exists()


def test_user_compares_runs_and_sorts_cards(birds: Path, tmp_path: Path) -> None:
    other = crawled(tmp_path / "apples", strategy="breadth", stop={"pages": 6})
    with pages_of([birds, other], tmp_path) as client, chromium() as browser, tab(browser, client.base) as one:
        page = one.go("/runs")
        settings = page.get_by_role("region", name="Settings")
        expect(settings.locator("tr", has_text="strategy").locator("td")).to_have_text(
            ["strategy", "opilio", "breadth"]
        )
        few = settings.locator("tr").count()
        assert page.locator("tr", has_text="birds").first.locator(".best-mark").count() > 0
        page.get_by_role("link", name="Show all settings").click()
        expect(page.get_by_role("heading", name="Settings", exact=True)).to_be_visible()
        assert settings.locator("tr").count() > few
        page.get_by_role("link", name="Only differences").click()
        page.get_by_role("link", name="edit the note of apples").click()
        page.fill("#m-notes", "a baseline")
        page.click("button[value=save]")
        expect(one.go("/runs").locator("tr", has_text="apples").first).to_contain_text("a baseline")
        titles = one.go("/?sort=pages").locator(".card h3")
        expect(titles).to_have_text(["birds", "apples"])
        page.locator(".sorts a", has_text="name").click()
        expect(titles).to_have_text(["apples", "birds"])
        assert one.problems == []


def test_runs_show_settings_that_differ_and_the_best_figures(birds: Path, tmp_path: Path) -> None:
    other = crawled(tmp_path / "small", strategy="breadth", stop={"pages": 6})
    with pages_of([birds, other], tmp_path) as client:
        client.post("/c/small/manage", {"do": "save", "notes": "a baseline"})
        data = client.get("/runs.json").data
        every = client.get("/runs.json?all=1").data["parameters"]
        shown = client.get("/runs", Accept="text/html").text
    names = {row["setting"]: row["values"] for row in data["parameters"]}
    assert names["strategy"] == ["opilio", "breadth"]
    assert names["stop.pages"][1] == "6"
    assert all(row["differs"] for row in data["parameters"])
    assert len(every) > len(data["parameters"])
    rows = {row["name"]: row for row in data["rows"]}
    assert "relevant" in rows["birds"]["best"]
    assert "relevant" not in rows["small"]["best"]
    assert rows["small"]["note"] == "a baseline"
    assert 'class="best-mark">best<' in shown
