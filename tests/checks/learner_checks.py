"""What every learner keeps to. Call `check_learner(make)` with a function that makes a fresh one for a seed,
of a capacity of 400 rows or fewer.
"""

from collections.abc import Callable

import numpy as np

from opilio.methods.attributes.features import ROW_WIDTH, Labels, Rows
from opilio.methods.attributes.learner import AttributeLearner

Make = Callable[[int], AttributeLearner]


def some_rows(count: int, seed: int = 0) -> tuple[Rows, Labels]:
    """Rows where the anchor is most informative and the page a little."""
    rng = np.random.default_rng(seed)
    rows = rng.random((count, ROW_WIDTH)) * (rng.random((count, ROW_WIDTH)) > 0.4)
    rows[:, 4:] = rows[:, :4] == 0.0
    return rows, 2.0 * rows[:, 1] + rows[:, 2] + 0.3 * rng.standard_normal(count) > 1.0


def check_learner(make: Make) -> None:
    _knows_nothing_at_first(make(0))
    _learns_what_is_there(make(0))
    _same_rows_and_seed_same_answer(make)
    _asking_changes_nothing(make(0))
    _one_class_is_enough_to_go_on(make)
    _contradictions_and_constants_do_no_harm(make)
    _snapshot_carries_everything(make)
    _memory_is_bounded(make)


def check_chances(learner: AttributeLearner, rows: Rows) -> None:
    """Usable as priorities: one finite number within 0..1 for each row."""
    chances = learner.probability(rows)
    assert chances.shape == (len(rows),)
    assert np.isfinite(chances).all() and (chances >= 0.0).all() and (chances <= 1.0).all()


def _knows_nothing_at_first(learner: AttributeLearner) -> None:
    rows, _ = some_rows(20)
    assert not learner.is_ready and learner.parameters >= 1
    assert learner.probability(rows).tolist() == [0.5] * 20
    assert learner.probability(np.zeros((0, ROW_WIDTH))).shape == (0,)


def _learns_what_is_there(learner: AttributeLearner) -> None:
    rows, labels = some_rows(400)
    learner.fit(rows, labels)
    check_chances(learner, rows)
    other, truth = some_rows(400, seed=1)
    chances = learner.probability(other)
    assert learner.is_ready and chances[truth].mean() > chances[~truth].mean() + 0.2


def _same_rows_and_seed_same_answer(make: Make) -> None:
    rows, labels = some_rows(200)
    first, second, grown = make(3), make(3), make(3)
    first.fit(rows, labels)
    second.fit(rows, labels)
    grown.update(rows[:90], labels[:90])
    grown.update(rows[90:], labels[90:])
    assert first.probability(rows).tolist() == second.probability(rows).tolist()
    assert grown.probability(rows).tolist() == first.probability(rows).tolist()
    first.fit(rows[:100], labels[:100])  # forgets what it knew
    second = make(3)
    second.fit(rows[:100], labels[:100])
    assert first.probability(rows).tolist() == second.probability(rows).tolist()


def _asking_changes_nothing(learner: AttributeLearner) -> None:
    rows, labels = some_rows(100)
    learner.fit(rows, labels)
    before, kept = learner.snapshot(), rows.copy()
    learner.probability(rows)
    assert learner.snapshot() == before
    assert (rows == kept).all()


def _one_class_is_enough_to_go_on(make: Make) -> None:
    rows, _ = some_rows(30)
    for label in (True, False):
        learner = make(0)
        learner.fit(rows, np.full(30, label))
        check_chances(learner, rows)
        assert not learner.is_ready
        assert (learner.probability(rows) > 0.5).all() == label
        learner.update(rows[:1], np.array([not label]))  # the first of the other class
        check_chances(learner, rows)


def _contradictions_and_constants_do_no_harm(make: Make) -> None:
    rows, labels = some_rows(50)
    learner = make(0)
    learner.fit(np.concatenate((rows, rows)), np.concatenate((labels, ~labels)))
    check_chances(learner, rows)
    assert abs(float(learner.probability(rows).mean()) - 0.5) < 0.1
    learner.fit(np.ones((40, ROW_WIDTH)), np.arange(40) % 4 == 0)
    check_chances(learner, rows)
    assert abs(float(learner.probability(np.ones((1, ROW_WIDTH)))[0]) - 0.25) < 0.2
    learner.fit(np.zeros((0, ROW_WIDTH)), np.zeros(0, dtype=np.bool_))
    check_chances(learner, np.full((2, ROW_WIDTH), np.nan))


def _snapshot_carries_everything(make: Make) -> None:
    rows, labels = some_rows(120)
    learner, again = make(1), make(1)
    learner.fit(rows, labels)
    again.restore(learner.snapshot())
    assert again.snapshot() == learner.snapshot() and again.parameters == learner.parameters
    assert again.probability(rows).tolist() == learner.probability(rows).tolist()
    for one in (learner, again):
        one.update(*some_rows(40, seed=9))
    assert again.probability(rows).tolist() == learner.probability(rows).tolist()


def _memory_is_bounded(make: Make) -> None:
    learner = make(0)  # of a capacity that this fills
    learner.fit(*some_rows(500))
    size = len(learner.snapshot())
    learner.update(*some_rows(250, seed=2))
    assert len(learner.snapshot()) < 1.2 * size
