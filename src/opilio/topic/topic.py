"""The topic as the user gives it, the weight table built from it, and rules for other senses of its words.

Keywords keep a high weight because the user chose them; example pages add further words. `ContextRule` and
`SenseWeights` detect pages about another sense (S3-09, S3-E12, S3-F2, S2-F4, S4-F1): the first counts words of
irrelevant contexts (the paper's rule, with options), the second compares the words near an ambiguous word, those of the
topic against those of the other senses.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import TopicError
from opilio.core.records import Verdict
from opilio.text.term_arrays import TermEncoder
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.weights import Counts, Idf, TfIdf, WeightScheme, WeightTable, collect_statistics, table_from_weights

ExamplePage = str | dict[str, int]
"""An example page: its text, or the counts of its stems."""


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic as given. It does not change during a crawl; the table in `EvolvingTopic` does."""

    name: str
    description: str = ""
    keywords: dict[str, float] = {}  # words or phrases with their weights
    # Words that are one term where they stand together (S4-E1).
    phrases: tuple[str, ...] = ()
    positive: tuple[ExamplePage, ...] = ()
    negative: tuple[ExamplePage, ...] = ()
    # Words of other senses of the topic's words (S3-09).
    contexts: tuple[str, ...] = ()
    genres: tuple[str, ...] = ()
    dewey: tuple[str, ...] = ()
    language: str = "english"
    version: int = 0

    def __post_init__(self) -> None:
        for text in (self.name, self.description, *self.keywords, *self.contexts):
            if not is_valid_text(text):
                raise TopicError(f"topic {text!a}: is not UTF-8 text; set your terminal to UTF-8")
        for word, weight in self.keywords.items():
            if not 0.0 < weight < float("inf"):
                raise TopicError(f'topic "{self.name}": the weight of "{word}" must be above 0, not {weight}')


def is_valid_text(given: str) -> bool:
    """False for text with lone surrogates: Python decodes arguments in another encoding to these."""
    return not any("\ud800" <= char <= "\udfff" for char in given)


def make_topic(sentence: str, keywords: Iterable[str] | Mapping[str, float] = (), **more: object) -> Topic:
    """A topic from a sentence, keywords (with or without weights), or both; `more` are the other fields.

    >>> make_topic("Birds of Europe", ["wren"]).keywords
    {'wren': 1.0}
    """
    weighted = dict(keywords) if isinstance(keywords, Mapping) else dict.fromkeys(keywords, 1.0)
    return msgspec.convert({"name": sentence, "keywords": weighted, **more}, Topic)


class SourceWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each source; every source is normalized to a largest weight of 1 first (X-10: size 50)."""

    keywords: float = 1.0
    sentence: float = 0.5
    positive: float = 1.0
    negative: float = 0.5
    size: int = 50
    weighing: WeightScheme = TfIdf()


def build_topic_table(
    topic: Topic, vocabulary: Vocabulary, background: Idf | None = None, source_weights: SourceWeights | None = None
) -> WeightTable:
    """The table of a topic. Raises TopicError if it contains no usable word."""
    shares = source_weights or SourceWeights()
    stems = partial(count_stems, TermEncoder(vocabulary))
    examples = partial(_example_weights, stems=stems, weighing=shares.weighing, background=background)
    # The background frequencies are of English: they say nothing about `Tee` and `Art` in German.
    rarity = background if vocabulary.language == "english" else None
    # A topic that is only a name needs its words, whatever their weight.
    sentence = shares.sentence or (0.0 if topic.keywords or topic.positive else 1.0)
    sources = (
        (shares.keywords, _keyword_weights(topic.keywords, stems)),
        (sentence, _sentence_weights(f"{topic.name} {topic.description}", stems, rarity)),
        (shares.positive, examples(topic.positive)),
        (-shares.negative, examples(topic.negative)),
    )
    weights: dict[str, float] = {}
    for share, source in sources:
        for stem, weight in source.items():
            weights[stem] = weights.get(stem, 0.0) + share * weight
    shown = {stem: vocabulary.surface_of(term_id(stem)) for stem in weights}
    table = table_from_weights(weights, shares.size, shown)
    if not table.keywords:
        raise TopicError(f'topic "{topic.name}": has no usable words beside stop words; give keywords or example pages')
    return table


def make_stemmer(vocabulary: Vocabulary) -> Callable[[str], str]:
    """A function from a word to its stem, "" for stop words."""
    return lambda word: " ".join(vocabulary.stem_of(t) for t in vocabulary.terms(word))


def count_stems(codes: TermEncoder, text: str) -> Counter[str]:
    """How often each stem stands in a text."""
    terms, counts = codes.count_terms(text)
    return Counter(dict(zip(map(codes.vocabulary.stem_of, terms.tolist()), counts.tolist(), strict=True)))


CountStems = Callable[[str], Counter[str]]


def _keyword_weights(given: Mapping[str, float], stems: CountStems) -> dict[str, float]:
    """Stem -> weight. A keyword of several words gives each its weight, unless the topic declares it as a phrase."""
    weights: dict[str, float] = {}
    for text, weight in given.items():
        for stem in stems(text):
            weights[stem] = max(weight, weights.get(stem, 0.0))
    return table_from_weights(weights).weights


def _sentence_weights(text: str, stems: CountStems, background: Idf | None) -> dict[str, float]:
    """The sentence's words weighted by their rarity in the background corpus."""
    return table_from_weights({stem: background(stem) if background else 1.0 for stem in stems(text)}).weights


def _example_weights(
    pages: Sequence[ExamplePage], stems: CountStems, weighing: WeightScheme, background: Idf | None
) -> dict[str, float]:
    documents: list[Counts] = [stems(p) if isinstance(p, str) else p for p in pages]
    return table_from_weights(weighing.weigh(collect_statistics(documents), background)).weights


IdfArray = Callable[[NDArray[np.uint32]], NDArray[np.float64]]
OTHER_SENSE = "other sense"
WINDOW = 20  # words on each side


def is_other_sense(verdict: Verdict) -> bool:
    """True for a page that was rejected because of another sense: it is ignored together with its links (S3-09)."""
    return bool(verdict.reasons) and verdict.reasons[0].name == OTHER_SENSE


class ContextRule(msgspec.Struct, frozen=True, kw_only=True):
    """When words of irrelevant contexts make a page irrelevant (S3-E12). The default is the paper's: any hit.

    `ratio` requires more than that many context words per topic word, besides the minimum. `where` is the whole page,
    or only its title and anchors. With `whole_word` off, context words are also found inside other words.
    """

    minimum: int = 1
    ratio: float = 0.0
    where: Literal["page", "title"] = "page"
    whole_word: bool = True

    def __post_init__(self) -> None:
        if self.minimum < 1 or self.ratio < 0.0:
            raise TopicError(f"minimum must be at least 1 and ratio not below 0, not {self.minimum} and {self.ratio}")

    def rejects(self, hits: int, topic_words: int) -> bool:
        """True if there are enough context words, absolutely and relative to the topic's words."""
        return hits >= self.minimum and hits > self.ratio * topic_words


class SenseWeights(msgspec.Struct, frozen=True, kw_only=True):
    """The topic's words against the other senses' words, near the ambiguous words.

    `topic` and `others` are the weights of the words of both sides; `ambiguous` are the words that both share and that
    do not count. A page is about another sense if the others outweigh the topic by a factor of `margin`.
    """

    topic: dict[int, float]
    others: dict[int, float]
    ambiguous: frozenset[int] = frozenset()
    window: int = WINDOW
    margin: float = 1.0

    def weigh(self, terms: Sequence[int], idf: IdfArray) -> tuple[float, float]:
        """Evidence for the topic and for the others: Σ weight · idf over the distinct words nearby."""
        near = nearby_terms(terms, self.ambiguous, self.window) - self.ambiguous
        return _evidence(near, self.topic, idf), _evidence(near, self.others, idf)

    def rejects(self, topic: float, others: float) -> bool:
        """True if the other senses outweigh the topic."""
        return others > self.margin * topic


def nearby_terms(terms: Sequence[int], ambiguous: frozenset[int], window: int = WINDOW) -> set[int]:
    """The words within the window of an ambiguous word; all words if the page has no ambiguous word."""
    at = [i for i, t in enumerate(terms) if t in ambiguous]
    if not at:
        return set(terms)
    near: set[int] = set()
    for i in at:
        near.update(terms[max(0, i - window) : i + window + 1])
    return near


def _evidence(near: Collection[int], weights: Mapping[int, float], idf: IdfArray) -> float:
    found = sorted(weights.keys() & near)
    values = np.array([weights[t] for t in found])
    return float(values @ idf(np.array(found, dtype=np.uint32))) if found else 0.0
