"""Does one threshold of S0's page score (Eq. 5) serve tables of every size?

    python benchmarks/topics/table_size.py WEB...

For each topic with at least 70 relevant pages: a table from 57 of them, its heaviest 10 to 300 words, and the score of
up to 300 other relevant pages and 700 irrelevant ones. F1, a mean over topics: with the threshold .4 for every size,
with `sized_threshold` of .4 for 300 words, and with the best threshold of the size; AUC with the norm of the paper and
with that of the whole page (`judge.norm`).
"""

import random
import sys
from pathlib import Path

import numpy as np

from opilio.lab.evaluation.metrics import rank_auc
from opilio.lab.experiments.replay import lab_settings
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.webs.topics import LabTopic
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import sized_threshold
from opilio.topic.page_terms import CachedIdf
from opilio.topic.setup import background_frequencies

SIZES = (10, 20, 50, 100, 200, 300)
TABLE_PAGES, MAX_RELEVANT, MAX_OTHERS = 57, 300, 700
THRESHOLD = 0.4
GRID = np.arange(0.1, 0.9, 0.01)
IDF = CachedIdf(background_frequencies().__getitem__)
Counts = tuple[np.ndarray, np.ndarray]


def main() -> None:
    for folder in sys.argv[1:]:
        runner = ExperimentRunner.open(Path(folder))
        found = [scores for topic in runner.topics.values() if (scores := topic_scores(runner, topic)) is not None]
        print(f"\n{Path(folder).name}, {len(found)} topics\n")
        print("| words | F1 at .4 | sized | best | best threshold | AUC | AUC, norm of the page |")
        print("|---|---|---|---|---|---|---|")
        for at, size in enumerate(SIZES):
            means = [np.mean([f1(own[at], good, t) for own, _, good in found]) for t in GRID]
            fixed = np.mean([f1(own[at], good, THRESHOLD) for own, _, good in found])
            sized = np.mean([f1(own[at], good, sized_threshold(THRESHOLD, 300, size)) for own, _, good in found])
            auc = [np.mean([rank_auc(s[kind][at], s[2]) or 0.0 for s in found]) for kind in (0, 1)]
            values = (fixed, sized, max(means), GRID[int(np.argmax(means))], *auc)
            print(f"| {size} | " + " | ".join(f"{value:.2f}" for value in values) + " |", flush=True)


def topic_scores(runner: ExperimentRunner, topic: LabTopic) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The scores of pages, one row for each size, by both norms; and which pages are relevant."""
    pages, settings = runner.offline.pages, lab_settings("s0", topic.brief, (), 1)
    read = runner.offline.readings(settings).reader(settings, Vocabulary(settings.topic.language))
    size = len(runner.offline.web)
    relevant, labeled = runner.labels.relevant(topic)[:size], runner.labels.labeled_pages[:size]
    rng, kinds = random.Random(topic.name), []
    for chosen in (relevant, ~relevant & labeled):
        numbers = [n for n in np.flatnonzero(chosen).tolist() if pages.page(n) is not None]
        rng.shuffle(numbers)
        kinds.append(numbers)
    good, others = kinds
    if len(good) < TABLE_PAGES + 13:
        return None

    def counts(number: int) -> Counts:
        page = pages.page(number)
        assert page is not None
        return np.unique(np.asarray(read(page).terms, dtype=np.uint32), return_counts=True)

    terms, weights = build_table([counts(n) for n in good[:TABLE_PAGES]])
    tested = good[TABLE_PAGES:][:MAX_RELEVANT]
    rows = [page_scores(counts(n), terms, weights) for n in [*tested, *others[:MAX_OTHERS]]]
    is_good = np.arange(len(rows)) < len(tested)
    return np.array([row[0] for row in rows]).T, np.array([row[1] for row in rows]).T, is_good


def build_table(documents: list[Counts]) -> Counts:
    """The 300 heaviest words on at least two pages, by mean tf · idf (S0-15 … S0-19)."""
    share: dict[int, float] = {}
    containing: dict[int, int] = {}
    for terms, counts in documents:
        for term, value in zip(terms.tolist(), (counts / counts.sum()).tolist(), strict=True):
            share[term] = share.get(term, 0.0) + value
            containing[term] = containing.get(term, 0) + 1
    words = np.array([term for term, pages in containing.items() if pages > 1], dtype=np.uint32)
    weights = np.array([share[term] for term in words.tolist()]) * IDF(words)
    best = np.argsort(-weights)[: SIZES[-1]]
    return words[best], weights[best] / weights[best[0]]


def page_scores(page: Counts, terms: np.ndarray, weights: np.ndarray) -> tuple[list[float], list[float]]:
    """The cosine for each size, with the norm over the words of the table (Eq. 5) and over all words."""
    own = dict(zip(page[0].tolist(), (page[1] * IDF(page[0])).tolist(), strict=True))
    known = np.array([own.get(term, 0.0) for term in terms.tolist()])
    whole = float(np.linalg.norm(list(own.values()))) if own else 0.0
    scores = []
    for norms in (None, whole):
        column = []
        for size in SIZES:
            length = float(np.linalg.norm(known[:size])) if norms is None else norms
            table = float(np.linalg.norm(weights[:size]))
            column.append(float(known[:size] @ weights[:size]) / (length * table) if length else 0.0)
        scores.append(column)
    return scores[0], scores[1]


def f1(scores: np.ndarray, good: np.ndarray, threshold: float) -> float:
    """Of the pages at or above a threshold."""
    accepted = scores >= threshold
    return float(2 * (accepted & good).sum() / max(1, accepted.sum() + good.sum()))


if __name__ == "__main__":
    main()
