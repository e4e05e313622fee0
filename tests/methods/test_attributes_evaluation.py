"""The comparison of S1: folds by host, tables inside folds, means with intervals (S1-30…S1-33, S1-E4, S1-E7)."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.learner_checks import some_rows
from opilio.core.errors import UsageError
from opilio.methods.attributes.features import Labels, Rows, TrainingRow
from opilio.methods.attributes.learner import LEARNER_NAMES
from opilio.methods.attributes.training import (
    FixedTrainingSet,
    MeanInterval,
    RowPositions,
    auc,
    classification_scores,
    compare_learners,
    mean_interval,
)

pytest.importorskip("sklearn")


class Watched:
    """A training set that notes which pages its table was built from."""

    def __init__(self, rows: int, hosts: int) -> None:
        self._rows, self.labels = some_rows(rows)
        self.groups = [f"{at % hosts}.example" for at in range(rows)]
        self.known: list[set[int]] = []

    def rows_for(self, known: RowPositions) -> Rows:
        self.known.append(set(known.tolist()))
        return self._rows


def ticking() -> object:
    ticks = count()
    return lambda: float(next(ticks))


def test_no_host_is_on_both_sides_and_tables_know_no_tested_page_s1_e4_s1_e7() -> None:
    material = Watched(120, hosts=12)
    trial = compare_learners(material, ["bayes"], ticking())  # type: ignore[arg-type]
    assert trial.folds == 10 == len(material.known) and trial.by_host
    for known in material.known:
        inside = {material.groups[at] for at in known}
        outside = {material.groups[at] for at in range(120) if at not in known}
        assert outside and not inside & outside


@pytest.mark.parametrize(("hosts", "folds", "by_host"), [(1, 10, False), (2, 2, True), (7, 7, True), (40, 10, True)])
def test_as_many_folds_as_hosts_allow_s1_e4(hosts: int, folds: int, by_host: bool) -> None:
    trial = compare_learners(Watched(120, hosts), ["bayes"], ticking())  # type: ignore[arg-type]
    assert (trial.folds, trial.by_host, trial.groups) == (folds, by_host, hosts)


@pytest.mark.slow
def test_three_learners_are_compared_in_precision_time_and_complexity_s1_30() -> None:
    trial = compare_learners(Watched(200, 15), LEARNER_NAMES, ticking())  # type: ignore[arg-type]
    assert list(trial.results) == list(LEARNER_NAMES)
    for result in trial.results.values():
        assert result.precision.low <= result.precision.mean <= result.precision.high
        assert result.auc.mean > 0.7 and result.auc.folds == 10
        assert result.fit_s == 1.0 and result.predict_us > 0.0 and result.parameters > 1
    assert trial.prior == pytest.approx(trial.relevant / 200)


def test_same_rows_same_figures() -> None:
    first, second = (compare_learners(Watched(80, 9), ["tree"], ticking()) for _ in range(2))  # type: ignore[arg-type]
    assert first == second


@pytest.mark.parametrize("relevant", [0, 1, 29, 30])
def test_one_class_is_reported_s1_16(relevant: int) -> None:
    material = Watched(30, 3)
    material.labels = np.arange(30) < relevant
    with pytest.raises(UsageError, match=rf"{relevant} relevant, {30 - relevant} irrelevant.*at least 2 of each"):
        compare_learners(material, ["bayes"], ticking())  # type: ignore[arg-type]


def test_two_rows_of_a_class_are_enough() -> None:
    material = Watched(20, 1)
    material.labels = np.arange(20) < 2
    assert compare_learners(material, LEARNER_NAMES, ticking()).folds == 2  # type: ignore[arg-type]


def test_given_rows_are_taken_as_they_are() -> None:
    row = TrainingRow(
        url="u", group="g", values=(0.1, 0.2, 0.3, 0.4), missing=(True, False, False, False), relevant=True
    )
    material = FixedTrainingSet([row])
    assert material.rows_for(np.zeros(0, dtype=np.int64)).tolist() == [[0.1, 0.2, 0.3, 0.4, 1.0, 0.0, 0.0, 0.0]]
    assert material.labels.tolist() == [True] and material.groups == ["g"]


def test_scores_by_hand() -> None:
    chances, truth = np.array([0.9, 0.6, 0.5, 0.2, 0.1]), np.array([True, False, True, True, False])
    found = classification_scores(chances, truth)
    assert found["precision"] == found["recall"] == found["f1"] == pytest.approx(2 / 3)
    assert found["accuracy"] == pytest.approx(3 / 5)
    assert found["auc"] == pytest.approx(4 / 6)


def test_what_is_not_defined_is_left_out() -> None:
    none_said = classification_scores(np.array([0.1, 0.2]), np.array([True, False]))
    assert np.isnan(none_said["precision"]) and none_said["recall"] == 0.0
    assert mean_interval([float("nan"), 0.5, 0.7]).folds == 2
    assert mean_interval([float("nan")]).folds == 0


def test_folds_are_independent() -> None:
    assert mean_interval([0.3, float("nan")]) == MeanInterval(0.3, 0.0, 1.0, 1)


def test_interval_is_students_t() -> None:
    found = mean_interval([0.4, 0.5, 0.6])
    assert found.mean == pytest.approx(0.5)
    assert found.high - found.mean == pytest.approx(4.302653 * 0.1 / np.sqrt(3), rel=1e-5)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.booleans()), min_size=1, max_size=20))
def test_auc_is_the_share_of_pairs_in_order(pairs: list[tuple[float, bool]]) -> None:
    chances = np.array([chance for chance, _ in pairs])
    truth: Labels = np.array([label for _, label in pairs])
    yes, no = chances[truth], chances[~truth]
    if not len(yes) or not len(no):
        assert np.isnan(auc(chances, truth))
    else:
        won = sum((a > b) + 0.5 * (a == b) for a in yes for b in no)
        assert auc(chances, truth) == pytest.approx(won / (len(yes) * len(no)))
