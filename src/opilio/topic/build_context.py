"""What the factories of judges and rankers get: the topic and everything that reads words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from opilio.core.settings import Settings
from opilio.text.url_words import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.genre import GenreDetector
from opilio.topic.page_terms import PageTerms
from opilio.topic.topic import Topic

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
