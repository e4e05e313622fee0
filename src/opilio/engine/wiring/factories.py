"""Names to classes: every judge, ranker, order and expansion that a configuration can choose, with its options.

A factory's keyword arguments are the options of its kind: they are the schema, their defaults are the defaults.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.protocols import Judge, Ranker
from opilio.core.settings import Amount, Count, Positive, Seconds, Share, Tree, describe_validation_error, suggest_name
from opilio.engine.wiring.expansions import EXPANSIONS
from opilio.frontier.policy import Aging, AgingMode, BestFirst, BreadthFirst, Expiring, NBest, Order
from opilio.judge.learned import LearnedJudge
from opilio.judge.page_terms import PageTerms, TermWeighting
from opilio.judge.senses import ContextJudge, SenseJudge
from opilio.judge.similarity import COSINE_THRESHOLD, BlendJudge, ContainsJudge, CosineJudge, CosineNorm, CoverageJudge
from opilio.learn.dense_model import FEATURE_NAMES
from opilio.learn.scoring import CommitteeOptions
from opilio.methods.attributes.ranker import attributes_ranker, trained_member
from opilio.methods.dewey.judge import dewey_judge
from opilio.methods.dewey.target import DeweyTarget
from opilio.methods.treasure.focus import GalaxyMember
from opilio.methods.treasure.hints import GraphHints
from opilio.methods.treasure.plugin import context_graph_ranker, tgraph_ranker
from opilio.rank.baselines import BreadthRanker, FishRanker, ParentRanker, SharkRanker
from opilio.rank.committee import CommitteeRanker, LinkWords
from opilio.rank.four_part_score import LinkScoreRanker
from opilio.rank.link_graph import BOOSTS
from opilio.rank.link_scores import LinkTextMeasure
from opilio.rank.topic_genre import LinkTextKind, ParentAgg, TopicGenreOptions, TopicGenreRanker
from opilio.text.url_words import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.genre import GenreDetector
from opilio.topic.senses import ContextRule
from opilio.topic.topic import Topic


@dataclass(frozen=True, slots=True)
class BuildContext:
    """What judges and rankers are made from. `target` reads the lexicon when first asked: 0.3 s and 20 MB."""

    topic: Topic
    evolving_topic: EvolvingTopic
    vocabulary: Vocabulary
    page_words: PageTerms
    url_terms: UrlTerms
    genres: GenreDetector
    dewey_target: Callable[[], DeweyTarget]


def _cosine(
    tools: BuildContext,
    *,
    threshold: float = COSINE_THRESHOLD,
    norm: CosineNorm = "page",
    weights: TermWeighting = "damped",
    strict: bool = False,
) -> Judge:
    return CosineJudge(tools.evolving_topic, tools.page_words.with_weighting(weights), threshold, norm, strict)


def _contains(tools: BuildContext, *, need: Literal["all", "any"] = "all") -> Judge:
    return ContainsJudge(tools.topic.name, tools.page_words, need)


def _coverage(tools: BuildContext, *, middle: float = 0.25, slope: float = 14.0) -> Judge:
    return _build_coverage(tools, middle, slope)


def _build_coverage(tools: BuildContext, middle: float, slope: float) -> CoverageJudge:
    classes = dewey_judge(tools) if tools.topic.dewey else None
    return CoverageJudge(tools.evolving_topic, tools.page_words, middle, slope, classes)


def _learned(tools: BuildContext, *, middle: float = 0.25, slope: float = 14.0, share: float = 0.5) -> Judge:
    base = _build_coverage(tools, middle, slope)
    examples = [(page, True) for page in tools.topic.positive] + [(page, False) for page in tools.topic.negative]
    return LearnedJudge(base, tools.vocabulary.surface_of, share, examples)


def _blend(
    tools: BuildContext,
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


def _any_sense(judge: Judge, _: BuildContext) -> Judge:
    return judge


def _contexts(
    judge: Judge,
    tools: BuildContext,
    *,
    minimum: int = 1,
    ratio: float = 0.0,
    where: Literal["page", "title"] = "page",
    whole_word: bool = True,
) -> Judge:
    rule = ContextRule(minimum=minimum, ratio=ratio, where=where, whole_word=whole_word)
    return ContextJudge(judge, tools.evolving_topic, tools.topic.contexts, tools.page_words, rule)


def _company(judge: Judge, tools: BuildContext, *, margin: float = 1.0) -> Judge:
    return SenseJudge(judge, tools.evolving_topic, tools.topic.contexts, tools.page_words, tools.topic.name, margin)


def _breadth(_: BuildContext) -> Ranker:
    return BreadthRanker()


def _parent(_: BuildContext, *, tunnel_depth: int = -1) -> Ranker:
    return ParentRanker(tunnel_depth)


def _linkscore(
    tools: BuildContext,
    *,
    form: LinkTextMeasure = "page",
    threshold: float = 0.0,
    strict: bool = False,
    tunnel_depth: int = 3,
) -> Ranker:
    return LinkScoreRanker(tools.evolving_topic, tools.url_terms.terms_batch, form, threshold, strict, tunnel_depth)


_TSWT_DEFAULTS = TopicGenreOptions()


def _tswt(
    tools: BuildContext,
    *,
    topic: Amount = _TSWT_DEFAULTS.topic,
    genre: Amount = _TSWT_DEFAULTS.genre,
    parent_agg: ParentAgg = _TSWT_DEFAULTS.parent_agg,
    parents: Count = _TSWT_DEFAULTS.parents,
    form: LinkTextMeasure = _TSWT_DEFAULTS.form,
    texts: tuple[LinkTextKind, ...] = _TSWT_DEFAULTS.texts,
    scale: Literal["none", "rank"] = _TSWT_DEFAULTS.scale,
    genre_text_only: bool = _TSWT_DEFAULTS.genre_text_only,
    tunnel_depth: int = _TSWT_DEFAULTS.tunnel_depth,
) -> Ranker:
    options = TopicGenreOptions(
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
    return TopicGenreRanker(tools.evolving_topic, tools.url_terms.terms_batch, tools.genres, options)


def _shark(
    tools: BuildContext, *, gamma: Share = 0.5, delta: Share = 0.5, beta: Share = 0.8, depth: Count = 3
) -> Ranker:
    return SharkRanker(tools.evolving_topic, gamma, delta, beta, depth)


def _fish(_: BuildContext, *, width: Count = 10, bonus: Amount = 1.5, depth: Count = 3) -> Ranker:
    return FishRanker(width, bonus, depth)


def _committee(
    tools: BuildContext,
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
) -> Ranker:
    del model, graph  # a collection and a T-Graph to begin from: `startfrom` and `tgraphs` read them
    options = CommitteeOptions(
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
    if unknown := set(without) - set(FEATURE_NAMES):
        raise ConfigError(f"rank.without: {min(unknown)} is no feature; known: {', '.join(FEATURE_NAMES)}")
    url_terms = tools.url_terms.terms_batch
    ranker = CommitteeRanker(tools.evolving_topic, LinkWords(tools.vocabulary, url_terms), tunnel_depth, options)
    if tswt:
        ranker.members["tswt"] = TopicGenreRanker(tools.evolving_topic, url_terms).topic_member_scores
    if tools.topic.genres:
        ranker.members["genre"] = TopicGenreRanker(tools.evolving_topic, url_terms, tools.genres).genre_member_scores
    if trained:
        ranker.members["s1"] = trained_member(tools, trained)
    if galaxy:
        ranker.members["galaxy"] = GalaxyMember(*tools.dewey_target())
    if hints:
        ranker.use_hints(GraphHints(tools.vocabulary.terms, context_graph_ranker(tools)))
    return ranker


def _best_first(*, top: Count = 0) -> Order:
    return BestFirst(max_per_lease=top)


def _breadth_first() -> Order:
    return BreadthFirst()


def _n_best(*, n: Positive = 256) -> Order:
    return NBest(n=n)


def _expiring(*, lifetime_s: Seconds = 3600.0, top: Count = 0) -> Order:
    return Expiring(lifetime_s=lifetime_s, max_per_lease=top)


def _aging(*, factor: float = 0.05, every: Positive = 100, mode: AgingMode = "base_tiebreak") -> Order:
    if not 0.0 < factor <= 1.0:
        raise ConfigError(f'order.factor = {factor}: must be above 0, at most 1; with order.mode = "off" nothing rises')
    return Aging(factor=factor, every=every, mode=mode)


ComponentFactory = Callable[..., Any]
JUDGES: dict[str, ComponentFactory] = {
    "cosine": _cosine,
    "contains": _contains,
    "coverage": _coverage,
    "learned": _learned,
    "blend": _blend,
    "dewey": dewey_judge,
}
SENSES: dict[str, ComponentFactory] = {"any": _any_sense, "contexts": _contexts, "company": _company}
RANKERS: dict[str, ComponentFactory] = {
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
ORDERS: dict[str, ComponentFactory] = {
    "best-first": _best_first,
    "breadth-first": _breadth_first,
    "n-best": _n_best,
    "expiring": _expiring,
    "aging": _aging,
}
SECTIONS: dict[str, dict[str, ComponentFactory]] = {
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


def kind_options(section: str, kind: str) -> dict[str, inspect.Parameter]:
    """The options of a kind, by name."""
    return factory_options(SECTIONS[section][kind])


def factory_options(factory: ComponentFactory) -> dict[str, inspect.Parameter]:
    """The options of what a factory makes: its keyword-only arguments."""
    found = inspect.signature(factory).parameters.values()
    return {p.name: p for p in found if p.kind is inspect.Parameter.KEYWORD_ONLY}


def complete_section(section: str, given: Tree) -> Tree:
    """A section with its kind and every option written out; ConfigError for what does not exist or does not fit."""
    return complete_options(SECTIONS[section], section, {"kind": DEFAULT_KINDS[section], **given})


def complete_options(kinds: Mapping[str, ComponentFactory], section: str, given: Tree) -> Tree:
    """The same for kinds of any register."""
    kind = str(given["kind"])
    if kind not in kinds:
        hint = suggest_name(kind, list(kinds))
        raise ConfigError(f"{section}.kind = '{kind}': is unknown{hint}; known: {', '.join(kinds)}")
    options = factory_options(kinds[kind])
    for name in given:
        if name != "kind" and name not in options:
            hint = suggest_name(name, list(options)) or f"; it has {', '.join(options) or 'no options'}"
            raise ConfigError(f"unknown key '{section}.{name}' for kind '{kind}'{hint}")
    result: Tree = {"kind": kind}
    for name, option in options.items():
        try:
            result[name] = msgspec.convert(given.get(name, option.default), option.annotation, strict=True)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{section}.{name}: {describe_validation_error(error)}") from error
    return result


def build_component(section: str, tree: Tree, *arguments: object) -> Any:  # noqa: ANN401 - each section makes its own protocol
    """The thing that a filled section names."""
    options = {k: v for k, v in tree.items() if k != "kind"}
    return SECTIONS[section][tree["kind"]](*arguments, **options)
