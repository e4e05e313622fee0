"""S1 in an ordinary crawl: seed lists of a wiki and their parents train the classifier first (S1-13 … S1-17)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checks.search_doubles import SearchDouble, search_double
from checks.small_webs import SmallWeb, events, page, robots, rows, served, settings_for, stored, word
from opilio.api.crawl_session import open_crawl
from opilio.core.events import ClassifierTrained
from opilio.core.settings import Tree, merge_trees
from opilio.engine.wiring.seeding import with_default_engines
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.server import LabWebServer
from opilio.manage.train_attributes import TRAINING_FOLDER
from opilio.manage.why import why
from opilio.topic.setup import resolve_settings

pytest.importorskip("sklearn")
BIRD = "The wren is a small bird with a loud song. Wrens build nests of moss; the wren feeds its chicks."
TRAIN = "The locomotive pulls freight wagons to the terminus. Railway engines need coal and water."
QUERIES = ("cooking recipes", "football results", "railway timetable", "personal finance advice", "medieval history")
PAGES = 12  # of either list
SECRET = "Secret list"


@pytest.fixture
def double(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SearchDouble]:
    """A wiki that knows wrens and trains, and which of its articles link to them."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    with search_double() as wiki:
        wiki.lists["mediawiki"] = [f"Wren {word(n)}" for n in range(PAGES)]
        wiki.lists["extlinks"] = []
        for at, query in enumerate(QUERIES):
            wiki.by_query["mediawiki", query] = [f"Train {word(n)}" for n in range(PAGES) if n % len(QUERIES) == at]
        for kind in ("Wren", "Train"):
            lists = [f"{kind} list {n}" for n in range(3)]
            wiki.backlinks |= {f"{kind} {word(n)}": [*lists, SECRET] for n in range(PAGES)}
        yield wiki


def web_of(wiki: str) -> dict[str, RecordedResponse]:
    """Its articles: lists link to the articles of their kind, two further ones are known to the lists only."""
    web = {f"{wiki}/robots.txt": robots("User-agent: *\nDisallow: /wiki/Secret_list\n")}
    for kind, text in (("Wren", BIRD), ("Train", TRAIN)):
        names = [f"{kind}_{word(n)}" for n in range(PAGES + 2)]
        web |= {f"{wiki}/wiki/{name}": page(f"{text} {name.replace('_', ' ')}", title=name) for name in names}
        links = [f"{wiki}/wiki/{name}" for name in names]
        for n in range(3):
            web[f"{wiki}/wiki/{kind}_list_{n}"] = page(f"{text} A list, {word(50 + n)}.", links)
    home = page("Welcome to the wiki.", [f"{wiki}/wiki/{kind}_list_0" for kind in ("Wren", "Train")])
    return {**web, f"{wiki}/": home, f"{wiki}/wiki/Wren_{word(0)}": page(BIRD, [f"{wiki}/wiki/Wren_list_0"])}


def start(folder: Path, server: LabWebServer, wiki: SearchDouble, more: Tree | None = None) -> list[str]:
    """Crawl three pages; the lines that the user sees."""
    lines: list[str] = []
    own: dict[str, Any] = {
        "strategy": "s1-bayes",
        "topic": {"name": "wrens"},
        "seeds": more or {"engines": {"wiki": wiki.engine("mediawiki")}, "agree": "any", "queries": 0},
        "fetch": {"allow_private": True},
        "stop": {"fetches": 3, "pages": 0},
    }
    tree = merge_trees(settings_for(server, []), own)

    async def crawl() -> None:
        async with open_crawl(folder, tree, "test", lines.append, lines.append) as session:
            await session.engine.run()

    asyncio.run(crawl())
    return lines


def test_crawl_trains_on_seed_lists_and_their_parents_first_s1_13_s1_17(tmp_path: Path, double: SearchDouble) -> None:
    folder = tmp_path / "wrens"
    with served(SmallWeb(web_of(double.url))) as server:
        lines = start(folder, server, double)
        asked = [access.url for access in server.log]
    assert any("training before the crawl: 12 relevant and 12 irrelevant pages" in line for line in lines)
    assert any("trained on 12 relevant and 12 irrelevant pages with a known parent" in line for line in lines)
    (told,) = events(folder, "ClassifierTrained")
    event = msgspec.json.decode(told, type=ClassifierTrained)
    assert (event.learner, event.relevant, event.irrelevant, event.parents) == ("bayes", 12, 12, 12 * 6)
    assert "wren" in event.words and len(event.words) == 7
    # Robots.txt holds for the training too, and it is a collection like any other.
    assert not [url for url in asked if "Secret" in url]
    training = folder / TRAINING_FOLDER
    assert why(training, f"{double.url}/wiki/Secret_list").reason
    # Two lists and their parents; what the lists link to besides is not fetched more often than one was refused.
    assert len(stored(training)) <= event.requests <= 2 * PAGES + 2 * 3 + 3
    # The first links are scored by the classifier, and `why` shows what decided.
    link = f"{double.url}/wiki/Wren_list_0"
    found = why(folder, link)
    assert found.ranker is not None and found.ranker.learnt_from >= 2 * PAGES
    assert found.ranker.raised_by


def test_crawl_that_can_not_be_trained_says_so_and_starts_s1_14(tmp_path: Path, double: SearchDouble) -> None:
    seeds = [f"{double.url}/wiki/Wren_{word(n)}" for n in range(PAGES)]
    with served(SmallWeb(web_of(double.url))) as server:
        without = start(tmp_path / "a", server, double, {"urls": seeds})
        engines = {"wiki": double.engine("mediawiki")}
        few = start(tmp_path / "b", server, double, {"urls": seeds[:3], "engines": engines, "agree": "any", "train": 3})
        off = start(tmp_path / "c", server, double, {"urls": seeds, "engines": engines, "train": 0})
    assert any("no search engine for irrelevant pages: not trained before the crawl" in line for line in without)
    assert any("3 relevant and 3 irrelevant pages are known, 10 of each are needed" in line for line in few)
    assert not any("train" in line for line in off)
    for name in "abc":
        assert rows(tmp_path / name, "SELECT count(*) FROM page") == [(3,)]
        assert not (tmp_path / name / TRAINING_FOLDER).exists()


def test_default_engine_needs_no_second_one_to_agree_s1_15() -> None:
    tree = {"strategy": "s1-tree", "topic": {"name": "wrens"}, "seeds": {"wiki": "https://wiki.example/w/api.php"}}
    settings = resolve_settings(tree)
    assert (settings.seeds.agree, with_default_engines(settings).seeds.agree) == ("two", "any")
