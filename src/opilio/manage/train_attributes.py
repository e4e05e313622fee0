"""Make, test and store S1's learners: from a collection or from rows in a CSV file (S1-14, S1-25, S1-30)."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from opilio import __version__
from opilio.core.errors import UsageError
from opilio.methods.attributes.evaluation import FixedTrainingSet, LearnerComparison, compare_learners
from opilio.methods.attributes.learner import RowLearner, require_sklearn
from opilio.methods.attributes.models import make_learner
from opilio.methods.attributes.rows import TrainingRow, read_rows, rows_to_arrays
from opilio.methods.attributes.training import CollectionTrainingSet, load_training_set, write_models
from opilio.store.collection import load_settings, open_readonly
from opilio.topic.page_terms import CachedIdf
from opilio.topic.setup import background_frequencies, build_vocabulary, resolve_settings
from opilio.topic.weights import WeightTable


class TrainingResult(msgspec.Struct, frozen=True, kw_only=True):
    """Learners that were tested, then trained on everything."""

    topic: str
    table: WeightTable  # empty where the rows were given
    rows: Sequence[TrainingRow]
    trial: LearnerComparison
    learners: list[RowLearner]

    def to_model_file(self) -> bytes:
        """The learners as a file that `rank.model` reads."""
        made_by = f"Opilio/{__version__}"
        return write_models(self.learners, made_by=made_by, topic=self.topic, table=self.table.weights)


def train(source: Path, names: Sequence[str]) -> TrainingResult:
    """Learners from a collection (a folder) or from a CSV file."""
    require_sklearn()
    return _from_collection(source, names) if source.is_dir() else _from_rows(source, names)


def _from_collection(folder: Path, names: Sequence[str]) -> TrainingResult:
    with open_readonly(folder) as collection:
        settings = resolve_settings(load_settings(collection), str(folder / "crawl.toml"))
    pages = load_training_set(folder, build_vocabulary(settings), CachedIdf(background_frequencies().__getitem__))
    trial = _evaluate(pages, names, str(folder))
    table = pages.table(np.arange(len(pages)))
    rows = pages.rows(table)
    topic = settings.topic.name
    return TrainingResult(topic=topic, table=table, rows=rows, trial=trial, learners=_fit_learners(rows, names))


def _from_rows(path: Path, names: Sequence[str]) -> TrainingResult:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = read_rows(file, str(path))
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}; give a collection or a CSV file") from error
    trial = _evaluate(FixedTrainingSet(rows), names, str(path))
    return TrainingResult(topic="", table=WeightTable(), rows=rows, trial=trial, learners=_fit_learners(rows, names))


def _evaluate(
    material: CollectionTrainingSet | FixedTrainingSet, names: Sequence[str], source: str
) -> LearnerComparison:
    try:
        return compare_learners(material, names, time.process_time)  # others may use the machine too
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def _fit_learners(rows: Sequence[TrainingRow], names: Sequence[str]) -> list[RowLearner]:
    learners = [make_learner(name) for name in names]
    for learner in learners:
        learner.fit(*rows_to_arrays(rows))
    return learners
