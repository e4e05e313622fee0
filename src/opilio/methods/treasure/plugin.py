"""The ranker kinds `tgraph` (S2; its defaults are those of Table 5, S2-37) and `context-graph` with their options.

T-Graphs on disk: read for a crawl to begin with, built from pages as a crawl would read them, found in collections.

What a graph is and how it grows is `tgraph`'s business; where pages and back-links come from is the caller's.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import sqrt
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from opilio.core.errors import ConfigError, UsageError
from opilio.core.learner import RANK_STATE
from opilio.core.records import Page, Reading
from opilio.core.settings import Amount, Count, Positive, Settings, Share, Tree
from opilio.methods.dewey.judge import WEIGHTING_RULES, DeweyWeighting
from opilio.methods.dewey.target import dewey_target
from opilio.methods.treasure.build import GraphLimits, Layers, build_graph
from opilio.methods.treasure.context_graph import ContextGraphRanker, TermArray, ValueArray
from opilio.methods.treasure.focus import GalaxyMember, LinkFocusDetector
from opilio.methods.treasure.graph import TGraph, decode_graph
from opilio.methods.treasure.hints import GraphHints
from opilio.methods.treasure.matching import MatchingOptions, PriorityRule
from opilio.methods.treasure.ranker import TextFunctions, TreasureRanker
from opilio.methods.treasure.updater import GraphState, GraphUpdater, GraphUpdaterOptions
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.store.collection import open_readonly
from opilio.text.vocabulary import Vocabulary
from opilio.topic.build_context import BuildContext
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, build_reader, build_vocabulary
from opilio.topic.wordnet import WordNet


def tgraph_ranker(
    context: BuildContext,
    *,
    graph: str = "",
    depth: Positive = 3,
    threshold: Share = 0.05,
    unrelated: Share = 0.01,
    anchor_impact: Amount = 1.4,
    max_length: Positive = 3,
    focus: Literal["dewey", "any"] = "dewey",
    weighing: DeweyWeighting = "paper",
    priority: PriorityRule = "least",
    next_step: bool = False,
    skip_empty: bool = False,
    weights: Literal["equal", "fitted"] = "equal",
    thesaurus: bool = False,
    watchdog: Count = 20,
    per_level: Positive = 500,
    tunnel_depth: int = -1,
) -> TreasureRanker:
    """S2's ranker, still without a graph: `tgraph_start_states` reads the file that `graph` names."""
    del graph
    rule = replace(WEIGHTING_RULES[weighing], anchor_impact=anchor_impact, max_length=max_length)
    how = MatchingOptions(
        threshold=threshold, unrelated=unrelated, rule=priority, next_step=next_step, skip_empty=skip_empty
    )
    dog = GraphUpdater(GraphUpdaterOptions(period=watchdog, depth=depth, per_level=per_level))
    of_nodes = partial(_with_synonyms, context.vocabulary, WordNet.find()) if thesaurus else None
    texts = TextFunctions(context.vocabulary.terms, context.vocabulary.text_of, of_nodes)
    focused = LinkFocusDetector(context.shared(dewey_target), rule) if focus == "dewey" else None
    return TreasureRanker(dog, texts, how, focused, fit=weights == "fitted", tunnel_depth=tunnel_depth)


def _with_synonyms(vocabulary: Vocabulary, wordnet: WordNet, text: str) -> list[int]:
    """The terms of a text and of the synonyms that WordNet has for its words in their commonest sense (S2-F3)."""
    senses = [wordnet.senses(word)[:1] for word in dict.fromkeys(text.lower().split())]
    synonyms = [word for found in senses for sense in found for word in sense.words]
    return [*vocabulary.terms(text), *vocabulary.terms(" ".join(dict.fromkeys(synonyms)))]


def context_graph_ranker(
    context: BuildContext, *, graph: str = "", least: Share = 0.5, tunnel_depth: int = -1
) -> ContextGraphRanker:
    """Diligenti's ranker, still without a graph: `context_graph_start_states` reads the file that `graph` names."""
    del graph
    words = context.page_words.with_weighting("tfidf")

    def weigh(reading: Reading) -> tuple[TermArray, ValueArray, ValueArray]:
        terms, counts = words.counts(reading)
        return terms.astype(np.int64), counts, counts * words.idf(terms)

    return ContextGraphRanker(context.vocabulary.terms, weigh, least, tunnel_depth)


MAX_DOCUMENT_WORDS = 100  # telling words kept of a page: the context graph (S2-46) takes forty that its vocabulary has
HINTS_STATE = "hints"  # the committee's members that begin with a graph
ReadPage = Callable[[Page], Reading]
ReaderFactory = Callable[[Settings, Vocabulary], ReadPage]
MAX_DISTINCTIVE_TERMS = 100  # terms by which a page is compared with the targets


def read_graph(path: Path, option: str = "") -> TGraph:
    """The T-Graph in a file; ConfigError in one line where it can't be used."""
    source = f"{option} {path}".strip()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{source}: can't be read: {error.strerror}; 'opilio tgraph build' makes one") from error
    return decode_graph(data, source)


def tgraph_start_states(settings: Settings) -> dict[str, bytes]:
    """The graph that S2's ranker starts with; ConfigError where the file or the options can't be used."""
    options = settings.rank
    if options.get("thesaurus"):
        WordNet.find()
    if options.get("weights") == "fitted" and not options["watchdog"]:
        raise ConfigError('rank.weights = "fitted": with rank.watchdog = 0 nothing is learnt; set it to 1 or more')
    return _graph_states(options, RANK_STATE)


def context_graph_start_states(settings: Settings) -> dict[str, bytes]:
    """The graph that the context graph's ranker starts with; ConfigError where the file can't be used."""
    name = str(settings.rank.get("graph", ""))
    if name and not read_graph(Path(name), "rank.graph").documents:
        raise ConfigError(f"rank.graph {name}: has no documents to tell layers apart; build it again")
    return _graph_states(settings.rank, RANK_STATE)


def _hints_start_states(settings: Settings) -> dict[str, bytes]:
    return _graph_states(settings.rank, HINTS_STATE)


def _graph_states(options: Tree, state: str) -> dict[str, bytes]:
    name = str(options.get("graph", ""))
    return {state: encode_graph_state(read_graph(Path(name), "rank.graph"))} if name else {}


def _hints_member(context: BuildContext) -> CommitteeMember:
    hints = GraphHints(context.vocabulary.terms, context_graph_ranker(context))
    return CommitteeMember({"tgraph": hints.tgraph, "osm": hints.osm, "layer": hints.layer}, {HINTS_STATE: hints})


def _galaxy_member(context: BuildContext) -> CommitteeMember:
    return CommitteeMember({"galaxy": GalaxyMember(*context.shared(dewey_target))})


HINTS_MEMBER = MemberKind(_hints_member, _hints_start_states)
GALAXY_MEMBER = MemberKind(_galaxy_member)


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
    """The graph of a collection as its watchdog left it, with its version."""
    with open_readonly(folder) as collection:
        row = collection.connection.execute(
            "SELECT state, version FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (RANK_STATE,)
        ).fetchone()
    try:
        state = msgspec.msgpack.decode(bytes(row[0]), type=GraphState) if row else None
    except msgspec.DecodeError:
        state = None
    if state is None:
        raise UsageError(f"{folder}: holds no T-Graph; one that '--strategy s2-treasure' crawled does")
    return TGraph(state.nodes, state.documents), int(row[1])


class GraphBuilder:
    """Reads pages and makes graphs of them, with the words of one language."""

    def __init__(self, read: ReadPage, vocabulary: Vocabulary, page_of: Callable[[str], Page | None]) -> None:
        self._read = read
        self._vocabulary = vocabulary
        self._page_of = page_of
        self._words = PageTerms(vocabulary.terms, CachedIdf(background_frequencies().__getitem__), weights="tfidf")

    def read(self, url: str) -> Reading | None:
        """A page as a crawl would read it."""
        page = self._page_of(url)
        return None if page is None else self._read(page)

    def build(self, layers: Layers, bounds: GraphLimits) -> TGraph:
        """The graph of pages in layers."""
        return build_graph(layers, self.read, self.words, bounds, self._distinctive_words)

    def similarity_to(self, targets: Sequence[str]) -> Callable[[str], float]:
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
        terms, weights = self._words.weighted_terms(page)
        best = np.argsort(-weights, kind="stable")[:MAX_DISTINCTIVE_TERMS]
        length = float(np.sqrt((weights[best] ** 2).sum())) or 1.0
        return dict(zip(terms[best].tolist(), (weights[best] / length).tolist(), strict=True))

    def words(self, terms: Sequence[int]) -> str:
        """Terms as words of which the same terms are made again."""
        return self._vocabulary.text_of(terms)

    def _distinctive_words(self, page: Reading) -> dict[str, int]:
        """The telling words of a page with their counts: highest tf·idf first."""
        terms, counts = self._words.counts(page)
        best = np.argsort(-counts * self._words.idf(terms), kind="stable")[:MAX_DOCUMENT_WORDS]
        named = [(self._vocabulary.surface_of(int(terms[i])), int(counts[i])) for i in best]
        return {word: count for word, count in named if word}


def build_graph_builder(
    settings: Settings, page_of: Callable[[str], Page | None], reads: ReaderFactory | None = None
) -> GraphBuilder:
    """What makes graphs as a crawl with these settings would read the pages; `reads` looks words up instead."""
    vocabulary = build_vocabulary(settings)
    read = reads(settings, vocabulary) if reads else build_reader(settings, vocabulary).read
    return GraphBuilder(read, vocabulary, page_of)
