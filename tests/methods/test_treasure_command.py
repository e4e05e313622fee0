"""`opilio lab tgraph build` and `show` on a collection, and what they refuse."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.search_doubles import SearchDouble, search_double
from checks.small_webs import BIRDS, TRAINS, Done, SmallWeb, crawl, one_line, opilio, page, served, settings_for

SITE = "http://a.example/"
WEB = {
    SITE: page(f"{BIRDS} zumaum", ["/list.html", "/trains.html"], title="Portal"),
    f"{SITE}list.html": page(f"{BIRDS} zumbum", ["/wren.html", "/robin.html"], title="List of birds"),
    f"{SITE}wren.html": page(f"{BIRDS} zumcum", ["/"], title="Wren"),
    f"{SITE}robin.html": page(f"{BIRDS} zumdum", ["/wren.html"], title="Robin"),
    f"{SITE}trains.html": page(TRAINS, ["/"], title="Trains"),
}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawls") / "birds"
    with served(SmallWeb(WEB)) as server:
        crawl(folder, settings_for(server, [SITE], politeness={"delay_s": 0.0, "robots": False}))
    return folder


def test_graph_is_built_from_a_collection_and_shown(collection: Path, tmp_path: Path) -> None:
    graph, picture = tmp_path / "g.json", tmp_path / "g.svg"
    built = opilio(
        "lab",
        "tgraph",
        "build",
        "--target",
        f"{SITE}wren.html",
        "--links",
        collection,
        "--out",
        graph,
        "--json",
        cwd=tmp_path,
    )
    assert built.returncode == 0, built.stderr
    result = json.loads(built.stdout)
    assert (result["levels"], result["pages"], result["missing"]) == (
        [1, 2, 1, 1],
        5,
        [],
    )  # trains are three links away
    shown = opilio("lab", "tgraph", "show", graph, "--svg", picture)
    assert "level 1: 2 nodes of 2 pages" in shown.stdout
    assert "List of birds" in shown.stdout
    assert picture.read_text().startswith("<svg")


def test_graph_is_built_top_down_from_a_portal_s2_27(collection: Path, tmp_path: Path) -> None:
    options = ("--target", f"{SITE}wren.html", "--portal", SITE, "--links", collection, "--json")
    result = json.loads(opilio("lab", "tgraph", "build", *options, "--depth", "2", cwd=tmp_path).stdout)
    assert result["levels"] == [1, 1, 1]


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[tuple[SearchDouble, dict[str, str]]]:
    """A search engine that knows back-links, and a place for its configuration."""
    with search_double() as double:
        links = {"wren.html": ["list.html", "robin.html", "trains.html"], "list.html": [""]}
        for page_, parents in links.items():
            double.by_query["alpha", f"link:{SITE}{page_}"] = [f"{SITE}{parent}" for parent in parents]
        config = tmp_path / "config" / "opilio"
        config.mkdir(parents=True)
        url = double.engine("searxng")["url"]
        (config / "engines.toml").write_text(f'[s]\nkind = "searxng"\nurl = "{url}"\npause_s = 0.0\n')
        yield double, {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def searched(folders: dict[str, str], proxy: str, place: Path, target: str, **more: str) -> Done:
    quick = ("--set", f"fetch.proxy={proxy}", "--set", "politeness.delay_s=0", "--set", "engine.workers=0")
    options = ("--target", target, "--search", "--depth", "2", "--json", *quick)
    return opilio("lab", "tgraph", "build", *options, cwd=place, environment=folders)


def test_graph_is_built_through_search_engines_s2_f7(
    engines: tuple[SearchDouble, dict[str, str]], tmp_path: Path
) -> None:
    double, folders = engines
    with served(SmallWeb(WEB)) as server:
        done = searched(folders, server.proxy, tmp_path, f"{SITE}wren.html")
        asked = [access.url for access in server.log if not access.url.endswith("robots.txt")]
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["levels"] == [1, 2, 1]  # trains do not link there, whatever the engine says
    assert sorted(asked) == sorted(WEB)  # each once, and nothing else
    assert any(one.target == "/robots.txt" for one in server.log)
    assert "level 1: 2 of 3 pages that engines named" in done.stderr
    assert {one.query.get("q") for one in double.asked("searxng")} >= {f"link:{SITE}wren.html", f"link:{SITE}list.html"}


def test_target_that_cannot_be_fetched_is_refused(engines: tuple[SearchDouble, dict[str, str]], tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        done = searched(engines[1], server.proxy, tmp_path, f"{SITE}gone.html")
    assert done.returncode == 2
    assert "--target http://a.example/gone.html: can't be fetched" in one_line(done)
    assert not (tmp_path / "tgraph.json").exists()


@pytest.mark.parametrize("words", [(), ("--search", "--links", ".")])
def test_back_links_have_one_source(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = opilio("lab", "tgraph", "build", "--target", SITE, *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "--links DIR or --search" in one_line(done)


def test_targets_that_are_not_there_are_skipped_or_refused(collection: Path, tmp_path: Path) -> None:
    some = ("--target", f"{SITE}wren.html", "--target", f"{SITE}gone.html", "--links", collection)
    done = opilio("lab", "tgraph", "build", *some, "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["missing"]) == (0, [f"{SITE}gone.html"])
    assert "skipped: --target http://a.example/gone.html" in done.stderr
    none = opilio("lab", "tgraph", "build", "--target", "wren", "--links", collection, "--out", "n.json", cwd=tmp_path)
    assert none.returncode == 2
    assert "--target wren: not in this web" in one_line(none)
    assert not (tmp_path / "n.json").exists()


def test_portal_without_a_way_is_refused(collection: Path, tmp_path: Path) -> None:
    options = ("--target", f"{SITE}trains.html", "--portal", f"{SITE}wren.html", "--links", collection, "--depth", "1")
    done = opilio("lab", "tgraph", "build", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "--portal: no path" in one_line(done)


@pytest.mark.parametrize("text", ["", "{", '{"schema": 1, "kind": "t-graph", "nodes": []}'])
def test_file_that_is_no_graph_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.json").write_text(text)
    done = opilio("lab", "tgraph", "show", tmp_path / "g.json")
    assert done.returncode == 2
    assert "g.json: " in one_line(done)


def test_file_that_is_there_is_not_overwritten(collection: Path, tmp_path: Path) -> None:
    (tmp_path / "tgraph.json").write_text("mine")
    done = opilio("lab", "tgraph", "build", "--target", f"{SITE}wren.html", "--links", collection, cwd=tmp_path)
    assert done.returncode == 2
    assert (tmp_path / "tgraph.json").read_text() == "mine"


def test_collection_without_a_graph_is_refused(collection: Path) -> None:
    done = opilio("lab", "tgraph", "show", collection)
    assert done.returncode == 2
    assert "contains no T-Graph" in one_line(done)
