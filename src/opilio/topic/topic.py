"""What a person says a crawl is about, as one record. `build.py` makes a table of it."""

from collections.abc import Iterable, Mapping

import msgspec

from opilio.model.errors import TopicError

Example = str | dict[str, int]
"""An example page: its text, or the counts of its stems."""


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic as given. Nothing in it changes during a crawl; what grows is the table (`living.py`)."""

    name: str
    description: str = ""
    keywords: dict[str, float] = {}  # words or phrases as given, with how much they matter
    positive: tuple[Example, ...] = ()
    negative: tuple[Example, ...] = ()
    contexts: tuple[str, ...] = ()  # words of senses that are not meant (S3-09)
    genres: tuple[str, ...] = ()
    dewey: tuple[str, ...] = ()
    language: str = "english"
    version: int = 0

    def __post_init__(self) -> None:
        for text in (self.name, self.description, *self.keywords, *self.contexts):
            if not is_text(text):
                raise TopicError(f"topic {text!a}: is not UTF-8 text; set your terminal to UTF-8")
        for word, weight in self.keywords.items():
            if not 0.0 < weight < float("inf"):
                raise TopicError(f'topic "{self.name}": the weight of "{word}" must be above 0, not {weight}')


def is_text(given: str) -> bool:
    """False for what a terminal of another encoding sent: Python keeps such bytes as lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in given)


def topic_from(sentence: str, keywords: Iterable[str] | Mapping[str, float] = (), **more: object) -> Topic:
    """A topic from a sentence, keywords (all alike, or weighted), or both; `more` are the other fields.

    >>> topic_from("Birds of Europe", ["wren"]).keywords
    {'wren': 1.0}
    """
    weighted = dict(keywords) if isinstance(keywords, Mapping) else dict.fromkeys(keywords, 1.0)
    return msgspec.convert({"name": sentence, "keywords": weighted, **more}, Topic)
