"""Builds what reads words from settings (vocabulary, reader, genres), and the context that factories get.

`resolve_settings` turns the user's input into settings; `BuildContext` is the first argument of every factory of a
judge or ranker.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from opilio.core.errors import ConfigError, TopicError
from opilio.core.files import read_text
from opilio.core.settings import Settings, Tree, convert_settings, merge_trees, suggest_name
from opilio.core.strategies import load_strategy
from opilio.text.languages import guess_language, identify_language, is_known_language, language_names
from opilio.text.reading import (
    BlockContext,
    ContextPolicy,
    PageReader,
    ParagraphContext,
    SentenceContext,
    WindowContext,
)
from opilio.text.term_arrays import BackgroundIdf, load_default_idf
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.genre import GenreDetector, GenreWords, default_genres, parse_genres
from opilio.topic.page_terms import PageTerms
from opilio.topic.topic import Topic

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


Shared = TypeVar("Shared")


@dataclass(frozen=True, slots=True)
class BuildContext:
    """The first argument of every factory of a judge or ranker.

    `states` are the states of learners that the crawl starts with. A factory that reads a start file needs it only
    where the state of its learner is missing: a resumed crawl has it.
    """

    settings: Settings
    topic: Topic
    evolving_topic: EvolvingTopic
    vocabulary: Vocabulary
    page_words: PageTerms
    url_terms: UrlTerms
    genres: GenreDetector
    states: Mapping[str, bytes] = field(default_factory=dict)
    _made: dict[Any, Any] = field(default_factory=dict)

    def shared(self, make: "Callable[[BuildContext], Shared]") -> Shared:
        """What `make` returns for this context. Made once: judge and ranker share a lexicon of 20 MB."""
        if make not in self._made:
            self._made[make] = make(self)
        made: Shared = self._made[make]
        return made
