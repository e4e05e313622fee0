"""The settings of a crawl as one tree of records with their defaults, and how users write them.

Sections with a `kind` (judge, senses, rank, boost, expansion, order) take the options of the named component: its
factory is the schema. Users write TOML files and `--set`, which are checked one by one and merged. Later sources win:
defaults, strategy file, user's file, flags and `--set`. An unknown key is an error that suggests the nearest known one.
"""

import difflib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from opilio.core.errors import ConfigError
from opilio.core.files import parse_toml, read_text
from opilio.core.scope import ScopeSettings, UrlScope

Normalizer = Literal["stem", "porter", "lemma", "lemma-stem", "none"]
SeedSplit = Literal["deal", "blocks"]
HtmlLibrary = Literal["turbohtml", "selectolax"]
# What a page may be used for: an index that links to it, input of a model, training of a model.
Purpose = Literal["search", "ai-input", "ai-train"]
Tree = dict[str, Any]
# The bounds keep numbers within what SQLite and libcurl accept, and delays finite.
Positive = Annotated[int, Meta(ge=1, le=10**15)]
Count = Annotated[int, Meta(ge=0, le=10**15)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
# How many irrelevant pages in a row may be crossed: -1 any number.
TunnelDepth = Annotated[int, Meta(ge=-1, le=10**9)]
Seconds = Annotated[float, Meta(gt=0, le=1e9)]
# Their options are checked against the component's factory.
KIND_SECTIONS = ("judge", "senses", "rank", "boost", "expansion", "order")


class TopicSettings(msgspec.Struct, kw_only=True):
    """What the crawl is about."""

    name: str = ""
    description: str = ""
    keywords: list[str] | dict[str, float] = []
    examples: list[str] = []  # files or URLs of pages on the topic
    counterexamples: list[str] = []  # files or URLs of pages off the topic
    # Words of other senses of the topic's words (S3-09).
    contexts: list[str] = []
    genres: list[str] = []
    # The user's genres instead of the built-in ones.
    genre_file: str = ""
    # Classes or prefixes of class numbers (S2-18).
    dewey: list[str] = []
    lexicon_file: str = ""  # the user's index terms
    # To the built-in lexicon, or instead of it.
    lexicon_use: Literal["add", "instead", "other-scheme"] = "add"
    language: str = "english"
    normaliser: Normalizer = "stem"
    # Phrases that count as one term, on pages and in queries (S4-E1).
    phrases: list[str] = []
    around: Literal["block", "beside", "sentence", "paragraph"] = "block"  # which text around a link counts
    # Detect the language of pages that declare none.
    identify: bool = False
    # On pages in another language, words count as the topic's words that they mean.
    translate: bool = False
    table_size: Positive = 50
    # Of the words of name and description beside keywords and example pages.
    name_weight: Amount = 0.5
    # How often a word of a page's title counts.
    title_weight: Count = 3
    # Add no words to the table from text that a site repeats on most of its pages.
    skip_site_text: bool = True
    # Weighting of the words in example pages.
    weighing: Literal["tf-idf", "tf-df", "corpus"] = "tf-idf"


class SeedSettings(msgspec.Struct, kw_only=True):
    """URLs to start from, or engines that find some."""

    # A table gives each URL its priority (S0-11).
    urls: list[str] | dict[str, int] = []
    # By name; each has a `kind` and the options of that kind.
    engines: dict[str, Tree] = {}
    agree: Literal["any", "two", "all"] = "any"
    # URLs requested from each engine (S0-10).
    limit: Positive = 30
    # Order seeds of equal priority by the meaning of their URLs too; False: by rank, then engine (S0-12).
    by_meaning: bool = True
    # Off-topic seeds of the crawl itself (S1-16).
    irrelevant: Count = 0
    # Pages of each list, relevant and irrelevant, that S1's classifier is trained on before the crawl (S1-13); 0: none.
    train: Count = 20
    # Maximum of further queries when the queue is empty; 0: none.
    queries: Count = 20
    # Share of relevant pages among those that the last queries found; below it, no further query.
    precision: Annotated[float, Meta(ge=0, le=1)] = 0.1
    proxy: str = ""  # for requests to engines
    # API of the MediaWiki that is asked by default; empty: Wikipedia in the topic's language.
    wiki: str = ""
    offline: bool = False  # never ask an engine


class FrontierSettings(msgspec.Struct, kw_only=True):
    # Max, discard, sum: the score of a queued URL that is found again.
    merge: str = "max"
    # Above it the lowest scores are dropped; 0: no limit.
    max_queued: Count = 0
    max_per_host: Count = 0  # 0: no limit
    max_depth: Count = 0  # 0: no limit
    # URLs per lease; 0: one, or a few without a delay.
    per_host: Count = 0
    # Links below this share of a better one wait for it.
    patience: Share = 0.0
    traps: bool = True
    discover: bool = True  # follow sitemaps and feeds


class SeenSettings(msgspec.Struct, kw_only=True):
    # True: pages with the same normalized text are copies; "body": those with the same bytes; False: none.
    content: bool | Literal["body"] = True
    # The links of a copy that its original does not have.
    follow: bool = True
    near: bool = False
    distance: Count = 3


class PolitenessSettings(msgspec.Struct, kw_only=True):
    delay_s: Amount = 1.0
    robots: bool = True
    max_crawl_delay_s: Amount = 30.0
    agent: str = "Opilio"
    contact: str = "https://opilio.invalid/about"
    share_address: bool = True
    # Obey nofollow on pages and links; `robots` is about robots.txt.
    nofollow: bool = True
    # Do not fetch or store what its owner denies these purposes.
    heed: list[Purpose] = []


class FetchSettings(msgspec.Struct, kw_only=True):
    # A name of the entry points `opilio.fetchers`.
    client: str = "curl"
    timeout_s: Annotated[float, Meta(gt=0, le=1e9)] = 30.0
    max_bytes: Positive = 4_000_000
    # Of a PDF and the like, which can't be read in part.
    max_document_bytes: Positive = 20_000_000
    retries: Count = 2
    hops: Count = 5
    proxy: str = ""
    allow_private: bool = False
    verify_tls: bool = True
    resolve: dict[str, str] = {}
    # Return cookies to the hosts that set them, within one run.
    cookies: bool = True
    # A file with cookies and headers for hosts; it is read, never copied.
    credentials: str = ""
    # A file with an Ed25519 key that signs requests (Web Bot Auth).
    signature_key: str = ""
    # URL of the site that publishes the public key.
    signature_agent: str = ""
    # WARC and WACZ files to crawl instead of the live web.
    archives: list[str] = []


class BrowserSettings(msgspec.Struct, kw_only=True):
    """Rendering pages that need JavaScript."""

    on: bool = False
    pages: Count = 200  # rendered in one run
    tabs: Positive = 2  # pages rendered at the same time
    timeout_s: Seconds = 20.0  # for one page
    # How often a page is scrolled to its end and asked for more.
    scrolls: Count = 5
    path: str = ""  # of Chromium; empty: searched for


class RevisitSettings(msgspec.Struct, kw_only=True):
    """Revisiting stored pages."""

    on: bool = False
    # Run until stopped, waiting for pages that become due.
    continuous: bool = False
    policy: str = "adaptive"  # fixed, proportional, adaptive
    # Of the fetches, while there are new URLs.
    share: Annotated[float, Meta(ge=0, le=1)] = 0.5
    # Between two visits of a page, on average over all pages.
    interval_s: Annotated[float, Meta(gt=0)] = 7 * 86_400.0
    relevant_only: bool = False  # do not revisit irrelevant pages
    # Minimum time between two visits of a page.
    least_s: Amount = 3600.0
    # Time after which a missing page is checked again (S1-06).
    second_look_s: Amount = 86_400.0
    announcements: bool = True  # use sitemaps and feeds
    # Fetch a nonexistent page of each host once, to detect soft 404s.
    probe: bool = True


class StoreSettings(msgspec.Struct, kw_only=True):
    # Size at which a new WARC file is started.
    rotate_bytes: Positive = 1 << 30
    # Interval of the integrity check during a crawl; 0: never.
    check_every_s: Amount = 60.0
    # Where a collection in PostgreSQL keeps its WARC records; empty: in the database.
    objects: str = ""


class StopSettings(msgspec.Struct, kw_only=True):
    """When to stop; 0 disables a rule."""

    pages: Count = 1000
    fetches: Count = 0  # requests, also those without a page
    relevant: Count = 0
    minutes: Amount = 0.0
    harvest_below: Share = 0.01
    harvest_window: Positive = 500
    # Estimated relevant pages left in the queue.
    expected_below: Amount = 0.0
    # How long to wait when every host is throttled.
    patience_s: Amount = 120.0


class EngineSettings(msgspec.Struct, kw_only=True):
    # -1: one per core; 0: everything in one process.
    workers: Annotated[int, Meta(ge=-1)] = -1
    connections: Positive = 64
    # Sliding window (S2-50): the share of relevant pages among this number of last pages is the share of connections
    # that is used, at least one; 0: all are used.
    window: Count = 0
    batch: Positive = 32
    random_seed: int = 0
    analysis_s: Annotated[float, Meta(gt=0)] = 20.0  # CPU time for one page in a worker
    analysis_mb: Positive = 1024  # memory for one page in a worker
    html_library: HtmlLibrary = "turbohtml"  # builds the trees of HTML pages
    # Workers can't write files, use the network or start programs.
    sandbox: bool = True
    # A plug-in that puts the crawl together; empty: Opilio's own.
    assembly: str = ""
    # A host that its holder does not release is leased to another after this time; at most 60 in PostgreSQL.
    lease_s: Annotated[float, Meta(gt=0)] = 300.0


class AgentSettings(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of one agent."""

    name: str = ""  # default: agent-1, agent-2, …
    topic: Tree = {}  # overrides [topic]
    seeds: list[str] = []
    requests: Count = 0  # 0: agents.requests


class AgentTeamSettings(msgspec.Struct, kw_only=True):
    """Several agents that crawl side by side, each with its own models (S3); count 0: one crawler."""

    count: Count = 0
    # Agents that can live at a time if they divide and die (S1-11); 0: their number is fixed.
    most: Count = 0
    # R: requests in flight per agent (S3-07).
    requests: Positive = 4
    # Of the seeds: round robin, or consecutive blocks.
    split: SeedSplit = "deal"
    relevant: Count = 0  # an agent's goal (S3-03); 0: no goal
    # A link with less than this share of the best score of a busy host waits.
    patience: Annotated[float, Meta(ge=0, le=1)] = 0.0
    # S3-F3: share new table words with agents of the same topic.
    exchange_words: bool = False
    # Judge and ranker also learn from the pages of agents of the same topic.
    exchange_lessons: bool = False
    # Share links with agents that score them high.
    exchange_links: bool = False
    # An agent that does nothing for this long is lost.
    lease_s: Annotated[float, Meta(gt=0)] = 300.0
    each: list[AgentSettings] = []


class Settings(msgspec.Struct, kw_only=True):
    """All settings of one crawl, as stored in `crawl.toml`."""

    strategy: str = "opilio"
    topic: TopicSettings = msgspec.field(default_factory=TopicSettings)
    seeds: SeedSettings = msgspec.field(default_factory=SeedSettings)
    judge: Tree = {}
    senses: Tree = {}
    rank: Tree = {}
    expansion: Tree = {}
    order: Tree = {}
    boost: Tree = {}
    scope: ScopeSettings = msgspec.field(default_factory=ScopeSettings)
    frontier: FrontierSettings = msgspec.field(default_factory=FrontierSettings)
    seen: SeenSettings = msgspec.field(default_factory=SeenSettings)
    politeness: PolitenessSettings = msgspec.field(default_factory=PolitenessSettings)
    fetch: FetchSettings = msgspec.field(default_factory=FetchSettings)
    browser: BrowserSettings = msgspec.field(default_factory=BrowserSettings)
    revisit: RevisitSettings = msgspec.field(default_factory=RevisitSettings)
    store: StoreSettings = msgspec.field(default_factory=StoreSettings)
    stop: StopSettings = msgspec.field(default_factory=StopSettings)
    engine: EngineSettings = msgspec.field(default_factory=EngineSettings)
    agents: AgentTeamSettings = msgspec.field(default_factory=AgentTeamSettings)


def convert_settings(tree: Tree, source: str) -> Settings:
    """Convert a tree, complete or partial, to settings; errors name the source."""
    _reject_unknown(tree, Settings, source)
    try:
        settings = msgspec.convert(tree, Settings)
    except msgspec.ValidationError as error:
        described = describe_validation_error(error)
        raise ConfigError(f"{source}: {described}{_choices(described.partition(':')[0])}") from error
    # Checks the rules.
    UrlScope(settings.scope)
    _check_proxy(settings.fetch.proxy, source)
    _check_user_agent(settings.politeness, source)
    return settings


def _choices(key: str) -> str:
    """For an error message: the words that a setting can have, if it can have few."""
    kind: Any = Settings
    for name in key.split("."):
        kind = get_type_hints(kind).get(name) if hasattr(kind, "__struct_fields__") else None
    return f"; choose one of {', '.join(map(str, get_args(kind)))}" if get_origin(kind) is Literal else ""


_TOML_TYPE_NAMES = {"object": "table", "str": "string", "int": "whole number", "float": "number"}
_TOML_TYPE_NAMES |= {"bool": "true or false", "array": 'list such as ["one", "two"]'}


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
            f"{source}: fetch.proxy '{proxy}': not a valid proxy URL; include the scheme, for example http://127.0.0.1:8080"
        )


def _check_user_agent(polite: PolitenessSettings, source: str) -> None:
    """Check the User-Agent: sites read it, and robots.txt files name its product token (RFC 9309, 2.2.1)."""
    if not re.fullmatch(r"[A-Za-z_-]+", polite.agent):
        raise ConfigError(f"{source}: politeness.agent '{polite.agent}': must contain only letters, - and _ (RFC 9309)")
    if not (polite.contact.isascii() and polite.contact.isprintable()):
        raise ConfigError(f"{source}: politeness.contact {polite.contact!r}: must be one line of ASCII characters")


def validate_tree(tree: Tree, source: str) -> Tree:
    """The tree, checked by itself so that an error names its source."""
    convert_settings(tree, source)
    return tree


def read_settings(path: Path) -> Tree:
    """Read the user's settings file. It is checked before merging, so that errors name the file."""
    tree = read_toml(path)
    convert_settings(tree, str(path))
    return tree


def read_toml(path: Path) -> Tree:
    """Read a TOML file as a tree."""
    try:
        return parse_toml(read_text(path))
    except ValueError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def merge_trees(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Merge `over` into `base`, section by section; a section with another `kind` replaces the old one."""
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
    """The tree of one `--set`, checked by itself so that errors name the option."""
    tree = parse_assignment(text)
    convert_settings(tree, f"--set {text}")
    return tree


def parse_assignment(text: str, option: str = "--set", form: str = "section.key=value, such as stop.pages=99") -> Tree:
    """The tree of an assignment such as `politeness.delay_s=0`."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"{option} {text}: must look like {form}")
    tree: Tree | Any = _parse_value(value.strip())
    for part in reversed(path.strip().split(".")):
        tree = {part: tree}
    return dict(tree)


def _parse_value(text: str) -> object:
    """Parse a TOML value; other text is a string, so that quotes can be omitted on the command line."""
    try:
        return parse_toml(f"v = {text}")["v"]
    except ValueError:
        return text


def suggest_name(word: str, known: list[str]) -> str:
    """A hint, or an empty string; names that begin with the word come first.

    >>> suggest_name("bes", ["n-best", "best-first"]), suggest_name("nope", ["infospiders"])
    (" (did you mean 'best-first'?)", '')
    """
    begins = sorted((name for name in known if word and name.startswith(word)), key=len)
    close = begins or difflib.get_close_matches(word, known, n=1, cutoff=0.55)
    return f" (did you mean '{close[0]}'?)" if close else ""


@cache
def _field_types(schema: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(schema)}


def _reject_unknown(tree: Mapping[str, Any], schema: type[msgspec.Struct], source: str, path: str = "") -> None:
    types = _field_types(schema)
    for key, value in tree.items():
        if key not in types:
            raise ConfigError(f"{source}: unknown key '{path}{key}'{suggest_name(key, list(types))}")
        inner = types[key]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct) and isinstance(value, Mapping):
            _reject_unknown(value, inner, source, f"{path}{key}.")
