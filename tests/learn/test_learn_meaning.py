"""The model of meanings: it generalises to similar links, is trusted if it predicts well, is saved and bounded."""

import math

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from checks.link_visits import found, taught, visit
from opilio.engine.link_memory import explain_link
from opilio.learn.committee import Committee
from opilio.learn.logistic import FEATURE_INDEX, MEANING_FEATURES
from opilio.learn.scoring import CommitteeOptions
from opilio.learn.word_model import MAX_CORRECTION, MeaningModel
from opilio.text.word_vectors import DIMENSIONS

BIRDS, TRAINS = 3, 9


def links(direction: int, count: int, seed: int = 0) -> NDArray[np.int8]:
    """Links of one meaning: no two are equal."""
    vectors = np.random.default_rng(seed).integers(-20, 21, (count, DIMENSIONS))
    vectors[:, direction] += 100
    return np.clip(vectors, -127, 127).astype(np.int8)


def teach(
    model: MeaningModel, vectors: NDArray[np.int8], reward: float, offset: float = 0.0, value: float = 0.0
) -> None:
    columns = (np.full(len(vectors), number) for number in (value, reward, offset))
    values, rewards, offsets = columns
    model.compare(vectors, values, rewards, offsets)
    model.learn(vectors, values, rewards, offsets)


def trained(examples: int = 20) -> MeaningModel:
    model = MeaningModel()
    for at in range(examples):
        teach(model, links(BIRDS, 1, at), 1.0)
        teach(model, links(TRAINS, 1, 100 + at), 0.0)
    return model


def predict(model: MeaningModel, vectors: NDArray[np.int8], value: float = 0.0) -> NDArray[np.float64]:
    return model.predict(vectors, np.full(len(vectors), value), np.zeros(len(vectors)))


def test_links_like_those_that_led_to_relevant_pages_are_expected_to_do_so() -> None:
    model = trained()
    birds, trains = predict(model, links(BIRDS, 5, 900)), predict(model, links(TRAINS, 5, 901))
    assert birds.min() > 0.5 > -0.5 > trains.max()


def test_meaning_is_trusted_more_if_it_predicts_well_and_less_if_it_does_not() -> None:
    before = MeaningModel().trust
    misled = MeaningModel()
    for at in range(20):
        # What is near the topic is worth nothing, and the other features know it.
        teach(misled, links(BIRDS, 1, at), 0.1, -2.2, value=1.5)
    assert trained().trust > 0.8
    assert 0.5 > before >= misled.trust


def test_meaning_counts_only_after_relevant_pages_were_found() -> None:
    """One class of examples is not enough: before the topic is found, all links are irrelevant in some degree."""
    model = MeaningModel()
    for at in range(40):
        teach(model, links(TRAINS, 1, at), 0.1)
    assert not predict(model, links(BIRDS, 5)).any()
    teach(model, links(BIRDS, 1), 0.9)
    assert predict(model, links(BIRDS, 5)).all()


def test_lost_trust_can_be_regained() -> None:
    model, value, offset = trained(), np.full(1, 1.5), np.zeros(1)
    for at in range(100):
        model.compare(links(BIRDS, 1, at), value, np.array([0.0]), offset)
    lowest = model.trust
    for at in range(20):
        model.compare(links(BIRDS, 1, at), value, np.array([1.0]), offset)
    assert lowest < 0.01
    assert model.trust > 0.8


def test_meaning_counts_less_for_links_that_the_other_features_are_sure_of() -> None:
    unsure, sure = trained().predict(links(BIRDS, 2), np.zeros(2), np.array([-1.0, 3.0]))
    assert unsure > 2.0 * sure > 0.0


def test_links_near_the_topic_are_preferred_as_soon_as_one_relevant_page_was_found() -> None:
    model = MeaningModel()
    teach(model, links(TRAINS, 1), 0.9)
    near, far = model.predict(links(BIRDS, 1).repeat(2, axis=0), np.array([1.0, 0.0]), np.zeros(2))
    assert near > far


def test_links_without_a_known_word_are_expected_to_be_average() -> None:
    model, nothing = trained(), np.zeros((2, DIMENSIONS), dtype=np.int8)
    before = model.snapshot()
    model.learn(nothing, np.ones(2), np.ones(2), np.zeros(2))
    assert predict(model, nothing, 1.0).tolist() == [0.0, 0.0]
    assert model.snapshot() == before


def test_what_the_other_features_explain_is_not_learned_again() -> None:
    model, explained = trained(), MeaningModel()
    for at in range(20):
        teach(explained, links(BIRDS, 1, at), 0.98, 4.0)
    birds = links(BIRDS, 5, 900)
    assert predict(model, birds).min() > 0.5 > np.abs(predict(explained, birds)).max()


def test_meaning_model_is_the_same_after_a_snapshot() -> None:
    model, again = trained(7), MeaningModel()
    again.restore(model.snapshot())
    for one in (model, again):
        teach(one, links(BIRDS, 3, 55), 0.4, 0.1, 0.3)
    assert again.snapshot() == model.snapshot()


@pytest.mark.parametrize("other", [(64, b"model"), (32, b"model", 0.0, 0.0, 0), (b"gram", b"moments", 3, b"weights")])
def test_snapshot_of_another_version_is_ignored(other: tuple[object, ...]) -> None:
    model, before = trained(7), trained(7).snapshot()
    model.restore(msgspec.msgpack.encode(other))
    assert model.snapshot() == before


@pytest.mark.parametrize("reward", [-1e9, 1e9])
def test_predictions_are_bounded(reward: float) -> None:
    model = MeaningModel()
    for at in range(10):
        teach(model, links(BIRDS, 50, at), reward)
    assert np.abs(predict(model, links(BIRDS, 50, 3), 2.0)).max() <= MAX_CORRECTION


def crawled(options: CommitteeOptions | None = None) -> Committee:
    """A committee that fetched links to birds, which paid, and links to trains, which did not."""
    committee = Committee(options)
    for step in range(30):
        found(committee, 500 + step, [2 * step + 1, 2 * step + 2])
        for number in (2 * step + 1, 2 * step + 2):
            meaning = BIRDS if number % 2 == 0 else TRAINS
            committee.pool.rows["meaning"][committee.pool.row_of[number]] = links(meaning, 1, number)[0]
            committee.apply_lessons(committee.make_lesson(visit(number)))
    return committee


def add_birds_and_trains(committee: Committee) -> NDArray[np.int64]:
    found(committee, 900, [9_001, 9_002])
    rows = np.array([committee.pool.row_of[9_001], committee.pool.row_of[9_002]])
    committee.pool.rows["meaning"][rows] = [links(BIRDS, 1, 7)[0], links(TRAINS, 1, 8)[0]]
    return rows


def meaning_effects(committee: Committee, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([sum(part.effect for part in committee.meaning_effects(row)) for row in rows.tolist()])


def test_committee_learns_meanings_and_keeps_them_in_its_snapshot() -> None:
    committee, again = crawled(), Committee()
    again.restore(committee.snapshot())
    for one in (committee, again):
        rows = add_birds_and_trains(one)
        birds, trains = meaning_effects(one, rows)
        assert birds > trains + 0.02
    assert again.snapshot() == committee.snapshot()


def test_committee_prefers_links_whose_meaning_is_worth_more_on_pages() -> None:
    committee = Committee()
    rows = add_birds_and_trains(committee)
    teach(committee.meaning, links(20, 10), 0.9)
    direction = np.zeros(DIMENSIONS, dtype=np.float32)
    direction[BIRDS] = 2.0
    committee.update_meaning_direction(direction)
    birds, trains = meaning_effects(committee, rows)
    assert birds > trains + 0.02


def test_effects_of_a_meaning_are_part_of_the_explanation() -> None:
    committee = crawled(CommitteeOptions(siblings=False, statistics=False, explore=0.0))
    row = int(add_birds_and_trains(committee)[0])
    committee.refresh_word_logits(np.array([row]))
    why = explain_link(committee, row, {})
    effects = {part.name: part.effect for part in why.parts}
    logit = sum(effects.values()) + sum(effect for _, effect in why.words)
    assert why.score == pytest.approx(1.0 / (1.0 + math.exp(-logit)), abs=1e-6)
    assert all(effects[name] for name in MEANING_FEATURES)


def test_committee_without_meanings_is_not_changed_by_the_model() -> None:
    committee = taught(Committee(), 40)
    rows = committee.pool.used_rows
    assert not meaning_effects(committee, rows).any()
    assert not committee.dense_features(rows)[:, [FEATURE_INDEX[name] for name in MEANING_FEATURES]].any()
