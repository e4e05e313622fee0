"""The configuration: one tree of records, read from TOML, flags and strategies. Decides nothing, builds nothing.

Order, later wins: our defaults, the strategy's file, the person's file, flags and `--set`. An unknown key is an
error that names the nearest known one. Sections with a `kind` (judge, senses, rank, boost, expansion, order) take the
options of the named class: its constructor is the schema.
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from opilio.core.errors import ConfigError
from opilio.core.files import read_text

Normalizer = Literal["stem", "porter", "lemma", "none"]


SeedSplit = Literal["deal", "blocks"]


Tree = dict[str, Any]
Positive = Annotated[int, Meta(ge=1, le=10**15)]  # what the libraries below us can count to
Count = Annotated[int, Meta(ge=0, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]  # not endless: a pause must be one that ends
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]
# Checked against their class by crawl.build
KIND_SECTIONS = ("judge", "senses", "rank", "boost", "expansion", "order")


class TopicSettings(msgspec.Struct, kw_only=True):
    """What the crawl is about."""

    name: str = ""
    description: str = ""
    keywords: list[str] | dict[str, float] = []
    examples: list[str] = []  # files or URLs of pages on the topic
    counterexamples: list[str] = []  # files or URLs of pages that are not
    contexts: list[str] = []  # words of senses that are not meant (S3-09)
    genres: list[str] = []
    genre_file: str = ""  # genres of the person's own instead of ours
    dewey: list[str] = []  # classes, also beginnings of numbers (S2-18)
    lexicon_file: str = ""  # index terms of the person's own
    lexicon_use: Literal["add", "instead", "other-scheme"] = "add"  # to ours, or instead of it
    language: str = "english"
    normaliser: Normalizer = "stem"
    phrases: list[str] = []  # words of a query log that belong together (S4-E1)
    # The text around a link
    around: Literal["block", "beside", "sentence", "paragraph"] = "block"
    identify: bool = False  # find out the language of pages that declare none
    table_size: Positive = 50
    # Of words in example pages
    weighing: Literal["tf-idf", "tf-df", "corpus"] = "tf-idf"


class SeedSettings(msgspec.Struct, kw_only=True):
    """Where to begin: addresses, or engines that are asked for some."""

    urls: list[str] | dict[str, int] = []  # a table gives each its priority (S0-11)
    engines: dict[str, Tree] = {}  # by name; each has a `kind` and the options of that kind
    agree: Literal["any", "two", "all"] = "any"
    limit: Positive = 30  # addresses wanted of each engine (S0-10)
    irrelevant: Count = 0  # seeds off the topic, for training (S1-16)
    queries: Count = 20  # most further queries when nothing is left to fetch; 0: none
    # Of the pages they brought; below it, no further query
    precision: Annotated[float, Meta(ge=0, le=1)] = 0.1
    proxy: str = ""  # for asking engines


class FrontierSettings(msgspec.Struct, kw_only=True):
    merge: str = "max"  # max, discard, sum: what a second finding does to a queued URL
    max_queued: Count = 0  # 0: no bound; else the least promising are dropped above it
    max_per_host: Count = 0  # 0: no cap
    max_depth: Count = 0  # 0: no bound
    per_host: Count = 0  # URLs per lease; 0: one, or a few when there is no delay
    traps: bool = True


class SeenSettings(msgspec.Struct, kw_only=True):
    content: bool = True
    near: bool = False
    distance: Count = 3


class PolitenessSettings(msgspec.Struct, kw_only=True):
    delay_s: Amount = 1.0
    robots: bool = True
    max_crawl_delay_s: Amount = 30.0
    agent: str = "Opilio"
    contact: str = "https://opilio.invalid/about"
    share_address: bool = True
    nofollow: bool = True  # heed what pages and links say; robots.txt is heeded by `robots`


class FetchSettings(msgspec.Struct, kw_only=True):
    timeout_s: Annotated[float, Meta(gt=0, le=1e9)] = 30.0
    max_bytes: Positive = 4_000_000
    retries: Count = 2
    hops: Count = 5
    proxy: str = ""
    allow_private: bool = False
    verify_tls: bool = True
    resolve: dict[str, str] = {}


class RevisitSettings(msgspec.Struct, kw_only=True):
    """Looking again at pages that are stored."""

    on: bool = False
    continuous: bool = False  # go on until stopped, waiting for what becomes due
    policy: str = "adaptive"  # fixed, proportional, adaptive
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5  # of the fetches, while there are new URLs too
    # Between two looks at a page, on average over all
    interval_s: Annotated[float, Meta(gt=0)] = 7 * 86_400.0
    relevant_only: bool = False  # leave irrelevant pages as they are
    least_s: Amount = 3600.0  # no page sooner than this
    # After which a page that was not there is looked for once more (S1-06)
    second_look_s: Amount = 86_400.0
    announcements: bool = True  # heed sitemaps and feeds
    probe: bool = True  # ask each host once for a page that can't be there, to know its soft 404


class StoreSettings(msgspec.Struct, kw_only=True):
    rotate_bytes: Positive = 1 << 30  # a WARC file that has grown to this is followed by a new one
    # The checker reads some records so often while a crawl runs; 0: never
    check_every_s: Amount = 60.0


class StopSettings(msgspec.Struct, kw_only=True):
    """When to stop; 0 switches a rule off."""

    pages: Count = 1000
    fetches: Count = 0  # attempts of any kind, also those that brought no page
    relevant: Count = 0
    minutes: Amount = 0.0
    harvest_below: Share = 0.0
    harvest_window: Positive = 500
    expected_below: Amount = 0.0  # relevant pages still to be found, as the ranker estimates them
    patience_s: Amount = 120.0  # how long to wait when every host asks us to wait


class EngineSettings(msgspec.Struct, kw_only=True):
    workers: Annotated[int, Meta(ge=-1)] = -1  # -1: one per core; 0: everything in one process
    connections: Positive = 64
    batch: Positive = 32
    random_seed: int = 0


class AgentSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One agent with something of its own."""

    name: str = ""  # agent-1, agent-2, … where left out
    topic: Tree = {}  # laid over [topic]
    seeds: list[str] = []
    requests: Count = 0  # 0: agents.requests


class AgentTeamSettings(msgspec.Struct, kw_only=True):
    """How many crawl side by side, each with knowledge of its own (S3); none: one crawler."""

    count: Count = 0
    requests: Positive = 4  # r: under way at once, for each agent (S3-07)
    split: SeedSplit = "deal"  # of the seeds: like cards, or in consecutive blocks
    relevant: Count = 0  # an agent's goal (S3-03); 0: as many as there are
    # A link worth less than this share of a busy host's best waits
    patience: Annotated[float, Meta(ge=0, le=1)] = 0.0
    exchange_words: bool = False  # S3-F3: new words of a table to agents of the same topic
    # Judge and ranker learn from the pages of agents of the same topic too
    exchange_lessons: bool = False
    exchange_links: bool = False  # links that another agent finds promising go to it as well
    # An agent that gives no sign of life for so long is missing
    lease_s: Annotated[float, Meta(gt=0)] = 300.0
    each: list[AgentSettings] = []


class Settings(msgspec.Struct, kw_only=True):
    """The whole configuration of one crawl, as `crawl.toml` holds it."""

    strategy: str = "opilio"
    topic: TopicSettings = msgspec.field(default_factory=TopicSettings)
    seeds: SeedSettings = msgspec.field(default_factory=SeedSettings)
    judge: Tree = {}
    senses: Tree = {}
    rank: Tree = {}
    expansion: Tree = {}
    order: Tree = {}
    boost: Tree = {}
    frontier: FrontierSettings = msgspec.field(default_factory=FrontierSettings)
    seen: SeenSettings = msgspec.field(default_factory=SeenSettings)
    politeness: PolitenessSettings = msgspec.field(default_factory=PolitenessSettings)
    fetch: FetchSettings = msgspec.field(default_factory=FetchSettings)
    revisit: RevisitSettings = msgspec.field(default_factory=RevisitSettings)
    store: StoreSettings = msgspec.field(default_factory=StoreSettings)
    stop: StopSettings = msgspec.field(default_factory=StopSettings)
    engine: EngineSettings = msgspec.field(default_factory=EngineSettings)
    agents: AgentTeamSettings = msgspec.field(default_factory=AgentTeamSettings)


def _convert_settings(tree: Tree, source: str) -> Settings:
    """A tree as settings, whole or in part; what does not fit is told by the name of its source."""
    _reject_unknown(tree, Settings, source)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {describe_validation_error(error)}") from error
    _check_proxy(settings.fetch.proxy, source)
    _check_user_agent(settings.politeness, source)
    return settings


_TOML_TYPE_NAMES = {
    "object": "table",
    "str": "string",
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
}
_TOML_TYPE_NAMES["array"] = 'list such as ["one", "two"]'


def describe_validation_error(error: msgspec.ValidationError) -> str:
    """What does not fit, the key first, in the words of TOML.

    >>> describe_validation_error(msgspec.ValidationError("Expected `float`, got `str` - at `$.politeness.delay_s`"))
    'politeness.delay_s: expected number, got string'
    """
    what, _, at = str(error).partition(" - at ")
    named = re.sub(r"\w+", lambda m: _TOML_TYPE_NAMES.get(m[0], m[0]), what[0].lower() + what[1:].replace("`", ""))
    key = at.strip("`").removeprefix("$.")
    return f"{key}: {named}" if key else named


def _check_proxy(proxy: str, source: str) -> None:
    """A proxy that can't be one would fail every fetch, one by one."""
    if proxy and not re.fullmatch(r"(?i)(https?|socks(4a?|5h?))://[^/\s]+/?", proxy):
        raise ConfigError(
            f"{source}: fetch.proxy '{proxy}': is no proxy; write it whole, for example http://127.0.0.1:8080"
        )


def _check_user_agent(polite: PolitenessSettings, source: str) -> None:
    """Both go into a header that every site reads; by the first its robots.txt must be able to name us."""
    # RFC 9309, 2.2.1
    if not re.fullmatch(r"[A-Za-z_-]+", polite.agent):
        raise ConfigError(
            f"{source}: politeness.agent '{polite.agent}': must be letters, - and _, as robots.txt has it"
        )
    if not (polite.contact.isascii() and polite.contact.isprintable()):
        raise ConfigError(f"{source}: politeness.contact {polite.contact!r}: must be one line of plain characters")


def read_settings(path: Path) -> Tree:
    """A person's file of settings. It is checked by itself: laid over others, it could not be named as the cause."""
    tree = read_toml(path)
    _convert_settings(tree, str(path))
    return tree


def read_toml(path: Path) -> Tree:
    """A TOML file as a tree; the mark that some editors put before UTF-8 is passed over."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def strategy_names() -> list[str]:
    """The names of all strategies."""
    folder = files("opilio.core") / "strategies"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))


def load_strategy(name: str) -> Tree:
    if name not in strategy_names():
        hint = suggest_name(name, strategy_names())
        raise ConfigError(f"--strategy {name}: is unknown{hint}; known: {', '.join(strategy_names())}")
    text = (files("opilio.core") / "strategies" / f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def merge_trees(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """`over` laid on `base`, section by section; an open section with another `kind` replaces the old one."""
    result: Tree = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            changed_kind = "kind" in value and value["kind"] != old.get("kind")
            result[key] = dict(value) if changed_kind else merge_trees(old, value)
        else:
            result[key] = value
    return result


def parse_setting(text: str) -> Tree:
    """What one `--set` gives, checked by itself as a file is."""
    tree = parse_assignment(text)
    _convert_settings(tree, f"--set {text}")
    return tree


def parse_assignment(text: str, option: str = "--set", form: str = "section.key=value, such as stop.pages=99") -> Tree:
    """`politeness.delay_s=0` as a tree: the form of `--set`."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"{option} {text}: must look like {form}")
    tree: Tree | Any = _parse_value(value.strip())
    for part in reversed(path.strip().split(".")):
        tree = {part: tree}
    return dict(tree)


def _parse_value(text: str) -> object:
    """A TOML value; what is none is a plain string, so that quotes may be left out on a command line."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def suggest_name(word: str, known: list[str]) -> str:
    """A hint such as ` (did you mean 'delay_s'?)`, or nothing."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean '{close[0]}'?)" if close else ""


def _reject_unknown(tree: Mapping[str, Any], schema: type[msgspec.Struct], source: str, path: str = "") -> None:
    types = {f.name: f.type for f in msgspec.structs.fields(schema)}
    for key, value in tree.items():
        if key not in types:
            raise ConfigError(f"{source}: unknown key '{path}{key}'{suggest_name(key, list(types))}")
        inner = types[key]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(value, Mapping):
            _reject_unknown(value, inner, source, f"{path}{key}.")
