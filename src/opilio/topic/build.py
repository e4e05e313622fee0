"""A table from all that a person gave: keywords, sentence, example pages, and pages that are not meant.

Keywords keep a high weight because a person chose them; example pages add what the person did not think of.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from opilio.model.errors import TopicError
from opilio.text.vocabulary import Vocabulary, term_of
from opilio.text.wordcodes import WordCodes
from opilio.topic.querylog import QueryLog, QueryLogWeights, query_stems
from opilio.topic.table import WeightTable, table_of
from opilio.topic.tables import Counts, Idf, TfIdf, Weighing, statistics_of
from opilio.topic.topic import Example, Topic


class Mixture(msgspec.Struct, frozen=True, kw_only=True):
    """How much each source matters; every source is normalised to a largest weight of 1 first. Ours (X-10: size 50)."""

    keywords: float = 1.0
    sentence: float = 0.5
    positive: float = 1.0
    negative: float = 0.5
    size: int = 50
    weighing: Weighing = TfIdf()


def topic_table(
    topic: Topic, vocabulary: Vocabulary, background: Idf | None = None, mixture: Mixture | None = None
) -> WeightTable:
    """The table of a topic. Raises TopicError where nothing usable was given."""
    mixture = mixture or Mixture()
    stems = partial(stem_counts, WordCodes(vocabulary))
    examples = partial(_examples, stems=stems, weighing=mixture.weighing, background=background)
    # The background is English: `Tee` and `Art` are no rarer in German for what these words are there.
    rarity = background if vocabulary.language == "english" else None
    sources = (
        (mixture.keywords, _keywords(topic.keywords, stems)),
        (mixture.sentence, _sentence(f"{topic.name} {topic.description}", stems, rarity)),
        (mixture.positive, examples(topic.positive)),
        (-mixture.negative, examples(topic.negative)),
    )
    weights: dict[str, float] = {}
    for share, source in sources:
        for stem, weight in source.items():
            weights[stem] = weights.get(stem, 0.0) + share * weight
    shown = {stem: vocabulary.surface_of(term_of(stem)) for stem in weights}
    table = table_of(weights, mixture.size, shown)
    if not table.keywords:
        raise TopicError(f'topic "{topic.name}": has no usable words beside stop words; give keywords or example pages')
    return table


def query_table(
    queries: Iterable[str], vocabulary: Vocabulary, log: QueryLog | None = None, phrases: Iterable[str] = ()
) -> WeightTable:
    """The table of one interval of a query log (S4-06)."""
    log = log or QueryLog()
    asked = [query_stems(q, stem_with(vocabulary), phrases) for q in queries]
    table = log.table(log.after(QueryLogWeights(), asked))
    if not table.keywords:
        raise TopicError(f"query log: no word reaches the threshold {log.threshold}; lower it or give more queries")
    return table


def stem_with(vocabulary: Vocabulary) -> Callable[[str], str]:
    """A function from a word to its stem, "" for stop words."""
    return lambda word: " ".join(vocabulary.stem_of(t) for t in vocabulary.terms(word))


def stem_counts(codes: WordCodes, text: str) -> Counter[str]:
    """How often each stem stands in a text."""
    terms, counts = codes.counts(text)
    return Counter(dict(zip(map(codes.vocabulary.stem_of, terms.tolist()), counts.tolist(), strict=True)))


Stems = Callable[[str], Counter[str]]


def _keywords(given: Mapping[str, float], stems: Stems) -> dict[str, float]:
    """Stem to weight; each word of a phrase has the phrase's weight."""
    weights: dict[str, float] = {}
    for text, weight in given.items():
        for stem in stems(text):
            weights[stem] = max(weight, weights.get(stem, 0.0))
    return table_of(weights).weights


def _sentence(text: str, stems: Stems, background: Idf | None) -> dict[str, float]:
    """The sentence's words by how rare they are in the background."""
    return table_of({stem: background(stem) if background else 1.0 for stem in stems(text)}).weights


def _examples(pages: Sequence[Example], stems: Stems, weighing: Weighing, background: Idf | None) -> dict[str, float]:
    documents: list[Counts] = [stems(p) if isinstance(p, str) else p for p in pages]
    return table_of(weighing.weigh(statistics_of(documents), background)).weights
