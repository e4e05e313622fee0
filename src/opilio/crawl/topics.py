"""What the settings of a topic become: vocabulary, reader, genres, first table, the log that is read on.

Reads the files a person named (genres, query log); example pages are `examples.py`'s part.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from opilio.crawl.config import Settings, nearest
from opilio.crawl.expansionkinds import Start
from opilio.crawl.kinds import made
from opilio.crawl.queries import PER_INTERVAL, SIMULATED, read_log, simulated
from opilio.model.errors import ConfigError, TopicError
from opilio.text.around import Around, Beside, InBlock, InParagraph, InSentence
from opilio.text.background import Background, shipped
from opilio.text.identify import identify
from opilio.text.languages import names
from opilio.text.reading import Reader
from opilio.text.stems import is_known
from opilio.text.tokens import words
from opilio.text.vocabulary import Vocabulary, term_of
from opilio.topic.build import Mixture, stem_with, topic_table
from opilio.topic.expansion import QueryLogExpansion
from opilio.topic.genre import Genres, GenreWords, default_genres, read_genres
from opilio.topic.living import LivingTopic, Queries
from opilio.topic.querylog import query_stems
from opilio.topic.tables import TfDf, TfIdf, Weighing
from opilio.topic.topic import Topic

AROUND: dict[str, Callable[[], Around]] = {
    "block": InBlock,
    "beside": Beside,
    "sentence": InSentence,
    "paragraph": InParagraph,
}
WEIGHING: dict[str, Weighing] = {"tf-idf": TfIdf(), "tf-df": TfDf(), "corpus": TfIdf(idf_source="corpus")}


def vocabulary_of(settings: Settings) -> Vocabulary:
    """The words of the topic's language, normalised as asked."""
    return Vocabulary(settings.topic.language, settings.topic.normaliser)


def check_language(language: str, option: str = "topic.language") -> None:
    """ConfigError for a name that is no language of ours: its words would silently be taken as they are."""
    if not language.strip() or is_known(language):
        return
    raise ConfigError(
        f"{option} = '{language}': is unknown{nearest(language.strip().lower(), names())};"
        " write such as 'german' or 'de', or nothing: words then stay as they are"
    )


def reader_of(settings: Settings, vocabulary: Vocabulary) -> Reader:
    """How pages are read, with the text around links cut as asked (X-06)."""
    return Reader(vocabulary, AROUND[settings.topic.around](), identify if settings.topic.identify else None)


def genre_book(settings: Settings) -> dict[str, GenreWords]:
    """The genres that come with Opilio, or those of the person's file."""
    name = settings.topic.genre_file
    if not name:
        return default_genres()
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TopicError(f"topic.genre_file {name}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TopicError(
            f"topic.genre_file {name}: is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from error
    return read_genres(text, f"topic.genre_file {name}")


def genres_of(settings: Settings, vocabulary: Vocabulary, wanted: tuple[str, ...]) -> Genres:
    """Genres in the topic's language and in English; all of them where none are wanted."""
    languages = tuple(dict.fromkeys((vocabulary.language, "english")))
    return Genres(genre_book(settings), vocabulary.terms, wanted, languages)


@cache
def background() -> Background:
    """The table of document frequencies that comes with Opilio; read once, never changed."""
    return shipped()


@lru_cache(maxsize=1 << 16)
def idf_of(stem: str) -> float:
    """How rare a stem is in general text (X-14)."""
    return background()[term_of(stem)]


def first_topic(settings: Settings, topic: Topic) -> LivingTopic:
    """The topic before the first page: its table and how it will grow."""
    vocabulary = vocabulary_of(settings)
    mixture = Mixture(size=settings.topic.table_size, weighing=WEIGHING[settings.topic.weighing])
    table = topic_table(topic, vocabulary, idf_of, mixture)
    expansion = made("expansion", settings.expansion, Start(table.weights, len(settings.seeds.urls)))
    living = LivingTopic(table, expansion, idf_of, queries_of(settings, vocabulary))
    if isinstance(expansion, QueryLogExpansion):
        expansion.waiting = expansion.interval  # the log so far is the first interval (S4-03)
        living.grow()
        table = msgspec.structs.replace(living.table, version=0, added=())
        return LivingTopic(table, expansion, idf_of)
    return living


def check(settings: Settings, topic: Topic) -> None:
    """Find out what can't be used before a folder is made; ConfigError or TopicError says what."""
    if settings.topic.normaliser != "lemma":  # which says itself what it does not know
        check_language(settings.topic.language)
    vocabulary = vocabulary_of(settings)
    genres_of(settings, vocabulary, topic.genres)
    made("expansion", settings.expansion, Start({}))
    made("boost", settings.boost)
    made("order", settings.order)
    if settings.senses["kind"] != "any" and not any(map(vocabulary.terms, topic.contexts)):
        raise TopicError(f"senses.kind = '{settings.senses['kind']}' needs topic.contexts: words of senses not meant")
    if settings.expansion.get("log", SIMULATED) not in ("", SIMULATED):
        read_log(Path(settings.expansion["log"]))


def queries_of(settings: Settings, vocabulary: Vocabulary) -> Queries | None:
    """How the query log is read on; None where the table follows no log."""
    if not settings.expansion.get("log"):
        return None
    name, step = str(settings.expansion["log"]), int(settings.expansion["per_interval"])
    topic = settings.topic
    own = [*dict.fromkeys(words(f"{topic.name} {' '.join(topic.keywords)} {topic.description}"))]
    stem, phrases = stem_with(vocabulary), settings.topic.phrases

    def read_on(position: int) -> tuple[list[list[str]], int, dict[str, str]]:
        if name == SIMULATED:
            asked = simulated(own, range(position, position + (step or PER_INTERVAL)))
        else:
            log = _queries(Path(name), first=not position)
            position = position if log is None or position <= len(log) else 0  # shorter than it was: begun anew
            asked = (log or [])[position : position + step if step else None]
        queries = [query_stems(text, stem, phrases) for text in asked]
        said = {word for query in queries for term in query for word in term.split()}
        shown = {word: vocabulary.surface_of(term_of(word)) or word for word in said}
        return queries, position + len(asked), shown

    return read_on


def _queries(log: Path, first: bool) -> list[str] | None:
    try:
        return [query.text for query in read_log(log)]
    except TopicError:
        if first:
            raise
        return None  # a log that is being replaced must not end a crawl: the table stays until the next interval
