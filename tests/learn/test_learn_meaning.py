"""The model of meanings: it generalises to similar links, counts where it is needed, is saved and bounded."""

import math

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from checks.link_visits import found, taught, visit
from opilio.engine.link_memory import explain_link
from opilio.learn.committee import Committee
from opilio.learn.logistic import FEATURE_INDEX, FEATURE_NAMES, MEANING_FEATURES
from opilio.learn.meaning_model import MAX_CORRECTION, MeaningModel, MeaningRows
from opilio.learn.scoring import CommitteeOptions
from opilio.text.word_vectors import DIMENSIONS

BIRDS, TRAINS = 3, 9


def links(direction: int, count: int, seed: int = 0) -> NDArray[np.int8]:
    """Links of one meaning: no two are equal."""
    vectors = np.random.default_rng(seed).integers(-20, 21, (count, DIMENSIONS))
    vectors[:, direction] += 100
    return np.clip(vectors, -127, 127).astype(np.int8)


def rows_of(vectors: NDArray[np.int8], similarity: float = 0.0) -> MeaningRows:
    """Links that differ in nothing but their meaning."""
    dense = np.zeros((len(vectors), len(FEATURE_NAMES)))
    dense[:, FEATURE_INDEX["bias"]] = 1.0
    return MeaningRows(dense, vectors, np.full(len(vectors), similarity), np.zeros(len(vectors)))


def teach(model: MeaningModel, vectors: NDArray[np.int8], reward: float, similarity: float = 0.0) -> None:
    model.learn(rows_of(vectors, similarity), np.zeros(len(vectors)), np.full(len(vectors), reward))


def trained(examples: int = 20) -> MeaningModel:
    model = MeaningModel()
    for at in range(examples):
        teach(model, links(BIRDS, 1, at), 1.0)
        teach(model, links(TRAINS, 1, 100 + at), 0.0)
    return model


def predict(model: MeaningModel, vectors: NDArray[np.int8], similarity: float = 0.0) -> NDArray[np.float64]:
    return model.predict(rows_of(vectors, similarity), np.zeros(len(vectors)), np.zeros(len(vectors)))


def test_links_like_those_that_led_to_relevant_pages_are_expected_to_do_so() -> None:
    model = trained()
    birds, trains = predict(model, links(BIRDS, 5, 900)), predict(model, links(TRAINS, 5, 901))
    assert birds.min() > trains.max() + 1.0


def test_meaning_counts_less_where_most_links_pay() -> None:
    often, seldom = MeaningModel(), MeaningModel()
    for at in range(30):
        teach(often, links(BIRDS, 1, at), 0.95)
        teach(seldom, links(BIRDS, 1, at), 0.95 if at % 3 == 0 else 0.05)
    assert seldom.trust > 0.8
    assert often.trust < 0.4


def test_meaning_counts_less_the_longer_the_topic_is_not_found() -> None:
    model, trusts = MeaningModel(), []
    for at in range(60):
        teach(model, links(TRAINS, 1, at), 0.1)
        trusts.append(model.trust)
    assert trusts == sorted(trusts, reverse=True)
    assert trusts[-1] < 0.3
    for at in range(10):
        teach(model, links(BIRDS, 1, at), 0.9)
    assert model.trust > 2.0 * trusts[-1]


def test_links_near_the_topic_are_preferred_before_anything_is_learned() -> None:
    model = MeaningModel()
    near, far = predict(model, links(BIRDS, 1), 0.6), predict(model, links(BIRDS, 1), 0.0)
    assert near > far + 0.5


def test_similarity_to_the_topic_counts_less_if_it_misleads() -> None:
    model = MeaningModel()
    before = predict(model, links(20, 1), 0.6) - predict(model, links(20, 1), 0.0)
    for at in range(40):
        teach(model, links(BIRDS, 1, at), 0.05, 0.6)
        teach(model, links(TRAINS, 1, at), 0.9, 0.0)
    assert predict(model, links(20, 1), 0.6) - predict(model, links(20, 1), 0.0) < 0.5 * before


def test_similarity_of_links_without_a_known_word_does_not_count() -> None:
    nothing = np.zeros((1, DIMENSIONS), dtype=np.int8)
    assert predict(trained(), nothing, 1.0) == predict(trained(), nothing, 0.0)


def test_meaning_model_is_the_same_after_a_snapshot() -> None:
    model, again = trained(7), MeaningModel()
    again.restore(model.snapshot())
    for one in (model, again):
        teach(one, links(BIRDS, 3, 55), 0.4, 0.3)
    assert again.active
    assert again.snapshot() == model.snapshot()


@pytest.mark.parametrize(
    "other", [(64, b"model"), (64, b"model", 0.0, 0.0, 0, 1), (9, b"model", (0.0, 0.0), 0, 0, 0, [])]
)
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
    teach(committee.meaning, links(20, 3), 0.3)
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
