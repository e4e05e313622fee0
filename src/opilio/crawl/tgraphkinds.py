"""The ranker kinds `tgraph` (S2; its defaults are those of Table 5, S2-37) and `context-graph` with their options."""

from collections.abc import Callable
from functools import partial
from typing import Literal, Protocol

import numpy as np
from msgspec.structs import replace

from opilio.crawl.config import Amount
from opilio.crawl.deweykind import RULES, Weighing
from opilio.judge.pagewords import PageWords
from opilio.learn.contextgraph import Terms, Values
from opilio.model.records import Reading
from opilio.rank.contextgraph import ContextGraphRanker
from opilio.rank.focus import LinkFocus
from opilio.rank.treasure import Texts, TreasureRanker
from opilio.text.vocabulary import Vocabulary
from opilio.tgraph.priority import Matching, Rule
from opilio.tgraph.watchdog import Habits, Watchdog
from opilio.topic.dewey.target import Target
from opilio.topic.wordnet import WordNet


class TGraphTools(Protocol):
    """What is asked of the tools."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def words(self) -> PageWords: ...

    @property
    def target(self) -> Callable[[], Target]: ...


def tgraph_ranker(
    tools: TGraphTools,
    *,
    graph: str = "",
    depth: int = 3,
    threshold: float = 0.05,
    unrelated: float = 0.01,
    anchor_impact: Amount = 1.4,
    max_length: int = 3,
    focus: Literal["dewey", "any"] = "dewey",
    weighing: Weighing = "paper",
    priority: Rule = "least",
    next_step: bool = False,
    skip_empty: bool = False,
    weights: Literal["equal", "fitted"] = "equal",
    thesaurus: bool = False,
    watchdog: int = 20,
    per_level: int = 500,
    tunnel_depth: int = -1,
) -> TreasureRanker:
    """S2's ranker without a graph; `tgraphs.first_graph` reads the file that `graph` names."""
    del graph
    rule = replace(RULES[weighing], anchor_impact=anchor_impact, max_length=max_length)
    how = Matching(threshold=threshold, unrelated=unrelated, rule=priority, next_step=next_step, skip_empty=skip_empty)
    dog = Watchdog(Habits(period=watchdog, depth=depth, per_level=per_level))
    of_nodes = partial(_with_synonyms, tools.vocabulary, WordNet.find()) if thesaurus else None
    texts = Texts(tools.vocabulary.terms, tools.vocabulary.text_of, of_nodes)
    focused = LinkFocus(tools.target(), rule) if focus == "dewey" else None
    return TreasureRanker(dog, texts, how, focused, fit=weights == "fitted", tunnel_depth=tunnel_depth)


def _with_synonyms(vocabulary: Vocabulary, wordnet: WordNet, text: str) -> list[int]:
    """The terms of a text and of the synonyms that WordNet has for its words in their commonest sense (S2-F3)."""
    senses = [wordnet.senses(word)[:1] for word in dict.fromkeys(text.lower().split())]
    synonyms = [word for found in senses for sense in found for word in sense.words]
    return [*vocabulary.terms(text), *vocabulary.terms(" ".join(dict.fromkeys(synonyms)))]


def context_graph_ranker(
    tools: TGraphTools, *, graph: str = "", least: float = 0.5, tunnel_depth: int = -1
) -> ContextGraphRanker:
    """Diligenti's ranker without a graph; `tgraphs.first_graph` reads the file that `graph` names."""
    del graph
    words = tools.words.weighed_by("tfidf")

    def weigh(reading: Reading) -> tuple[Terms, Values, Values]:
        terms, counts = words.counts(reading)
        return terms.astype(np.int64), counts, counts * words.idf(terms)

    return ContextGraphRanker(tools.vocabulary.terms, weigh, least, tunnel_depth)
