"""The judge of record, its results file, the report and the plots."""

import json
import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from opilio.core.errors import OfflineWebError
from opilio.lab.evaluation.metrics import Referee
from opilio.lab.evaluation.oracle import oracle_order, random_order
from opilio.lab.experiments.declarations import paper_table
from opilio.lab.experiments.results import RunId, RunResult, SelfJudged, build_run_result, read_results, write_results
from opilio.lab.reports import plots, tables
from opilio.lab.server.http import LoggedFetch
from opilio.lab.webs.labels import GroundTruthLabels, load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb

BUDGET = 120


@pytest.fixture
def labels(small_web: WarcWeb) -> GroundTruthLabels:
    return load_labels(small_web)


@pytest.fixture
def referee(small_web: WarcWeb, lab_cache: Path, labels: GroundTruthLabels) -> Referee:
    return Referee(small_web, ParsedPages.open(small_web, lab_cache, processes=1), labels)


@pytest.fixture
def topic(small_folder: Path) -> LabTopic:
    return load_topics(small_folder)[0][0]


def attempts(web: WarcWeb, order: list[int]) -> list[LoggedFetch]:
    return [LoggedFetch(web.urls[n], 200) if n < len(web) else LoggedFetch(f"http://x.example/{n}", 404) for n in order]


def make_runs() -> list[RunResult]:
    rng = random.Random(5)
    runs = []
    for topic in ("birds", "trains"):
        for strategy, chance in (("breadth", 0.2), ("s0-earlier", 0.5), ("s0", 0.7)):
            for seed_set in ("a", "b", "c"):
                found = np.cumsum([rng.random() < chance for _ in range(200)])
                name = RunId(experiment="e", web="w", topic=topic, strategy=strategy, seed_set=seed_set)
                runs.append(
                    RunResult(
                        **{f: getattr(name, f) for f in name.__struct_fields__},
                        budget=200,
                        fetched=200,
                        relevant_found=int(found[-1]),
                        relevant_reachable=150,
                        harvest=float(found[-1] / 200),
                        recall=float(found[-1] / 150),
                        auc_vs_oracle=chance + rng.random() / 10,
                        curve=tuple((i + 1, int(n)) for i, n in enumerate(found)),
                        self_judged=SelfJudged(relevant=90, harvest=0.45, precision=0.5, recall=0.6),
                    )
                )
    return runs


def test_oracle_scores_one_and_random_less(
    small_web: WarcWeb, lab_cache: Path, referee: Referee, topic: LabTopic, labels: GroundTruthLabels
) -> None:
    graph = ParsedPages.open(small_web, lab_cache, processes=1).graph
    seed_set = topic.seed_sets[0]
    seeds = referee.seeds(seed_set)
    best = attempts(small_web, oracle_order(graph, labels.relevant(topic), seeds, BUDGET))
    dice = attempts(small_web, random_order(graph, seeds, BUDGET, random.Random(1)))
    assert referee.score(topic, seed_set, best, BUDGET).auc_vs_oracle == 1.0
    assert referee.score(topic, seed_set, dice, BUDGET).auc_vs_oracle < 0.9


def test_page_counts_once_and_only_when_it_came(referee: Referee, topic: LabTopic) -> None:
    """X-12: success is what an independent judge says; an attempt does not even carry the crawler's own verdict."""
    assert LoggedFetch._fields == ("url", "status")
    seed_set = topic.seed_sets[0]
    url = seed_set.urls[0]
    tries = [
        LoggedFetch(url, 503),
        LoggedFetch(url, 200),
        LoggedFetch(url, 200),
        LoggedFetch("http://x.example/", 404),
    ]
    score = referee.score(topic, seed_set, tries, BUDGET)
    assert (score.relevant_found, score.fetched, score.failures, score.repeats) == (1, 4, 2, 2)
    assert score.curve == ((1, 0), (2, 1), (3, 1), (4, 1))


def test_copy_of_a_page_is_a_duplicate(referee: Referee, topic: LabTopic, small_web: WarcWeb) -> None:
    """Counted by the bodies, for every crawler; the same address again is a repeat, what did not come is neither."""
    urls: dict[bytes, list[str]] = {}
    for number, url in enumerate(small_web.urls):
        urls.setdefault(small_web.response(number).body, []).append(url)
    one, copy = next(same for body, same in urls.items() if len(same) == 2 and b"<html" in body)
    tries = [LoggedFetch(one, 200), LoggedFetch(copy, 503), LoggedFetch(one, 200), LoggedFetch(copy, 200)]
    scores = [referee.score(topic, topic.seed_sets[0], tries[:n], BUDGET) for n in (3, 4)]
    assert [(s.duplicates, s.repeats) for s in scores] == [(0, 1), (1, 2)]


def test_score_is_cut_at_the_budget(referee: Referee, topic: LabTopic) -> None:
    seed_set = topic.seed_sets[0]
    tries = [LoggedFetch(url, 200) for url in seed_set.urls]
    assert referee.score(topic, seed_set, tries, budget=2).fetched == 2


def test_reachable_agrees_with_the_topics_file(referee: Referee, topic: LabTopic) -> None:
    assert [referee.reachable(topic, s) for s in topic.seed_sets] == [s.reaches for s in topic.seed_sets]


def test_results_file_has_the_contract_of_the_command_line(referee: Referee, topic: LabTopic, tmp_path: Path) -> None:
    score = referee.score(topic, topic.seed_sets[0], [LoggedFetch(topic.seed_sets[0].urls[0], 200)], BUDGET)
    name = RunId(experiment="e", web="w", topic=topic.name, strategy="s", seed_set="on-topic-1", random_seed=3)
    run = build_run_result(name, score, cpu_s=0.5, wall_s=0.6)
    path = write_results([run], tmp_path)
    content = json.loads(path.read_text())
    promised = "experiment web topic strategy seed_set random_seed budget fetched relevant_found relevant_reachable"
    promised += " harvest recall auc_vs_oracle curve cpu_s wall_s"
    assert content["schema"] == 1
    assert set(promised.split()) <= content["runs"][0].keys()
    assert content["runs"][0]["curve"] == [[1, 1]]
    assert read_results(path) == [run]


def test_results_file_is_refused_when_it_is_something_else(tmp_path: Path) -> None:
    with pytest.raises(OfflineWebError, match="no results"):
        read_results(tmp_path / "results.json")


def test_run_knows_every_point_of_its_curve() -> None:
    run = make_runs()[0]
    assert run.found_curve.tolist() == [found for _, found in run.curve]


def test_paper_tables_hold_the_numbers_of_the_specification() -> None:
    """S0-32 and S4-24."""
    assert paper_table("S0-32").at == (100, 500, 1000, 2000)
    assert paper_table("S0-32").values == {
        "breadth": (0.50, 0.35, 0.26, 0.20),
        "s0-earlier": (0.75, 0.67, 0.64, 0.65),
        "s0": (0.86, 0.81, 0.78, 0.77),
    }
    assert paper_table("S4-24").at == tuple(range(500, 4001, 500))
    assert paper_table("S4-24").values == {
        "breadth": (0.30, 0.25, 0.27, 0.20, 0.18, 0.19, 0.15, 0.15),
        "s4-static": (0.80, 0.78, 0.79, 0.77, 0.74, 0.75, 0.73, 0.70),
        "s4-dynamic": (1.00, 0.95, 0.92, 0.90, 0.88, 0.91, 0.87, 0.87),
    }
    with pytest.raises(OfflineWebError, match="S0-32, S4-24"):
        paper_table("S9-1")


def test_pairings_use_only_cases_both_have() -> None:
    runs = make_runs()
    pairs = tables.paired_comparisons(runs[:-1], "s0")
    assert [(p.theirs, p.test.n) for p in pairs] == [("breadth", 5), ("s0-earlier", 5)]
    assert all(p.corrected_p >= p.test.p_value for p in pairs)


def test_random_seeds_add_no_evidence_when_chance_decides_nothing() -> None:
    """A case counts once, however often it is repeated."""
    once = make_runs()
    often = [msgspec.structs.replace(run, random_seed=draw) for draw in range(4) for run in once]
    assert tables.paired_comparisons(often, "s0") == tables.paired_comparisons(once, "s0")
    mine = [[run for run in runs if run.strategy == "s0"] for runs in (once, often)]
    assert [len(runs) for runs in mine] == [6, 24]
    alone, repeated = (tables.measure_interval(runs, "harvest", np.random.default_rng(0)) for runs in mine)
    assert alone == repeated
    assert alone.n == 6


def test_random_seeds_of_a_case_are_averaged() -> None:
    run = make_runs()[0]
    draws = [msgspec.structs.replace(run, random_seed=n, harvest=h) for n, h in enumerate((0.2, 0.4))]
    found = tables.measure_interval(draws, "harvest", np.random.default_rng(0))
    assert (found.mean, found.low, found.high, found.n) == pytest.approx((0.3, 0.3, 0.3, 1))


def test_one_case_has_no_interval() -> None:
    """Drawn again it is the same: an interval of no width would claim too much."""
    runs = make_runs()[:1]
    assert f"| breadth | 1 | {runs[0].auc_vs_oracle:.3f} | {runs[0].harvest:.3f} | " in tables.strategy_table(runs)
    assert " [" in tables.strategy_table(make_runs())


def test_plots_are_the_same_files_when_drawn_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    drawn = plots.draw_plots(make_runs(), tmp_path / "a")
    assert plots.draw_plots(make_runs(), tmp_path / "b") == drawn == ["harvest", "recall", "auc-vs-oracle"]
    files = [f"{name}.{kind}" for name in drawn for kind in ("svg", "png")]
    assert all((tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in files)


def test_few_strategies_stand_out_when_there_are_many() -> None:
    names = ["breadth", *(f"s{n}" for n in range(9))]
    run = make_runs()[0]
    runs = [msgspec.structs.replace(run, strategy=name, auc_vs_oracle=n / 10) for n, name in enumerate(names)]
    looks = plots.assign_line_styles(runs)
    assert [name for name, look in looks.items() if look.emphasized] == ["breadth", "s5", "s6", "s7", "s8"]
    assert len({look.color for look in looks.values()}) == 6  # theirs, and one grey for the others
    assert all(look.emphasized for look in plots.assign_line_styles(runs[:6]).values())


def test_names_of_lines_keep_their_distance() -> None:
    assert plots.spread_labels([0.0, 1.0, 1.0], 0.25, 1.0) == [0.0, 0.75, 1.0]
    assert plots.spread_labels([0.0, 0.0, 0.9], 0.25, 1.0) == [0.0, 0.25, 0.9]
    assert plots.spread_labels([], 0.1, 1.0) == []
