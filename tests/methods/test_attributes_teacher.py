"""When a learner is trained during a crawl (S1-12), and that it resumes from a snapshot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.learner_checks import some_rows
from opilio.methods.attributes.features import ROW_WIDTH
from opilio.methods.attributes.learner import OnlineTrainer, make_learner

pytest.importorskip("sklearn")


def teacher(every: int = 20, least: int = 5) -> OnlineTrainer:
    return OnlineTrainer(make_learner("bayes"), every, least)


def test_nothing_is_fitted_before_both_classes_are_known_s1_12() -> None:
    one = teacher()
    rows, _ = some_rows(30)
    one.add(rows, np.zeros(30, dtype=np.bool_))
    one.add(rows[:4], np.ones(4, dtype=np.bool_))
    assert one.version == 0 and not one.is_ready
    one.add(rows[:1], np.ones(1, dtype=np.bool_))
    assert one.version == 1 and one.is_ready


def test_later_fits_wait_for_enough_rows() -> None:
    one = teacher()
    rows, labels = some_rows(300)
    versions = []
    for at in range(300):
        one.add(rows[at : at + 1], labels[at : at + 1])
        versions.append(one.version)
    first = versions.index(1)
    assert versions.index(2) == first + 20
    gaps = np.diff(np.flatnonzero(np.diff(versions)))
    assert gaps[-1] >= gaps[0]  # a tenth of what it has seen, once that is more


def test_few_fits_even_in_a_long_crawl() -> None:
    one = teacher(every=50)
    rows, labels = some_rows(500)
    for at in range(40):
        one.add(np.roll(rows, at, axis=0), np.roll(labels, at))
    assert one.version < 35


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 59))
@settings(max_examples=15, deadline=None)
def test_restored_teacher_goes_on_as_the_other_would(labels: list[bool], cut: int) -> None:
    rows, truth = some_rows(len(labels))[0], np.array(labels)
    straight, first = teacher(5, 2), teacher(5, 2)
    for at in range(len(labels)):
        for one in (straight, first):
            one.add(rows[at : at + 1], truth[at : at + 1])
        if at == cut:
            again = teacher(5, 2)
            again.restore(first.snapshot())
            first = again
    assert first.version == straight.version
    assert first.snapshot() == straight.snapshot()


def test_teaching_one_class_for_ever_is_bounded() -> None:
    one = teacher()
    for _ in range(12):
        one.add(np.zeros((1_000, ROW_WIDTH)), np.zeros(1_000, dtype=np.bool_))
    assert len(one.snapshot()) < 200_000 and one.version == 0


def test_corrected_row_changes_sides_and_is_fitted_at_once() -> None:
    one = teacher(every=1_000)
    rows, labels = some_rows(40)
    one.add(rows, labels)
    before, version = one.probability(rows), one.version
    one.correct(rows[:1], ~labels[:1])
    assert one.version == version + 1
    assert (one.probability(rows) != before).any()
    one.correct(rows[:1], labels[:1])
    assert one.probability(rows).tolist() == pytest.approx(before.tolist())
    assert sum(map(len, one.learner.pack_rows())) == 40 * 4 * ROW_WIDTH


def test_correction_of_an_unknown_row_is_one_more_row() -> None:
    one = teacher()
    rows, _ = some_rows(3)
    one.correct(rows, np.array([True, False, True]))
    assert one.version == 0 and len(one._pending) == 3  # too few of each to fit
    one.correct(rows[:1], np.array([False]))
    assert len(one._pending) == 3 and one._rows_seen == (2, 1)
