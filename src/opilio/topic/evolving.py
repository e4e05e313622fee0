"""The topic's table during a crawl, shared by judge and ranker.

`EvolvingTopic` changes between visits, in the writing process, by the lessons of its `TopicLearner`; workers `restore`
the new table. `TopicTranslations` finds the table's words in pages of other languages.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.events import Event, TopicChanged
from opilio.core.protocols import BaseLearner
from opilio.core.records import Outcome, Page, Reading
from opilio.text.languages import language_code
from opilio.text.term_arrays import Terms, term_array
from opilio.text.word_vectors import WordVectors
from opilio.topic.expansion import Expansion, FrozenExpansion, QueryLogReader, decode_expansion
from opilio.topic.topic import is_other_sense
from opilio.topic.weights import Idf, Keyword, WeightTable, table_from_weights

# Stems whose surface form is kept for display.
MAX_SURFACE_FORMS = 50_000


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
    expansion: msgspec.Raw
    # Stems that the user removed; they are not added again.
    refused: frozenset[str] = frozenset()


class PageLesson(msgspec.Struct, array_like=True):
    """What a judged page teaches; without terms it only counts as a visit."""

    seed: bool
    relevant: bool
    other_sense: bool
    score: float
    counts: Sequence[tuple[str, int]]
    surfaces: Sequence[str]


class EvolvingTopic:
    """A topic's current table and its expansion. `past_tables` are those that it replaced since they were stored.

    `queries` reads the query log of a table that follows one. `banned` are stems that pages never add: a page about
    another sense that is misjudged must not add the words that would identify the next such page (S3-09).
    """

    def __init__(
        self,
        table: WeightTable,
        expansion: Expansion | None = None,
        background: Idf | None = None,
        queries: QueryLogReader | None = None,
        banned: frozenset[str] = frozenset(),
    ) -> None:
        self._table = table
        self._expansion = expansion or FrozenExpansion()
        self._refused: frozenset[str] = frozenset()
        self._background = background
        self._queries = queries
        self._banned = banned
        self._compiled: CompiledTable | None = None
        self._surface_forms: dict[str, str] = {}
        self.past_tables: list[WeightTable] = []

    @property
    def table(self) -> WeightTable:
        """The current table."""
        return self._table

    @property
    def expansion(self) -> Expansion:
        """How the table grows."""
        return self._expansion

    @property
    def version(self) -> int:
        """Grows with every change of the table."""
        return self._table.version

    @property
    def compiled(self) -> CompiledTable:
        """The current table, prepared for matching."""
        if self._compiled is None:
            self._compiled = compile_table(self._table)
        return self._compiled

    def add_visit(self, page: PageLesson) -> None:
        """Learn from a judged page; only new relevant ones add words (S0-21), and seeds (S3-12)."""
        self.expansion.record_visit()
        if page.counts:
            self._record_surfaces(page.counts, page.surfaces)
            self._add_page(page)
        self.grow()

    def _add_page(self, page: PageLesson) -> None:
        counts = {stem: n for stem, n in page.counts if self._is_allowed(stem)}
        if self.expansion.waits_for_seeds and page.seed and not page.other_sense:
            self.expansion.add_seed(counts, page.relevant)
        elif page.relevant:
            self.expansion.add_page(counts, page.score, self._background)
        elif not page.other_sense:
            self.expansion.add_irrelevant_page(counts)

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
        self._refused = (self._refused | gone) - weights.keys()
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
        return _encode_state(self._table, self._expansion, self._refused)

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        stored = msgspec.msgpack.decode(state, type=_EvolvingTopicState)
        self._table, self._refused = stored.table, stored.refused
        self._expansion = decode_expansion(stored.expansion, self._expansion)
        self._compiled = None
        self.past_tables = []

    def _is_allowed(self, stem: str) -> bool:
        return stem not in self._banned and stem not in self._refused

    def _record_surfaces(self, counts: Sequence[tuple[str, int]], surfaces: Sequence[str]) -> None:
        """Store the surface forms of a page's stems, for display of those that join the table (S0-E4)."""
        if len(self._surface_forms) > MAX_SURFACE_FORMS:
            self._surface_forms.clear()
        for (stem, _), word in zip(counts, surfaces, strict=False):
            self._surface_forms[stem] = word

    def _set_table(self, table: WeightTable) -> None:
        if table is not self._table:
            self.past_tables.append(self._table)
            keywords = tuple(k if k.shown else Keyword(k.stem, k.weight, self._label(k.stem)) for k in table.keywords)
            self._table = msgspec.structs.replace(table, keywords=keywords)
            self._compiled = None

    def _label(self, stem: str) -> str:
        """The displayed form of a stem."""
        return self._surface_forms.get(stem, stem)


_FROZEN = FrozenExpansion()


def _encode_state(table: WeightTable, expansion: Expansion = _FROZEN, refused: frozenset[str] = frozenset()) -> bytes:
    return msgspec.msgpack.encode(_EvolvingTopicState(table, msgspec.Raw(msgspec.msgpack.encode(expansion)), refused))


class _Lesson(msgspec.Struct, array_like=True):
    pages: list[PageLesson] = []
    seeds_visited: bool = False


_decode_lesson = msgspec.msgpack.Decoder(_Lesson).decode


class TopicLearner(BaseLearner):
    """The topic's table as a learner: see `Learns`. Past tables are stored, to show the topic's history.

    `agent` is the agent that has this table, for its events.
    """

    saves_every_version = True
    own_pages_only = True

    def __init__(self, topic: EvolvingTopic, agent: str = "") -> None:
        self.topic = topic
        self._agent = agent
        self._reported_version = topic.version

    @property
    def version(self) -> int:
        """That of the table."""
        return self.topic.version

    @property
    def waits_for_seeds(self) -> bool:
        """Whether the table is still to be built from the seeds (S3-12)."""
        return self.topic.expansion.waits_for_seeds

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The judged pages with their terms; empty for a table that never changes."""
        if self.topic.expansion.is_frozen:
            return b""
        pages = [
            PageLesson(
                outcome.lead.depth == 0,
                verdict.relevant,
                is_other_sense(verdict),
                verdict.score,
                analysis.counts,
                analysis.surfaces,
            )
            for outcome in outcomes
            if (analysis := outcome.analysis) and not outcome.duplicate_of and (verdict := analysis.verdict) is not None
        ]
        return msgspec.msgpack.encode(_Lesson(pages)) if pages else b""

    def seeding_lesson(self) -> bytes:
        """That all seeds were visited."""
        return msgspec.msgpack.encode(_Lesson(seeds_visited=True))

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn page by page, so that every version of the table is stored and reported."""
        found = _decode_lesson(lesson) if lesson else _Lesson()
        for page in found.pages:
            self.topic.add_visit(page)
        if found.seeds_visited:
            self.topic.finish_seeding()

    def take_events(self, now: float) -> Sequence[Event]:
        """The new versions of the table."""
        reported, self._reported_version = self._reported_version, self.topic.version
        new = [table for table in (*self.topic.past_tables, self.topic.table) if table.version > reported]
        return [TopicChanged(at=now, version=t.version, added=_added(t), size=len(t), agent=self._agent) for t in new]

    def take_versions(self) -> Sequence[tuple[int, bytes]]:
        """Past tables, without the counts of their expansion, which are large."""
        past, self.topic.past_tables = self.topic.past_tables, []
        return [(table.version, _encode_state(table)) for table in past]

    def snapshot(self) -> bytes:
        return self.topic.snapshot()

    def worker_state(self) -> bytes:
        """Workers need the table only."""
        return _encode_state(self.topic.table)

    def restore(self, state: bytes) -> None:
        self.topic.restore(state)
        self._reported_version = self.topic.version


def _added(table: WeightTable) -> tuple[str, ...]:
    """The words that the version before did not have, as they are displayed."""
    stems = set(table.added)
    return tuple(sorted(keyword.label for keyword in table.keywords if keyword.stem in stems))


def restored_table(state: bytes | None) -> WeightTable:
    """The table in a saved state; an empty one where no state was saved."""
    topic = EvolvingTopic(WeightTable())
    if state is not None:
        topic.restore(bytes(state))
    return topic.table


# Cosine from which a word counts as a translation. Chosen on an encyclopaedia translated to German, confirmed in French
# (docs/lab/meaning.md).
MIN_SIMILARITY = 0.8


class TopicTranslations:
    """Replaces words that mean a word of the topic by that word, in pages of another language than the topic's.

    A page in another language shares few words with the topic. Words with nearly the same vector have nearly the same
    meaning in each of the languages of the shipped table (`text.word_vectors`), so each such word of a page counts as
    the topic's word that it means. Pages in the topic's language are not changed: there a similar word is another word.

    `load` returns the vectors; it is called for the first page in another language.
    """

    def __init__(self, topic: EvolvingTopic, language: str, load: Callable[[], WordVectors]) -> None:
        self._topic = topic
        self._language = language_code(language)
        self._load = load
        self._pairs: tuple[CompiledTable, Terms, Terms] | None = None

    def wrap_reader(self, read: Callable[[Page], Reading]) -> Callable[[Page], Reading]:
        """The reader, with the topic's words in place of those that mean them."""

        def read_translated(page: Page) -> Reading:
            reading = read(page)
            if not self._is_foreign(reading.language):
                return reading
            return msgspec.structs.replace(reading, terms=self.translate(term_array(reading.terms), reading.language))

        return read_translated

    def translate(self, terms: Terms, language: str) -> Terms:
        """The terms of a text in this language, with the topic's word in place of each word that means it."""
        foreign, topical = self._word_pairs() if self._is_foreign(language) else (terms[:0], terms[:0])
        if not foreign.size:
            return terms
        at = np.minimum(foreign.searchsorted(terms), foreign.size - 1)
        return np.where(foreign[at] == terms, topical[at], terms)

    def _is_foreign(self, language: str) -> bool:
        return bool(language) and language != self._language

    def _word_pairs(self) -> tuple[Terms, Terms]:
        """Sorted words of other languages and, for each, the topic's word; cached per table of the topic."""
        table = self._topic.compiled
        if self._pairs is None or self._pairs[0] is not table:
            self._pairs = table, *self._load().nearest_terms(table.terms, MIN_SIMILARITY)
        return self._pairs[1:]
