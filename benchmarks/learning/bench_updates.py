"""A million updates of the committee's small models with contradictory labels; and what keeping a committee costs.

Run: python benchmarks/learning/bench_updates.py
"""

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from checks.link_visits import taught
from opilio.engine.link_memory import CommitteeLearner
from opilio.learn.committee import Committee
from opilio.learn.logistic import DenseModel
from opilio.learn.scoring import CommitteeOptions
from opilio.learn.word_model import WordModel
from opilio.store.collection import Collection

UPDATES = 1_000_000


def words() -> WordModel:
    model, rng = WordModel(), np.random.default_rng(0)
    rows = rng.integers(1, 1 << 18, (1000, 30)).astype(np.uint32)
    for step in range(UPDATES):
        at = step % 1000
        model.learn(rows[at : at + 1], np.array([step % 2]), np.zeros(1))
    return model


def dense() -> DenseModel:
    model, rng = DenseModel(np.full(16, 0.5), fit_every=1000), np.random.default_rng(0)
    rows = rng.random((1000, 16))
    for step in range(UPDATES):
        at = step % 1000
        model.learn(rows[at : at + 1], np.array([step % 2]), np.zeros(1))
    return model


def timed(name: str, count: int, began: float) -> None:
    spent = time.perf_counter() - began
    print(f"{name:<40} {spent:8.2f} s  {1e6 * spent / count:9.1f} µs each")


def main() -> None:
    for name, make in (("word model", words), ("dense model (fitted every 1000)", dense)):
        began = time.perf_counter()
        weights = make().weights
        timed(f"{name}, {UPDATES:,} updates", UPDATES, began)
        assert np.isfinite(weights).all()
        assert np.abs(weights).max() <= 12.0
    committee = taught(Committee(CommitteeOptions(capacity=5000)), 1000)
    began = time.perf_counter()
    size = len(committee.snapshot())
    timed(f"snapshot after 1000 visits, {size:,} bytes", 1, began)
    collection = Collection.in_memory()
    memory = CommitteeLearner(committee, collection)
    began = time.perf_counter()
    memory.save(0.0, at_end=True)
    timed("save", 1, began)
    began = time.perf_counter()
    CommitteeLearner(Committee(CommitteeOptions(capacity=5000)), collection).load()
    timed("restore", 1, began)


if __name__ == "__main__":
    main()
