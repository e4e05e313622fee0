"""What the settings of a topic become: vocabulary, reader, genres, first table, the log that is read on.

Reads the user's files (genres, query log); example pages are read by `topic_files`.
"""

from pathlib import Path

import msgspec

from opilio.core.errors import TopicError
from opilio.core.registry import build_component
from opilio.core.settings import Settings
from opilio.engine.wiring.topic_files import SIMULATED, SIMULATED_QUERIES_PER_INTERVAL, read_query_log, simulate_queries
from opilio.text.tokens import tokenize
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic, QueryLogReader
from opilio.topic.expansion import ExpansionStart, QueryLogExpansion
from opilio.topic.query_log import stem_query
from opilio.topic.setup import background_idf, build_genres, build_vocabulary, check_language
from opilio.topic.topic import SourceWeights, Topic, build_topic_table, make_stemmer
from opilio.topic.weights import TfDf, TfIdf, WeightScheme

TERM_WEIGHTINGS: dict[str, WeightScheme] = {"tf-idf": TfIdf(), "tf-df": TfDf(), "corpus": TfIdf(idf_source="corpus")}


def build_initial_topic(settings: Settings, topic: Topic) -> EvolvingTopic:
    """The topic before the first page: its table and how it will grow."""
    vocabulary = build_vocabulary(settings)
    mixture = SourceWeights(
        sentence=settings.topic.name_weight,
        size=settings.topic.table_size,
        weighing=TERM_WEIGHTINGS[settings.topic.weighing],
    )
    table = build_topic_table(topic, vocabulary, background_idf, mixture)
    expansion = build_component(
        "expansion", settings.expansion, ExpansionStart(table.weights, len(settings.seeds.urls))
    )
    evolving = EvolvingTopic(table, expansion, background_idf, build_query_log_reader(settings, vocabulary))
    if isinstance(expansion, QueryLogExpansion):
        expansion.waiting = expansion.interval  # the log so far is the first interval (S4-03)
        evolving.grow()
        table = msgspec.structs.replace(evolving.table, version=0, added=())
        return EvolvingTopic(table, expansion, background_idf)
    return evolving


def check_topic_settings(settings: Settings, topic: Topic) -> None:
    """Find out what can't be used before a folder is made; ConfigError or TopicError says what."""
    if settings.topic.normaliser != "lemma":  # which says itself what it does not know
        check_language(settings.topic.language)
    vocabulary = build_vocabulary(settings)
    build_genres(settings, vocabulary, topic.genres)
    build_component("expansion", settings.expansion, ExpansionStart({}))
    build_component("boost", settings.boost)
    build_component("order", settings.order)
    if settings.senses["kind"] != "any" and not any(map(vocabulary.terms, topic.contexts)):
        raise TopicError(f"senses.kind = '{settings.senses['kind']}' needs topic.contexts: words of senses not meant")
    if settings.expansion.get("log", SIMULATED) not in ("", SIMULATED):
        read_query_log(Path(settings.expansion["log"]))


def build_query_log_reader(settings: Settings, vocabulary: Vocabulary) -> QueryLogReader | None:
    """How the query log is read on; None where the table follows no log."""
    if not settings.expansion.get("log"):
        return None
    name, step = str(settings.expansion["log"]), int(settings.expansion["per_interval"])
    topic = settings.topic
    own = [*dict.fromkeys(tokenize(f"{topic.name} {' '.join(topic.keywords)} {topic.description}"))]
    stem, phrases = make_stemmer(vocabulary), settings.topic.phrases

    def read_on(position: int) -> tuple[list[list[str]], int, dict[str, str]]:
        if name == SIMULATED:
            asked = simulate_queries(own, range(position, position + (step or SIMULATED_QUERIES_PER_INTERVAL)))
        else:
            log = _read_queries(Path(name), first=not position)
            position = position if log is None or position <= len(log) else 0  # shorter than it was: begun anew
            asked = (log or [])[position : position + step if step else None]
        queries = [stem_query(text, stem, phrases) for text in asked]
        words = {word for query in queries for term in query for word in term.split()}
        shown = {word: vocabulary.surface_of(term_id(word)) or word for word in words}
        return queries, position + len(asked), shown

    return read_on


def _read_queries(log: Path, first: bool) -> list[str] | None:
    try:
        return [query.text for query in read_query_log(log)]
    except TopicError:
        if first:
            raise
        return None  # a log that is being replaced must not end a crawl: the table stays until the next interval
