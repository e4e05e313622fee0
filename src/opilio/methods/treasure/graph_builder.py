"""T-Graphs in files and collections, and the builder that makes them from pages.

Pages are read as a crawl with the same settings would read them; the caller finds the pages and their back-links.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np

from opilio.core.errors import ConfigError, UsageError
from opilio.core.page import Page, Reading
from opilio.core.protocols import RANK_STATE
from opilio.core.settings import Settings
from opilio.methods.dewey.detect import LexiconMatcher, main_galaxy
from opilio.methods.dewey.target import load_lexicon
from opilio.methods.treasure.build import GraphLimits, Layers, build_graph
from opilio.methods.treasure.graph import TGraph, decode_graph
from opilio.methods.treasure.hints import HINTS_STATE
from opilio.methods.treasure.updater import GraphState
from opilio.store.collection import open_readonly
from opilio.store.run_tables import latest_snapshot
from opilio.text.vocabulary import Vocabulary
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, build_reader, build_vocabulary

# Distinctive words of a page that a graph keeps; the context graph (S2-46) uses forty of them.
MAX_DOCUMENT_WORDS = 100
ReadPage = Callable[[Page], Reading]
ReaderFactory = Callable[[Settings, Vocabulary], ReadPage]
# Terms by which a page is compared with the targets.
MAX_DISTINCTIVE_TERMS = 100
MAX_NODE_CLASSES = 3


def read_graph(path: Path, option: str = "") -> TGraph:
    """The T-Graph in a file; ConfigError in one line where it can't be used."""
    source = f"{option} {path}".strip()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{source}: can't be read: {error.strerror}; 'opilio lab tgraph build' makes one") from error
    return decode_graph(data, source)


def graph_state_name(settings: Settings) -> str:
    """The state that holds the T-Graph: of the ranker, of the committee's members, or none."""
    kind = settings.rank.get("kind")
    if kind in ("tgraph", "context-graph"):
        return RANK_STATE
    return HINTS_STATE if kind == "committee" and settings.rank.get("hints") else ""


def encode_graph_state(graph: TGraph) -> bytes:
    """A graph as the state that rankers begin from."""
    return msgspec.msgpack.encode(GraphState(nodes=list(graph.nodes.values()), documents=list(graph.documents)))


def load_collection_graph(folder: Path) -> tuple[TGraph, int]:
    """The graph of a collection as its updater left it, with its version."""
    with open_readonly(folder) as collection:
        snapshot = latest_snapshot(collection.connection, RANK_STATE)
    try:
        state = msgspec.msgpack.decode(snapshot.state, type=GraphState) if snapshot else None
    except msgspec.DecodeError:
        state = None
    if snapshot is None or state is None:
        raise UsageError(f"{folder}: holds no T-Graph; one that '--strategy s2-treasure' crawled does")
    return TGraph(state.nodes, state.documents), snapshot.version


class GraphBuilder:
    """Reads pages and builds graphs from them, with the vocabulary of one language."""

    def __init__(self, read: ReadPage, matcher: LexiconMatcher, page_of: Callable[[str], Page | None]) -> None:
        vocabulary = matcher.vocabulary
        self._read = read
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._page_of = page_of
        self._words = PageTerms(vocabulary.terms, CachedIdf(background_frequencies().__getitem__), weights="tfidf")

    def read(self, url: str) -> Reading | None:
        """A page as a crawl would read it."""
        page = self._page_of(url)
        return None if page is None else self._read(page)

    def build(self, layers: Layers, bounds: GraphLimits) -> TGraph:
        """The graph of pages in layers."""
        return build_graph(layers, self.read, self.words, bounds, self._distinctive_words, self._classes)

    def similarity_to(self, targets: Sequence[str]) -> Callable[[str], float]:
        """How similar a page is to the targets: cosine of its tf·idf with their sum."""
        together: Counter[int] = Counter()
        for url in targets:
            together.update(self._weights(url))

        @cache
        def near(url: str) -> float:
            mine = self._weights(url)
            lengths = sqrt(sum(w * w for w in mine.values()) * sum(w * w for w in together.values()))
            return sum(w * together[term] for term, w in mine.items()) / lengths if lengths else 0.0

        return near

    def _weights(self, url: str) -> dict[int, float]:
        """The most distinctive terms of a page as a unit vector."""
        page = self.read(url)
        if page is None:
            return {}
        terms, weights = self._words.weighted_terms(page)
        best = np.argsort(-weights, kind="stable")[:MAX_DISTINCTIVE_TERMS]
        length = float(np.sqrt((weights[best] ** 2).sum())) or 1.0
        return dict(zip(terms[best].tolist(), (weights[best] / length).tolist(), strict=True))

    def terms(self, text: str) -> Sequence[int]:
        """The terms of a text."""
        return self._vocabulary.terms(text)

    def words(self, terms: Sequence[int]) -> str:
        """Terms as words that give the same terms again."""
        return self._vocabulary.text_of(terms)

    def _classes(self, page: Reading) -> tuple[str, ...]:
        return tuple(cell.code for cell in main_galaxy(page, self._matcher).ranked[:MAX_NODE_CLASSES])

    def _distinctive_words(self, page: Reading) -> dict[str, int]:
        """The most distinctive words of a page with their counts: highest tf·idf first."""
        terms, counts = self._words.counts(page)
        best = np.argsort(-counts * self._words.idf(terms), kind="stable")[:MAX_DOCUMENT_WORDS]
        named = [(self._vocabulary.surface_of(int(terms[i])), int(counts[i])) for i in best]
        return {word: count for word, count in named if word}


def build_graph_builder(
    settings: Settings, page_of: Callable[[str], Page | None], reads: ReaderFactory | None = None
) -> GraphBuilder:
    """A builder that reads pages as a crawl with these settings would; `reads` replaces the page reader."""
    vocabulary = build_vocabulary(settings)
    read = reads(settings, vocabulary) if reads else build_reader(settings, vocabulary).read
    return GraphBuilder(read, LexiconMatcher(load_lexicon(settings), vocabulary, background_frequencies()), page_of)
