"""Queries that lead away from a topic, for irrelevant seeds (S1-16, S1-E1). Pure."""

from collections.abc import Iterable, Sequence

from opilio.text.tokens import is_short, words

# The wide fields that libraries sort everything into, one query each.
# fmt: off
FIELDS = (
    "cooking recipes", "football results", "railway timetable", "personal finance advice", "medieval history",
    "jazz music concerts", "garden plants", "software tutorial", "travel guide", "court law", "chemistry experiments",
    "film reviews", "religion and philosophy", "house building", "health and medicine", "weather and climate",
)
# fmt: on


def off_topic(topic: Iterable[str], contexts: Sequence[str] = (), most: int = 5) -> list[str]:
    """Queries without a word of the topic: senses that are not meant first, as they teach most, then wide fields.

    >>> off_topic(["garden", "plants", "medicine"], ["jungle cat"], most=3)
    ['jungle cat', 'cooking recipes', 'football results']
    """
    own = {word for text in topic for word in words(text) if not is_short(word)}
    queries = [query for query in (*contexts, *FIELDS) if own.isdisjoint(words(query))]
    return queries[:most]
