"""Made-up links and visits for a committee: a small web of numbers, the same for every test."""

import numpy as np

from opilio.learn.committee import Committee
from opilio.learn.scoring import LinkVisit, SourcePage
from opilio.learn.word_model import (
    LINK_FEATURES_DTYPE,
    PREFIX_COUNT,
    WORD_BUCKETS,
    WORD_COUNT,
    LinkFeatures,
    url_prefixes,
)


def url_of(number: int) -> str:
    return f"http://h{number % 7}.example/d{number % 3}/{number}.html"


def features(numbers: list[int], rng: np.random.Generator) -> LinkFeatures:
    """Links whose first word decides whether they pay: even numbers have word 2, odd ones word 3."""
    rows = np.zeros(len(numbers), dtype=LINK_FEATURES_DTYPE)
    rows["words"] = rng.integers(10, WORD_BUCKETS, (len(numbers), WORD_COUNT))
    rows["words"][:, 0] = [2 + n % 2 for n in numbers]
    rows["words"][:, 10:] = 0
    rows["path"] = [n % 5 + 1 for n in numbers]
    rows["prefixes"] = [url_prefixes(url_of(n))[:PREFIX_COUNT] for n in numbers]
    rows["dense"] = rng.random((len(numbers), LINK_FEATURES_DTYPE["dense"].shape[0]))
    return rows


def found(committee: Committee, page: int, numbers: list[int], seed: int = 0) -> list[float]:
    """Have the committee discover links to these numbers on a page."""
    rows = features(numbers, np.random.default_rng(seed + page))
    hosts = [f"h{n % 7}.example" for n in numbers]
    return committee.add_links(SourcePage(page, page % 2 == 0, page % 4), hosts, numbers, rows)


def visit(number: int, reward: float | None = None, page: bool = True) -> LinkVisit:
    worth = float(number % 2 == 0) if reward is None else reward
    return LinkVisit(number, url_of(number), worth, page, worth >= 0.5)


def taught(committee: Committee, steps: int, seed: int = 0) -> Committee:
    """A short crawl: every page brings five links, the best of them is fetched next."""
    for step in range(steps):
        page = 1000 + step
        found(committee, page, [5 * step + i + 1 for i in range(5)], seed)
        live = committee.pool.used_rows
        best = int(committee.pool.rows["key"][live[step % len(live)]])
        committee.apply_lessons(committee.make_lesson(visit(best)))
        committee.rescored()
    return committee
