"""Builds a topic file from examples, words or a query log, and measures how well it separates them. Fetches nothing.

The table is written out as weighted keywords: the file then needs neither the example pages nor the log to be there.

Also reads the topic tables of a collection with their history, and adds accepted words to a topic file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
import tomlkit

from opilio.core.display import pluralize
from opilio.core.errors import ConfigError, TopicError
from opilio.core.protocols import TOPIC_STATE
from opilio.core.records import Page
from opilio.core.settings import Settings, read_settings
from opilio.engine.learning import JournaledLearner
from opilio.engine.wiring.topic import LoggedQuery, split_intervals
from opilio.judge.similarity import CosineJudge
from opilio.learn.logistic import roc_auc
from opilio.store.collection import Collection, open_readonly
from opilio.store.learner_states import snapshots
from opilio.text.languages import identify_language, language_code, language_name
from opilio.text.reading import PageReader
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.topic.evolving import EvolvingTopic, restored_table
from opilio.topic.page_terms import SITE_TEXT_STATE, PageTerms, SiteText
from opilio.topic.setup import background_idf
from opilio.topic.topic import SourceWeights, Topic, build_topic_table, is_valid_text, make_stemmer, make_topic
from opilio.topic.weights import NoiseFilter, QueryLogSmoothing, QueryLogWeights, TfIdf, WeightTable, stem_query
from opilio.topic.wordnet import Suggestion, WordNet

MIN_EXAMPLES = 3
MIN_TABLE_WORDS = 3
LARGE_TABLE_WORDS = 10
# Of a random example and a random counter-example, how often the example must come first.
MIN_AUC = 0.8
MIN_FOUND_SHARE = 0.7
MAX_CLEAR_SENSES = 2
HOUR_S = 3600.0


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """Figures and warnings about a table for the user."""

    examples: int = 0
    counterexamples: int = 0
    # Examples judged relevant by the table of the others.
    found: int = 0
    mistaken: int = 0  # counter-examples judged relevant
    # Under the ROC curve: 1 separates fully, 0.5 not at all.
    area: float | None = None
    warnings: tuple[str, ...] = ()


class QueryLogInput(msgspec.Struct, frozen=True):
    """Queries, and the length of an interval in hours (0: all are one)."""

    queries: Sequence[LoggedQuery]
    hours: float = 0.0


def keywords_from_log(logged: QueryLogInput, log: QueryLogSmoothing, vocabulary: Vocabulary) -> dict[str, float]:
    """The keywords of a log, interval by interval if it has times, so that old queries fade (S4-07).

    The phrases of the vocabulary stay whole (S4-E1).
    """
    state = QueryLogWeights()
    stem = make_stemmer(vocabulary)
    for asked in split_intervals(logged.queries, logged.hours * HOUR_S):
        for text in asked:
            vocabulary.add_acronyms(text)
        state = log.update(state, [stem_query(text, stem, vocabulary.phrases) for text in asked])
    found = log.table(state)
    if not found.keywords:
        raise TopicError(
            f"query log: no word reaches the weight {log.threshold}; give more queries or lower --threshold"
        )
    return {vocabulary.surface_of(term_id(stem)) or stem: weight for stem, weight in found.weights.items()}


def build_table_from_pages(
    topic: Topic, size: int, wordnet: WordNet | None = None, min_documents: int = 2
) -> tuple[WeightTable, TopicReport]:
    """The table of a topic and how good it is. `min_documents`: example pages that must have a word (S0-E11)."""
    vocabulary = Vocabulary(topic.language, phrases=topic.phrases)
    for text in (topic.name, topic.description, *topic.keywords):
        vocabulary.add_acronyms(text)
    mixture = SourceWeights(size=size, weighing=TfIdf(noise=NoiseFilter(min_documents=min_documents)))
    table = build_topic_table(topic, vocabulary, background_idf, mixture)
    positive, negative = _texts(topic.positive), _texts(topic.negative)
    judges = [_judge(_leave_one_out(topic, at), vocabulary, mixture) for at in range(len(positive))]
    page = [_verdict(judge, vocabulary, text) for judge, text in zip(judges, positive, strict=True)]
    whole = CosineJudge(EvolvingTopic(table), PageTerms(vocabulary.terms))
    other = [_verdict(whole, vocabulary, text) for text in negative]
    report = TopicReport(
        examples=len(page),
        counterexamples=len(other),
        found=sum(relevant for _, relevant in page),
        mistaken=sum(relevant for _, relevant in other),
        area=roc_auc([s for s, _ in page], [s for s, _ in other]),
    )
    warnings = (
        *_example_warnings(topic, report),
        *_word_warnings(topic, table, wordnet),
        *_separation_warnings(report),
    )
    return table, msgspec.structs.replace(report, warnings=warnings)


def format_topic_file(
    topic: Topic, table: WeightTable, examples: Sequence[str] = (), counterexamples: Sequence[str] = ()
) -> str:
    """The topic as a file that `crawl --config` takes."""
    tree: dict[str, object] = {"name": topic.name}
    if topic.description:
        tree["description"] = topic.description
    tree |= {"language": topic.language, "table_size": max(1, len(table))}
    if topic.phrases:
        tree["phrases"] = list(topic.phrases)
    if topic.dewey:
        tree["dewey"] = list(topic.dewey)
    if examples:
        tree["examples"] = list(examples)
    if counterexamples:
        tree["counterexamples"] = list(counterexamples)
    tree["keywords"] = {keyword.label: round(keyword.weight, 4) for keyword in table.keywords}
    return tomli_w.dumps({"topic": tree})


def example_path(path: Path) -> str:
    """A file by its full name, so that a topic file means the same from everywhere."""
    name = str(path.resolve())
    if not is_valid_text(name):
        raise TopicError(f"example {name!a}: its name is not UTF-8 text, so no topic file can hold it; rename it")
    return name


def _texts(examples: Sequence[str | dict[str, int]]) -> list[str]:
    return [text for text in examples if isinstance(text, str)]


def _leave_one_out(topic: Topic, at: int) -> Topic:
    """The topic as if one example had not been given: a page must not vouch for itself (S1-E7)."""
    return msgspec.structs.replace(topic, positive=topic.positive[:at] + topic.positive[at + 1 :])


def _judge(topic: Topic, vocabulary: Vocabulary, mixture: SourceWeights) -> CosineJudge | None:
    try:
        table = build_topic_table(topic, vocabulary, background_idf, mixture)
    except TopicError:
        # The page left out was all there is.
        return None
    return CosineJudge(EvolvingTopic(table), PageTerms(vocabulary.terms))


def _verdict(judge: CosineJudge | None, vocabulary: Vocabulary, text: str) -> tuple[float, bool]:
    if judge is None:
        return 0.0, False
    verdict = judge.judge(PageReader(vocabulary).read(Page(url="", flow=text)))
    return verdict.score, verdict.relevant


def _example_warnings(topic: Topic, report: TopicReport) -> list[str]:
    warnings = []
    if report.examples < MIN_EXAMPLES:
        pages = f"only {pluralize(report.examples, 'example page')}" if report.examples else "no example page"
        warnings.append(
            f"{pages}: give at least {MIN_EXAMPLES} (--file, --url), better ten, to learn the topic's own words"
        )
    if report.examples and not report.counterexamples:
        warnings.append("no counter-examples (--negative): how well other pages are kept out is unknown")
    spoken = {code for text in _texts(topic.positive) if (code := identify_language(text))}
    if foreign := sorted(spoken - {language_code(topic.language)}):
        names = ", ".join(map(language_name, foreign))
        warnings.append(f"example pages in {names}, but the topic's language is {topic.language}: give --language")
    return warnings


def _word_warnings(topic: Topic, table: WeightTable, wordnet: WordNet | None) -> list[str]:
    warnings = []
    if len(table) < MIN_TABLE_WORDS:
        words = "one word" if len(table) == 1 else f"{len(table)} words"
        warnings.append(f"a topic of {words}: every page that has it counts in any sense; add keywords or examples")
    # Many words explain each other.
    if wordnet is not None and topic.language == "english" and len(table) < LARGE_TABLE_WORDS:
        for word, senses in ((k.label, wordnet.senses(k.label)) for k in table.keywords[:1]):
            if len(senses) > MAX_CLEAR_SENSES:
                meanings = "; ".join(s.gloss.partition(";")[0] for s in senses[:3])
                warnings.append(
                    f'"{word}" has {len(senses)} senses ({meanings}): name words of those not meant in topic.contexts'
                )
    return warnings


def _separation_warnings(report: TopicReport) -> list[str]:
    warnings = []
    if report.examples >= MIN_EXAMPLES and report.found < MIN_FOUND_SHARE * report.examples:
        warnings.append("the example pages have little in common: perhaps they are about several topics")
    if report.area is not None and report.area < MIN_AUC:
        warnings.append("the table hardly separates examples from counter-examples: give more of both")
    return warnings


# Of an accepted word, relative to the user's heaviest word.
ACCEPTED_WEIGHT = 0.5
# Keywords looked up in the thesaurus: suggestions for the hundredth word are of no use.
MAX_LOOKED_UP_KEYWORDS = 10


def table_history(folder: Path) -> list[tuple[float, WeightTable]]:
    """Every version of a collection's table with the time it was made, oldest first."""
    with open_readonly(folder) as collection:
        states = snapshots(collection.connection, TOPIC_STATE)
    found = [(row.at, restored_table(row.state)) for row in states]
    if not found:
        raise TopicError(f"{folder}: has no topic yet: its crawl has not started")
    return found


def site_text_count(collection: Collection) -> int:
    """The number of texts that sites repeat and the crawl leaves out."""
    site_text = SiteText(lambda _: ())
    JournaledLearner(site_text, collection, SITE_TEXT_STATE).load()
    return site_text.block_count


def table_to_dict(at: float, table: WeightTable) -> dict[str, Any]:
    """A version of a table for machines."""
    shown = {keyword.stem: keyword.label for keyword in table.keywords}
    return {
        "version": table.version,
        "at": at,
        "size": len(table),
        "added": [shown.get(stem, stem) for stem in table.added],
        "keywords": [{"word": k.label, "stem": k.stem, "weight": round(k.weight, 6)} for k in table.keywords],
    }


def read_topic_file(path: Path) -> Topic:
    """The topic in a topic file."""
    given = msgspec.convert(read_settings(path), Settings).topic
    if not (given.name or given.keywords):
        raise ConfigError(f"{path}: has no [topic] with a name or keywords; opilio topic build writes one")
    return make_topic(given.name, given.keywords, language=given.language)


def suggest_words(topic: Topic, wordnet: WordNet) -> list[Suggestion]:
    """What a thesaurus has for the heaviest keywords (or the name), without what the topic has already."""
    if language_name(topic.language) != "english":
        raise TopicError(f"topic.language = '{topic.language}': WordNet has English words only")
    company = [topic.name, *topic.keywords]
    heaviest = sorted(topic.keywords, key=lambda word: -topic.keywords[word])[:MAX_LOOKED_UP_KEYWORDS]
    terms = Vocabulary().terms
    # Another form of the same word adds nothing.
    known = {tuple(terms(text)) for text in company}
    found: dict[str, Suggestion] = {}
    for word in heaviest or [topic.name, *topic.name.split()]:
        for suggestion in wordnet.suggestions(word, company):
            if tuple(terms(suggestion.word)) not in known:
                found.setdefault(suggestion.word.lower(), suggestion)
    return list(found.values())


def accept_words(path: Path, words: list[str], offered: list[Suggestion]) -> None:
    """Write the accepted words into the topic file; each must have been suggested."""
    by_name = {s.word.lower(): s.word for s in offered}
    for word in words:
        if word.lower() not in by_name:
            raise TopicError(f'--accept "{word}": was not suggested; see "opilio topic suggest {path}"')
    part = path.with_name(f"{path.name}.part")
    try:
        document = tomlkit.parse(path.read_bytes().decode("utf-8-sig"))
        _add_keywords(document, [by_name[word.lower()] for word in words])
        part.write_bytes(tomlkit.dumps(document).encode())
        part.replace(path)
    except OSError as error:
        raise TopicError(f"{path}: can't be written: {error.strerror}") from error


def _add_keywords(document: tomlkit.TOMLDocument, words: list[str]) -> None:
    """Put words into a document's topic, and leave everything else as the user wrote it, comments too."""
    topic: Any = document["topic"]
    keywords = topic.get("keywords")
    # A list has no weights.
    if not isinstance(keywords, dict):
        topic["keywords"] = tomlkit.inline_table()
        topic["keywords"].update(dict.fromkeys(keywords or (), 1.0))
        keywords = topic["keywords"]
    # A plain number: one of the file has its comment.
    weight = ACCEPTED_WEIGHT * float(max(keywords.values(), default=1.0))
    for word in words:
        keywords[word] = weight
    if isinstance(topic.get("table_size"), int):
        topic["table_size"] = max(int(topic["table_size"]), len(keywords))
