"""The example plug-in, installed by pip as a user would, and used in a crawl."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import numpy as np
import pytest

from checks.small_webs import TRAINS, SmallWeb, flags, grid, page, rows, served, settings_for
from opilio.core.protocols import RANK_STATE, TOPIC_STATE
from opilio.fetch.decoding import RecordedResponse
from opilio.learn.word_model import DENSE_FIELDS, LINK_FEATURES_DTYPE
from opilio.store.collection import open_readonly
from opilio.store.learner_states import latest_state

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the plug-in is installed into."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-build-isolation", "--no-deps", "--target", str(folder), str(EXAMPLE)]
    done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(site: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_ranker_strategy_and_command_are_used(site: Path, tmp_path: Path) -> None:
    web = grid(2, 6)
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [next(iter(web))], strategy="shallow", engine={"workers": 1})
        done = run(site, "-m", "opilio", "crawl", *flags(tree), "--pages", 6, "--into", tmp_path / "c", "-q")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(6,)]
    config = (tmp_path / "c" / "crawl.toml").read_text(encoding="utf-8")
    assert 'kind = "shallow"' in config and "fade = 0.7" in config
    counted = run(site, "-m", "opilio", "depths", tmp_path / "c")
    assert counted.returncode == 0, counted.stderr
    assert sum(int(line.split("\t")[1]) for line in counted.stdout.splitlines()) == 6


def test_parts_of_other_kinds_are_used(site: Path, tmp_path: Path) -> None:
    start, text, data = "http://a.example/", "http://a.example/1.html", "http://a.example/2.json"
    document = RecordedResponse(200, (("Content-Type", "application/json"),), b'{"birds": ["wren nests", "wren song"]}')
    web = {start: page(links=["1.html", "2.json"]), text: page(TRAINS), data: document}
    engine = 'seeds.engines.start={"kind" = "one-page", "url" = "http://a.example/"}'
    kinds = ["judge.kind=any-word", "order.kind=newest-first", "expansion.kind=commonest", "fetch.client=announcing"]
    settings = [part for setting in (engine, "expansion.limit=2", *kinds) for part in ("--set", setting)]
    crawl = ["-m", "opilio", "crawl", "--into", tmp_path / "c", "-q"]
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [], strategy="shallow", topic={"name": "wren"})
        done = run(site, *crawl, *flags(tree), *settings, "--pages", 2)
        assert done.returncode == 0, done.stderr
        # The link that was found last is first; the document's words count.
        assert rows(tmp_path / "c", "SELECT url, relevant FROM page ORDER BY seq") == [(start, 1), (data, 1)]
        assert "GET http://a.example/2.json" in done.stderr
        resumed = run(site, *crawl, "--pages", 3)
    assert resumed.returncode == 0, resumed.stderr
    assert rows(tmp_path / "c", "SELECT url, relevant FROM page WHERE seq > 2") == [(text, 0)]
    # The state of the expansion survived the restart.
    with open_readonly(tmp_path / "c") as collection:
        state = latest_state(collection.connection, TOPIC_STATE)
    assert state is not None
    assert len(msgspec.msgpack.decode(state)["expansion"]["words"]) == 2


def test_senses_boost_and_topic_extension_are_used(site: Path, tmp_path: Path) -> None:
    start = "http://a.example/"
    web = {start: page("Wren nests and wren song", links=["1.html"]), f"{start}1.html": page("wren")}
    kinds = ["judge.kind=any-word", "senses.kind=long-pages", "boost.kind=ceiling", "boost.most=0.125"]
    settings = [part for setting in kinds for part in ("--set", setting)]
    crawl = ["-m", "opilio", "crawl", "--into", tmp_path / "c", "-q"]
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [start], strategy="shallow", topic={"name": 'wren "blue tit"'})
        done = run(site, *crawl, *flags(tree), *settings, "--pages", 1)
        assert done.returncode == 0, done.stderr
        assert rows(tmp_path / "c", "SELECT score FROM frontier_url WHERE url LIKE '%1.html'") == [(0.125,)]
        done = run(site, *crawl, "--pages", 2)
    assert done.returncode == 0, done.stderr
    # The second page has a word of the topic, but is too short.
    assert rows(tmp_path / "c", "SELECT relevant FROM page ORDER BY seq") == [(1,), (0,)]
    ((topic,),) = rows(tmp_path / "c", "SELECT value FROM meta WHERE name = 'topic'")
    assert '"phrases":["blue tit"]' in topic


HOSTS = ["--set", "rank.kind=hosts", "--set", "judge.kind=any-word"]


def hosts_web() -> dict[str, RecordedResponse]:
    """Two hosts with links to each other; only the pages of the first are relevant."""
    links = [f"http://{host}.example/{number}.html" for host in "ab" for number in (1, 2, 3)]
    texts = {"a": "A wren sings", "b": TRAINS}
    return {
        "http://a.example/": page(texts["a"], links=links),
        **{link: page(f"{texts[link[7]]} {link}") for link in links},
    }


def test_trained_learner_and_its_link_scorer_are_used(site: Path, tmp_path: Path) -> None:
    web = hosts_web()
    crawl = ["-m", "opilio", "crawl", "--into", tmp_path / "c"]
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://a.example/"], strategy="best-first", topic={"name": "wren"})
        tree["engine"] = {"workers": 1}
        done = run(site, *crawl, *flags(tree), *HOSTS, "--pages", 3)
        assert done.returncode == 0, done.stderr
        assert "hosts: trained on 1 seeds" in done.stderr
        resumed = run(site, *crawl, "-q", "--pages", 5)
    assert resumed.returncode == 0, resumed.stderr
    assert rows(tmp_path / "c", "SELECT count(*) FROM event WHERE kind = 'ClassifierTrained'") == [(1,)]
    pages = rows(tmp_path / "c", "SELECT host, count(*), sum(relevant) FROM page GROUP BY host")
    counts = {host: (relevant, found) for host, found, relevant in pages}
    counts["a.example"] = (counts["a.example"][0] + 1, counts["a.example"][1] + 1)
    # What it learned survived the restart, and queued links have the rates of that state.
    with open_readonly(tmp_path / "c") as collection:
        state = latest_state(collection.connection, RANK_STATE)
    assert state is not None
    found = {host: tuple(pair) for host, pair in msgspec.msgpack.decode(state)["pages"].items()}
    assert found == counts
    queued = rows(
        tmp_path / "c",
        "SELECT h.name, u.score FROM frontier_url AS u JOIN frontier_host AS h ON h.id = u.host_id WHERE u.state = 0",
    )
    assert queued
    for host, score in queued:
        assert score == pytest.approx((counts[host][0] + 1) / (counts[host][1] + 2), abs=1e-6)


def test_learner_starts_from_a_file_or_names_it(site: Path, tmp_path: Path) -> None:
    (tmp_path / "rates.toml").write_text('"b.example" = [8, 8]\n', encoding="utf-8")
    crawl = ["-m", "opilio", "crawl", "--into", tmp_path / "c", "-q", *HOSTS]
    with served(SmallWeb(hosts_web())) as server:
        tree = settings_for(server, ["http://a.example/"], strategy="best-first", topic={"name": "wren"})
        refused = run(site, *crawl, *flags(tree), "--set", f"rank.rates={tmp_path / 'none.toml'}")
        assert refused.returncode == 2 and "none.toml" in refused.stderr
        done = run(site, *crawl, *flags(tree), "--set", f"rank.rates={tmp_path / 'rates.toml'}", "--pages", 2)
    assert done.returncode == 0, done.stderr
    # The host of the file comes first, though its pages are irrelevant.
    assert rows(tmp_path / "c", "SELECT host FROM page ORDER BY seq") == [("a.example",), ("b.example",)]


def test_committee_member_and_assembly_are_used(site: Path, tmp_path: Path) -> None:
    start = "http://a.example/"
    web = {start: page("Wren nests", links=["1.html", "2.html"]), f"{start}1.html": page("Wren song")}
    web[f"{start}2.html"] = page(TRAINS)
    crawl = ["-m", "opilio", "crawl", "--into", tmp_path / "c", "-q"]
    parts = ["--set", 'rank.members=["short-anchor"]', "--set", "engine.assembly=counting"]
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [start], strategy="opilio", topic={"name": "wren"})
        done = run(site, *crawl, *flags(tree), *parts, "--pages", 1)
        assert done.returncode == 0, done.stderr
        ((features,),) = rows(tmp_path / "c", "SELECT features FROM frontier_url WHERE url LIKE '%1.html'")
        row = np.frombuffer(features, dtype=LINK_FEATURES_DTYPE)[0]
        assert row["dense"][DENSE_FIELDS.index("tswt")] == 1.0  # an anchor of one word
        changed = run(site, *crawl, "--set", "engine.assembly=")
        assert changed.returncode == 2 and "was started as 'counting'" in changed.stderr
        done = run(site, *crawl, "--pages", 3)
    assert done.returncode == 0, done.stderr
    assert "counting: 1 pages so far" in done.stderr


def test_example_has_a_part_of_every_documented_group() -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    guide = (EXAMPLE.parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")
    assert sorted(project["entry-points"]) == sorted(re.findall(r"^\| `(opilio\.\w+)` ", guide, re.MULTILINE))
    own = tomllib.loads((EXAMPLE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(own["entry-points"]) <= set(project["entry-points"])


def test_command_is_listed_in_the_help(site: Path) -> None:
    done = run(site, "-m", "opilio", "--help")
    assert done.returncode == 0 and "depths" in done.stdout


def test_options_of_the_plugin_are_checked(site: Path, tmp_path: Path) -> None:
    options = ["--seed", "http://a.example/", "--strategy", "shallow", "--set", "rank.fade=2", "--into", tmp_path / "c"]
    done = run(site, "-m", "opilio", "crawl", "birds", *options)
    assert done.returncode == 2
    assert "rank.fade: expected number <= 1.0" in done.stderr
    assert not (tmp_path / "c").exists()


def test_ranker_passes_the_conformance_suite(site: Path) -> None:
    program = "from opilio.testing import check_ranker; from opilio_shallow.ranker import ShallowRanker"
    done = run(site, "-c", f"{program}; check_ranker(lambda: ShallowRanker(0.8))")
    assert done.returncode == 0, done.stderr


def test_strategy_is_unknown_without_the_plugin(tmp_path: Path) -> None:
    done = run(tmp_path, "-m", "opilio", "crawl", "birds", "--seed", "http://a.example/", "--strategy", "shallow")
    assert done.returncode == 2
    assert "strategy 'shallow': unknown" in done.stderr
