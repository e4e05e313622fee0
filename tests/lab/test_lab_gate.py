"""No change may lower what a strategy reaches without saying so (`lab_gate.py` pins the floors)."""

import pytest

from lab.lab_gate import BUDGETS, corpus_hash, manual_folder, opened, pinned, reached
from opilio.core.strategies import strategy_names
from opilio.lab.experiments.runs import ExperimentRunner


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> ExperimentRunner:
    return opened("synthetic", tmp_path_factory.mktemp("gate"))


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> ExperimentRunner:
    if manual_folder() is None:
        pytest.skip("no Python manual on this machine: install python3-doc")
    arena = opened("python-manual", tmp_path_factory.mktemp("gate"))
    if corpus_hash(arena) != pinned()["python-manual"]["corpus"]:
        pytest.skip("another edition of the Python manual than the floors were pinned on")
    return arena


def _floor(web: str, strategy: str) -> float:
    floor = pinned()[web].get(strategy)
    assert isinstance(floor, float), f"no floor for {strategy}: 'python tests/lab/lab_gate.py' adds it"
    return floor


def test_synthetic_web_is_the_one_the_floors_were_pinned_on(synthetic: ExperimentRunner) -> None:
    assert corpus_hash(synthetic) == pinned()["synthetic"]["corpus"]


@pytest.mark.parametrize("strategy", strategy_names())
def test_strategy_reaches_its_floor_on_a_synthetic_web(synthetic: ExperimentRunner, strategy: str) -> None:
    assert reached(synthetic, strategy, BUDGETS["synthetic"]) >= _floor("synthetic", strategy)


@pytest.mark.parametrize("strategy", strategy_names())
def test_strategy_reaches_its_floor_on_a_real_web(manual: ExperimentRunner, strategy: str) -> None:
    assert reached(manual, strategy, BUDGETS["python-manual"]) >= _floor("python-manual", strategy)


def test_strategies_do_better_than_nothing(synthetic: ExperimentRunner) -> None:
    lowest = reached(synthetic, "random", BUDGETS["synthetic"])
    assert reached(synthetic, "best-first", BUDGETS["synthetic"]) > lowest
    assert reached(synthetic, "oracle", BUDGETS["synthetic"]) == pytest.approx(1.0)


def test_floors_of_strategies_that_are_gone_are_removed() -> None:
    assert {name for floors in pinned().values() for name in floors} <= {"corpus", *strategy_names()}
