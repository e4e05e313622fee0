"""Builds a topic from its settings: the topic with its examples, its first table, and the reader of its query log.

Reads the files that the settings name (genres, query log); example pages are read by `topic_files`.
"""

from pathlib import Path

import msgspec

from opilio.core.errors import TopicError
from opilio.core.registry import TOPIC_EXTENSIONS, build_component, load_plugin, plugin_names
from opilio.core.settings import Settings
from opilio.engine.wiring.topic_files import read_query_log
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic, QueryLogReader
from opilio.topic.expansion import ExpansionStart, QueryLogExpansion
from opilio.topic.query_log import stem_query
from opilio.topic.setup import background_idf, build_genres, build_vocabulary, check_language
from opilio.topic.topic import SourceWeights, Topic, build_topic_table, make_stemmer, make_topic
from opilio.topic.weights import TfDf, TfIdf, WeightScheme

TERM_WEIGHTINGS: dict[str, WeightScheme] = {"tf-idf": TfIdf(), "tf-df": TfDf(), "corpus": TfIdf(idf_source="corpus")}


def build_topic(settings: Settings, positive: tuple[str, ...] = (), negative: tuple[str, ...] = ()) -> Topic:
    """The topic that the settings describe, with the texts of example pages."""
    s = settings.topic
    topic = make_topic(
        s.name,
        s.keywords,
        description=s.description,
        positive=positive,
        negative=negative,
        phrases=tuple(s.phrases),
        contexts=tuple(s.contexts),
        genres=tuple(s.genres),
        language=s.language,
    )
    for name in plugin_names(TOPIC_EXTENSIONS):
        topic = load_plugin(TOPIC_EXTENSIONS, name)(topic, settings)
    check_topic_settings(settings, topic)
    return topic


def initial_topic_state(settings: Settings, topic: Topic) -> bytes:
    """The snapshot of the topic's table before the first page."""
    return build_initial_topic(settings, topic).snapshot()


def build_initial_topic(settings: Settings, topic: Topic) -> EvolvingTopic:
    """The topic before the first page: its table, and how it expands."""
    vocabulary = build_vocabulary(settings)
    mixture = SourceWeights(
        sentence=settings.topic.name_weight,
        size=settings.topic.table_size,
        weighing=TERM_WEIGHTINGS[settings.topic.weighing],
    )
    table = build_topic_table(topic, vocabulary, background_idf, mixture)
    start = ExpansionStart(table.weights, len(settings.seeds.urls), searched=bool(settings.seeds.engines))
    expansion = build_component("expansion", settings.expansion, start)
    evolving = EvolvingTopic(table, expansion, background_idf, build_query_log_reader(settings, vocabulary))
    if isinstance(expansion, QueryLogExpansion):
        expansion.waiting = expansion.interval  # the log so far is the first interval (S4-03)
        evolving.grow()
        table = msgspec.structs.replace(evolving.table, version=0, added=())
        return EvolvingTopic(table, expansion, background_idf)
    return evolving


def check_topic_settings(settings: Settings, topic: Topic) -> None:
    """ConfigError or TopicError for a topic that can't be used."""
    # The lemmatizer checks its languages itself.
    if not settings.topic.normaliser.startswith("lemma"):
        check_language(settings.topic.language)
    vocabulary = build_vocabulary(settings)
    build_genres(settings, vocabulary, topic.genres)
    build_component("expansion", settings.expansion, ExpansionStart({}))
    build_component("boost", settings.boost)
    build_component("order", settings.order)
    if settings.senses["kind"] == "contexts" and not any(map(vocabulary.terms, topic.contexts)):
        raise TopicError("senses.kind = 'contexts' needs topic.contexts: words of senses not meant")
    if settings.expansion.get("log"):
        read_query_log(Path(settings.expansion["log"]))


def build_query_log_reader(settings: Settings, vocabulary: Vocabulary) -> QueryLogReader | None:
    """A function that reads the next queries of the log; None where the expansion uses no log."""
    if not settings.expansion.get("log"):
        return None
    name, step = str(settings.expansion["log"]), int(settings.expansion["per_interval"])
    stem_word, phrases = make_stemmer(vocabulary), settings.topic.phrases

    def read_on(position: int) -> tuple[list[list[str]], int, dict[str, str]]:
        log = _read_queries(Path(name), first=not position)
        # A log that became shorter was replaced: read it from its start.
        position = position if log is None or position <= len(log) else 0
        texts = (log or [])[position : position + step if step else None]
        queries = [stem_query(text, stem_word, phrases) for text in texts]
        shown = {stem: vocabulary.surface_of(term_id(stem)) or stem for query in queries for stem in query}
        return queries, position + len(texts), shown

    return read_on


def _read_queries(log: Path, first: bool) -> list[str] | None:
    try:
        return [query.text for query in read_query_log(log)]
    except TopicError:
        if first:
            raise
        # A log that is being replaced must not end the crawl: the table stays until the next interval.
        return None
