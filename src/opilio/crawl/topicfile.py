"""Topic tables as people look at them: a collection's with its history, and words accepted into a topic file."""

from pathlib import Path
from typing import Any

import msgspec
import tomlkit

from opilio.crawl.build import SNAPSHOT
from opilio.crawl.config import Settings, read_settings
from opilio.model.errors import ConfigError, TopicError
from opilio.store.collection import reading
from opilio.text.languages import name_of
from opilio.text.vocabulary import Vocabulary
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable
from opilio.topic.topic import Topic, topic_from
from opilio.topic.wordnet import Suggestion, WordNet

ACCEPTED = 0.5  # what an accepted word weighs beside the person's own
MOST_SOUGHT = 10  # keywords a thesaurus is asked about: suggestions for the hundredth word help nobody


def tables_of(folder: Path) -> list[tuple[float, WeightTable]]:
    """Every version of a collection's table with the time it was made, oldest first."""
    with reading(folder) as collection:
        rows = collection.connection.execute(
            "SELECT at, state FROM snapshot WHERE name = ? ORDER BY version", (SNAPSHOT,)
        ).fetchall()
    found = []
    for at, state in rows:
        living = LivingTopic(WeightTable())
        living.restore(bytes(state))
        found.append((float(at), living.table))
    if not found:
        raise TopicError(f"{folder}: has no topic yet: its crawl never began")
    return found


def told(at: float, table: WeightTable) -> dict[str, Any]:
    """A version of a table for machines."""
    shown = {keyword.stem: keyword.label for keyword in table.keywords}
    return {
        "version": table.version,
        "at": at,
        "size": len(table),
        "added": [shown.get(stem, stem) for stem in table.added],
        "keywords": [{"word": k.label, "stem": k.stem, "weight": round(k.weight, 6)} for k in table.keywords],
    }


def read_topic(path: Path) -> Topic:
    """The topic in a topic file."""
    given = msgspec.convert(read_settings(path), Settings).topic
    if not (given.name or given.keywords):
        raise ConfigError(f"{path}: has no [topic] with a name or keywords; opilio topic build writes one")
    return topic_from(given.name, given.keywords, language=given.language)


def suggestions(topic: Topic, wordnet: WordNet) -> list[Suggestion]:
    """What a thesaurus has for the heaviest keywords (or the name), without what the topic has already."""
    if name_of(topic.language) != "english":
        raise TopicError(f"topic.language = '{topic.language}': WordNet has English words only")
    company = [topic.name, *topic.keywords]
    heaviest = sorted(topic.keywords, key=lambda word: -topic.keywords[word])[:MOST_SOUGHT]
    terms = Vocabulary().terms
    known = {tuple(terms(text)) for text in company}  # another form of the same word adds nothing
    found: dict[str, Suggestion] = {}
    for word in heaviest or [topic.name, *topic.name.split()]:
        for suggestion in wordnet.suggestions(word, company):
            if tuple(terms(suggestion.word)) not in known:
                found.setdefault(suggestion.word.lower(), suggestion)
    return list(found.values())


def accept(path: Path, words: list[str], offered: list[Suggestion]) -> None:
    """Write the words a person accepted into the topic file; each must have been suggested."""
    by_name = {s.word.lower(): s.word for s in offered}
    for word in words:
        if word.lower() not in by_name:
            raise TopicError(f'--accept "{word}": was not suggested; opilio topic expand {path} shows what is')
    part = path.with_name(f"{path.name}.part")
    try:
        document = tomlkit.parse(path.read_bytes().decode("utf-8-sig"))
        _join(document, [by_name[word.lower()] for word in words])
        part.write_bytes(tomlkit.dumps(document).encode())
        part.replace(path)
    except OSError as error:
        raise TopicError(f"{path}: can't be written: {error.strerror}") from error


def _join(document: tomlkit.TOMLDocument, words: list[str]) -> None:
    """Put words into a document's topic, and leave everything else as the person wrote it, comments too."""
    topic: Any = document["topic"]
    keywords = topic.get("keywords")
    if not isinstance(keywords, dict):  # a list has no weights
        topic["keywords"] = tomlkit.inline_table()
        topic["keywords"].update(dict.fromkeys(keywords or (), 1.0))
        keywords = topic["keywords"]
    weight = ACCEPTED * float(max(keywords.values(), default=1.0))  # a plain number: one of the file has its comment
    for word in words:
        keywords[word] = weight
    if isinstance(topic.get("table_size"), int):
        topic["table_size"] = max(int(topic["table_size"]), len(keywords))
