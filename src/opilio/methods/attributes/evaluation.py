"""How good is a learner? Folds grouped by host, means with intervals, time and complexity (S1-30…S1-33, S1-E4).

Rows are computed for every fold from the pages it may know (S1-E7): a table built from the test pages would leak the
labels. No clock is read: `timer` is passed in.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import UsageError
from opilio.learn.logistic import roc_auc
from opilio.methods.attributes.learner import Probabilities, require_sklearn
from opilio.methods.attributes.models import make_learner
from opilio.methods.attributes.rows import Labels, Rows, TrainingRow, rows_to_arrays

FOLDS = 10
PAPER_PRECISION = {"neural": 0.50125, "tree": 0.30388, "bayes": 0.23325}  # S1-31
MIN_CLASS_ROWS = 2  # rows of each class: one to learn from, one to be tested on
RowPositions = NDArray[np.int64]


class TrainingSet(Protocol):
    """A training set. `rows_for` returns all rows, computed only from the pages at `known` (S1-E7)."""

    @property
    def labels(self) -> Labels: ...

    @property
    def groups(self) -> Sequence[str]: ...

    def rows_for(self, known: RowPositions) -> Rows: ...


class FixedTrainingSet:
    """A training set whose attributes were computed elsewhere, such as a CSV file."""

    def __init__(self, rows: Sequence[TrainingRow]) -> None:
        self._rows, self.labels = rows_to_arrays(rows)
        self.groups = [row.group for row in rows]

    def rows_for(self, known: RowPositions) -> Rows:
        """The given rows."""
        del known
        return self._rows


class MeanInterval(msgspec.Struct, frozen=True):
    """Mean over the folds where it is defined, with its 95 % interval (Student's t).

    With one fold the variance is unknown, so the interval is the whole range of the figure.
    """

    mean: float
    low: float
    high: float
    folds: int


class LearnerResult(msgspec.Struct, frozen=True, kw_only=True):
    """One learner. Less time and fewer parameters are better (S1-E3)."""

    precision: MeanInterval
    recall: MeanInterval
    f1: MeanInterval
    auc: MeanInterval
    accuracy: MeanInterval
    fit_s: float  # one training, mean
    predict_us: float  # one link, mean
    parameters: int  # mean over folds, rounded


class LearnerComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The results with the conditions of the test."""

    rows: int
    relevant: int
    groups: int
    folds: int
    # False: there is one host only, so its pages are on both sides of a fold.
    by_host: bool
    results: dict[str, LearnerResult]

    @property
    def prior(self) -> float:
        """The share of relevant rows: the precision of guessing."""
        return self.relevant / self.rows


FoldScores = dict[str, float]


def compare_learners(
    material: TrainingSet, names: Iterable[str], timer: Callable[[], float], seed: int = 0
) -> LearnerComparison:
    """Test learners on the same folds."""
    require_sklearn()
    labels, groups = material.labels, material.groups
    fewest = int(min(labels.sum(), (~labels).sum()))
    if fewest < MIN_CLASS_ROWS:
        have = f"{int(labels.sum())} relevant, {int((~labels).sum())} irrelevant"
        raise UsageError(f"too few rows to learn from ({have}); at least {MIN_CLASS_ROWS} of each kind are needed")
    splits = list(_splits(labels, groups, fewest, seed))
    prepared = [(known, tested, material.rows_for(known)) for known, tested in splits]
    results = {name: _summarize([_evaluate_fold(name, labels, *fold, timer) for fold in prepared]) for name in names}
    hosts = len(set(groups))
    return LearnerComparison(
        rows=len(labels),
        relevant=int(labels.sum()),
        groups=hosts,
        folds=len(splits),
        by_host=hosts >= 2,
        results=results,
    )


def _splits(
    labels: Labels, groups: Sequence[str], fewest: int, seed: int
) -> Iterator[tuple[RowPositions, RowPositions]]:
    """Stratified folds; with two or more hosts, no host is on both sides."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    _, numbers = np.unique(np.array(groups), return_inverse=True)
    hosts = int(numbers.max()) + 1
    folds = max(2, min(FOLDS, fewest, hosts if hosts >= 2 else FOLDS))
    if hosts >= 2:
        yield from StratifiedGroupKFold(folds, shuffle=True, random_state=seed).split(labels, labels, numbers)
    else:
        yield from StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels)


def _evaluate_fold(
    name: str, labels: Labels, known: RowPositions, tested: RowPositions, rows: Rows, timer: Callable[[], float]
) -> FoldScores:
    learner = make_learner(name)
    began = timer()
    learner.fit(rows[known], labels[known])
    fitted = timer()
    chances = learner.probability(rows[tested])
    ended = timer()
    times = {"fit_s": fitted - began, "predict_us": (ended - fitted) / max(1, len(tested)) * 1e6}
    return classification_scores(chances, labels[tested]) | times | {"parameters": float(learner.parameters)}


def classification_scores(chances: Probabilities, truth: Labels) -> FoldScores:
    """Precision, recall, F1, AUC and accuracy of one fold; NaN where one is not defined."""
    predicted = chances >= 0.5
    hits = float((predicted & truth).sum())
    precision, recall = _ratio(hits, predicted.sum()), _ratio(hits, truth.sum())
    f1 = _ratio(2.0 * hits, float(predicted.sum() + truth.sum()))
    accuracy = _ratio(float((predicted == truth).sum()), len(truth))
    return {"precision": precision, "recall": recall, "f1": f1, "auc": auc(chances, truth), "accuracy": accuracy}


def auc(chances: Probabilities, truth: Labels) -> float:
    """The probability that a relevant row is placed above an irrelevant one; ties count half."""
    found = roc_auc(chances[truth], chances[~truth])
    return float("nan") if found is None else found


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else float("nan")


def _summarize(folds: list[FoldScores]) -> LearnerResult:
    column = {name: [fold[name] for fold in folds] for name in folds[0]}
    return LearnerResult(
        precision=mean_interval(column["precision"]),
        recall=mean_interval(column["recall"]),
        f1=mean_interval(column["f1"]),
        auc=mean_interval(column["auc"]),
        accuracy=mean_interval(column["accuracy"]),
        fit_s=float(np.mean(column["fit_s"])),
        predict_us=float(np.mean(column["predict_us"])),
        parameters=round(float(np.mean(column["parameters"]))),
    )


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """Mean and interval of the values that are numbers."""
    from scipy.stats import t

    known = np.array([value for value in values if not np.isnan(value)])
    if not len(known):
        return MeanInterval(0.0, 0.0, 0.0, 0)
    mean = float(known.mean())
    if len(known) == 1:
        return MeanInterval(mean, 0.0, 1.0, 1)
    half = float(t.ppf(0.975, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known)))
    return MeanInterval(mean, mean - half, mean + half, len(known))
