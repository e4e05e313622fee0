"""Builds the vocabulary, reader and genres from settings, and resolves settings from the user's input."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from opilio.core.errors import ConfigError, TopicError
from opilio.core.files import read_text
from opilio.core.settings import Settings, Tree
from opilio.core.settings_input import convert_settings, merge_trees, suggest_name
from opilio.core.strategies import load_strategy
from opilio.text.idf import BackgroundIdf, load_default_idf
from opilio.text.language_id import guess_language, identify_language
from opilio.text.languages import is_known_language, language_names
from opilio.text.reading import (
    BlockContext,
    ContextPolicy,
    PageReader,
    ParagraphContext,
    SentenceContext,
    WindowContext,
)
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.genre import GenreDetector, GenreWords, default_genres, parse_genres

LINK_CONTEXTS: dict[str, Callable[[], ContextPolicy]] = {
    "block": BlockContext,
    "beside": WindowContext,
    "sentence": SentenceContext,
    "paragraph": ParagraphContext,
}


def build_vocabulary(settings: Settings) -> Vocabulary:
    """The vocabulary for the topic's language, normalizer and phrases."""
    return Vocabulary(settings.topic.language, settings.topic.normaliser, phrases=settings.topic.phrases)


def check_language(language: str, option: str = "topic.language") -> None:
    """Raise ConfigError for an unknown language: its words would silently not be stemmed."""
    if not language.strip() or is_known_language(language):
        return
    raise ConfigError(
        f"{option} = '{language}': unknown language{suggest_name(language.strip().lower(), language_names())};"
        " write for example 'german' or 'de', or nothing to use words unchanged"
    )


def build_reader(settings: Settings, vocabulary: Vocabulary) -> PageReader:
    """The page reader, with the text around links cut as configured (X-06)."""
    return PageReader(
        vocabulary, LINK_CONTEXTS[settings.topic.around](), identify_language if settings.topic.identify else None
    )


def load_genre_definitions(settings: Settings) -> dict[str, GenreWords]:
    """The built-in genres, or those of the user's file."""
    name = settings.topic.genre_file
    if not name:
        return default_genres()
    text = read_text(Path(name), "topic.genre_file", TopicError)
    return parse_genres(text, f"topic.genre_file {name}")


def build_genres(settings: Settings, vocabulary: Vocabulary, names: tuple[str, ...]) -> GenreDetector:
    """The genre detector for the topic's language and English; all genres if none are given."""
    languages = tuple(dict.fromkeys((vocabulary.language, "english")))
    return GenreDetector(load_genre_definitions(settings), vocabulary.terms, names, languages)


@cache
def background_frequencies() -> BackgroundIdf:
    """The built-in table of document frequencies, read once."""
    return load_default_idf()


@lru_cache(maxsize=1 << 16)
def background_idf(stem: str) -> float:
    """The idf of a stem in general text (X-14)."""
    return background_frequencies()[term_id(stem)]


def resolve_settings(user: Tree, source: str = "configuration") -> Settings:
    """Settings from the user's tree, merged over the strategy's file and the defaults."""
    name = str(user.get("strategy", Settings().strategy))
    settings = convert_settings(merge_trees(_without_agent_count(load_strategy(name), user), user), source)
    if "language" not in user.get("topic", {}):
        topic = settings.topic
        topic.language = (
            guess_language(f"{topic.name} {topic.description}".strip() or " ".join(topic.keywords)) or topic.language
        )
    return _include_agent_seeds(settings)


def _without_agent_count(strategy: Tree, user: Tree) -> Tree:
    """The strategy without its number of agents, if the user named agents and gave no number."""
    own = user.get("agents")
    if not isinstance(own, Mapping) or not own.get("each") or "count" in own:
        return strategy
    return {**strategy, "agents": {key: value for key, value in strategy.get("agents", {}).items() if key != "count"}}


def _include_agent_seeds(settings: Settings) -> Settings:
    """Add the seeds of agents to the seeds of the crawl."""
    own = [url for one in settings.agents.each for url in one.seeds]
    given = settings.seeds.urls
    urls = {**dict.fromkeys(own, 1), **given} if isinstance(given, dict) else list(dict.fromkeys((*given, *own)))
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=urls))
