"""`opilio topic`: make a topic file, show the table of a collection, ask a thesaurus for more words."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opilio.cli.options import CollectionArgument, JsonOption, print_json, print_message, print_text

if TYPE_CHECKING:
    from opilio.manage.topic_builder import TopicReport
    from opilio.topic.topic import Topic
    from opilio.topic.weights import WeightTable
    from opilio.topic.wordnet import WordNet

MAX_WORDS_SHOWN = 12
WORDS_IN_DEFAULT_NAME = 5  # of a topic without a name
WordNetFolder = Annotated[
    Path | None, typer.Option("--wordnet", metavar="DIR", help="Folder with WordNet's index.* and data.* files.")
]


def build_topic(
    sentence: Annotated[str, typer.Argument(help="The topic, as a sentence.", show_default=False)] = "",
    keyword: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word or phrase, weight optional: wren or wren=0.8.")
    ] = None,
    file: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A saved page on the topic.")] = None,
    url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A page on the topic; it is fetched now.")
    ] = None,
    crawl: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Crawl this host from here; its pages are on the topic.")
    ] = None,
    pages: Annotated[int, typer.Option(min=1, help="Pages to fetch with --crawl.")] = 60,
    min_documents: Annotated[int, typer.Option(min=1, help="Example pages that must have a word of the table.")] = 2,
    query_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A query log: one query per line, or CSV.")
    ] = None,
    phrase: Annotated[list[str] | None, typer.Option(metavar="WORDS", help="Words that count as one term.")] = None,
    dewey: Annotated[list[str] | None, typer.Option(help="A Dewey class, such as 598; 59 means all of 59x.")] = None,
    positive: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A saved page that is relevant.")] = None,
    negative: Annotated[list[Path] | None, typer.Option(metavar="FILE", help="A saved page that is not.")] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The topic file, for crawl --config.")] = Path("topic.toml"),
    language: Annotated[str | None, typer.Option(help="Language of the topic; detected if left out.")] = None,
    size: Annotated[int, typer.Option(min=1, help="Words in the table.")] = 50,
    memory: Annotated[float, typer.Option(help="Query log: share of an old weight that stays (α).")] = 0.5,
    threshold: Annotated[float, typer.Option(min=0, help="Query log: lowest weight of a keyword.")] = 1.0,
    hours: Annotated[float, typer.Option(min=0, help="Query log with times: length of an interval (0: one).")] = 0.0,
    wordnet: WordNetFolder = None,
    proxy: Annotated[str, typer.Option(metavar="URL", help="Fetch --url through this proxy.")] = "",
    allow_private: Annotated[bool, typer.Option(help="Allow private and loopback addresses.")] = False,
    json: JsonOption = False,
) -> int:
    """Make a topic file from a sentence, keywords, pages or a query log.

    Also reports how well the words of the topic separate the example pages.
    """
    import msgspec

    from opilio.core.errors import TopicError
    from opilio.core.files import require_new_file, write_output
    from opilio.core.settings import Settings, TopicSettings
    from opilio.engine.wiring.topic import read_query_log
    from opilio.manage.topic_builder import (
        QueryLogInput,
        build_table_from_pages,
        example_path,
        format_topic_file,
        keywords_from_log,
    )
    from opilio.methods.dewey.judge import add_dewey_classes
    from opilio.text.vocabulary import Vocabulary
    from opilio.topic.setup import check_language
    from opilio.topic.topic import make_topic
    from opilio.topic.weights import QueryLogSmoothing

    require_new_file("--out", out)
    check_language(language or "", "--language")
    words = _keywords(keyword or [])
    log = QueryLogInput(read_query_log(query_log) if query_log else [], hours)
    phrases = tuple(phrase or ())
    network = {"proxy": proxy, "allow_private": allow_private}
    places = [*map(str, (file or []) + (positive or [])), *(url or [])]
    examples = asyncio.run(_read_example_texts(places, "example", network))
    examples += asyncio.run(_crawl_examples(crawl, pages, network)) if crawl else ()
    others = asyncio.run(_read_example_texts([*map(str, negative or [])], "--negative", network))
    language = _choose_language(
        language, [sentence] if sentence else [*words, *(q.text for q in log.queries)] or [*examples]
    )
    if query_log:
        smoothing = QueryLogSmoothing(memory=memory, threshold=threshold)
        words = {**keywords_from_log(log, smoothing, Vocabulary(language, phrases=phrases)), **words}
    if not (sentence or words or examples or dewey):
        raise TopicError(
            "no topic: give a sentence, --keyword, --file, --url, --crawl, --dewey or --query-log; "
            'see "opilio topic build -h"'
        )
    topic = make_topic(sentence, words, phrases=phrases, positive=examples, negative=others, language=language)
    topic = add_dewey_classes(topic, Settings(topic=TopicSettings(dewey=dewey or [])))
    table, report = build_table_from_pages(topic, size, _find_wordnet(wordnet), min_documents)
    if not topic.name:
        topic = msgspec.structs.replace(topic, name=" ".join(k.label for k in table.keywords[:WORDS_IN_DEFAULT_NAME]))
    labelled = [example_path(p) for p in positive or []], [example_path(p) for p in negative or []]
    write_output("--out", out, format_topic_file(topic, table, *labelled).encode())
    _print_report(out, topic, table, report, json)
    return 0


def show_topic(
    folder: CollectionArgument,
    history: Annotated[bool, typer.Option("--history", help="List every version and what it added.")] = False,
    json: JsonOption = False,
) -> int:
    """Print a collection's topic table, or its history."""
    from opilio.manage.status import agent_cards
    from opilio.manage.topic_builder import site_text_count, table_history, table_to_dict
    from opilio.store.collection import open_readonly

    versions = table_history(folder)
    at, table = versions[-1]
    if json:
        past = {"history": [table_to_dict(*version) for version in versions]} if history else {}
        print_json({**table_to_dict(at, table), **past})
        return 0
    if history:
        for made_at, version in versions:
            print_text(_version_line(made_at, version))
        print_text("")
    print_text(f"version {table.version}, {_words(table)}")
    for keyword in table.keywords:
        print_text(f"  {keyword.weight:.3f}  {keyword.label}")
    with open_readonly(folder) as collection:
        if repeated := site_text_count(collection):
            texts = "1 text that a site repeats" if repeated == 1 else f"{repeated} texts that sites repeat"
            print_text(f"not learned from: {texts}; 'opilio why {folder} URL' shows those of a page")
        if agent_cards(collection):
            print_message(f"this is the table its agents started with; 'opilio maintain agents {folder}' shows theirs")
    return 0


def suggest(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A topic file.", show_default=False)],
    accept_: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="WORD", help="Add this suggested word to the file. Repeatable."),
    ] = None,
    wordnet: WordNetFolder = None,
    json: JsonOption = False,
) -> int:
    """Print words that WordNet suggests for a topic file.

    Only words given with --accept are added to the file.
    """
    from opilio.manage.topic_builder import accept_words, read_topic_file, suggest_words
    from opilio.topic.wordnet import WordNet

    offered = suggest_words(read_topic_file(file), WordNet.find(wordnet))
    if accept_:
        accept_words(file, accept_, offered)
        print_message(f"added to {file}: {', '.join(accept_)}")
    if json:
        print_json({"suggestions": offered, "accepted": accept_ or []})
        return 0
    for s in offered if not accept_ else ():
        print_text(f"{s.word:24}  {s.relation} of {s.of}: {s.sense.partition(';')[0]}")
    if not offered:
        print_message("WordNet has no suggestions")
    return 0


def _choose_language(language: str | None, texts: list[str]) -> str:
    """The language that the user gave, else the one of the texts."""
    from opilio.core.settings import TopicSettings
    from opilio.text.languages import guess_language

    return language if language is not None else guess_language(" ".join(texts)) or TopicSettings().language


def _keywords(given: list[str]) -> dict[str, float]:
    from opilio.core.errors import UsageError

    words = {}
    for text in given:
        word, equals, weight = text.rpartition("=") if "=" in text else (text, "", "")
        if not word.strip():
            raise UsageError(f"--keyword '{text}': the word is missing; write for example wren or wren=0.8")
        try:
            words[word.strip()] = float(weight) if equals else 1.0
        except ValueError as error:
            raise UsageError(f"--keyword {text}: the weight must be a number, for example wren=0.8") from error
    return words


async def _crawl_examples(urls: list[str], pages: int, network: dict[str, object]) -> tuple[str, ...]:
    from opilio.core.display import pluralize
    from opilio.manage.backlink_crawl import crawl_example_texts

    found = await crawl_example_texts(urls, pages, {"fetch": network})
    print_message(f"{pluralize(len(found), 'page')} fetched" + (f" of {pages}" if len(found) < pages else ""))
    return found


async def _read_example_texts(places: list[str], option: str, network: dict[str, object]) -> tuple[str, ...]:
    import msgspec

    from opilio.core.settings import Settings
    from opilio.engine.wiring.fetcher import build_fetcher
    from opilio.engine.wiring.topic import read_examples

    settings = Settings()
    settings.fetch = msgspec.structs.replace(settings.fetch, **network)
    fetcher = build_fetcher(settings)
    try:
        return await read_examples(places, fetcher, option)
    finally:
        await fetcher.close()


def _find_wordnet(folder: Path | None) -> "WordNet | None":
    """WordNet if it is installed: without it there are no warnings about ambiguous words."""
    from opilio.core.errors import TopicError
    from opilio.topic.wordnet import WordNet

    if folder:
        return WordNet.find(folder)
    try:
        return WordNet.find()
    except TopicError:
        return None


def _print_report(out: Path, topic: "Topic", table: "WeightTable", report: "TopicReport", json: bool) -> None:
    if json:
        from opilio.manage.topic_builder import table_to_dict

        print_json({"out": str(out), "name": topic.name, **table_to_dict(0.0, table), "report": report})
        return
    heaviest = ", ".join(f"{k.label} {k.weight:.2f}" for k in table.keywords[:MAX_WORDS_SHOWN])
    print_text(f"{out}: {_words(table)}: {heaviest}{' …' if len(table) > MAX_WORDS_SHOWN else ''}")
    if report.examples > 1:
        print_text(f"{report.found} of {report.examples} example pages are recognised by the words of the others")
    if report.counterexamples:
        print_text(f"{report.mistaken} of {report.counterexamples} counter-examples are judged relevant")
    if report.area is not None:
        print_text(f"an example scores above a counter-example {report.area:.0%} of the time")
    for warning in report.warnings:
        print_message(f"warning: {warning}")


def _version_line(at: float, table: "WeightTable") -> str:
    shown = {k.stem: k.label for k in table.keywords}
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    added = ", ".join(shown.get(stem, stem) for stem in table.added)
    return f"version {table.version:3}  {when}  {_words(table)}" + (f"; new: {added}" if added else "")


def _words(table: "WeightTable") -> str:
    from opilio.core.display import pluralize

    return pluralize(len(table), "word")
