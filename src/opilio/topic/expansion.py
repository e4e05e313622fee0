"""How a table grows while crawling: S0-21 (periods), S3-15 (page by page), S4-05 (the query log).

Each way is a state that is told of every visit, fed with the stems of pages judged relevant, and asked for the next
table. States are records, so they survive a restart. `living.py` sees to it that irrelevant pages never feed them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from opilio.core.errors import TopicError
from opilio.topic.query_log import QueryLogSmoothing, QueryLogWeights
from opilio.topic.weights import (
    Counts,
    Idf,
    NoiseFilter,
    TermStatistics,
    TfIdf,
    WeightScheme,
    WeightTable,
    normalize_weights,
    table_from_weights,
)


@dataclass(frozen=True, slots=True)
class ExpansionStart:
    """What an expansion begins from: the weights of the first table, and the number of seeds."""

    weights: Mapping[str, float]
    seed_count: int = 0


def _bounded_statistics() -> TermStatistics:
    # Kept with every snapshot: some 150 KB
    return TermStatistics(limit=5_000)


class _ExpansionBase(msgspec.Struct):
    """What all ways share."""

    @property
    def waits_for_seeds(self) -> bool:
        """Is the table still to be built from the pages the crawl begins with?"""
        return False

    def record_visit(self) -> None:
        """A page was visited, relevant or not."""

    def after_seeding(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table once the seeds were visited, as far as they could be."""
        del background
        return table

    def merge_words(self, weights: Mapping[str, float]) -> None:
        """Words that somebody else found, for the next table."""
        del weights

    def rebase(self, weights: Mapping[str, float], without: Iterable[str]) -> None:
        """A person made another table: it grows from there, `without` what was taken out."""
        del weights, without


class FrozenExpansion(_ExpansionBase, tag="frozen"):
    """The table stays as it is (the frozen-table switch of S0-21; S3-14; S4-26)."""

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Nothing is learnt."""
        del counts, score, background

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table itself."""
        del background
        return table


class PeriodicExpansion(_ExpansionBase, tag="periodic", kw_only=True):
    """After every `period` relevant pages add the `added` best new terms and weigh all anew (S0-21).

    Period and number are not in the paper: ours (S0-E8). `trust` is the part of a weight that comes from the
    pages; the rest stays with the first table, so that a wrong page cannot pull the topic away for good.
    """

    base: dict[str, float]
    period: int = 50
    added: int = 10
    size: int = 100
    trust: float = 0.5
    min_score: float = 0.0
    weighing: TfIdf = TfIdf()
    pages: TermStatistics = msgspec.field(default_factory=_bounded_statistics)
    waiting: int = 0
    chosen: list[str] = []  # stems added so far, in order

    def __post_init__(self) -> None:
        if self.period < 1 or not 0.0 <= self.trust <= 1.0:
            raise TopicError(f"period must be at least 1 and trust within 0..1, not {self.period} and {self.trust}")

    def merge_words(self, weights: Mapping[str, float]) -> None:
        """They join what the person gave."""
        self.base = {**weights, **self.base}

    def rebase(self, weights: Mapping[str, float], without: Iterable[str]) -> None:
        """They are what the person gives now."""
        self.base, self.chosen = dict(weights), []
        self.pages.forget(without)

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """One relevant page."""
        del background
        if score >= self.min_score:
            self.pages.add(counts)
            self.waiting += 1

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table when a period is over."""
        if self.waiting < self.period:
            return table
        self.waiting = 0
        fresh = normalize_weights(self.weighing.weigh(self.pages, background))
        room = min(self.added, self.size - len(self.base) - len(self.chosen))
        known = self.base.keys() | set(self.chosen)
        self.chosen.extend([s for s in fresh if s not in known][: max(0, room)])
        return table.next_version(_keep_labels(table, blend_weights(self.base, fresh, self.chosen, self.trust)))


class PagewiseExpansion(_ExpansionBase, tag="pagewise", kw_only=True):
    """Pages of relevance ≥ `threshold` (T_r) add the `share` of their heaviest keywords (S3-15).

    A page's keywords are its `keywords` heaviest stems; weights are those of the online tf·idf over every page
    taken so far (S3-11), blended with the first table by `trust`. Where seeds are `awaited` the table itself is first
    built when they are settled (S3-12): the `built` heaviest stems of those judged relevant join what the person
    gave. A share of 0 then is the static table (S3-14; with `TfDf` that of S4-02). Terms are chosen page by page;
    weights are found anew after `period` pages taken (the paper: every page), because every new table has to reach
    the disk and the workers.
    """

    base: dict[str, float]
    threshold: float = 0.6
    share: float = 0.5
    keywords: int = 10
    size: int = 200
    trust: float = 0.5
    built: int = 50
    period: int = 10
    weighing: WeightScheme = TfIdf(noise=NoiseFilter(min_documents=1))
    pages: TermStatistics = msgspec.field(default_factory=_bounded_statistics)
    chosen: list[str] = []
    waiting: int = 0
    # Seeds the table is to be built from; it waits for none where this is not above 0
    awaited: int = 0

    def __post_init__(self) -> None:
        if not (0.0 <= self.threshold <= 1.0 and 0.0 <= self.share <= 1.0):
            raise TopicError(f"threshold and share must lie within 0..1, not {self.threshold} and {self.share}")

    @property
    def waits_for_seeds(self) -> bool:
        """Which of them are still to be visited is the frontier's to tell: what is counted here can get lost."""
        return self.awaited > 0

    def merge_words(self, weights: Mapping[str, float]) -> None:
        """They join what the person gave."""
        self.base = {**weights, **self.base}

    def rebase(self, weights: Mapping[str, float], without: Iterable[str]) -> None:
        """They are what the person gives now."""
        self.base, self.chosen = dict(weights), []
        self.pages.forget(without)

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """One relevant page; taken where it is relevant enough, or comes before the table is built."""
        if self.waits_for_seeds:
            self.pages.add(counts)
            return
        if score < self.threshold or not self.share:
            return
        self.pages.add(counts)
        self.waiting += 1
        page = TermStatistics()
        page.add(counts)
        known = self.base.keys() | set(self.chosen)
        top = table_from_weights(self.weighing.weigh(page, background), round(self.keywords * self.share)).weights
        room = self.size - len(known)
        self.chosen.extend([s for s in top if s not in known][: max(0, room)])

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table whenever enough pages were taken."""
        if self.waits_for_seeds or self.waiting < self.period:
            return table
        self.waiting = 0
        fresh = normalize_weights(self.weighing.weigh(self.pages, background))
        return table.next_version(_keep_labels(table, blend_weights(self.base, fresh, self.chosen, self.trust)))

    def after_seeding(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table built from the seeds."""
        if not self.waits_for_seeds:
            return table
        self.awaited = 0
        fresh = normalize_weights(self.weighing.weigh(self.pages, background))
        seen = dict(list(fresh.items())[: self.built])
        self.base = {stem: max(seen.get(stem, 0.0), self.base.get(stem, 0.0)) for stem in self.base | seen}
        return table.next_version(_keep_labels(table, blend_weights(self.base, fresh, self.chosen, self.trust)))


class QueryLogExpansion(_ExpansionBase, tag="query-log", kw_only=True):
    """The table is rebuilt from the log after every `interval` visited pages (S4-05); queries move it (S4-26).

    `asked` are the queries of the running interval, as stems; `position` is how much of the log was read. A table
    that a person made in between holds until the interval is over.
    """

    log: QueryLogSmoothing = QueryLogSmoothing()
    interval: int = 100
    size: int | None = None
    weights: QueryLogWeights = QueryLogWeights()
    asked: list[list[str]] = []
    position: int = 0
    waiting: int = 0

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise TopicError(f"interval must be at least 1, not {self.interval}")

    @property
    def is_due(self) -> bool:
        """True when the interval is over: the log may be read on."""
        return self.waiting >= self.interval

    def add_queries(self, queries: Iterable[Sequence[str]], position: int = 0) -> None:
        """Queries that came in, each as its stems; `position` is how far the log was read."""
        self.asked.extend(list(q) for q in queries)
        self.position = position

    def record_visit(self) -> None:
        """Pages only tell the time here."""
        self.waiting += 1

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """What pages say does not matter."""
        del counts, score, background

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table when an interval is over. A log that empties the table leaves the old one in place."""
        del background
        if not self.is_due:
            return table
        self.waiting = 0
        self.weights = self.log.update(self.weights, self.asked)
        self.asked = []
        rebuilt = self.log.table(self.weights, self.size)
        return table.next_version(_keep_labels(table, rebuilt)) if rebuilt.keywords else table


Expansion = FrozenExpansion | PeriodicExpansion | PagewiseExpansion | QueryLogExpansion


def blend_weights(base: dict[str, float], fresh: dict[str, float], chosen: Iterable[str], trust: float) -> WeightTable:
    """(1 − trust)·first weight + trust·weight in the pages, for the first terms and the chosen ones."""
    stems = [*base, *chosen]
    return table_from_weights({s: (1.0 - trust) * base.get(s, 0.0) + trust * fresh.get(s, 0.0) for s in stems})


def _keep_labels(old: WeightTable, new: WeightTable) -> WeightTable:
    shown = {k.stem: k.shown for k in old.keywords}
    return WeightTable(tuple(msgspec.structs.replace(k, shown=shown.get(k.stem, k.shown)) for k in new.keywords))
