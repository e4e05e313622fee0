"""A topic as classes: given as numbers or found from its words, and the words that classes lend to a topic. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from opilio.model.errors import TopicError
from opilio.topic.dewey.detect import galaxy_of
from opilio.topic.dewey.galaxy import Galaxy
from opilio.topic.dewey.lexicon import Class, Lexicon
from opilio.topic.dewey.matcher import Matcher
from opilio.topic.dewey.number import digits_of, is_beginning, is_number, related
from opilio.topic.topic import Topic

NEAR_BEST = 0.6  # share of the best cell's score from which a cell belongs to a topic told in words
FAMILY = 3  # so many cells of one tens class stand for the whole of it: `astronomy` is 52, not five of its parts
MOST = 5
HALVES_AT = 10  # terms of a class stand in order of weight: the tenth counts half of the first


class Target(NamedTuple):
    """What a crawl is after: the classes, and what finds them in a text."""

    matcher: Matcher
    classes: tuple[str, ...]


def checked(classes: Iterable[str], lexicon: Lexicon) -> tuple[str, ...]:
    """Classes a person gave, without spaces and doubles. A beginning such as `59` stands for all below it."""
    found = tuple(dict.fromkeys(text.strip() for text in classes))
    for code in found:
        if not is_number(code, lexicon.dewey) and not is_beginning(code):
            raise TopicError(f'topic.dewey "{code}": is no class; write it like "598", "598.8" or "59" for all of 59x')
        if not any(related(code, known) for known in lexicon.classes):
            raise TopicError(f'topic.dewey "{code}": the lexicon has no such class; give another or a lexicon_file')
    return found


def classes_for(topic: Topic, matcher: Matcher) -> tuple[str, ...]:
    """The classes of a topic: its own, else those that its name, description, keywords and examples speak of."""
    if topic.dewey:
        return topic.dewey
    told = " ".join([topic.name, topic.description, *topic.keywords])
    found = _densest(galaxy_of(matcher.vocabulary.terms(told), matcher))
    if not found:
        texts = " ".join(text for text in topic.positive if isinstance(text, str))
        found = _densest(galaxy_of(matcher.vocabulary.terms(texts), matcher))
    if not found:
        raise TopicError(f'topic "{topic.name}": none of its words is in the lexicon; give classes as topic.dewey')
    return found


def _densest(galaxy: Galaxy) -> tuple[str, ...]:
    near = [cell.code for cell in galaxy.ranked if cell.score >= NEAR_BEST * galaxy.ranked[0].score]
    tens = [digits_of(code)[:2] for code in near]
    found = [ten if tens.count(ten) >= FAMILY else code for code, ten in zip(near, tens, strict=True)]
    return tuple(dict.fromkeys(found))[:MOST]


def class_words(classes: Sequence[str], lexicon: Lexicon) -> dict[str, float]:
    """Index terms of the classes and of all below them, as weighted keywords, heaviest first.

    A term counts less the further back it stands, and less where it stands under several numbers.
    """
    weights: dict[str, float] = {}
    for entry in _below(classes, lexicon):
        for place, term in enumerate(entry.terms):
            weight = 1.0 / (1.0 + place / HALVES_AT) / len(lexicon.numbers[term])
            weights[term] = max(weight, weights.get(term, 0.0))
    return dict(sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])))


def class_names(classes: Sequence[str], lexicon: Lexicon) -> str:
    """What the classes are called, for a topic that nobody named."""
    named = [lexicon.name_of(code) or next((c.name for c in _below([code], lexicon)), code) for code in classes]
    return "; ".join(dict.fromkeys(named))


def _below(classes: Sequence[str], lexicon: Lexicon) -> list[Class]:
    """The classes themselves and their parts; the nearest one above a number that is none itself."""
    wanted = [digits_of(code) for code in classes]
    found = [c for number, c in lexicon.classes.items() if digits_of(number).startswith(tuple(wanted))]
    above = [c for number, c in lexicon.classes.items() if any(w.startswith(digits_of(number)) for w in wanted)]
    return found or above[-1:]
