"""How the topic's table grows during a crawl: S0-21 (periods), S3-15 (page by page), S4-05 (the query log).

Each expansion is a state that records visits, receives the stems of relevant pages and computes the next table. States
are msgspec records, so they survive a restart. `EvolvingTopic` makes sure that irrelevant pages never feed them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from opilio.core.errors import TopicError
from opilio.core.settings import Amount, Count, Positive, Share
from opilio.topic.weights import (
    Counts,
    Idf,
    NoiseFilter,
    QueryLogSmoothing,
    QueryLogWeights,
    TermStatistics,
    TfDf,
    TfIdf,
    WeightScheme,
    WeightTable,
    normalize_weights,
    table_from_weights,
)

# Reads a query log from a position: the queries as stems, the position it ends at, and the surface forms of the stems.
QueryLogReader = Callable[[int], tuple[list[list[str]], int, dict[str, str]]]
SMOOTHING_PAGES = 2
# The share of pages in a table that no seed could be used for.
UNSEEDED_TRUST = 0.5


@dataclass(frozen=True, slots=True)
class ExpansionStart:
    """The initial state of an expansion: the weights of the first table, the number of seeds, and their origin.

    `searched`: search engines are asked for the seeds, so all of them match the topic.
    """

    weights: Mapping[str, float]
    seed_count: int = 0
    searched: bool = False


def _bounded_statistics() -> TermStatistics:
    # Stored with every snapshot: about 150 KB.
    return TermStatistics(limit=5_000)


class Expansion(msgspec.Struct, tag=True):
    """Base class of expansions, also of those in plug-ins: the table never changes. The fields are the stored state."""

    @property
    def is_frozen(self) -> bool:
        """True if no page will ever change the table."""
        return False

    @property
    def waits_for_seeds(self) -> bool:
        """True if the table is still to be built from the seed pages."""
        return False

    def record_visit(self) -> None:
        """Record a visit, relevant or not."""

    def start_from_log(self) -> bool:
        """Prepare a first table from the query log (S4-03); False if the expansion reads none."""
        return False

    def read_log(self, read: QueryLogReader) -> dict[str, str]:
        """Read the query log further, if it is due; returns the surface forms of new stems."""
        del read
        return {}

    def add_seed(self, counts: Counts, relevant: bool) -> None:
        """Add a visited seed while the table waits for the seeds."""
        del counts, relevant

    def add_irrelevant_page(self, counts: Counts) -> None:
        """Add a visited page that is not relevant: it can show which words are filler, and adds none."""
        del counts

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Add a new relevant page."""
        del counts, score, background

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table if one is due, otherwise the same."""
        del background
        return table

    def after_seeding(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table after all reachable seeds were visited."""
        del background
        return table

    def merge_words(self, weights: Mapping[str, float]) -> None:
        """Add words that another agent found to the next table."""
        del weights

    def rebase(self, weights: Mapping[str, float], without: Iterable[str]) -> None:
        """Continue from a table that the user edited, without the stems that the user removed."""
        del weights, without


class FrozenExpansion(Expansion, tag="frozen"):
    """The table never changes (the frozen-table switch of S0-21; S3-14; S4-26)."""

    @property
    def is_frozen(self) -> bool:
        """True: nothing changes the table."""
        return True


class _GrowingExpansion(Expansion, kw_only=True):
    """A first table, the pages that terms are chosen from, and the stems chosen so far, in order."""

    base: dict[str, float]
    pages: TermStatistics = msgspec.field(default_factory=_bounded_statistics)
    chosen: list[str] = []

    def merge_words(self, weights: Mapping[str, float]) -> None:
        """Add them to the first table."""
        self.base = {**weights, **self.base}

    def rebase(self, weights: Mapping[str, float], without: Iterable[str]) -> None:
        """Make them the first table."""
        self.base, self.chosen = dict(weights), []
        self.pages.forget(without)


class PeriodicExpansion(_GrowingExpansion, tag="periodic", kw_only=True):
    """After every `period` relevant pages, add the `added` best new terms and recompute all weights (S0-21).

    In a table of `size` terms the new ones replace the weakest, which may be terms of the first table. The paper gives
    neither period nor number (S0-E8). `trust` is the part of a weight that comes from the pages; the rest stays with
    the first table, so that a misjudged page can't shift the topic permanently.
    """

    period: int = 50
    added: int = 10
    size: int = 100
    trust: float = 0.5
    min_score: float = 0.0
    weighing: TfIdf = TfIdf()
    waiting: int = 0

    def __post_init__(self) -> None:
        if self.period < 1 or not 0.0 <= self.trust <= 1.0:
            raise TopicError(f"period must be at least 1 and trust within 0..1, not {self.period} and {self.trust}")

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Add one relevant page."""
        del background
        if score >= self.min_score:
            self.pages.add(counts)
            self.waiting += 1

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table, if a period is complete."""
        if self.waiting < self.period:
            return table
        self.waiting = 0
        fresh = normalize_weights(self.weighing.weigh(self.pages, background))
        known = self.base.keys() | set(self.chosen)
        candidates = [*self.chosen, *[s for s in fresh if s not in known][: self.added]]
        blended = blend_weights(self.base, fresh, candidates, self.trust).top(max(self.size, len(self.base)))
        kept = blended.weights
        self.chosen = [stem for stem in candidates if stem in kept]
        return table.next_version(_keep_labels(table, blended))


class PagewiseExpansion(_GrowingExpansion, tag="pagewise", kw_only=True):
    """Pages of relevance ≥ `threshold` (T_r) add the `share` of their heaviest keywords (S3-15).

    A page's keywords are its `keywords` heaviest stems; weights are those of the online tf·idf over all pages so far
    (S3-11), blended with the first table by `trust`. If seeds are `awaited`, the table is first built when they have
    been visited (S3-12): with a `trust` of 1 it consists of their `built` heaviest stems, as in the paper; with less,
    these join the user's words. The paper's seeds are results of a search, and all of them count. Seeds that the user
    gave (`searched` is false) may be home pages or portals: the relevant ones count, and without any the user's words
    stay. A share of 0 then is the static table (S3-14; with `TfDf` that of S4-02). Terms are chosen page by page, but
    weights are recomputed only every `period` pages (the paper: every page), because every new table is written to disk
    and sent to the workers.

    Every visited page updates the document frequencies (S3-11): a term that is as frequent in irrelevant pages as in
    those of the table is filler and loses its weight (S3-E8).
    """

    threshold: float = 0.6
    share: float = 0.5
    keywords: int = 10
    size: int = 200
    trust: float = 0.5
    built: int = 50
    period: int = 10
    weighing: WeightScheme = TfIdf()
    waiting: int = 0
    # Number of seeds that the table is built from; 0: it does not wait for seeds.
    awaited: int = 0
    searched: bool = True
    # Irrelevant pages, and how many of them contain each term of the others.
    irrelevant: int = 0
    containing_irrelevant: dict[str, int] = {}

    def __post_init__(self) -> None:
        if not (0.0 <= self.threshold <= 1.0 and 0.0 <= self.share <= 1.0):
            raise TopicError(f"threshold and share must lie within 0..1, not {self.threshold} and {self.share}")

    @property
    def waits_for_seeds(self) -> bool:
        """The frontier knows which seeds are still to be visited; a count here could get lost."""
        return self.awaited > 0

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Add one relevant page, if it is relevant enough. Before the table is built only seeds are added."""
        if self.waits_for_seeds or score < self.threshold or not self.share:
            return
        self.pages.add(counts)
        self.waiting += 1
        page = self._page_statistics(counts)
        known = self.base.keys() | set(self.chosen)
        top = table_from_weights(self.weighing.weigh(page, background), round(self.keywords * self.share)).weights
        # S3-E8: a word of one page alone may be its boilerplate; it can join with the next page that has it.
        found, allows = self.pages, self.weighing.noise.allows
        top = {stem: weight for stem, weight in top.items() if allows(stem, found.containing[stem], found.documents)}
        room = self.size - len(known)
        self.chosen.extend([s for s in top if s not in known][: max(0, room)])

    def add_seed(self, counts: Counts, relevant: bool) -> None:
        """Add a seed that the table is built from (S3-12)."""
        if relevant or self.searched:
            self.pages.add(counts)

    def add_irrelevant_page(self, counts: Counts) -> None:
        """Count the terms of a page off the topic; a static table stays as it is."""
        if self.waits_for_seeds or not self.share:
            return
        self.irrelevant += 1
        self.waiting += 1
        found, known = self.containing_irrelevant, self.pages.containing
        for stem in counts:
            if stem in known:
                found[stem] = found.get(stem, 0) + 1
        if len(found) > 2 * self.pages.limit:
            self.containing_irrelevant = {stem: n for stem, n in found.items() if stem in known}

    def _page_statistics(self, counts: Counts) -> TermStatistics:
        """The page's own TF; for an idf that grows, with the document frequencies of all pages so far (S3-11)."""
        page = TermStatistics()
        page.add(counts)
        if isinstance(self.weighing, TfIdf) and self.weighing.idf_source == "smooth":
            page.documents = self.pages.documents
            page.containing = {stem: self.pages.containing.get(stem, 1) for stem in page.shares}
        return page

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table, if enough pages were added."""
        if self.waits_for_seeds or self.waiting < self.period or not self.pages.documents:
            return table
        self.waiting = 0
        fresh = normalize_weights(self._weights(background))
        return table.next_version(_keep_labels(table, blend_weights(self.base, fresh, self.chosen, self.trust)))

    def _weights(self, background: Idf | None) -> dict[str, float]:
        """The weights of all terms so far, lowered for those that irrelevant pages have too."""
        on_topic, pages = self.pages.containing, self.pages.documents
        # With few irrelevant pages their shares are lowered, so that one of them does not decide.
        others = self.irrelevant + SMOOTHING_PAGES
        ratios = {
            stem: n / others * pages / on_topic[stem]
            for stem, n in self.containing_irrelevant.items()
            if stem in on_topic
        }
        weights = self.weighing.weigh(self.pages, background)
        return {stem: weight * max(0.0, 1.0 - ratios.get(stem, 0.0)) for stem, weight in weights.items()}

    def after_seeding(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The table built from the seed pages."""
        if not self.waits_for_seeds:
            return table
        self.awaited = 0
        fresh = normalize_weights(self.weighing.weigh(self.pages, background))
        seen = dict(list(fresh.items())[: self.built])
        if not seen:
            # No seed could be read, or none is on the topic: the user's words are all that describes it.
            self.trust = min(self.trust, UNSEEDED_TRUST)
            return table
        given = self.base if self.trust < 1.0 else {}
        self.base = {stem: max(seen.get(stem, 0.0), given.get(stem, 0.0)) for stem in given | seen}
        return table.next_version(_keep_labels(table, blend_weights(self.base, fresh, self.chosen, self.trust)))


class QueryLogExpansion(Expansion, tag="query-log", kw_only=True):
    """The table is rebuilt from the query log after every `interval` visited pages (S4-05, S4-26).

    `asked` are the queries of the current interval, as stems; `position` is how far the log was read. A table that the
    user edited is used until the end of the interval. Besides stop words, common terms are dropped (step 3 of S4-06):
    those with an idf below `min_idf` in the background corpus, except the `given` ones, which the user named.
    """

    log: QueryLogSmoothing = QueryLogSmoothing()
    interval: int = 100
    size: int | None = None
    min_idf: float = 0.0
    given: frozenset[str] = frozenset()
    weights: QueryLogWeights = QueryLogWeights()
    asked: list[list[str]] = []
    position: int = 0
    waiting: int = 0

    def __post_init__(self) -> None:
        if self.interval < 1:
            raise TopicError(f"interval must be at least 1, not {self.interval}")

    @property
    def is_due(self) -> bool:
        """True at the end of the interval, when the log may be read further."""
        return self.waiting >= self.interval

    def add_queries(self, queries: Iterable[Sequence[str]], position: int = 0) -> None:
        """Add queries, each as its stems; `position` is how far the log was read."""
        self.asked.extend(list(q) for q in queries)
        self.position = position

    def start_from_log(self) -> bool:
        """The log so far is the first interval."""
        self.waiting = self.interval
        return True

    def read_log(self, read: QueryLogReader) -> dict[str, str]:
        """At the end of an interval."""
        if not self.is_due:
            return {}
        queries, position, shown = read(self.position)
        self.add_queries(queries, position)
        return shown

    def record_visit(self) -> None:
        """Visits only measure the interval."""
        self.waiting += 1

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        """Pages are ignored."""
        del counts, score, background

    def next_table(self, table: WeightTable, background: Idf | None = None) -> WeightTable:
        """The next table at the end of an interval. If the log gives an empty table, the old one stays."""
        if not self.is_due:
            return table
        self.waiting = 0
        self.weights = self.log.update(self.weights, self.asked)
        self.asked = []
        found = self.log.keywords(self.weights)
        if self.min_idf and background is not None:
            found = {s: w for s, w in found.items() if s in self.given or background(s) >= self.min_idf}
        rebuilt = table_from_weights(found, self.size)
        return table.next_version(_keep_labels(table, rebuilt)) if rebuilt.keywords else table


_BUILTIN = FrozenExpansion | PeriodicExpansion | PagewiseExpansion | QueryLogExpansion
_BUILTIN_TAGS = {kind.__struct_config__.tag for kind in get_args(_BUILTIN)}


class _StoredTag(msgspec.Struct):
    type: str


def decode_expansion(state: bytes | msgspec.Raw, expected: Expansion) -> Expansion:
    """A stored expansion of Opilio, or of the type of `expected`.

    That of a plug-in which is not expected is frozen: then only the table is displayed.
    """
    tag = msgspec.msgpack.decode(state, type=_StoredTag).type
    if tag in _BUILTIN_TAGS:
        builtin: Expansion = msgspec.msgpack.decode(state, type=_BUILTIN)
        return builtin
    own = type(expected)
    return msgspec.msgpack.decode(state, type=own) if own.__struct_config__.tag == tag else FrozenExpansion()


def blend_weights(base: dict[str, float], fresh: dict[str, float], chosen: Iterable[str], trust: float) -> WeightTable:
    """(1 − trust)·first weight + trust·weight in the pages, for the first terms and the chosen ones."""
    stems = [*base, *chosen]
    return table_from_weights({s: (1.0 - trust) * base.get(s, 0.0) + trust * fresh.get(s, 0.0) for s in stems})


def _keep_labels(old: WeightTable, new: WeightTable) -> WeightTable:
    shown = {k.stem: k.shown for k in old.keywords}
    return WeightTable(tuple(msgspec.structs.replace(k, shown=shown.get(k.stem, k.shown)) for k in new.keywords))


def no_expansion(_: ExpansionStart) -> Expansion:
    return FrozenExpansion()


def periodic_expansion(
    start: ExpansionStart, *, period: Positive = 50, added: Count = 10, size: Count = 100, trust: Share = 0.5
) -> Expansion:
    return PeriodicExpansion(base=dict(start.weights), period=period, added=added, size=size, trust=trust)


def pagewise_expansion(
    start: ExpansionStart,
    *,
    threshold: Share = 0.6,
    share: Share = 0.5,
    keywords: Positive = 10,
    size: Count = 200,
    period: Positive = 10,
    from_seeds: bool = False,
    built: Count = 50,
    trust: Share = 0.5,
    weighing: Literal["tf-idf", "tf-df"] = "tf-idf",
    min_documents: Positive = 2,
    min_idf: Amount = 0.0,
    idf: Literal["background", "online"] = "background",
) -> Expansion:
    noise = NoiseFilter(min_documents=min_documents, min_idf=min_idf)
    tf_idf = TfIdf(noise=noise, idf_source="smooth" if idf == "online" else "background")
    by: WeightScheme = TfDf(noise=noise) if weighing == "tf-df" else tf_idf
    return PagewiseExpansion(
        base=dict(start.weights),
        threshold=threshold,
        share=share,
        keywords=keywords,
        size=size,
        period=period,
        awaited=start.seed_count if from_seeds else 0,
        searched=start.searched,
        built=built,
        trust=trust,
        weighing=by,
    )


_QUERY_LOG_DEFAULTS = QueryLogSmoothing()


def query_log_expansion(
    start: ExpansionStart,
    *,
    log: str = "",
    interval: Positive = 100,
    memory: Share = _QUERY_LOG_DEFAULTS.memory,
    threshold: Amount = _QUERY_LOG_DEFAULTS.threshold,
    relative: bool = _QUERY_LOG_DEFAULTS.relative,
    size: Positive = 50,
    min_idf: Amount = 0.0,
    per_interval: Count = 0,
) -> Expansion:
    # The query log is read by engine.wiring.topic: an expansion touches no file.
    del log, per_interval
    smoothing = QueryLogSmoothing(memory=memory, threshold=threshold, relative=relative)
    given = frozenset(start.weights)
    return QueryLogExpansion(log=smoothing, interval=interval, size=size, min_idf=min_idf, given=given)
