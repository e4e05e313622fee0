"""The kinds of rankers that a configuration can name, with their options. Those of `methods` are in its packages."""

from typing import Annotated, Literal

from msgspec import Meta

from opilio.core.errors import ConfigError
from opilio.core.protocols import Ranker
from opilio.core.registry import COMMITTEE_MEMBERS, load_plugin
from opilio.core.settings import Amount, Count, Share
from opilio.learn.logistic import FEATURE_NAMES, MEANING_FEATURES
from opilio.learn.scoring import CommitteeOptions
from opilio.rank.baselines import BreadthRanker, FishRanker, LinkScoreRanker, ParentRanker, SharkRanker
from opilio.rank.committee import CommitteeMember, CommitteeRanker, LinkMeanings, LinkWords, MemberKind
from opilio.rank.link_scores import LinkTextMeasure
from opilio.rank.topic_genre import LinkTextKind, ParentAgg, TopicGenreOptions, TopicGenreRanker
from opilio.text.word_vectors import load_word_vectors
from opilio.topic.setup import BuildContext

# A link score is the sum of four parts within 0..1 (S0-25).
LinkThreshold = Annotated[float, Meta(ge=0, le=4)]


def breadth_ranker(_: BuildContext) -> Ranker:
    return BreadthRanker()


def parent_ranker(_: BuildContext, *, tunnel_depth: int = -1) -> Ranker:
    return ParentRanker(tunnel_depth)


def linkscore_ranker(
    context: BuildContext,
    *,
    form: LinkTextMeasure = "page",
    threshold: LinkThreshold = 0.0,
    strict: bool = False,
    tunnel_depth: int = 3,
) -> Ranker:
    return LinkScoreRanker(context.evolving_topic, context.url_terms.terms_batch, form, threshold, strict, tunnel_depth)


_TSWT_DEFAULTS = TopicGenreOptions()


def tswt_ranker(
    context: BuildContext,
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
    return TopicGenreRanker(context.evolving_topic, context.url_terms.terms_batch, context.genres, options)


def shark_ranker(
    context: BuildContext, *, gamma: Share = 0.5, delta: Share = 0.5, beta: Share = 0.8, depth: Count = 3
) -> Ranker:
    return SharkRanker(context.evolving_topic, gamma, delta, beta, depth)


def fish_ranker(_: BuildContext, *, width: Count = 10, bonus: Amount = 1.5, depth: Count = 3) -> Ranker:
    return FishRanker(width, bonus, depth)


def committee_ranker(
    context: BuildContext,
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
    meaning: bool = True,
    tswt: bool = False,
    trained: str = "",
    graph: str = "",
    model: str = "",
) -> Ranker:
    del model, graph  # start files: read once, by the start states of this kind
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
    names = [name for name in FEATURE_NAMES if name not in MEANING_FEATURES]
    if unknown := set(without) - set(names):
        raise ConfigError(f"rank.without: unknown feature '{min(unknown)}'; known: {', '.join(names)}")
    topic, url_terms = context.evolving_topic, context.url_terms.terms_batch
    ranker = CommitteeRanker(topic, LinkWords(context.vocabulary, url_terms), tunnel_depth, options)
    if meaning:
        vectors = load_word_vectors(context.vocabulary)
        ranker.meanings = LinkMeanings(vectors, topic, context.page_words.idf, context.url_terms)
    if tswt:
        ranker.add_member(CommitteeMember({"tswt": TopicGenreRanker(topic, url_terms).topic_member_scores}))
    if context.topic.genres:
        by_genre = TopicGenreRanker(topic, url_terms, context.genres)
        ranker.add_member(CommitteeMember({"genre": by_genre.genre_member_scores}))
    for name, value in {"trained": trained, "galaxy": galaxy, "hints": hints}.items():
        if value:
            kind: MemberKind = load_plugin(COMMITTEE_MEMBERS, name, f"rank.{name}")
            ranker.add_member(kind.build(context))
    return ranker
