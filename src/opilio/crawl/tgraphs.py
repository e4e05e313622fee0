"""T-Graphs on disk: read for a crawl to begin with, built from pages as a crawl would read them, found in collections.

What a graph is and how it grows is `tgraph`'s business; where pages and back-links come from is the caller's.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from pathlib import Path

import msgspec
import numpy as np

from opilio.crawl.config import Settings, Tree
from opilio.crawl.topics import background, reader_of, vocabulary_of
from opilio.judge.pagewords import PageWords
from opilio.judge.rarity import CachedIdf
from opilio.model.errors import ConfigError, UsageError
from opilio.model.records import Page, Reading
from opilio.store.collection import reading
from opilio.text.vocabulary import Vocabulary
from opilio.tgraph.build import build
from opilio.tgraph.file import decode
from opilio.tgraph.graph import TGraph
from opilio.tgraph.layers import Bounds, Layers
from opilio.tgraph.watchdog import State
from opilio.topic.wordnet import WordNet

DOCUMENT_WORDS = 100  # telling words kept of a page: the context graph (S2-46) takes forty that its vocabulary has
RANK = "rank"  # the ranker's name among the snapshots
HINTS = "hints"  # the committee's members that begin with a graph
ReadPage = Callable[[Page], Reading]
Reads = Callable[[Settings, Vocabulary], ReadPage]
TELLING = 100  # terms by which a page is compared with the targets


def read_graph(path: Path, option: str = "") -> TGraph:
    """The T-Graph in a file; ConfigError in one line where it can't be used."""
    source = f"{option} {path}".strip()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{source}: can't be read: {error.strerror}; 'opilio tgraph build' makes one") from error
    return decode(data, source)


def first_graph(settings: Settings) -> dict[str, bytes]:
    """The first state of whatever begins with a T-Graph; none where the settings name no file."""
    name, learner = str(settings.rank.get("graph", "")), begins_with_graph(settings)
    _check_options(settings.rank)
    if name and not learner:
        raise ConfigError(
            f"rank.graph {name}: nobody looks at it; set rank.hints=true, or choose --strategy s2-treasure"
        )
    if not name:
        return {}
    graph = read_graph(Path(name), "rank.graph")
    if settings.rank["kind"] == "context-graph" and not graph.documents:
        raise ConfigError(f"rank.graph {name}: has no documents, by which pages are told apart; build it again")
    return {learner: state_of(graph)}


def begins_with_graph(settings: Settings) -> str:
    """The name of what begins with a T-Graph: the ranker, members of the committee, or nobody."""
    kind = settings.rank.get("kind")
    if kind in ("tgraph", "context-graph"):
        return RANK
    return HINTS if kind == "committee" and settings.rank.get("hints") else ""


def _check_options(options: Tree) -> None:
    """Find out what makes no sense before a folder is made."""
    for key in ("threshold", "unrelated", "least"):
        if not 0.0 <= options.get(key, 0.0) <= 1.0:
            raise ConfigError(f"rank.{key}: must be between 0 and 1, not {options[key]}")
    if options.get("thesaurus"):
        WordNet.find()
    for key, lowest in (("depth", 1), ("max_length", 1), ("per_level", 1), ("watchdog", 0)):
        if options.get(key, lowest) < lowest:
            raise ConfigError(f"rank.{key}: must be at least {lowest}, not {options[key]}")
    if options.get("weights") == "fitted" and not options["watchdog"]:
        raise ConfigError('rank.weights = "fitted": with rank.watchdog = 0 nothing is learnt; give it 1 or more')


def state_of(graph: TGraph) -> bytes:
    """A graph as the state that rankers begin from."""
    return msgspec.msgpack.encode(State(nodes=list(graph.nodes.values()), documents=list(graph.documents)))


def stored_graph(folder: Path) -> tuple[TGraph, int]:
    """The graph of a collection as its watchdog left it, with its version."""
    with reading(folder) as collection:
        row = collection.connection.execute(
            "SELECT state, version FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (RANK,)
        ).fetchone()
    try:
        state = msgspec.msgpack.decode(bytes(row[0]), type=State) if row else None
    except msgspec.DecodeError:
        state = None
    if state is None:
        raise UsageError(f"{folder}: holds no T-Graph; one that '--strategy s2-treasure' crawled does")
    return TGraph(state.nodes, state.documents), int(row[1])


class Maker:
    """Reads pages and makes graphs of them, with the words of one language."""

    def __init__(self, read: ReadPage, vocabulary: Vocabulary, page_of: Callable[[str], Page | None]) -> None:
        self._read = read
        self._vocabulary = vocabulary
        self._page_of = page_of
        self._words = PageWords(vocabulary.terms, CachedIdf(background().__getitem__), weights="tfidf")

    def read(self, url: str) -> Reading | None:
        """A page as a crawl would read it."""
        page = self._page_of(url)
        return None if page is None else self._read(page)

    def make(self, layers: Layers, bounds: Bounds) -> TGraph:
        """The graph of pages in layers."""
        return build(layers, self.read, self.words, bounds, self._counted)

    def nearness(self, targets: Sequence[str]) -> Callable[[str], float]:
        """How like the targets a page is: cosine of its tf·idf with theirs together."""
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
        """The most telling terms of a page as a unit vector."""
        page = self.read(url)
        if page is None:
            return {}
        terms, weights = self._words.weigh(page)
        best = np.argsort(-weights, kind="stable")[:TELLING]
        length = float(np.sqrt((weights[best] ** 2).sum())) or 1.0
        return dict(zip(terms[best].tolist(), (weights[best] / length).tolist(), strict=True))

    def words(self, terms: Sequence[int]) -> str:
        """Terms as words of which the same terms are made again."""
        return self._vocabulary.text_of(terms)

    def _counted(self, page: Reading) -> dict[str, int]:
        """The telling words of a page with their counts: highest tf·idf first."""
        terms, counts = self._words.counts(page)
        best = np.argsort(-counts * self._words.idf(terms), kind="stable")[:DOCUMENT_WORDS]
        named = [(self._vocabulary.surface_of(int(terms[i])), int(counts[i])) for i in best]
        return {word: count for word, count in named if word}


def maker_for(settings: Settings, page_of: Callable[[str], Page | None], reads: Reads | None = None) -> Maker:
    """What makes graphs as a crawl with these settings would read the pages; `reads` looks words up instead."""
    vocabulary = vocabulary_of(settings)
    read = reads(settings, vocabulary) if reads else reader_of(settings, vocabulary).read
    return Maker(read, vocabulary, page_of)
