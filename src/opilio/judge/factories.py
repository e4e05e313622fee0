"""The kinds of judges and of sense filters that a configuration can name, with their options."""

from typing import Literal

from opilio.core.protocols import Judge
from opilio.core.registry import build_component, complete_section
from opilio.core.settings import Count
from opilio.judge.learned import LENGTH_WEIGHT, LearnedJudge
from opilio.judge.senses import ContextJudge, SenseJudge
from opilio.judge.similarity import COSINE_THRESHOLD, BlendJudge, ContainsJudge, CosineJudge, CosineNorm, CoverageJudge
from opilio.topic.page_terms import TermWeighting
from opilio.topic.setup import BuildContext
from opilio.topic.topic import ContextRule


def cosine_judge(
    context: BuildContext,
    *,
    threshold: float = COSINE_THRESHOLD,
    norm: CosineNorm = "page",
    weights: TermWeighting = "damped",
    strict: bool = False,
    threshold_words: Count = 0,
) -> Judge:
    words = context.page_words.with_weighting(weights)
    return CosineJudge(context.evolving_topic, words, threshold, norm, strict, threshold_words)


def contains_judge(context: BuildContext, *, need: Literal["all", "any"] = "all") -> Judge:
    return ContainsJudge(context.topic.name, context.page_words, need)


def coverage_judge(context: BuildContext, *, middle: float = 0.25, slope: float = 14.0) -> CoverageJudge:
    # A topic that is given as classes is judged by its classes too.
    by_class = complete_section("judge", {"kind": "dewey"}) if context.topic.dewey else None
    classes: Judge | None = build_component("judge", by_class, context) if by_class else None
    return CoverageJudge(context.evolving_topic, context.page_words, middle, slope, classes)


def learned_judge(
    context: BuildContext,
    *,
    middle: float = 0.25,
    slope: float = 14.0,
    share: float = 0.5,
    link_weight: float = 0.0,
    length_weight: float = LENGTH_WEIGHT,
) -> Judge:
    base = coverage_judge(context, middle=middle, slope=slope)
    topic = context.topic
    examples = [(page, True) for page in topic.positive] + [(page, False) for page in topic.negative]
    return LearnedJudge(base, context.vocabulary.surface_of, share, examples, link_weight, length_weight)


def blend_judge(
    context: BuildContext,
    *,
    cosine: float = 1.0,
    contains: float = 1.0,
    coverage: float = 0.0,
    threshold: float = 0.5,
    strict: bool = False,
) -> Judge:
    parts: list[tuple[str, Judge, float]] = []
    if cosine:
        parts.append(("cosine", cosine_judge(context), cosine))
    if contains:
        parts.append(("contains", contains_judge(context), contains))
    if coverage:
        parts.append(("coverage", coverage_judge(context), coverage))
    return BlendJudge(parts, threshold, strict)


def any_sense(judge: Judge, _: BuildContext) -> Judge:
    """The judge as it is."""
    return judge


def context_judge(
    judge: Judge,
    context: BuildContext,
    *,
    minimum: int = 1,
    ratio: float = 0.0,
    where: Literal["page", "title"] = "page",
    whole_word: bool = True,
) -> Judge:
    rule = ContextRule(minimum=minimum, ratio=ratio, where=where, whole_word=whole_word)
    return ContextJudge(judge, context.evolving_topic, context.topic.contexts, context.page_words, rule)


def company_judge(judge: Judge, context: BuildContext, *, margin: float = 1.0) -> Judge:
    topic = context.topic
    return SenseJudge(judge, context.evolving_topic, topic.contexts, context.page_words, topic.name, margin)
