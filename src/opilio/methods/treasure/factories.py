"""The rankers `tgraph` (S2; its defaults are those of Table 5, S2-37) and `context-graph`, and the committee's members.

A graph file that the options name is read once, by the start states: a resumed crawl has the graph in its collection.
"""

from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.errors import ConfigError
from opilio.core.page import Reading
from opilio.core.protocols import RANK_STATE
from opilio.core.settings import Amount, Count, Positive, Settings, Share, Tree
from opilio.methods.dewey.judge import WEIGHTING_RULES, DeweyWeighting
from opilio.methods.dewey.target import DeweyTarget, add_synonyms, dewey_target
from opilio.methods.treasure.context_graph import ContextGraphRanker, TermArray, ValueArray
from opilio.methods.treasure.focus import GalaxyMember, LinkFocusDetector
from opilio.methods.treasure.graph_builder import encode_graph_state, read_graph
from opilio.methods.treasure.hints import HINTS_STATE, GraphHints
from opilio.methods.treasure.matching import MatchingOptions, PriorityRule
from opilio.methods.treasure.postings import TermRarity
from opilio.methods.treasure.ranker import TextFunctions, TreasureRanker
from opilio.methods.treasure.updater import GraphUpdater, GraphUpdaterOptions
from opilio.methods.treasure.weights import DC_WEIGHTS, EQUAL_WEIGHTS
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.text.vocabulary import Vocabulary
from opilio.topic.build_context import BuildContext
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
    similarity: Literal["mean", "link"] = "mean",
    thesaurus: bool = False,
    watchdog: Count = 20,
    per_level: Positive = 500,
    tunnel_depth: int = -1,
) -> TreasureRanker:
    """S2's ranker, still without a graph: `tgraph_start_states` reads the file that `graph` names."""
    del graph
    rule = replace(WEIGHTING_RULES[weighing], anchor_impact=anchor_impact, max_length=max_length)
    by_link = similarity == "link"
    how = MatchingOptions(
        threshold=threshold,
        unrelated=unrelated,
        rule=priority,
        next_step=next_step,
        skip_empty=skip_empty,
        weights=DC_WEIGHTS if by_link else EQUAL_WEIGHTS,
    )
    dog = GraphUpdater(GraphUpdaterOptions(period=watchdog, depth=depth, per_level=per_level))
    wordnet = WordNet.find() if thesaurus else None
    of_nodes = partial(_with_synonyms, context.vocabulary, wordnet) if wordnet else None
    rarity = partial(squared_idf, context.page_words.idf) if by_link else None
    texts = TextFunctions(context.vocabulary.terms, context.vocabulary.text_of, of_nodes, rarity)
    focused = LinkFocusDetector(_focus_target(context, wordnet), rule) if focus == "dewey" else None
    return TreasureRanker(dog, texts, how, focused, fit=weights == "fitted", tunnel_depth=tunnel_depth)


def squared_idf(idf: TermRarity, terms: NDArray[np.uint32]) -> NDArray[np.float64]:
    """Common words of two texts say little: the square of idf."""
    return idf(terms) ** 2


def _with_synonyms(vocabulary: Vocabulary, wordnet: WordNet, text: str) -> list[int]:
    """The terms of a text and of the synonyms of its words, in the senses that fit the text best (S2-F3)."""
    words = list(dict.fromkeys(text.lower().split()))
    synonyms = [other for word in words for other in wordnet.synonyms(word, words)]
    return [*vocabulary.terms(text), *vocabulary.terms(" ".join(dict.fromkeys(synonyms)))]


def _focus_target(context: BuildContext, wordnet: WordNet | None) -> DeweyTarget:
    """The classes that the focus of links is compared with; with synonyms of their words where asked (S2-F3)."""
    target = context.shared(dewey_target)
    return add_synonyms(target, wordnet.synonyms) if wordnet else target


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
        raise ConfigError(f"rank.graph {name}: has no documents; build it with 'opilio lab tgraph build'")
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
