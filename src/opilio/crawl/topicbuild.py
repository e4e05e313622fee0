"""A topic file from anything a person has, with how well its table tells the examples apart. Fetches nothing.

The table is written out as weighted keywords: the file then needs neither the example pages nor the log to be there.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import tomli_w

from opilio.crawl.queries import Query, intervals
from opilio.crawl.topics import idf_of
from opilio.judge.cosine import CosineJudge
from opilio.judge.pagewords import PageWords
from opilio.model.errors import TopicError
from opilio.model.records import Page
from opilio.text.identify import identify
from opilio.text.languages import code_of, name_of
from opilio.text.reading import Reader
from opilio.text.vocabulary import Vocabulary, term_of
from opilio.topic.build import Mixture, stem_with, topic_table
from opilio.topic.living import LivingTopic
from opilio.topic.querylog import QueryLog, QueryLogWeights, query_stems
from opilio.topic.table import WeightTable
from opilio.topic.topic import Topic, is_text
from opilio.topic.wordnet import WordNet

FEW_PAGES = 3
SMALL_TABLE = 3
LARGE_TABLE = 10
GOOD_AREA = 0.8  # of a random example and a random counter-example, how often the example must come first
GOOD_SHARE = 0.7
MANY_SENSES = 2
HOUR_S = 3600.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a person should know of a table: figures and warnings in plain words."""

    examples: int = 0
    counterexamples: int = 0
    found: int = 0  # examples judged relevant by the table of the others
    mistaken: int = 0  # counter-examples judged relevant
    area: float | None = None  # under the ROC curve: 1 separates fully, 0.5 not at all
    warnings: tuple[str, ...] = ()


class LoggedQueries(msgspec.Struct, frozen=True):
    """Queries, the length of an interval in hours (0: all are one), and the phrases that stay whole (S4-E1)."""

    queries: Sequence[Query]
    hours: float = 0.0
    phrases: tuple[str, ...] = ()


def log_keywords(logged: LoggedQueries, log: QueryLog, vocabulary: Vocabulary) -> dict[str, float]:
    """The keywords of a log, interval by interval where it tells the time, so that old questions fade (S4-07)."""
    state = QueryLogWeights()
    stem = stem_with(vocabulary)
    for asked in intervals(logged.queries, logged.hours * HOUR_S):
        for text in asked:
            vocabulary.note_acronyms(text)
        state = log.after(state, [query_stems(text, stem, logged.phrases) for text in asked])
    found = log.table(state)
    if not found.keywords:
        raise TopicError(
            f"query log: no word reaches the weight {log.threshold}; give more queries or lower --threshold"
        )
    return {_shown(stem, vocabulary): weight for stem, weight in found.weights.items()}


def _shown(stem: str, vocabulary: Vocabulary) -> str:
    return " ".join(vocabulary.surface_of(term_of(word)) or word for word in stem.split())


def build(topic: Topic, size: int, wordnet: WordNet | None = None) -> tuple[WeightTable, Report]:
    """The table of a topic and how good it is."""
    vocabulary = Vocabulary(topic.language)
    for text in (topic.name, topic.description, *topic.keywords):
        vocabulary.note_acronyms(text)
    mixture = Mixture(size=size)
    table = topic_table(topic, vocabulary, idf_of, mixture)
    positive, negative = _texts(topic.positive), _texts(topic.negative)
    judges = [_judge(_without(topic, at), vocabulary, mixture) for at in range(len(positive))]
    page = [_verdict(judge, vocabulary, text) for judge, text in zip(judges, positive, strict=True)]
    whole = CosineJudge(LivingTopic(table), PageWords(vocabulary.terms))
    other = [_verdict(whole, vocabulary, text) for text in negative]
    report = Report(
        examples=len(page),
        counterexamples=len(other),
        found=sum(relevant for _, relevant in page),
        mistaken=sum(relevant for _, relevant in other),
        area=_area([s for s, _ in page], [s for s, _ in other]),
    )
    warnings = (*_about_examples(topic, report), *_about_words(topic, table, wordnet), *_about_separation(report))
    return table, msgspec.structs.replace(report, warnings=warnings)


def written(topic: Topic, table: WeightTable, examples: Sequence[str] = (), counterexamples: Sequence[str] = ()) -> str:
    """The topic as a file that `crawl --config` takes."""
    tree: dict[str, object] = {"name": topic.name}
    if topic.description:
        tree["description"] = topic.description
    tree |= {"language": topic.language, "table_size": max(1, len(table))}
    if topic.dewey:
        tree["dewey"] = list(topic.dewey)
    if examples:
        tree["examples"] = list(examples)
    if counterexamples:
        tree["counterexamples"] = list(counterexamples)
    tree["keywords"] = {keyword.label: round(keyword.weight, 4) for keyword in table.keywords}
    return tomli_w.dumps({"topic": tree})


def named(path: Path) -> str:
    """A file by its full name, so that a topic file means the same from everywhere."""
    name = str(path.resolve())
    if not is_text(name):
        raise TopicError(f"example {name!a}: its name is not UTF-8 text, so no topic file can hold it; rename it")
    return name


def _texts(examples: Sequence[str | dict[str, int]]) -> list[str]:
    return [text for text in examples if isinstance(text, str)]


def _without(topic: Topic, at: int) -> Topic:
    """The topic as if one example had not been given: a page must not vouch for itself (S1-E7)."""
    return msgspec.structs.replace(topic, positive=topic.positive[:at] + topic.positive[at + 1 :])


def _judge(topic: Topic, vocabulary: Vocabulary, mixture: Mixture) -> CosineJudge | None:
    try:
        table = topic_table(topic, vocabulary, idf_of, mixture)
    except TopicError:
        return None  # the page left out was all there is
    return CosineJudge(LivingTopic(table), PageWords(vocabulary.terms))


def _verdict(judge: CosineJudge | None, vocabulary: Vocabulary, text: str) -> tuple[float, bool]:
    if judge is None:
        return 0.0, False
    verdict = judge.judge(Reader(vocabulary).read(Page(url="", flow=text)))
    return verdict.score, verdict.relevant


def _area(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """How often a random example scores above a random counter-example; ties count half."""
    if not positive or not negative:
        return None
    wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
    return wins / (len(positive) * len(negative))


def _about_examples(topic: Topic, report: Report) -> list[str]:
    said = []
    if report.examples < FEW_PAGES:
        pages = "no example page" if not report.examples else f"only {report.examples} example pages"
        pages = pages.removesuffix("s") if report.examples == 1 else pages
        said.append(f"{pages}: give at least {FEW_PAGES} (--file, --url), better ten, to learn the topic's own words")
    if report.examples and not report.counterexamples:
        said.append("no counter-examples (--negative): how well other pages are kept out can't be told")
    spoken = {code for text in _texts(topic.positive) if (code := identify(text))}
    if foreign := sorted(spoken - {code_of(topic.language)}):
        names = ", ".join(map(name_of, foreign))
        said.append(f"example pages in {names}, but the topic's language is {topic.language}: give --language")
    return said


def _about_words(topic: Topic, table: WeightTable, wordnet: WordNet | None) -> list[str]:
    said = []
    if len(table) < SMALL_TABLE:
        words = "one word" if len(table) == 1 else f"{len(table)} words"
        said.append(f"a topic of {words}: every page that has it counts, whatever it means; add keywords or examples")
    if (
        wordnet is not None and topic.language == "english" and len(table) < LARGE_TABLE
    ):  # many words explain each other
        for word, senses in ((k.label, wordnet.senses(k.label)) for k in table.keywords[:1]):
            if len(senses) > MANY_SENSES:
                meanings = "; ".join(s.gloss.partition(";")[0] for s in senses[:3])
                said.append(
                    f'"{word}" has {len(senses)} senses ({meanings}): name words of those not meant in topic.contexts'
                )
    return said


def _about_separation(report: Report) -> list[str]:
    said = []
    if report.examples >= FEW_PAGES and report.found < GOOD_SHARE * report.examples:
        said.append("the example pages have little in common: perhaps they are about several topics")
    if report.area is not None and report.area < GOOD_AREA:
        said.append("the table hardly tells examples from counter-examples: give more of both")
    return said
