"""The committee's parts: bounded and finite for any input, the same after a snapshot."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.link_visits import taught, visit
from opilio.engine.link_memory import CALIBRATION_WINDOW, MIN_CALIBRATION_OUTCOMES, YieldEstimate, explain_link
from opilio.learn.committee import Committee
from opilio.learn.link_pool import FetchedFilter, LinkPool
from opilio.learn.logistic import MAX_EXAMPLES, MAX_LOGIT, DenseModel, TrialModel, sigmoid
from opilio.learn.scoring import CommitteeOptions
from opilio.learn.success_rates import MAX_CREDIT_VISITS, MIN_FETCHED_CHILDREN, DelayedCredit, LinkExample, SuccessRates
from opilio.learn.word_model import MAX_WORD_WEIGHT, WORD_BUCKETS, WordModel

labels = st.floats(0.0, 1.0)


def teach(model: DenseModel | TrialModel, row: Sequence[float], label: float, offset: float = 0.0) -> None:
    """One example."""
    model.learn(np.array([row]), np.array([label]), np.array([offset]))


def dense(seed: int, steps: int) -> DenseModel:
    rng, model = np.random.default_rng(seed), DenseModel(np.array([-2.0, 1.0, 0.5]))
    for _ in range(steps):
        teach(model, rng.random(3).tolist(), float(rng.integers(2)), float(rng.normal()))
    return model


@pytest.mark.parametrize("steps", [0, 3, 40])
def test_dense_model_is_the_same_after_a_snapshot(steps: int) -> None:
    model, again = dense(1, steps), DenseModel(np.array([-2.0, 1.0, 0.5]))
    again.restore(model.snapshot())
    for _ in range(20):
        for one in (model, again):
            teach(one, [1.0, 0.2, 0.3], 1.0)
    assert (again.weights == model.weights).all()


@given(st.lists(st.tuples(st.floats(-50, 50), st.floats(-9, 9), st.floats(-1e6, 1e6)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_dense_model_stays_bounded(examples: list[tuple[float, float, float]]) -> None:
    model = DenseModel(np.array([-2.0, 1.0]))
    for value, label, offset in examples:
        teach(model, [1.0, value], label, offset)
    assert np.isfinite(model.weights).all()
    assert np.abs(model.weights).max() <= MAX_LOGIT


def test_firm_weight_moves_less_than_others() -> None:
    model = DenseModel(np.array([0.0, 0.5, 0.5]), np.array([1.0, 1.0, 10.0]))
    for label in (1.0, 0.0) * 20:
        teach(model, [1.0, label, label], label)
    assert abs(model.weights[2] - 0.5) < abs(model.weights[1] - 0.5) / 5


def tried(tells: float, steps: int) -> TrialModel:
    """A model with a known feature and a new one that is right with a probability of `tells`."""
    rng, model = np.random.default_rng(4), TrialModel(np.array([-1.0, 1.0, 1.0]), on_trial=[2])
    for _ in range(steps):
        pays = rng.random() < 0.4
        said = pays if rng.random() < tells else not pays
        teach(model, [1.0, rng.random(), float(said)], float(pays))
    return model


def test_useful_new_feature_counts_after_some_visits() -> None:
    assert tried(0.9, 5).weights[2] == 0.0
    assert tried(0.9, 60).weights[2] > 1.0


def test_useless_new_feature_changes_no_score() -> None:
    plain = DenseModel(np.array([-1.0, 1.0]))
    rng, model = np.random.default_rng(4), TrialModel(np.array([-1.0, 1.0, 1.0]), on_trial=[2])
    for _ in range(200):
        row, pays = [1.0, rng.random(), rng.random()], float(rng.random() < 0.4)
        teach(model, row, pays)
        teach(plain, row[:2], pays)
    assert model.weights.tolist() == pytest.approx([*plain.weights.tolist(), 0.0])


@pytest.mark.parametrize("steps", [0, 30, 60])
def test_trial_goes_on_the_same_after_a_snapshot(steps: int) -> None:
    model, again = tried(0.9, steps), TrialModel(np.array([-1.0, 1.0, 1.0]), on_trial=[2])
    again.restore(model.snapshot())
    for one in (model, again):
        teach(one, [1.0, 0.3, 1.0], 1.0)
    assert (again.weights == model.weights).all()
    assert again.snapshot() == model.snapshot()


def test_trial_takes_up_what_an_older_version_learnt() -> None:
    older, model = dense(1, 40), TrialModel(np.array([-2.0, 1.0, 0.5]), on_trial=[2])
    model.restore(older.snapshot())
    assert model.weights[:2].tolist() == older.weights[:2].tolist()
    assert model.weights[2] == 0.0


def test_dense_memory_is_bounded() -> None:
    model = DenseModel(np.array([-2.0, 1.0]), fit_every=5000)
    for _ in range(3 * MAX_EXAMPLES):
        teach(model, [1.0, 0.5], 1.0)
    assert len(model.snapshot()) < MAX_EXAMPLES * 8 * 5


@given(st.lists(st.tuples(st.lists(st.integers(0, WORD_BUCKETS - 1), max_size=6), labels), max_size=60))
@settings(max_examples=50, deadline=None)
def test_word_model_stays_bounded_and_is_the_same_after_a_snapshot(examples: list[tuple[list[int], float]]) -> None:
    model, again = WordModel(), WordModel()
    for words, label in examples:
        model.learn(np.array([words], dtype=np.uint32), np.array([label]), np.zeros(1))
    again.restore(model.snapshot())
    assert (again.weights == model.weights).all()
    assert (again._squares == model._squares).all()
    assert np.abs(model.weights).max() <= MAX_WORD_WEIGHT
    assert model.weights[0] == 0.0


def test_word_model_learns_many_links_at_once_as_one_by_one() -> None:
    rows = np.array([[2, 3, 0], [4, 4, 5], [0, 0, 0], [6, 0, 7]], dtype=np.uint32)  # no word in two of them
    labels, offsets = np.array([1.0, 0.0, 1.0, 0.3]), np.array([0.5, -0.5, 0.0, 2.0])
    together, apart = WordModel(), WordModel()
    together.learn(rows, labels, offsets)
    for at in range(len(rows)):
        apart.learn(rows[at : at + 1], labels[at : at + 1], offsets[at : at + 1])
    assert (together.weights == apart.weights).all()
    assert together.weights[[2, 4]].tolist() == pytest.approx([0.1 * 1.4, -0.1 * 1.4], abs=0.02)


def test_dense_model_remembers_many_examples_at_once_as_one_by_one() -> None:
    rng = np.random.default_rng(2)
    rows, labels, offsets = (
        rng.random((MAX_EXAMPLES + 40, 3)),
        rng.random(MAX_EXAMPLES + 40),
        rng.normal(size=MAX_EXAMPLES + 40),
    )
    together, apart = (DenseModel(np.array([-2.0, 1.0, 0.5])) for _ in range(2))
    for model, size in ((together, MAX_EXAMPLES + 40), (apart, 1)):
        for at in range(0, len(rows), size):
            model.learn(rows[at : at + size], labels[at : at + size], offsets[at : at + size])
    assert together.seen == apart.seen
    assert together._rows.tolist() == apart._rows.tolist()
    assert together.weights.tolist() == pytest.approx(apart.weights.tolist(), abs=0.02)


@pytest.mark.slow
def test_word_model_survives_a_hundred_thousand_contradictions() -> None:
    """Ten times as many run in benchmarks/learning."""
    model = WordModel()
    words = np.array([[5, 9, 11]], dtype=np.uint32)
    for step in range(100_000):
        model.learn(words, np.array([step % 2]), np.zeros(1))
    assert np.isfinite(model.weights).all()
    assert 0.3 < float(sigmoid(model.logits(words))[0]) < 0.7


def test_success_counts_once_and_shrinks_towards_the_prior() -> None:
    table = SuccessRates(8)
    hashes = np.array([[3, 3, 259, 7, 0, 256]], dtype=np.uint32)  # 259 shares the bucket of 3; 0 is no kind
    table.add(hashes, np.array([1.0]))
    assert table.tries(np.array([3, 7, 8, 256], dtype=np.uint32)).tolist() == [1.0, 1.0, 0.0, 1.0]
    rates = table.rate(np.array([3, 8], dtype=np.uint32), 0.2, 4.0)
    assert rates.tolist() == pytest.approx([(1.0 + 0.8) / 5.0, 0.2])


@given(st.lists(st.tuples(st.lists(st.integers(0, 1000), min_size=3, max_size=3), labels), min_size=1, max_size=20))
def test_success_counts_many_tries_at_once_as_one_by_one(tries: list[tuple[list[int], float]]) -> None:
    hashes, rewards = np.array([h for h, _ in tries], dtype=np.uint32), np.array([reward for _, reward in tries])
    together, apart = SuccessRates(8), SuccessRates(8)
    together.add(hashes, rewards)
    for at in range(len(tries)):
        apart.add(hashes[at : at + 1], rewards[at : at + 1])
    assert together.snapshot() == apart.snapshot()


@given(st.lists(st.tuples(st.integers(0, 255), labels, st.floats(-1, 1)), max_size=50))
def test_success_is_a_rate_whatever_is_corrected(steps: list[tuple[int, float, float]]) -> None:
    table, again = SuccessRates(8), SuccessRates(8)
    for at, reward, change in steps:
        table.add(np.array([[at]], dtype=np.uint32), np.array([reward]))
        table.correct(np.array([at], dtype=np.uint32), change)
    rates = table.rate(np.arange(256, dtype=np.uint32), 0.5, 1.0)
    assert ((rates >= 0.0) & (rates <= 1.0)).all()
    again.restore(table.snapshot())
    assert (again.rate(np.arange(256, dtype=np.uint32), 0.5, 1.0) == rates).all()


def example(label: float) -> LinkExample:
    return LinkExample(np.array([1, 2], dtype=np.uint32), np.array([0.5]), label)


def test_credit_comes_once_when_enough_links_of_a_page_paid() -> None:
    credit = DelayedCredit(0.5)
    credit.add_visit(7, example(0.1))
    result = [credit.credit_parents([7, 8], 1.0) for _ in range(MIN_FETCHED_CHILDREN + 3)]
    assert [len(lessons) for lessons in result] == [0] * (MIN_FETCHED_CHILDREN - 1) + [1] + [0] * 3
    assert result[MIN_FETCHED_CHILDREN - 1][0].label == pytest.approx(0.6)


def test_credit_is_silent_when_links_paid_nothing_or_it_is_off() -> None:
    for gamma, reward in ((0.5, 0.0), (0.0, 1.0)):
        credit = DelayedCredit(gamma)
        credit.add_visit(7, example(0.1))
        assert not any(credit.credit_parents([7], reward) for _ in range(MIN_FETCHED_CHILDREN))


def test_credit_is_bounded_and_the_same_after_a_snapshot() -> None:
    credit, again = DelayedCredit(0.5), DelayedCredit(0.5)
    for page in range(MAX_CREDIT_VISITS + 50):
        credit.add_visit(page, example(0.1))
        for _ in range(5):
            credit.credit_parents([page], 1.0)
    again.restore(credit.snapshot())
    assert again.snapshot() == credit.snapshot()
    assert len(credit._visits) == MAX_CREDIT_VISITS
    assert len(credit._children) <= MAX_CREDIT_VISITS
    assert max(map(len, credit._children.values())) == MIN_FETCHED_CHILDREN


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=50))
@settings(deadline=None, max_examples=20)
def test_marks_never_forget(keys: list[int]) -> None:
    marks, again = FetchedFilter(), FetchedFilter()
    for key in keys:
        marks.add(key)
    again.restore(marks.snapshot())
    assert all(key in marks and key in again for key in keys)
    assert 12345 not in FetchedFilter()


def test_marks_seldom_say_yes_for_what_was_never_marked() -> None:
    marks, rng = FetchedFilter(), np.random.default_rng(0)
    for key in rng.integers(-(1 << 63), (1 << 63) - 1, 20_000).tolist():
        marks.add(key)
    wrong = sum(key in marks for key in rng.integers(-(1 << 63), (1 << 63) - 1, 20_000).tolist())
    assert wrong < 20


def test_queue_drops_the_least_promising_when_it_is_full() -> None:
    queue = LinkPool(16, 3)
    for key in range(16):
        queue.scores[queue.allocate([key], ["h"])] = key / 16
    queue.make_room(3)
    assert len(queue) == 13
    assert sorted(queue.row_of) == list(range(3, 16))
    for key in range(100, 103):
        queue.allocate([key], ["h"])
    assert (len(queue), queue.used) == (16, 16)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=80))
def test_queue_holds_exactly_what_was_taken_and_not_dropped(steps: list[tuple[int, bool]]) -> None:
    queue = LinkPool(12, 2)
    held: set[int] = set()
    for key, take in steps:
        if take and key not in queue.row_of:
            queue.make_room(1)
            held &= set(queue.row_of)
            queue.allocate([key], ["h"])
            held.add(key)
        elif not take:
            queue.drop(key)
            held.discard(key)
        assert set(queue.row_of) == held == set(queue.rows["key"][queue.used_rows].tolist())
        assert len(set(queue.row_of.values())) == len(queue) <= 12


def test_queue_row_comes_back_from_its_bytes() -> None:
    queue = LinkPool(4, 2)
    [row] = queue.allocate([9], ["h"])
    queue.rows["dense"][row] = (0.25, 0.5)
    data = queue.row_bytes(9)
    queue.drop(9)
    assert queue.row_bytes(9) == b""
    queue.load_row(9, "h", data)
    assert queue.row_bytes(9) == data
    queue.load_row(10, "h", b"short")
    assert 10 not in queue.row_of


def test_outlook_says_nothing_before_it_has_seen_enough() -> None:
    outlook = YieldEstimate()
    for _ in range(MIN_CALIBRATION_OUTCOMES - 1):
        outlook.record(0.5, True)
    assert outlook.expected is None
    outlook.record(0.5, True)
    assert outlook.expected == 0.0


@pytest.mark.parametrize(("share", "factor"), [(0.5, 1.0), (0.25, 0.5), (0.0, 0.0)])
def test_outlook_is_corrected_by_how_chances_came_true(share: float, factor: float) -> None:
    outlook = YieldEstimate()
    outlook.predicted = 100.0
    for step in range(CALIBRATION_WINDOW):
        outlook.record(0.5, step % 100 < share * 100)
    assert outlook.expected == pytest.approx(100.0 * factor, abs=1.0)
    again = YieldEstimate()
    again.restore(outlook.snapshot())
    assert again.expected == outlook.expected


def test_explanation_adds_up_to_the_score() -> None:
    committee = taught(Committee(CommitteeOptions(capacity=200, siblings=False, statistics=False, explore=0.0)), 40)
    row = int(committee.pool.used_rows[0])
    committee.refresh_word_logits(np.array([row]))
    why = explain_link(committee, row, {})
    logit = sum(part.effect for part in why.parts) + sum(effect for _, effect in why.words)
    assert why.score == pytest.approx(1.0 / (1.0 + math.exp(-logit)), abs=1e-6)
    assert why.fetched == 40


def test_explanation_counts_siblings() -> None:
    committee = taught(Committee(CommitteeOptions(capacity=200)), 40)
    committee.apply_lessons(committee.make_lesson(visit(int(committee.pool.rows["key"][committee.pool.used_rows[0]]))))
    result = [explain_link(committee, int(row), {}).siblings for row in committee.pool.used_rows]
    assert any(siblings and siblings[0].fetched >= 1 for siblings in result)
    assert all(0.0 <= s.mean_reward <= 1.0 for siblings in result for s in siblings)
