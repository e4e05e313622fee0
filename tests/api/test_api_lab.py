"""`opilio.compare()` and `opilio.demo_web()`: strategies measured, and the same figures as the command's."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import opilio
from checks.small_webs import opilio as command
from opilio.lab.experiments.results import RunResult


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offline web; the server that it comes from is not needed any more."""
    with opilio.demo_web(pages=120, hosts=6, topics=2) as served:
        return served.save(tmp_path_factory.mktemp("webs") / "demo")


@pytest.fixture(scope="module")
def comparison(web: Path) -> opilio.Comparison:
    return opilio.compare(["best-first", "breadth"], web=web, fetches=40, seed_sets=1, processes=1)


def test_figures_are_those_of_the_command(web: Path, comparison: opilio.Comparison, tmp_path: Path) -> None:
    arguments = ["--strategy", "best-first", "--strategy", "breadth", "--pages", 40, "--seed-sets", 1, "--processes", 1]
    done = command("lab", "run", "compare", "--web", web, *arguments, "--no-plots", "--json", cwd=tmp_path)
    printed = json.loads(done.stdout)["strategies"]
    ours = {row["strategy"]: {name: row[name] for name in printed["breadth"]} for row in comparison.to_list()}
    assert {name: pytest.approx(values) for name, values in printed.items()} == ours


def test_intervals_hold_the_mean(comparison: opilio.Comparison) -> None:
    for summary in comparison.strategies:
        assert summary.runs == 4  # two topics, two kinds of seeds
        assert summary.harvest.low <= summary.harvest.mean <= summary.harvest.high
    assert comparison["breadth"].strategy == "breadth"
    with pytest.raises(KeyError):
        comparison["random"]


def test_comparison_is_displayed(comparison: opilio.Comparison) -> None:
    out = StringIO()
    Console(width=120, file=out).print(comparison)
    assert all("best-first" in text for text in (out.getvalue(), comparison._repr_html_(), repr(comparison)))
    pytest.importorskip("pandas")
    assert list(comparison.to_pandas().index) == ["best-first", "breadth"]


def test_each_run_is_reported_and_topics_are_chosen(web: Path) -> None:
    runs: list[RunResult] = []
    found = opilio.compare(
        ["breadth"], web=[web], topics=["birds"], fetches=20, seed_sets=1, processes=1, on_run=runs.append
    )
    assert {run.topic for run in runs} == {"birds"}
    assert len(runs) == len(found.runs) == 2


def test_unknown_strategy_is_named(web: Path) -> None:
    with pytest.raises(opilio.ConfigError, match="breadht"):
        opilio.compare(["breadht"], web=web)


def test_demo_web_is_crawled_through_its_proxy(tmp_path: Path) -> None:
    with opilio.demo_web(pages=120, hosts=6, topics=2) as web:
        topic = web.topics[0]
        settings = {**web.settings, "engine.workers": 0}
        crawled = opilio.crawl(
            topic.name, seeds=topic.seeds, into=tmp_path / "c", fetches=20, settings=settings, progress=False
        )
        assert crawled.status.fetched == 20
    web.close()  # a second time does nothing
    assert (topic.name, len(topic.seeds)) == ("birds", 3)
