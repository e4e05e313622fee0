"""Topics as classes of Dewey or another scheme: the lexicon a person chose, and what a topic gains by it.

Reads the lexicon file that the settings name; what the classes mean is `topic/dewey`'s business.
"""

from pathlib import Path

from msgspec.structs import replace

from opilio.crawl.config import Settings
from opilio.crawl.topics import background, vocabulary_of
from opilio.model.errors import TopicError
from opilio.text.vocabulary import Vocabulary
from opilio.topic.dewey.lexicon import Lexicon, ours, read
from opilio.topic.dewey.matcher import Matcher
from opilio.topic.dewey.target import Target, checked, class_names, class_words, classes_for
from opilio.topic.topic import Topic


def lexicon_of(settings: Settings) -> Lexicon:
    """Ours, the person's own, or both."""
    topic = settings.topic
    if not topic.lexicon_file:
        return ours()
    try:
        own = read(Path(topic.lexicon_file), dewey=topic.lexicon_use != "other-scheme")
    except TopicError as error:
        raise TopicError(f"topic.lexicon_file {error}") from error
    return ours().plus(own) if topic.lexicon_use == "add" else own


def with_classes(topic: Topic, settings: Settings) -> Topic:
    """A topic given as classes has their names and index terms where the person gave none, and the other way round."""
    given = settings.topic
    if not given.dewey:
        waits = bool(given.examples) and not topic.positive  # example pages are not read yet
        if settings.judge.get("kind") == "dewey" and not waits:
            return replace(topic, dewey=target_of(settings, topic, vocabulary_of(settings)).classes)
        if given.lexicon_file:
            lexicon_of(settings)  # a file that can't be used is told before the crawl begins
        return topic
    lexicon = lexicon_of(settings)
    classes = checked(given.dewey, lexicon)
    name = topic.name or class_names(classes, lexicon)
    return replace(topic, name=name, dewey=classes, keywords=topic.keywords or class_words(classes, lexicon))


def target_of(settings: Settings, topic: Topic, vocabulary: Vocabulary) -> Target:
    """What finds the classes of a text, and those the crawl is after."""
    matcher = Matcher(lexicon_of(settings), vocabulary, background())
    return Target(matcher, classes_for(topic, matcher))
