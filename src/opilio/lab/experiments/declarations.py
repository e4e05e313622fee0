"""Experiments as data: each is one TOML file in `experiments/`, or a file that the user names.

A declaration lists the variants (a strategy and its changes), the topics and seed sets, the budget, and the layout of
the report. Nothing is run here. docs/lab/README.md explains the format. The tables of the papers are data too.
"""

import tomllib
import zlib
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import xxhash
from msgspec import Meta

from opilio.core.errors import ConfigError, OfflineWebError
from opilio.core.files import parse_toml
from opilio.core.settings import describe_validation_error, suggest_name
from opilio.core.strategies import strategy_names
from opilio.lab.evaluation.oracle import FORESIGHT_STEPS


class PaperTable(msgspec.Struct, frozen=True):
    """One table: the values of each strategy after given numbers of pages."""

    id: str
    caption: str
    at: tuple[int, ...]
    values: dict[str, tuple[float, ...]]


class ReportedCrawler(msgspec.Struct, frozen=True):
    """A row of S2's Table 7, with the numbers as printed."""

    name: str
    recall: str = ""
    precision: str = ""
    harvest: str = ""


class _PaperTablesFile(msgspec.Struct):
    table: tuple[PaperTable, ...]
    crawler: tuple[ReportedCrawler, ...]


def _papers_file() -> _PaperTablesFile:
    text = (files("opilio.lab.experiments") / "papers.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _PaperTablesFile)


def paper_tables() -> dict[str, PaperTable]:
    """Every table by its id in the specification."""
    return {t.id: t for t in _papers_file().table}


def reported_crawlers() -> tuple[ReportedCrawler, ...]:
    """The rows of S2's Table 7."""
    return _papers_file().crawler


def paper_table(name: str) -> PaperTable:
    """One table, or an error that lists the known ones."""
    tables = paper_tables()
    if name not in tables:
        raise OfflineWebError(f"paper table {name!r}: unknown; known: {', '.join(tables)}")
    return tables[name]


PEER_PREFIX = "peer:"
BOUND_STRATEGIES = ("random", "oracle", *FORESIGHT_STEPS)
# The longest latency of a response: a run with an endless one would never end.
MAX_DELAY_S = 3600.0
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
PLOT_KINDS = (
    "harvest",
    "recall",
    "auc-vs-oracle",
    "blocks",
    "cumulative",
    "sweep",
    "irrelevant",
    "deeper",
    "precision",
)


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One crawler of an experiment. `strategy` is one of ours, a bound or `peer:NAME`."""

    name: str
    strategy: str = ""  # defaults to the name
    # Like --set, as a table: overrides the strategy.
    set: dict[str, Any] = {}
    # Its column in the paper's table; defaults to the name.
    paper: str = ""
    # Start with a T-Graph, if the strategy uses one and the experiment has targets.
    graph: bool = True
    # Every verdict is the page's label: what is lost to this variant is lost by the judge, the rest by the ranker.
    perfect_judge: bool = False
    # Queries of users per interval of a table that follows a query log: words of titles, with noise (S4-24); 0: no log.
    queries: Count = 0
    # Build the topic's table of 300 words from this number of search results (S0-13); 0: from the topic's keywords.
    table_pages: Count = 0
    # Starts with the classifiers that the experiment trains, if it trains some and the ranker is S1's.
    trained: bool = False
    # Its place on the horizontal axis of a plot of kind "sweep", and the line it belongs to.
    x: float = 0.0
    line: str = ""

    @property
    def kind(self) -> str:
        return self.strategy or self.name

    @property
    def paper_column(self) -> str:
        return self.paper or self.name


class Plot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One more figure of some variants; `file` is written beside the report, without a suffix.

    A plot of kind "sweep" shows a measure of every variant over its `x`.
    """

    file: str
    kind: str = "harvest"
    variants: tuple[str, ...] = ()
    measure: str = "harvest"
    xlabel: str = ""
    ylabel: str = ""


ClaimMeasure = Literal[
    "precision",
    "containing",
    "time",
    "cpu",
    "entropy",
    "deeper",
    "judge-precision",
    "mistakes",
    "retrieved",
    "auc",
]


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a paper reports, and the measure of some variants that stands beside it."""

    text: str
    measure: ClaimMeasure
    variants: tuple[str, ...]


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a declaration."""

    name: str
    title: str
    about: str = ""
    # The variant that the others are tested against; defaults to the last one.
    reference: str = ""
    budget: Positive = 1000
    seed_kinds: tuple[str, ...] = ("on-topic", "generic")
    # Number of seed sets of each kind, the first ones.
    seed_sets: Positive = 2
    # Of every case, with different random seeds (S3-32).
    executions: Positive = 1
    # Number of topics, those with the most relevant pages; 0: all.
    topics: Count = 0
    # The topics that are used, where a web has them.
    topic_names: tuple[str, ...] = ()
    bounds: tuple[str, ...] = ("random",)
    paper: str = ""  # a table of papers.toml
    checkpoints: tuple[Positive, ...] = ()  # defaults to the paper's
    # Mean latency of a response, on the virtual clock.
    latency_s: Annotated[float, Meta(ge=0, le=MAX_DELAY_S)] = 0.0
    # The share of the pages that the search engine of seed sets `search-N` knows.
    coverage: Annotated[float, Meta(gt=0, le=1)] = 1.0
    # Pages in each of the two seed lists that S1's classifiers are trained on before the crawls; 0: no training.
    training: Count = 0
    # Fetches per block, for the section "windows".
    window: Count = 0
    # The seed set whose pages are the targets of T-Graphs; no crawl starts from it.
    targets: str = ""
    # Topic -> its Dewey classes, as the user would give them.
    classes: dict[str, tuple[str, ...]] = {}
    # Splits a variant in two: T… from on-topic seeds, G… from generic ones (S2-40).
    by_seeds: bool = False
    # Further variants that the others are tested against.
    also: tuple[str, ...] = ()
    sections: tuple[str, ...] = ("strategies", "pairs", "topics", "seeds", "self-judged", "parts")
    variant: tuple[Variant, ...] = ()  # empty: every strategy
    plot: tuple[Plot, ...] = ()
    claim: tuple[Claim, ...] = ()
    # The synthetic web that is used if the user gives no web (see `WebShape`); empty: a web must be given.
    shape: dict[str, Any] = {}
    # Webs made from installed manuals, used in addition to the given ones.
    manuals: tuple[str, ...] = ()
    # Web -> fetches per run, where it differs from `budget`.
    budgets: dict[str, Positive] = {}
    # Results carry a digest of this declaration, and the report separates development and held-out topics.
    registered: bool = False

    @property
    def variants(self) -> tuple[Variant, ...]:
        return self.variant or tuple(Variant(name=name) for name in strategy_names())


# All experiments of one paper, run by one command.
PAPER_SUITES = {
    "paper-s0": ("s0-32", "s0-09"),
    "paper-s1": ("s1-30",),
    "paper-s2": ("s2-40", "s2-46"),
    "paper-s3": ("s3-33", "s3-34", "s3-35", "s3-36", "s3-37", "s3-38", "s3-39"),
    "paper-s4": ("s4-24",),
}


def suite_experiments(name: str) -> tuple[str, ...]:
    """The experiments of a suite; any other name stands for itself."""
    return PAPER_SUITES.get(name, (name,))


def experiment_names() -> list[str]:
    """The names of the built-in experiments."""
    folder = files("opilio.lab.experiments") / "declared"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))


def load_experiment(name: str) -> Experiment:
    """An experiment by its name, or by the path of a TOML file."""
    if name.endswith(".toml"):
        return _parse_experiment(name, _read_text(Path(name)))
    if name not in experiment_names():
        names = [*experiment_names(), *PAPER_SUITES]
        raise ConfigError(f"experiment {name}: unknown{suggest_name(name, names)}; known: {', '.join(names)}")
    return _parse_experiment(name, (files("opilio.lab.experiments") / "declared" / f"{name}.toml").read_text("utf-8"))


def select_variants(experiment: Experiment, names: Sequence[str]) -> tuple[Variant, ...]:
    """The variants of these names; a strategy that the experiment does not declare is added unchanged."""
    declared = {v.name: v for v in experiment.variants}
    picked = tuple(declared.get(name) or Variant(name=name) for name in dict.fromkeys(names)) or experiment.variants
    for variant in picked:
        _check_strategy(variant, [v.name for v in experiment.variant])
    return picked


def _check_strategy(variant: Variant, declared: list[str]) -> None:
    kind = variant.kind
    known = [*strategy_names(), *BOUND_STRATEGIES]
    if kind.startswith(PEER_PREFIX) or kind in known:
        return
    if variant.name in declared:
        what = f"variant '{variant.name}': strategy '{kind}'"
    else:
        what, known = f"strategy '{kind}'", [*declared, *known]
    raise ConfigError(f"{what}: unknown{suggest_name(kind, known)}; known: {', '.join(known)}, {PEER_PREFIX}NAME")


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"experiment {path}: can't be read: {error}") from error


def _parse_experiment(name: str, text: str) -> Experiment:
    try:
        found = msgspec.convert(parse_toml(text), Experiment)
    except msgspec.ValidationError as error:
        raise ConfigError(f"experiment {name}: {describe_validation_error(error)}") from error
    except ValueError as error:
        raise ConfigError(f"experiment {name}: {error}") from error
    names = [v.name for v in found.variant]
    if len(set(names)) < len(names):
        raise ConfigError(f"experiment {name}: two variants have one name")
    for plot in found.plot:
        if Path(plot.file).name != plot.file:
            raise ConfigError(f"experiment {name}: plot.file '{plot.file}': must be a name, without a folder")
    for key, word, known in _referenced_names(found):
        if word not in known:
            hint = f"{suggest_name(word, list(known))}; known: {', '.join(known)}"
            raise ConfigError(f"experiment {name}: {key} '{word}': unknown{hint}")
    return found


def _referenced_names(declared: Experiment) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Key, name and known names of all references, to find errors before the runs instead of after them."""
    yield from (("bounds", name, BOUND_STRATEGIES) for name in declared.bounds)
    yield from (("plot.kind", plot.kind, PLOT_KINDS) for plot in declared.plot)
    crawlers = list(dict.fromkeys([*(v.name for v in declared.variants), *strategy_names()]))
    if declared.by_seeds:
        crawlers += [letter + v.name for letter in "TG" for v in declared.variants]
    yield from (("reference", name, crawlers) for name in [declared.reference] if name)
    yield from (("also", name, crawlers) for name in declared.also)
    yield from (("claim.variants", name, crawlers) for claim in declared.claim for name in claim.variants)
    yield from (("plot.variants", name, crawlers) for plot in declared.plot for name in plot.variants)
    if declared.paper:
        yield "paper", declared.paper, list(paper_tables())


# Topics are split into two halves by a hash of their name. Defaults are chosen on the development half only; the
# held-out half confirms them.
DEVELOPMENT, HELD_OUT = "development", "held-out"


def registration_digest(experiment: Experiment) -> str:
    """A digest of the declaration and of the manuals' declaration: any change gives another one."""
    digest = xxhash.xxh3_64(msgspec.json.encode(experiment, order="sorted"))
    if experiment.manuals:
        digest.update((files("opilio.lab.webs") / "manuals.toml").read_bytes())
    return digest.hexdigest()


def topic_half(topic: str) -> str:
    """The half that a topic belongs to.

    >>> topic_half("railways"), topic_half("medicine")
    ('development', 'held-out')
    """
    return HELD_OUT if zlib.crc32(topic.encode()) % 2 else DEVELOPMENT
