"""A topic as classes of Dewey or another scheme, and the judge `dewey`: is the galaxy of a page one of these classes?

Also the words that classes add to a topic, and the lexicon that the settings name (read from its file).
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from opilio.core.errors import ConfigError, TopicError
from opilio.core.protocols import Judge
from opilio.core.records import Reading, Reason, Verdict
from opilio.core.settings import Positive, Settings, Share
from opilio.methods.dewey.detect import (
    PAPER_RULE,
    RECOMMENDED_RULE,
    DeweyClass,
    Galaxy,
    GalaxyRule,
    Lexicon,
    LexiconMatcher,
    builtin_lexicon,
    digits_of,
    galaxy_of,
    is_number,
    is_prefix,
    is_related,
    main_galaxy,
    read_lexicon,
)
from opilio.text.vocabulary import Vocabulary
from opilio.topic.setup import BuildContext, background_frequencies, build_vocabulary
from opilio.topic.topic import Topic

# A cell belongs to a topic given in words from this share of the best cell's score on.
MIN_CLASS_SHARE = 0.6
# This many cells of one tens class stand for the whole of it: `astronomy` is 52, not five of its parts.
CELLS_FOR_TENS = 3
MAX_CLASSES = 5
# Terms of a class are in order of weight: the tenth counts half of the first.
TERM_WEIGHT_HALF_RANK = 10
# Terms of a class that a thesaurus is asked about: the heaviest.
MAX_EXPANDED_TERMS = 20


class DeweyTarget(NamedTuple):
    """The classes of a crawl's topic, and what finds classes in a text."""

    matcher: LexiconMatcher
    classes: tuple[str, ...]


def check_classes(classes: Iterable[str], lexicon: Lexicon) -> tuple[str, ...]:
    """The classes that the user gave, without spaces and duplicates. A prefix such as `59` stands for all below it."""
    found = tuple(dict.fromkeys(text.strip() for text in classes))
    for code in found:
        if not is_number(code, lexicon.dewey) and not is_prefix(code):
            raise TopicError(f'topic.dewey "{code}": not a class; write it like "598", "598.8" or "59" for all of 59x')
        if not any(is_related(code, known) for known in lexicon.classes):
            raise TopicError(f'topic.dewey "{code}": the lexicon has no such class; give another or a lexicon_file')
    return found


def topic_classes(topic: Topic, matcher: LexiconMatcher) -> tuple[str, ...]:
    """The classes of a topic: its own, else those that its name, description, keywords and examples mention."""
    if topic.dewey:
        return topic.dewey
    text = " ".join([topic.name, topic.description, *topic.keywords])
    found = _top_classes(galaxy_of(matcher.vocabulary.terms(text), matcher))
    if not found:
        texts = " ".join(text for text in topic.positive if isinstance(text, str))
        found = _top_classes(galaxy_of(matcher.vocabulary.terms(texts), matcher))
    if not found:
        raise TopicError(f'topic "{topic.name}": none of its words is in the lexicon; give classes as topic.dewey')
    return found


def _top_classes(galaxy: Galaxy) -> tuple[str, ...]:
    near = [cell.code for cell in galaxy.ranked if cell.score >= MIN_CLASS_SHARE * galaxy.ranked[0].score]
    tens = [digits_of(code)[:2] for code in near]
    found = [ten if tens.count(ten) >= CELLS_FOR_TENS else code for code, ten in zip(near, tens, strict=True)]
    return tuple(dict.fromkeys(found))[:MAX_CLASSES]


def class_words(classes: Sequence[str], lexicon: Lexicon) -> dict[str, float]:
    """Index terms of the classes and of all below them, as weighted keywords, heaviest first.

    A term counts less the later it is listed, and less if it has several numbers.
    """
    weights: dict[str, float] = {}
    for entry in _subclasses(classes, lexicon):
        for place, term in enumerate(entry.terms):
            weight = 1.0 / (1.0 + place / TERM_WEIGHT_HALF_RANK) / len(lexicon.numbers[term])
            weights[term] = max(weight, weights.get(term, 0.0))
    return dict(sorted(weights.items(), key=lambda pair: (-pair[1], pair[0])))


def add_synonyms(target: DeweyTarget, synonyms: Callable[[str, Sequence[str]], Sequence[str]]) -> DeweyTarget:
    """The target with synonyms of the index terms of its classes (S2-F3).

    `synonyms` gets a term and the class's name and terms, which decide the sense. Words that have a class keep it.
    """
    lexicon = target.matcher.lexicon
    classes = dict(lexicon.classes)
    for entry in _subclasses(target.classes, lexicon):
        context = (entry.name, *entry.terms)
        found = (word.lower() for term in entry.terms[:MAX_EXPANDED_TERMS] for word in synonyms(term, context))
        new = dict.fromkeys(word for word in found if word not in lexicon.numbers)
        classes[entry.number] = entry._replace(terms=(*entry.terms, *new))
    wider = Lexicon(classes.values(), lexicon.dewey)
    return DeweyTarget(LexiconMatcher(wider, target.matcher.vocabulary, background_frequencies()), target.classes)


def class_names(classes: Sequence[str], lexicon: Lexicon) -> str:
    """The names of the classes, for a topic without a name."""
    named = [lexicon.name_of(code) or next((c.name for c in _subclasses([code], lexicon)), code) for code in classes]
    return "; ".join(dict.fromkeys(named))


def _subclasses(classes: Sequence[str], lexicon: Lexicon) -> list[DeweyClass]:
    """The classes themselves and their subclasses; for a number without a class, its nearest parent."""
    wanted = [digits_of(code) for code in classes]
    found = [c for number, c in lexicon.classes.items() if digits_of(number).startswith(tuple(wanted))]
    above = [c for number, c in lexicon.classes.items() if any(w.startswith(digits_of(number)) for w in wanted)]
    return found or above[-1:]


def load_lexicon(settings: Settings) -> Lexicon:
    """The lexicon of Opilio, the user's own, or both."""
    topic = settings.topic
    if not topic.lexicon_file:
        return builtin_lexicon()
    try:
        own = read_lexicon(Path(topic.lexicon_file), dewey=topic.lexicon_use != "other-scheme")
    except TopicError as error:
        raise TopicError(f"topic.lexicon_file {error}") from error
    return builtin_lexicon().merged_with(own) if topic.lexicon_use == "add" else own


def add_dewey_classes(topic: Topic, settings: Settings) -> Topic:
    """Fill in the names and index terms of given classes, or the classes of given words, where the user gave none."""
    given = settings.topic
    if not given.dewey:
        # Example pages are not read yet.
        waits = bool(given.examples) and not topic.positive
        if settings.judge.get("kind") == "dewey" and not waits:
            return replace(topic, dewey=build_dewey_target(settings, topic, build_vocabulary(settings)).classes)
        if given.lexicon_file:
            # An invalid file is reported before the crawl starts.
            load_lexicon(settings)
        return topic
    lexicon = load_lexicon(settings)
    classes = check_classes(given.dewey, lexicon)
    name = topic.name or class_names(classes, lexicon)
    return replace(topic, name=name, dewey=classes, keywords=topic.keywords or class_words(classes, lexicon))


def dewey_target(context: BuildContext) -> DeweyTarget:
    """The classes of a crawl's topic. Reads the lexicon (0.3 s, 20 MB): use it through `BuildContext.shared`."""
    return build_dewey_target(context.settings, context.topic, context.vocabulary)


def build_dewey_target(settings: Settings, topic: Topic, vocabulary: Vocabulary) -> DeweyTarget:
    """A matcher for the settings' lexicon, with the classes of the topic."""
    matcher = LexiconMatcher(load_lexicon(settings), vocabulary, background_frequencies())
    return DeweyTarget(matcher, topic_classes(topic, matcher))


DEWEY_REASONS = 5
DEWEY_THRESHOLD = 0.5


class DeweyJudge:
    """Score = t / (t + o): t the best cell of the topic's classes, o the best cell of all others.

    So 0.5 is reached where the galaxy itself is of the topic, and 0.2 where any cell except outliers is: both readings
    of S2-E6 are thresholds. A page without an index term is unknown, that is, off topic.
    """

    def __init__(
        self,
        matcher: LexiconMatcher,
        classes: Sequence[str],
        rule: GalaxyRule = RECOMMENDED_RULE,
        threshold: float = DEWEY_THRESHOLD,
    ) -> None:
        if not classes:
            raise TopicError('judge.kind = "dewey" needs classes: give topic.dewey, for example ["598"]')
        if not 0.0 <= threshold <= 1.0:
            raise ConfigError(f"judge.threshold: must be between 0 and 1, not {threshold}")
        self.matcher = matcher
        self.classes = tuple(classes)
        self.rule = rule
        self.threshold = threshold

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        galaxy = main_galaxy(reading, self.matcher, self.rule)
        score = galaxy.closeness(self.classes)
        relevant = bool(galaxy.ranked) and score > 0.0 and score >= self.threshold
        return Verdict(score=score, relevant=relevant, reasons=(Reason("dewey", score), *self._cells(galaxy)))

    def _cells(self, galaxy: Galaxy) -> list[Reason]:
        """The best classes by their share of the best one's score."""
        best = galaxy.ranked[0].score if galaxy.ranked else 1.0
        name_of = self.matcher.lexicon.name_of
        return [Reason(f"{code} {name_of(code)}", score / best) for code, score in galaxy.ranked[:DEWEY_REASONS]]


DeweyWeighting = Literal["ours", "paper"]
WEIGHTING_RULES: dict[DeweyWeighting, GalaxyRule] = {"ours": RECOMMENDED_RULE, "paper": PAPER_RULE}


def dewey_judge(
    context: BuildContext,
    *,
    weighing: DeweyWeighting = "ours",
    max_length: Positive = 3,
    threshold: Share = DEWEY_THRESHOLD,
) -> Judge:
    """See `DeweyJudge`; `weighing` is how dots count: as in the paper, or less for common and ambiguous words."""
    target = context.shared(dewey_target)
    return DeweyJudge(
        target.matcher, target.classes, replace(WEIGHTING_RULES[weighing], max_length=max_length), threshold
    )
