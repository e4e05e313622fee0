"""The model of meanings: it generalises to similar links, is saved, and is bounded."""

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from checks.link_visits import found, taught, visit
from opilio.learn.committee import Committee
from opilio.learn.dense_model import FEATURE_INDEX
from opilio.learn.meaning_model import MAX_LOGIT, MeaningModel
from opilio.text.word_vectors import DIMENSIONS

BIRDS, TRAINS = 3, 9


def links(direction: int, count: int, seed: int = 0) -> NDArray[np.int8]:
    """Links of one meaning: no two are equal."""
    vectors = np.random.default_rng(seed).integers(-20, 21, (count, DIMENSIONS))
    vectors[:, direction] += 100
    return np.clip(vectors, -127, 127).astype(np.int8)


def trained(examples: int = 20) -> MeaningModel:
    model = MeaningModel()
    for at in range(examples):
        model.learn(links(BIRDS, 1, at), np.array([1.0]), np.zeros(1))
        model.learn(links(TRAINS, 1, 100 + at), np.array([0.0]), np.zeros(1))
    return model


def test_links_like_those_that_led_to_relevant_pages_are_expected_to_do_so() -> None:
    model = trained()
    birds, trains = model.predict(links(BIRDS, 5, 900)), model.predict(links(TRAINS, 5, 901))
    assert birds.min() > 0.5 > -0.5 > trains.max()


def test_links_without_a_known_word_are_expected_to_be_average() -> None:
    model, nothing = trained(), np.zeros((2, DIMENSIONS), dtype=np.int8)
    before = model.snapshot()
    model.learn(nothing, np.array([1.0, 1.0]), np.zeros(2))
    assert model.predict(nothing).tolist() == [0.0, 0.0]
    assert model.snapshot() == before


def test_what_the_other_features_explain_is_not_learned_again() -> None:
    model, explained = MeaningModel(), MeaningModel()
    for at in range(20):
        model.learn(links(BIRDS, 1, at), np.array([0.98]), np.zeros(1))
        explained.learn(links(BIRDS, 1, at), np.array([0.98]), np.array([4.0]))
    birds = links(BIRDS, 5, 900)
    assert model.predict(birds).min() > 0.5 > np.abs(explained.predict(birds)).max()


def test_nothing_is_expected_before_something_was_learned() -> None:
    assert not MeaningModel().predict(links(BIRDS, 3)).any()


def test_meaning_model_is_the_same_after_a_snapshot() -> None:
    model, again = trained(7), MeaningModel()
    again.restore(model.snapshot())
    for one in (model, again):
        one.learn(links(BIRDS, 3, 55), np.array([0.2, 0.9, 0.4]), np.zeros(3))
    assert again.snapshot() == model.snapshot()


def test_snapshot_of_another_version_is_ignored() -> None:
    model, before = trained(7), trained(7).snapshot()
    model.restore(msgspec.msgpack.encode((b"gram", b"moments", 3, b"weights")))
    assert model.snapshot() == before


@pytest.mark.parametrize("reward", [-1e9, 1e9])
def test_predictions_are_bounded(reward: float) -> None:
    model = MeaningModel()
    for at in range(10):
        model.learn(links(BIRDS, 50, at), np.full(50, reward), np.zeros(50))
    assert np.abs(model.predict(links(BIRDS, 50, 3))).max() <= MAX_LOGIT


def test_committee_learns_meanings_and_keeps_them_in_its_snapshot() -> None:
    committee = Committee()
    for step in range(30):
        found(committee, 500 + step, [2 * step + 1, 2 * step + 2])
        for number in (2 * step + 1, 2 * step + 2):
            meaning = BIRDS if number % 2 == 0 else TRAINS
            committee.pool.rows["meaning"][committee.pool.row_of[number]] = links(meaning, 1, number)[0]
            committee.apply_lessons(committee.make_lesson(visit(number)))
    again = Committee()
    again.restore(committee.snapshot())
    for one in (committee, again):
        found(one, 900, [9_001, 9_002])
        rows = np.array([one.pool.row_of[9_001], one.pool.row_of[9_002]])
        one.pool.rows["meaning"][rows] = [links(BIRDS, 1, 7)[0], links(TRAINS, 1, 8)[0]]
        birds, trains = one.dense_features(rows)[:, FEATURE_INDEX["meaning learned"]]
        assert birds > 0.1 > -0.1 > trains
    assert again.snapshot() == committee.snapshot()


def test_committee_without_meanings_is_not_changed_by_the_model() -> None:
    committee = taught(Committee(), 40)
    rows = committee.pool.used_rows
    assert not committee.dense_features(rows)[:, FEATURE_INDEX["meaning learned"]].any()
