"""The link score of S2: how near a link is to a target, and the rankers `tgraph` and `context-graph`.

Links of off-topic pages get the lowest priority and are not compared (S2-13, S2-E8). Links of on-topic pages are
compared all at once; they get the lowest priority too if nothing matches or their own topical focus is another (S2-38).
The updater learns in the writing process (S2-14); workers hold its last snapshot. The matched node of a link is queued
with it and returns with its page.

A graph file that the options name is read once, by the start states: a resumed crawl has the graph in its collection.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.errors import ConfigError
from opilio.core.events import GraphChanged
from opilio.core.protocols import RANK_STATE, BaseLearner
from opilio.core.records import Lead, Outcome, Reading, Verdict
from opilio.core.settings import Amount, Count, Positive, Settings, Share, Tree, TunnelDepth
from opilio.methods.dewey.detect import galaxy_of
from opilio.methods.dewey.judge import WEIGHTING_RULES, DeweyTarget, DeweyWeighting, add_synonyms, dewey_target
from opilio.methods.treasure.build import encode_graph_state, read_graph
from opilio.methods.treasure.context_graph import HINTS_STATE, ContextGraphRanker, GraphHints, TermArray, ValueArray
from opilio.methods.treasure.focus import GalaxyMember, LinkFocusDetector, LinkFocusScores
from opilio.methods.treasure.graph import LinkParts, link_parts
from opilio.methods.treasure.matching import (
    DC_WEIGHTS,
    EQUAL_WEIGHTS,
    LinkMatches,
    MatchingOptions,
    NodeIndex,
    PriorityRule,
    TermRarity,
    match_links,
)
from opilio.methods.treasure.updater import GraphExperience, GraphUpdater, GraphUpdaterOptions
from opilio.rank.committee import CommitteeMember, MemberKind
from opilio.rank.link_scores import LinkScores, ScoreColumn, drop_all, refused_links, tunnel_drop_reason
from opilio.text.vocabulary import Vocabulary
from opilio.topic.setup import BuildContext
from opilio.topic.wordnet import WordNet

TermsOf = Callable[[str], Sequence[int]]
TermsToText = Callable[[Sequence[int]], str]
# Terms of a link's texts that are queued with it, for the updater.
HEADING_TERMS, WINDOW_TERMS = 12, 40


class TextFunctions(NamedTuple):
    """Texts to terms, terms to words, and the terms by which nodes are found (with synonyms, S2-F3, where asked)."""

    terms_of: TermsOf
    text_of: TermsToText
    node_terms_of: TermsOf | None = None
    # Given: similarity by the words of a link.
    rarity: TermRarity | None = None


class MatchedLink(msgspec.Struct, frozen=True, array_like=True):
    """The features of a queued link: the node it matched, the similarities, its four texts."""

    node: str
    parts: tuple[float, ...]
    link: tuple[str, str, str, str]
    anchor: str = ""


class TreasureRanker(BaseLearner):
    """Scores links by a T-Graph. `focus` None: any topical focus. `fit`: weights follow experience (S2-F8)."""

    # A reader that sees the event GraphChanged can read the changed graph.
    saves_every_version = True

    def __init__(
        self,
        watchdog: GraphUpdater,
        texts: TextFunctions,
        how: MatchingOptions | None = None,
        focus: LinkFocusDetector | None = None,
        *,
        fit: bool = False,
        tunnel_depth: int = -1,
    ) -> None:
        self.updater = watchdog
        self.matching = how or MatchingOptions()
        self.focus = focus
        self.fit_weights = fit
        self.tunnel_depth = tunnel_depth
        self._texts = texts
        self._index: tuple[object, NodeIndex] | None = None

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        count = len(page.links)
        dropped = drop_all(refused_links(page), count, tunnel_drop_reason(verdict, lead, self.tunnel_depth))
        if not verdict.relevant or not count:
            lowest = np.full(count, self.matching.unrelated)
            nothing = np.zeros(count)
            return LinkScores(lowest, {"osm": nothing, "distance": nothing - 1.0, "focus": nothing}, dropped)
        parts = link_parts(reading, self._texts.terms_of, link_words=self._texts.rarity is not None)
        found, focus = match_links(self.index, parts, self._fitted_matching), self._focus(reading)
        scores = np.where(focus.on_topic, found.priority, self.matching.unrelated)
        columns = {"osm": found.osm, "distance": found.distance.astype(np.float64), "focus": focus.closeness}
        features = self._matched_links(reading, parts, found, scores) if self.updater.options.period else ()
        return LinkScores(scores, columns, dropped, features=features)

    @property
    def index(self) -> NodeIndex:
        """The current nodes, prepared for matching."""
        graph = self.updater.graph
        if self._index is None or self._index[0] is not graph:
            of_nodes = self._texts.node_terms_of or self._texts.terms_of
            self._index = graph, NodeIndex(graph, of_nodes, self._texts.rarity)
        return self._index[1]

    @property
    def _fitted_matching(self) -> MatchingOptions:
        return (
            msgspec.structs.replace(self.matching, weights=self.updater.weights) if self.fit_weights else self.matching
        )

    def _focus(self, reading: Reading) -> LinkFocusScores:
        if self.focus is not None:
            return self.focus.detect(reading)
        count = len(reading.page.links)
        return LinkFocusScores(np.ones(count, dtype=np.bool_), np.zeros(count))

    def _matched_links(
        self, reading: Reading, parts: LinkParts, found: LinkMatches, scores: ScoreColumn
    ) -> list[bytes]:
        """The features of each link; links that share headings and window share the text."""
        known: dict[tuple[int, int], tuple[str, str, str, str]] = {}
        handed, encode = [], msgspec.msgpack.encode
        matched = np.where(scores > self.matching.unrelated, found.node, -1).tolist()
        for at, node in enumerate(matched):
            place = int(parts.head_of[at]), int(parts.window_of[at])
            if place not in known:
                ish, sh, mh, dc = parts.of(at)
                words = self._texts.text_of
                headings = [words(terms[:HEADING_TERMS]) for terms in (ish, sh, mh)]
                known[place] = headings[0], headings[1], headings[2], words(dc[:WINDOW_TERMS])
            similar = self.index.part_similarities(node, parts.of(at)) if self.fit_weights and node >= 0 else ()
            name = self.index.nodes[node].id if node >= 0 else ""
            handed.append(encode(MatchedLink(name, similar, known[place], self._anchor(reading, at))))
        return handed

    def _anchor(self, reading: Reading, at: int) -> str:
        """The words of a link, where similarity needs them."""
        place = reading.page.links[at].index
        if self._texts.rarity is None or not 0 <= place < len(reading.anchors):
            return ""
        return self._texts.text_of(reading.terms[slice(*reading.anchors[place])][:HEADING_TERMS])

    @property
    def version(self) -> int:
        """Grows with every round of the updater."""
        return self.updater.version

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The experience of these visits, for the journal; may be empty."""
        if not self.updater.options.period:
            return b""
        met = [one for outcome in outcomes if (one := _experience(outcome, self._classes)) is not None]
        return msgspec.msgpack.encode(met) if met else b""

    def _classes(self, text: str) -> tuple[str, ...]:
        """The best D-number of a text, where the focus of links is found with a lexicon."""
        if self.focus is None:
            return ()
        matcher = self.focus.target.matcher
        code = galaxy_of(matcher.vocabulary.terms(text), matcher, self.focus.rule).code
        return (code,) if code else ()

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson, new or from the journal."""
        if lesson:
            self.updater.learn(msgspec.msgpack.decode(lesson, type=list[GraphExperience]))

    def learners(self) -> dict[str, "TreasureRanker"]:
        """See `HasLearners`."""
        return {RANK_STATE: self}

    def take_events(self, now: float) -> list[GraphChanged]:
        """The updates of the graph since the last call."""
        updates, self.updater.updates = self.updater.updates, []
        return [GraphChanged(at=now, **msgspec.structs.asdict(update)) for update in updates]

    def worker_state(self) -> bytes:
        """The graph and the weights, which workers need."""
        return self.updater.worker_state()

    def snapshot(self) -> bytes:
        """The graph and the complete state of the updater."""
        return self.updater.snapshot()

    def restore(self, state: bytes) -> None:
        """Continue from a snapshot."""
        self.updater.restore(state)


def _experience(outcome: Outcome, classify: Callable[[str], tuple[str, ...]]) -> GraphExperience | None:
    """A visit as the updater sees it; duplicates and failures are skipped."""
    lead, analysis = outcome.lead, outcome.analysis
    if analysis is None or analysis.verdict is None or outcome.duplicate_of:
        return None
    try:
        handed = msgspec.msgpack.decode(lead.features, type=MatchedLink) if lead.features else None
    except msgspec.DecodeError:
        # The features are those of another ranker.
        handed = None
    relevant, text = analysis.verdict.relevant, f"{analysis.description} {analysis.keywords}".strip()[:400]
    return GraphExperience(
        lead.key,
        lead.parent,
        lead.url,
        relevant,
        analysis.verdict.score,
        analysis.title,
        text,
        handed.node if handed else "",
        handed.parts if handed else (),
        handed.link if handed else None,
        analysis.heading,
        classify(f"{analysis.title} {analysis.heading} {text}") if relevant else (),
        handed.anchor if handed else "",
    )


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
    tunnel_depth: TunnelDepth = -1,
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
    context: BuildContext, *, graph: str = "", least: Share = 0.5, tunnel_depth: TunnelDepth = -1
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
        raise ConfigError('rank.weights = "fitted": with rank.watchdog = 0 nothing is learned; set it to 1 or more')
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
