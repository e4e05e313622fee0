"""Names to classes: every judge, ranker, order and expansion that a configuration can choose, with its options.

A factory's keyword arguments are the options of its kind: they are the schema, their defaults are the defaults.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from opilio.crawl.boostkinds import BOOSTS
from opilio.crawl.config import Amount, Count, Positive, Seconds, Share, Tree, in_words, nearest
from opilio.crawl.deweykind import dewey_judge
from opilio.crawl.expansionkinds import EXPANSIONS
from opilio.crawl.s1kind import attributes_ranker, trained_member
from opilio.crawl.tgraphkinds import context_graph_ranker, tgraph_ranker
from opilio.frontier.order import Aging, AgingMode, BestFirst, BreadthFirst, Expiring, NBest, Order
from opilio.judge.blend import BlendJudge
from opilio.judge.contains import ContainsJudge
from opilio.judge.cosine import THRESHOLD, CosineJudge, Norm
from opilio.judge.coverage import CoverageJudge
from opilio.judge.learned import LearnedJudge
from opilio.judge.pagewords import PageWords, Weights
from opilio.judge.senses import ContextJudge, SenseJudge
from opilio.learn.densefeatures import NAMES
from opilio.learn.scoring import Options
from opilio.model.errors import ConfigError
from opilio.model.protocols import Judge
from opilio.model.records import Lead, Link, LinkColumns, Reading, Verdict
from opilio.rank.committee import CommitteeRanker
from opilio.rank.galaxy import GalaxyMember
from opilio.rank.hints import GraphHints
from opilio.rank.linkscore import LinkScoreRanker
from opilio.rank.linkwords import LinkWords
from opilio.rank.measure import Form
from opilio.rank.parents import ParentAgg
from opilio.rank.plain import BreadthRanker, ParentRanker
from opilio.rank.shark import FishRanker, SharkRanker
from opilio.rank.tswt import Text, TswtOptions, TswtRanker
from opilio.text.urlwords import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.dewey.target import Target
from opilio.topic.genre import Genres
from opilio.topic.living import LivingTopic
from opilio.topic.senses import ContextRule
from opilio.topic.topic import Topic


class Scores(Protocol):
    def columns(self, links: "tuple[Link, ...]") -> LinkColumns: ...


class Scorer(Protocol):
    """A ranker as the analyst uses it: all links of a page at once, in columns."""

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> Scores: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What judges and rankers are made from. `target` reads the lexicon when first asked: 0.3 s and 20 MB."""

    topic: Topic
    living: LivingTopic
    vocabulary: Vocabulary
    words: PageWords
    url_terms: UrlTerms
    genres: Genres
    target: Callable[[], Target]


def _cosine(
    tools: Tools,
    *,
    threshold: float = THRESHOLD,
    norm: Norm = "page",
    weights: Weights = "damped",
    strict: bool = False,
) -> Judge:
    return CosineJudge(tools.living, tools.words.weighed_by(weights), threshold, norm, strict)


def _contains(tools: Tools, *, need: Literal["all", "any"] = "all") -> Judge:
    return ContainsJudge(tools.topic.name, tools.words, need)


def _coverage(tools: Tools, *, middle: float = 0.25, slope: float = 14.0) -> Judge:
    return _covering(tools, middle, slope)


def _covering(tools: Tools, middle: float, slope: float) -> CoverageJudge:
    classes = dewey_judge(tools) if tools.topic.dewey else None
    return CoverageJudge(tools.living, tools.words, middle, slope, classes)


def _learned(tools: Tools, *, middle: float = 0.25, slope: float = 14.0, share: float = 0.5) -> Judge:
    base = _covering(tools, middle, slope)
    examples = [(page, True) for page in tools.topic.positive] + [(page, False) for page in tools.topic.negative]
    return LearnedJudge(base, tools.vocabulary.surface_of, share, examples)


def _blend(
    tools: Tools,
    *,
    cosine: float = 1.0,
    contains: float = 1.0,
    coverage: float = 0.0,
    threshold: float = 0.5,
    strict: bool = False,
) -> Judge:
    weights = {"cosine": cosine, "contains": contains, "coverage": coverage}
    judges: list[tuple[str, Judge, float]] = [(n, JUDGES[n](tools), w) for n, w in weights.items() if w]
    return BlendJudge(judges, threshold, strict)


def _any_sense(judge: Judge, _: Tools) -> Judge:
    return judge


def _contexts(
    judge: Judge,
    tools: Tools,
    *,
    minimum: int = 1,
    ratio: float = 0.0,
    where: Literal["page", "title"] = "page",
    whole_word: bool = True,
) -> Judge:
    rule = ContextRule(minimum=minimum, ratio=ratio, where=where, whole_word=whole_word)
    return ContextJudge(judge, tools.living, tools.topic.contexts, tools.words, rule)


def _company(judge: Judge, tools: Tools, *, margin: float = 1.0) -> Judge:
    return SenseJudge(judge, tools.living, tools.topic.contexts, tools.words, tools.topic.name, margin)


def _breadth(_: Tools) -> Scorer:
    return BreadthRanker()


def _parent(_: Tools, *, tunnel_depth: int = -1) -> Scorer:
    return ParentRanker(tunnel_depth)


def _linkscore(
    tools: Tools, *, form: Form = "page", threshold: float = 0.0, strict: bool = False, tunnel_depth: int = 3
) -> Scorer:
    return LinkScoreRanker(tools.living, tools.url_terms.of_all, form, threshold, strict, tunnel_depth)


_TSWT = TswtOptions()


def _tswt(
    tools: Tools,
    *,
    topic: Amount = _TSWT.topic,
    genre: Amount = _TSWT.genre,
    parent_agg: ParentAgg = _TSWT.parent_agg,
    parents: Count = _TSWT.parents,
    form: Form = _TSWT.form,
    texts: tuple[Text, ...] = _TSWT.texts,
    scale: Literal["none", "rank"] = _TSWT.scale,
    genre_text_only: bool = _TSWT.genre_text_only,
    tunnel_depth: int = _TSWT.tunnel_depth,
) -> Scorer:
    options = TswtOptions(
        topic=topic,
        genre=genre,
        parent_agg=parent_agg,
        parents=parents,
        form=form,
        texts=texts,
        scale=scale,
        genre_text_only=genre_text_only,
        tunnel_depth=tunnel_depth,
    )
    return TswtRanker(tools.living, tools.url_terms.of_all, tools.genres, options)


def _shark(tools: Tools, *, gamma: Share = 0.5, delta: Share = 0.5, beta: Share = 0.8, depth: Count = 3) -> Scorer:
    return SharkRanker(tools.living, gamma, delta, beta, depth)


def _fish(_: Tools, *, width: Count = 10, bonus: Amount = 1.5, depth: Count = 3) -> Scorer:
    return FishRanker(width, bonus, depth)


def _committee(
    tools: Tools,
    *,
    tunnel_depth: int = -1,
    learn: bool = True,
    shrinkage: float = 2.0,
    credit: float = 0.4,
    explore: float = 0.0,
    siblings: bool = True,
    words: bool = True,
    statistics: bool = True,
    rescore: bool = True,
    without: tuple[str, ...] = (),
    galaxy: bool = False,
    hints: bool = False,
    tswt: bool = False,
    trained: str = "",
    graph: str = "",
    model: str = "",
) -> Scorer:
    del model, graph  # a collection and a T-Graph to begin from: `startfrom` and `tgraphs` read them
    options = Options(
        learn=learn,
        shrinkage=shrinkage,
        credit=credit,
        explore=explore,
        siblings=siblings,
        words=words,
        statistics=statistics,
        rescore=rescore,
        without=without,
    )
    if unknown := set(without) - set(NAMES):
        raise ConfigError(f"rank.without: {min(unknown)} is no feature; known: {', '.join(NAMES)}")
    url_terms = tools.url_terms.of_all
    ranker = CommitteeRanker(tools.living, LinkWords(tools.vocabulary, url_terms), tunnel_depth, options)
    if tswt:
        ranker.members["tswt"] = TswtRanker(tools.living, url_terms).topical
    if tools.topic.genres:
        ranker.members["genre"] = TswtRanker(tools.living, url_terms, tools.genres).generic
    if trained:
        ranker.members["s1"] = trained_member(tools, trained)
    if galaxy:
        ranker.members["galaxy"] = GalaxyMember(*tools.target())
    if hints:
        ranker.heed(GraphHints(tools.vocabulary.terms, context_graph_ranker(tools)))
    return ranker


def _best_first(*, top: Count = 0) -> Order:
    return BestFirst(top=top)


def _breadth_first() -> Order:
    return BreadthFirst()


def _n_best(*, n: Positive = 256) -> Order:
    return NBest(n=n)


def _expiring(*, lifetime_s: Seconds = 3600.0, top: Count = 0) -> Order:
    return Expiring(lifetime_s=lifetime_s, top=top)


def _aging(*, factor: float = 0.05, every: Positive = 100, mode: AgingMode = "base_tiebreak") -> Order:
    if not 0.0 < factor <= 1.0:
        raise ConfigError(f'order.factor = {factor}: must be above 0, at most 1; with order.mode = "off" nothing rises')
    return Aging(factor=factor, every=every, mode=mode)


Factory = Callable[..., Any]
JUDGES: dict[str, Factory] = {
    "cosine": _cosine,
    "contains": _contains,
    "coverage": _coverage,
    "learned": _learned,
    "blend": _blend,
    "dewey": dewey_judge,
}
SENSES: dict[str, Factory] = {"any": _any_sense, "contexts": _contexts, "company": _company}
RANKERS: dict[str, Factory] = {
    "breadth": _breadth,
    "parent": _parent,
    "linkscore": _linkscore,
    "tswt": _tswt,
    "shark": _shark,
    "fish": _fish,
    "attributes": attributes_ranker,
    "tgraph": tgraph_ranker,
    "context-graph": context_graph_ranker,
    "committee": _committee,
}
ORDERS: dict[str, Factory] = {
    "best-first": _best_first,
    "breadth-first": _breadth_first,
    "n-best": _n_best,
    "expiring": _expiring,
    "aging": _aging,
}
SECTIONS: dict[str, dict[str, Factory]] = {
    "judge": JUDGES,
    "senses": SENSES,
    "rank": RANKERS,
    "boost": BOOSTS,
    "expansion": EXPANSIONS,
    "order": ORDERS,
}
DEFAULT_KINDS = {
    "judge": "cosine",
    "senses": "any",
    "rank": "linkscore",
    "boost": "none",
    "expansion": "none",
    "order": "best-first",
}


def options_of(section: str, kind: str) -> dict[str, inspect.Parameter]:
    """The options of a kind, by name."""
    return options_in(SECTIONS[section][kind])


def options_in(factory: Factory) -> dict[str, inspect.Parameter]:
    """The options of what a factory makes: its keyword-only arguments."""
    found = inspect.signature(factory).parameters.values()
    return {p.name: p for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def filled(section: str, given: Tree) -> Tree:
    """A section with its kind and every option written out; ConfigError for what does not exist or does not fit."""
    return filled_in(SECTIONS[section], section, {"kind": DEFAULT_KINDS[section], **given})


def filled_in(kinds: Mapping[str, Factory], section: str, given: Tree) -> Tree:
    """The same for kinds of any register."""
    kind = str(given["kind"])
    if kind not in kinds:
        hint = nearest(kind, list(kinds))
        raise ConfigError(f"{section}.kind = '{kind}': is unknown{hint}; known: {', '.join(kinds)}")
    options = options_in(kinds[kind])
    for name in given:
        if name != "kind" and name not in options:
            hint = nearest(name, list(options)) or f"; it has {', '.join(options) or 'no options'}"
            raise ConfigError(f"unknown key '{section}.{name}' for kind '{kind}'{hint}")
    result: Tree = {"kind": kind}
    for name, option in options.items():
        try:
            result[name] = msgspec.convert(given.get(name, option.default), option.annotation, strict=True)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{section}.{name}: {in_words(error)}") from error
    return result


def made(section: str, tree: Tree, *arguments: object) -> Any:  # noqa: ANN401 - each section makes its own protocol
    """The thing that a filled section names."""
    options = {k: v for k, v in tree.items() if k != "kind"}
    return SECTIONS[section][tree["kind"]](*arguments, **options)
