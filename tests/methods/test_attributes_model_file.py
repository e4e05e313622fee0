"""Trained learners as a file that another crawl begins with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.learner_checks import some_rows
from opilio.core.errors import ConfigError
from opilio.methods.attributes.learner import LEARNER_NAMES, RowLearner, make_learner
from opilio.methods.attributes.training import load_learner, read_models, write_models

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def trained() -> list[RowLearner]:
    learners = [make_learner(name) for name in LEARNER_NAMES]
    for learner in learners:
        learner.fit(*some_rows(80))
    return learners


def test_learners_come_back_as_they_were(trained: list[RowLearner]) -> None:
    file = read_models(write_models(trained, topic="dna", table={"dna": 1.0}), "m.json")
    assert file.topic == "dna" and file.table == {"dna": 1.0}
    rows, _ = some_rows(20, seed=5)
    for learner in trained:
        again = load_learner(file, learner.name, "m.json")
        assert again.snapshot() == learner.snapshot()
        assert again.probability(rows).tolist() == learner.probability(rows).tolist()


def test_training_goes_on_from_a_file_s1_12(trained: list[RowLearner]) -> None:
    again = load_learner(read_models(write_models(trained), "m.json"), "bayes", "m.json")
    again.update(np.zeros((1, 8)), np.array([False]))
    assert len(again.pack_rows()[0]) == len(trained[0].pack_rows()[0]) + 32


def test_learner_that_is_not_in_the_file_is_reported(trained: list[RowLearner]) -> None:
    file = read_models(write_models(trained[:1]), "m.json")
    with pytest.raises(ConfigError, match=r"m.json: has no learner 'tree' \(it has: bayes\)"):
        load_learner(file, "tree", "m.json")


@pytest.mark.parametrize("data", [b"", b"{}x", b"[]", b"\xff\xfe", b'{"models": {"tree": {"type": "tree"}}}'])
def test_what_is_no_model_file_is_reported(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^m.json: not a model file .*opilio lab train"):
        read_models(data, "m.json")


def test_file_of_another_version_is_reported() -> None:
    with pytest.raises(ConfigError, match="another version"):
        read_models(b'{"schema": 2}', "m.json")


def test_cut_off_rows_are_reported(trained: list[RowLearner]) -> None:
    file = read_models(write_models(trained), "m.json")
    file.rows = (b"abc", b"")
    with pytest.raises(ConfigError, match="is damaged: rows"):
        load_learner(file, "bayes", "m.json")


@given(st.binary(max_size=60))
@settings(max_examples=50)
def test_any_bytes_are_a_file_or_a_config_error(data: bytes) -> None:
    try:
        read_models(data, "m.json")
    except ConfigError as error:
        assert "\n" not in str(error)
