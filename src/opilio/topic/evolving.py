"""The topic's table during a crawl, shared by judge and ranker.

`EvolvingTopic` changes only between visits, through `learn`, in the writing process. Workers get the same state by
`restore`. It implements `OnlineLearner` for every judge and ranker that uses the table.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.records import Outcome
from opilio.text import term_arrays
from opilio.topic.expansion import Expansion, FrozenExpansion, QueryLogReader
from opilio.topic.topic import is_other_sense
from opilio.topic.weights import Idf, Keyword, WeightTable, table_from_weights

# Stems whose surface form is kept for display.
MAX_SURFACE_FORMS = 50_000

Terms = term_arrays.Terms
term_array = term_arrays.term_array


class CompiledTable:
    """A table prepared for matching: by term, as a mapping and as sorted arrays. `size` is s of S3-18."""

    __slots__ = ("labels", "norm", "size", "terms", "total_weight", "vector", "weights")

    def __init__(self, vector: dict[int, float], labels: dict[int, str], size: int) -> None:
        self.vector = vector
        self.labels = labels
        self.size = size
        self.total_weight = math.fsum(self.vector.values())
        self.norm = math.sqrt(math.fsum(w * w for w in self.vector.values()))
        order = sorted(self.vector)
        self.terms: Terms = np.array(order, dtype=np.uint32)
        self.weights: NDArray[np.float64] = np.array([self.vector[t] for t in order], dtype=np.float64)

    def weigh(self, terms: Terms) -> NDArray[np.float64]:
        """The weight of each term, 0 for terms outside the table."""
        if not self.terms.size:
            return np.zeros(terms.shape)
        at = np.minimum(np.searchsorted(self.terms, terms), self.terms.size - 1)
        return np.where(self.terms[at] == terms, self.weights[at], 0.0)


# Cosines over the words of a table fall with its size. The best threshold of S0's page score, from 10 to 300 words:
# .57 to .34 on university pages, .62 to .48 in an encyclopaedia (docs/papers/s0.md).
SIZE_EXPONENT = 0.1


def sized_threshold(threshold: float, meant_for: int, size: int) -> float:
    """A threshold that is meant for tables of `meant_for` words, for one of another size; 0: it holds for any size.

    The order of scores does not change, so that an equation stays as its paper prints it.

    >>> round(sized_threshold(0.4, 300, 10), 2), sized_threshold(0.4, 300, 300), sized_threshold(0.4, 0, 10)
    (0.56, 0.4, 0.4)
    """
    return threshold * (meant_for / size) ** SIZE_EXPONENT if meant_for and size else threshold


def compile_table(table: WeightTable) -> CompiledTable:
    """Prepare a table for matching."""
    return CompiledTable(table.vector, table.labels, len(table))


class _EvolvingTopicState(msgspec.Struct):
    table: WeightTable
    expansion: Expansion
    refused: frozenset[str] = frozenset()  # stems that the user removed; they are not added again


class EvolvingTopic:
    """A topic's current table and its expansion. `queries` reads the query log of a table that follows one.

    `banned` are stems that pages never add: a page about another sense that is misjudged must not add the words that
    would identify the next such page (S3-09).
    """

    def __init__(
        self,
        table: WeightTable,
        expansion: Expansion | None = None,
        background: Idf | None = None,
        queries: QueryLogReader | None = None,
        banned: frozenset[str] = frozenset(),
    ) -> None:
        self._state = _EvolvingTopicState(table, expansion or FrozenExpansion())
        self._background = background
        self._queries = queries
        self._banned = banned
        self._compiled: CompiledTable | None = None
        self._surface_forms: dict[str, str] = {}

    @property
    def table(self) -> WeightTable:
        """The current table."""
        return self._state.table

    @property
    def expansion(self) -> Expansion:
        """How the table grows."""
        return self._state.expansion

    @property
    def version(self) -> int:
        """Grows with every change of the table."""
        return self._state.table.version

    @property
    def compiled(self) -> CompiledTable:
        """The current table, prepared for matching."""
        if self._compiled is None:
            self._compiled = compile_table(self._state.table)
        return self._compiled

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from visits; only new relevant pages add words (S0-21), and seeds (S3-12)."""
        for outcome in outcomes:
            analysis = outcome.analysis
            verdict = analysis.verdict if analysis and not outcome.duplicate_of else None
            if verdict is not None:
                self.expansion.record_visit()
            if analysis and verdict and analysis.counts:
                self._record_surfaces(analysis.counts, analysis.surfaces)
                counts = {stem: n for stem, n in analysis.counts if self._is_allowed(stem)}
                if self.expansion.waits_for_seeds and outcome.lead.depth == 0 and not is_other_sense(verdict):
                    self.expansion.add_seed(counts, verdict.relevant)
                elif verdict.relevant:
                    self.expansion.add_page(counts, verdict.score, self._background)
                elif not is_other_sense(verdict):
                    self.expansion.add_irrelevant_page(counts)
            self.grow()

    def grow(self) -> None:
        """Switch to the next table if one is due."""
        expansion = self.expansion
        if self._queries:
            self._surface_forms |= expansion.read_log(self._queries)
        self._set_table(expansion.next_table(self.table, self._background))

    def finish_seeding(self) -> None:
        """All seeds were visited: build a table that waits for them (S3-12)."""
        self._set_table(self.expansion.after_seeding(self.table, self._background))

    def replace(self, table: WeightTable, removed: Iterable[str] | None = None) -> None:
        """Continue with a table that the user edited.

        `removed` are the stems that the user removed, which stay out; by default those that the new table lacks.
        """
        weights = table.weights
        gone = frozenset(self.table.weights if removed is None else removed) - weights.keys()
        self._state.refused = (self._state.refused | gone) - weights.keys()
        self.expansion.rebase(weights, gone)
        self._set_table(self.table.next_version(table))

    def merge_words(self, other: WeightTable, limit: int = 10) -> int:
        """Add the heaviest new words of another table at half their weight (S3-F3); returns their number."""
        known = self.table.weights
        new = {k.stem: k.weight / 2 for k in other.keywords if k.stem not in known and self._is_allowed(k.stem)}
        new = dict(islice(new.items(), limit))
        if new:
            self.expansion.merge_words(new)
            shown = {k.stem: k.shown for k in (*other.keywords, *self.table.keywords)}
            self._set_table(self.table.next_version(table_from_weights(known | new, shown=shown)))
        return len(new)

    def snapshot(self) -> bytes:
        """The encoded table and expansion."""
        return msgspec.msgpack.encode(self._state)

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        self._state = msgspec.msgpack.decode(state, type=_EvolvingTopicState)
        self._compiled = None

    def _is_allowed(self, stem: str) -> bool:
        return stem not in self._banned and stem not in self._state.refused

    def _record_surfaces(self, counts: Sequence[tuple[str, int]], surfaces: Sequence[str]) -> None:
        """Store the surface forms of a page's stems, for display of those that join the table (S0-E4)."""
        if len(self._surface_forms) > MAX_SURFACE_FORMS:
            self._surface_forms.clear()
        for (stem, _), word in zip(counts, surfaces, strict=False):
            self._surface_forms[stem] = word

    def _set_table(self, table: WeightTable) -> None:
        if table is not self._state.table:
            keywords = tuple(k if k.shown else Keyword(k.stem, k.weight, self._label(k.stem)) for k in table.keywords)
            self._state.table = msgspec.structs.replace(table, keywords=keywords)
            self._compiled = None

    def _label(self, stem: str) -> str:
        """The displayed form of a stem."""
        return self._surface_forms.get(stem, stem)


def restored_table(state: bytes | None) -> WeightTable:
    """The table in a saved state; an empty one where no state was saved."""
    topic = EvolvingTopic(WeightTable())
    if state is not None:
        topic.restore(bytes(state))
    return topic.table
