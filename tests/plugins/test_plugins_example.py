"""The example plug-in, installed by pip as a user would, and used in a crawl."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from checks.small_webs import TRAINS, SmallWeb, flags, grid, page, rows, served, settings_for
from opilio.core.protocols import TOPIC_STATE
from opilio.fetch.decoding import RecordedResponse
from opilio.store.collection import open_readonly
from opilio.store.run_tables import latest_state

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


def test_part_of_every_kind_is_used(site: Path, tmp_path: Path) -> None:
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
