"""`opilio topic`: make a topic from anything, look at its table in a collection, ask a thesaurus about it."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from opilio.cli.dewey import dewey as dewey_command
from opilio.cli.options import CollectionArgument, JsonOption, print_json, print_text
from opilio.core.errors import TopicError, UsageError
from opilio.core.settings import Settings, TopicSettings
from opilio.engine.wiring.fetcher import build_fetcher
from opilio.engine.wiring.topic_files import read_examples, read_query_log
from opilio.manage.agents import agent_cards
from opilio.manage.topic_builder import (
    QueryLogInput,
    TopicReport,
    accept_words,
    build_table_from_pages,
    example_path,
    format_topic_file,
    keywords_from_log,
    read_topic_file,
    suggest_words,
    table_history,
    table_to_dict,
)
from opilio.methods.dewey.target import add_dewey_classes
from opilio.store.collection import open_readonly
from opilio.text.language_id import guess_language
from opilio.text.vocabulary import Vocabulary
from opilio.topic.query_log import QueryLogSmoothing
from opilio.topic.setup import check_language
from opilio.topic.topic import Topic, make_topic
from opilio.topic.weights import WeightTable
from opilio.topic.wordnet import WordNet

app = typer.Typer(help="Make a topic, look at its table, ask a thesaurus.", no_args_is_help=True)
app.command("dewey")(dewey_command)

MAX_WORDS_SHOWN = 12
WORDS_IN_DEFAULT_NAME = 5  # words that name a topic nobody named
WordNetFolder = Annotated[
    Path | None, typer.Option("--wordnet", help="Folder with WordNet's index.* and data.* files.")
]


@app.command("build")
def build_topic(
    sentence: Annotated[str, typer.Argument(help="The topic, as a sentence.", show_default=False)] = "",
    keyword: Annotated[
        list[str] | None, typer.Option(help="A word or phrase, perhaps weighted: wren or wren=0.8")
    ] = None,
    file: Annotated[list[Path] | None, typer.Option(help="A saved page on the topic.")] = None,
    url: Annotated[
        list[str] | None, typer.Option(help="The address of a page on the topic; it is fetched now.")
    ] = None,
    query_log: Annotated[Path | None, typer.Option(help="A query log: one query per line, or CSV with time.")] = None,
    phrase: Annotated[list[str] | None, typer.Option(help="Words of a query log that belong together.")] = None,
    dewey: Annotated[list[str] | None, typer.Option(help="A Dewey class, such as 598; 59 means all of 59x.")] = None,
    positive: Annotated[list[Path] | None, typer.Option(help="A saved page that is relevant.")] = None,
    negative: Annotated[list[Path] | None, typer.Option(help="A saved page that is not.")] = None,
    out: Annotated[Path, typer.Option(help="The topic file to write, for crawl --config.")] = Path("topic.toml"),
    language: Annotated[str | None, typer.Option(help="Language of the topic's words, where not plain.")] = None,
    size: Annotated[int, typer.Option(min=1, help="Words in the table.")] = 50,
    memory: Annotated[float, typer.Option(help="Query log: how much of an old weight stays (α).")] = 0.5,
    threshold: Annotated[float, typer.Option(min=0, help="Query log: weight a word must reach.")] = 1.0,
    hours: Annotated[
        float, typer.Option(min=0, help="Query log with time: length of an interval; 0: all is one.")
    ] = 0.0,
    wordnet: WordNetFolder = None,
    proxy: Annotated[str, typer.Option(help="Fetch --url through this proxy.")] = "",
    allow_private: Annotated[bool, typer.Option(help="Allow private and loopback addresses.")] = False,
    json: JsonOption = False,
) -> int:
    """Make a topic file from a sentence, keywords, pages or a query log, and tell how good it is."""
    _check(out, language or "")
    words = _keywords(keyword or [])
    log = QueryLogInput(read_query_log(query_log) if query_log else [], hours, tuple(phrase or ()))
    network = {"proxy": proxy, "allow_private": allow_private}
    examples = asyncio.run(
        _read_example_texts([*map(str, (file or []) + (positive or [])), *(url or [])], "example", network)
    )
    others = asyncio.run(_read_example_texts([*map(str, negative or [])], "--negative", network))
    language = _choose_language(
        language, [sentence] if sentence else [*words, *(q.text for q in log.queries)] or [*examples]
    )
    if query_log:
        words = {
            **keywords_from_log(log, QueryLogSmoothing(memory=memory, threshold=threshold), Vocabulary(language)),
            **words,
        }
    if not (sentence or words or examples or dewey):
        raise TopicError(
            'no topic: give a sentence, --keyword, --file, --url, --dewey or --query-log; see "opilio topic build -h"'
        )
    topic = make_topic(sentence, words, positive=examples, negative=others, language=language)
    topic = add_dewey_classes(topic, Settings(topic=TopicSettings(dewey=dewey or [])))
    table, report = build_table_from_pages(topic, size, _find_wordnet(wordnet))
    if not topic.name:
        topic = msgspec.structs.replace(topic, name=" ".join(k.label for k in table.keywords[:WORDS_IN_DEFAULT_NAME]))
    labelled = [example_path(p) for p in positive or []], [example_path(p) for p in negative or []]
    _write(out, format_topic_file(topic, table, *labelled))
    _print_report(out, topic, table, report, json)
    return 0


@app.command("show")
def show(
    folder: CollectionArgument,
    history: Annotated[bool, typer.Option("--history", help="Every version: when it came and what it added.")] = False,
    json: JsonOption = False,
) -> int:
    """Print a collection's topic table as it is now, or with its history."""
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
        if agent_cards(collection):
            sys.stderr.write(f"its agents began with this; 'opilio agents {folder}' tells what each learnt\n")
    return 0


@app.command("expand")
def expand(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A topic file.", show_default=False)],
    accept_: Annotated[
        list[str] | None, typer.Option("--accept", help="Put this suggested word into the file.")
    ] = None,
    wordnet: WordNetFolder = None,
    json: JsonOption = False,
) -> int:
    """Print words that WordNet suggests for a topic; those given with --accept join the topic file, no others."""
    offered = suggest_words(read_topic_file(file), WordNet.find(wordnet))
    if accept_:
        accept_words(file, accept_, offered)
        sys.stderr.write(f"{', '.join(accept_)}: now in {file}\n")
    if json:
        print_json({"suggestions": msgspec.to_builtins(offered), "accepted": accept_ or []})
        return 0
    for s in offered if not accept_ else ():
        print_text(f"{s.word:24}  {s.relation} of {s.of}: {s.sense.partition(';')[0]}")
    if not offered:
        sys.stderr.write("WordNet has nothing to add\n")
    return 0


def _choose_language(language: str | None, told: list[str]) -> str:
    """The language a person gave, else the one that the words are plainly of."""
    return language if language is not None else guess_language(" ".join(told)) or TopicSettings().language


def _check(out: Path, language: str) -> None:
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose another name")
    check_language(language, "--language")


def _keywords(given: list[str]) -> dict[str, float]:
    words = {}
    for text in given:
        word, equals, weight = text.rpartition("=") if "=" in text else (text, "", "")
        if not word.strip():
            raise UsageError(f"--keyword '{text}': has no word; write such as wren or wren=0.8")
        try:
            words[word.strip()] = float(weight) if equals else 1.0
        except ValueError as error:
            raise UsageError(f"--keyword {text}: the weight must be a number, for example wren=0.8") from error
    return words


async def _read_example_texts(places: list[str], option: str, network: dict[str, object]) -> tuple[str, ...]:
    settings = Settings()
    settings.fetch = msgspec.structs.replace(settings.fetch, **network)
    fetcher = build_fetcher(settings)
    try:
        return await read_examples(places, fetcher, option)
    finally:
        await fetcher.close()


def _find_wordnet(folder: Path | None) -> WordNet | None:
    """WordNet where it is: without it nothing is said about senses."""
    if folder:
        return WordNet.find(folder)
    try:
        return WordNet.find()
    except TopicError:
        return None


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: can't be written: {error.strerror}") from error


def _print_report(out: Path, topic: Topic, table: WeightTable, report: TopicReport, json: bool) -> None:
    if json:
        print_json(
            {"out": str(out), "name": topic.name, **table_to_dict(0.0, table), "report": msgspec.to_builtins(report)}
        )
        return
    heaviest = ", ".join(f"{k.label} {k.weight:.2f}" for k in table.keywords[:MAX_WORDS_SHOWN])
    print_text(f"{out}: {_words(table)}: {heaviest}{' …' if len(table) > MAX_WORDS_SHOWN else ''}")
    if report.examples > 1:
        print_text(f"{report.found} of {report.examples} example pages are found by the words of the others")
    if report.counterexamples:
        print_text(f"{report.mistaken} of {report.counterexamples} counter-examples are taken for relevant")
    if report.area is not None:
        print_text(f"an example scores above a counter-example {report.area:.0%} of the time")
    for warning in report.warnings:
        sys.stderr.write(f"warning: {warning}\n")


def _version_line(at: float, table: WeightTable) -> str:
    shown = {k.stem: k.label for k in table.keywords}
    when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    added = ", ".join(shown.get(stem, stem) for stem in table.added)
    return f"version {table.version:3}  {when}  {_words(table)}" + (f"; new: {added}" if added else "")


def _words(table: WeightTable) -> str:
    return "1 word" if len(table) == 1 else f"{len(table)} words"
