from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from opilio.core.errors import ConfigError, TopicError
from opilio.core.files import read_text
from opilio.core.settings import Settings, Tree, _convert_settings, load_strategy, merge_trees, suggest_name
from opilio.text.idf import BackgroundIdf, load_default_idf
from opilio.text.language_id import guess_language, identify_language
from opilio.text.languages import is_known_language, language_names
from opilio.text.reading import BlockContext, LinkContext, PageReader, ParagraphContext, SentenceContext, WindowContext
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.genre import GenreDetector, GenreWords, default_genres, parse_genres

LINK_CONTEXTS: dict[str, Callable[[], LinkContext]] = {
    "block": BlockContext,
    "beside": WindowContext,
    "sentence": SentenceContext,
    "paragraph": ParagraphContext,
}


def build_vocabulary(settings: Settings) -> Vocabulary:
    """The words of the topic's language, normalised as asked."""
    return Vocabulary(settings.topic.language, settings.topic.normaliser)


def check_language(language: str, option: str = "topic.language") -> None:
    """ConfigError for a name that is no language of ours: its words would silently be taken as they are."""
    if not language.strip() or is_known_language(language):
        return
    raise ConfigError(
        f"{option} = '{language}': is unknown{suggest_name(language.strip().lower(), language_names())};"
        " write such as 'german' or 'de', or nothing: words then stay as they are"
    )


def build_reader(settings: Settings, vocabulary: Vocabulary) -> PageReader:
    """How pages are read, with the text around links cut as asked (X-06)."""
    return PageReader(
        vocabulary, LINK_CONTEXTS[settings.topic.around](), identify_language if settings.topic.identify else None
    )


def load_genre_definitions(settings: Settings) -> dict[str, GenreWords]:
    """The genres that come with Opilio, or those of the person's file."""
    name = settings.topic.genre_file
    if not name:
        return default_genres()
    text = read_text(Path(name), "topic.genre_file", TopicError)
    return parse_genres(text, f"topic.genre_file {name}")


def build_genres(settings: Settings, vocabulary: Vocabulary, wanted: tuple[str, ...]) -> GenreDetector:
    """Genres in the topic's language and in English; all of them where none are wanted."""
    languages = tuple(dict.fromkeys((vocabulary.language, "english")))
    return GenreDetector(load_genre_definitions(settings), vocabulary.terms, wanted, languages)


@cache
def background_frequencies() -> BackgroundIdf:
    """The table of document frequencies that comes with Opilio; read once, never changed."""
    return load_default_idf()


@lru_cache(maxsize=1 << 16)
def background_idf(stem: str) -> float:
    """How rare a stem is in general text (X-14)."""
    return background_frequencies()[term_id(stem)]


def resolve_settings(person: Tree, source: str = "configuration") -> Settings:
    """Settings from what a person gave, over the strategy's file, over the defaults."""
    name = str(person.get("strategy", Settings().strategy))
    settings = _convert_settings(merge_trees(_without_agent_count(load_strategy(name), person), person), source)
    if "language" not in person.get("topic", {}):
        told = settings.topic
        told.language = (
            guess_language(f"{told.name} {told.description}".strip() or " ".join(told.keywords)) or told.language
        )
    return _include_agent_seeds(settings)


def _without_agent_count(strategy: Tree, person: Tree) -> Tree:
    """The strategy without its number of agents, where the person named them and gave no number."""
    own = person.get("agents")
    if not isinstance(own, Mapping) or not own.get("each") or "count" in own:
        return strategy
    return {**strategy, "agents": {key: value for key, value in strategy.get("agents", {}).items() if key != "count"}}


def _include_agent_seeds(settings: Settings) -> Settings:
    """The seeds of agents are seeds of the crawl."""
    own = [url for one in settings.agents.each for url in one.seeds]
    given = settings.seeds.urls
    urls = {**dict.fromkeys(own, 1), **given} if isinstance(given, dict) else list(dict.fromkeys((*given, *own)))
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=urls))
