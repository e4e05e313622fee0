"""Make, test and store S1's learners: from a collection or from rows in a CSV file (S1-14, S1-25, S1-30)."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from opilio import __version__
from opilio.crawl.config import resolve
from opilio.crawl.job import settings_of
from opilio.crawl.topics import background, vocabulary_of
from opilio.crawl.training import Pages, pages_of
from opilio.judge.rarity import CachedIdf
from opilio.learn.learner import RowLearner, require_library
from opilio.learn.learners import make_learner
from opilio.learn.modelfile import write_models
from opilio.learn.rows import Row, matrix
from opilio.learn.rowsfile import read_rows
from opilio.learn.trial import GivenRows, Trial, compare
from opilio.model.errors import UsageError
from opilio.store.collection import reading
from opilio.topic.table import WeightTable


class Trained(msgspec.Struct, frozen=True, kw_only=True):
    """Learners that were tested, then trained on everything."""

    topic: str
    table: WeightTable  # empty where the rows were given
    rows: Sequence[Row]
    trial: Trial
    learners: list[RowLearner]

    def file(self) -> bytes:
        """The learners as a file that `rank.model` reads."""
        made_by = f"Opilio/{__version__}"
        return write_models(self.learners, made_by=made_by, topic=self.topic, table=self.table.weights)


def train(source: Path, names: Sequence[str]) -> Trained:
    """Learners from a collection (a folder) or from a CSV file."""
    require_library()
    return _from_collection(source, names) if source.is_dir() else _from_rows(source, names)


def _from_collection(folder: Path, names: Sequence[str]) -> Trained:
    with reading(folder) as collection:
        settings = resolve(settings_of(collection), str(folder / "crawl.toml"))
    pages = pages_of(folder, vocabulary_of(settings), CachedIdf(background().__getitem__))
    trial = _tested(pages, names, str(folder))
    table = pages.table(np.arange(len(pages)))
    rows = pages.rows(table)
    topic = settings.topic.name
    return Trained(topic=topic, table=table, rows=rows, trial=trial, learners=_fitted(rows, names))


def _from_rows(path: Path, names: Sequence[str]) -> Trained:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = read_rows(file, str(path))
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}; give a collection or a CSV file") from error
    trial = _tested(GivenRows(rows), names, str(path))
    return Trained(topic="", table=WeightTable(), rows=rows, trial=trial, learners=_fitted(rows, names))


def _tested(material: Pages | GivenRows, names: Sequence[str], source: str) -> Trial:
    try:
        return compare(material, names, time.process_time)  # others may use the machine too
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def _fitted(rows: Sequence[Row], names: Sequence[str]) -> list[RowLearner]:
    learners = [make_learner(name) for name in names]
    for learner in learners:
        learner.fit(*matrix(rows))
    return learners
