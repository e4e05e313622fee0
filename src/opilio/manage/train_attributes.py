"""Make, test and store S1's learners: from a collection or from rows in a CSV file (S1-14, S1-25, S1-30).

Before a crawl (S1-13): the seeds are the relevant pages, results of other queries the irrelevant ones. Of each page up
to five parents are fetched: pages that the wiki lists as linking to it, then the directories above it and the home page
of its site. The label is the list that a page comes from. All of it is an ordinary crawl into the folder `training` of
the collection, so robots.txt, delays and scope hold, and `opilio why DIR/training URL` explains every request.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import msgspec
import numpy as np

from opilio import __version__
from opilio.core.clock import SystemClock
from opilio.core.display import pluralize
from opilio.core.errors import UsageError
from opilio.core.events import ClassifierTrained
from opilio.core.protocols import RANK_STATE
from opilio.core.records import url_key
from opilio.core.scope import UrlScope
from opilio.core.settings import Settings, Tree
from opilio.core.urls import canonicalize_url
from opilio.engine.reseeding import build_seed_request, is_allowed_seed
from opilio.engine.wiring.assembly import SINGLE_CRAWLER, assembly_kind
from opilio.engine.wiring.build import configured_seeds
from opilio.engine.wiring.seed_engines import REQUEST_LIMIT_OPTIONS, complete_engine
from opilio.engine.wiring.seeding import open_seed_sources, with_engines, with_seeds
from opilio.engine.wiring.start import UNTRAINED, Notify, StartTraining
from opilio.manage.backlink_crawl import count_fetches, fetch_pages
from opilio.methods.attributes.features import MAX_PARENTS, TrainingRow, read_rows, rows_to_arrays
from opilio.methods.attributes.learner import RowLearner, make_learner, require_sklearn
from opilio.methods.attributes.ranker import MIN_CLASS_ROWS, start_state
from opilio.methods.attributes.training import (
    CollectionTrainingSet,
    FixedTrainingSet,
    LearnerComparison,
    compare_learners,
    load_training_set,
    write_models,
)
from opilio.seeds.finder import FoundSeeds, SeedRequest, find_irrelevant_seeds, find_seeds
from opilio.seeds.queries import off_topic_queries
from opilio.store.collection import load_settings, open_readonly
from opilio.topic.page_terms import CachedIdf
from opilio.topic.setup import background_frequencies, build_vocabulary, resolve_settings
from opilio.topic.weights import WeightTable


class TrainingResult(msgspec.Struct, frozen=True, kw_only=True):
    """Learners that were tested, then trained on everything."""

    topic: str
    table: WeightTable  # empty where the rows were given
    rows: Sequence[TrainingRow]
    trial: LearnerComparison
    learners: list[RowLearner]

    def to_model_file(self) -> bytes:
        """The learners as a file that `rank.model` reads."""
        made_by = f"Opilio/{__version__}"
        return write_models(self.learners, made_by=made_by, topic=self.topic, table=self.table.weights)


def train(source: Path, names: Sequence[str]) -> TrainingResult:
    """Learners from a collection (a folder) or from a CSV file."""
    require_sklearn()
    return _from_collection(source, names) if source.is_dir() else _from_rows(source, names)


def _from_collection(folder: Path, names: Sequence[str]) -> TrainingResult:
    with open_readonly(folder) as collection:
        settings = resolve_settings(load_settings(collection), str(folder / "crawl.toml"))
    pages = load_training_set(folder, build_vocabulary(settings), CachedIdf(background_frequencies().__getitem__))
    trial = _evaluate(pages, names, str(folder))
    table = pages.table(np.arange(len(pages)))
    rows = pages.rows(table)
    topic = settings.topic.name
    return TrainingResult(topic=topic, table=table, rows=rows, trial=trial, learners=_fit_learners(rows, names))


def _from_rows(path: Path, names: Sequence[str]) -> TrainingResult:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = read_rows(file, str(path))
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}; give a collection or a CSV file") from error
    trial = _evaluate(FixedTrainingSet(rows), names, str(path))
    return TrainingResult(topic="", table=WeightTable(), rows=rows, trial=trial, learners=_fit_learners(rows, names))


def _evaluate(
    material: CollectionTrainingSet | FixedTrainingSet, names: Sequence[str], source: str
) -> LearnerComparison:
    try:
        # Others may use the machine too.
        return compare_learners(material, names, time.process_time)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error


def _fit_learners(rows: Sequence[TrainingRow], names: Sequence[str]) -> list[RowLearner]:
    learners = [make_learner(name) for name in names]
    for learner in learners:
        learner.fit(*rows_to_arrays(rows))
    return learners


TRAINING_FOLDER = "training"
WIKI_KINDS = ("mediawiki", "mediawiki-links", "mediawiki-backlinks")


class SeedLists(msgspec.Struct, frozen=True):
    """The pages to train on, each with up to five pages that may link to it."""

    relevant: list[str]
    irrelevant: list[str]
    parents: dict[str, list[str]] = {}

    @property
    def urls(self) -> list[str]:
        """Everything to fetch, parents first."""
        parents = (parent for found in self.parents.values() for parent in found)
        return list(dict.fromkeys([*parents, *self.relevant, *self.irrelevant]))


async def train_before_crawl(folder: Path, settings: Settings, notify: Notify) -> StartTraining | None:
    """Train the classifier of a new crawl on labelled seed lists; None, with a line, where that is not possible."""
    rank, size = settings.rank, settings.seeds.train
    if rank["model"] or not size:
        return None
    try:
        return await _train_on_new_lists(folder / TRAINING_FOLDER, settings, size, notify)
    except UsageError as error:
        notify(f"{settings.strategy}: {error}: {UNTRAINED}")
        return None


async def _train_on_new_lists(place: Path, settings: Settings, size: int, notify: Notify) -> StartTraining:
    """Find, fetch and learn; UsageError where there is too little to learn from."""
    if assembly_kind(settings.engine, settings.agents) != SINGLE_CRAWLER:
        raise UsageError("a crawl by agents or a plug-in")
    if settings.fetch.archives:
        raise UsageError("a crawl of archives")
    lists = await _find_seed_lists(settings, size)
    pages = f"{len(lists.relevant)} relevant and {len(lists.irrelevant)} irrelevant pages"
    requests = pluralize(len(lists.urls), "request")
    notify(f"{settings.strategy}: training before the crawl: {pages} and their parents, at most {requests}, in {place}")
    await fetch_pages(place, _training_settings(settings), lists.urls)
    return _train_on_lists(place, settings, lists, notify)


def _train_on_lists(place: Path, settings: Settings, lists: SeedLists, notify: Notify) -> StartTraining:
    labels = {url_key(url): False for url in lists.irrelevant} | {url_key(url): True for url in lists.relevant}
    idf = CachedIdf(background_frequencies().__getitem__)
    pages = load_training_set(place, build_vocabulary(settings), idf, labels)
    relevant = int(pages.labels.sum())
    irrelevant = len(pages) - relevant
    found = f"{relevant} relevant and {irrelevant} irrelevant pages with a known parent"
    if min(relevant, irrelevant) < MIN_CLASS_ROWS:
        raise UsageError(f"{found}, {MIN_CLASS_ROWS} of each are needed")
    table = pages.table(np.arange(len(pages)))
    (learner,) = _fit_learners(pages.rows(table), [settings.rank["learner"]])
    words = tuple(keyword.label for keyword in table.keywords)
    notify(f"{settings.strategy}: trained on {found}; topic words: {', '.join(words)}")
    event = ClassifierTrained(
        at=SystemClock().now(),
        learner=learner.name,
        relevant=relevant,
        irrelevant=irrelevant,
        parents=pages.parent_count,
        requests=count_fetches(place),
        words=words,
    )
    return StartTraining({RANK_STATE: start_state(learner, table)}, event)


def _training_settings(settings: Settings) -> Settings:
    """An ordinary crawl that fetches the lists only, with the politeness and the scope of the crawl to come."""
    tree: Tree = msgspec.to_builtins(settings)
    tree["stop"] |= {"relevant": 0, "harvest_below": 0.0, "expected_below": 0.0}
    tree["engine"]["workers"] = 0
    tree["revisit"] = {}
    return msgspec.convert(tree, Settings)


async def _find_seed_lists(settings: Settings, size: int) -> SeedLists:
    """The two lists with candidates for parents; UsageError if they are too short."""
    settings = with_engines(settings)
    counterexamples = [canonicalize_url(url) or url for url in settings.topic.counterexamples if "://" in url]
    if settings.seeds.offline or not (settings.seeds.engines or counterexamples):
        raise UsageError("no search engine for irrelevant pages")
    refusal = UrlScope(settings.scope).refusal_reason
    seeds = [seed.url for seed in configured_seeds(settings)]
    on_topic, off_topic = await _search(settings, 0 if len(seeds) >= size else size, size)
    others = [url for url in dict.fromkeys([*counterexamples, *off_topic]) if not refusal(url)]
    wanted = [url for url in dict.fromkeys([*seeds, *on_topic]) if url not in others and not refusal(url)]
    relevant, irrelevant = wanted[:size], others[:size]
    if min(len(relevant), len(irrelevant)) < MIN_CLASS_ROWS:
        few = f"{len(relevant)} relevant and {len(irrelevant)} irrelevant pages are known"
        raise UsageError(f"{few}, {MIN_CLASS_ROWS} of each are needed")
    parents = {}
    async with open_seed_sources(_backlink_engines(settings), SystemClock()) as wikis:
        for url in (*relevant, *irrelevant):
            linking = await find_seeds(wikis, SeedRequest(query=f"link:{url}", limit=MAX_PARENTS + 1))
            named = dict.fromkeys([*(seed.url for seed in linking.seeds), *_pages_above(url)])
            parents[url] = [one for one in named if one != url and not refusal(one)][:MAX_PARENTS]
    return SeedLists(relevant, irrelevant, parents)


async def _search(settings: Settings, relevant: int, irrelevant: int) -> tuple[list[str], list[str]]:
    """Results of the topic's query (S1-15), and of queries off the topic (S1-16), the same number of each of these."""
    topic, request = settings.topic, build_seed_request(settings)
    queries = off_topic_queries([topic.name, topic.description, *topic.keywords], topic.contexts)
    each = -(-irrelevant // max(1, len(queries)))
    wanted: list[str] = []
    others: list[str] = []
    async with open_seed_sources(settings, SystemClock()) as sources:
        if sources and relevant:
            wanted = _allowed_urls(settings, await find_seeds(sources, request))[:relevant]
        for query in queries if sources else ():
            others += _allowed_urls(settings, await find_irrelevant_seeds(sources, request, [query]))[:each]
    return wanted, others


def _allowed_urls(settings: Settings, found: FoundSeeds) -> list[str]:
    return [seed.url for seed in found.seeds if is_allowed_seed(settings, seed)]


def _backlink_engines(settings: Settings) -> Settings:
    """The settings with one engine for each configured wiki: it lists the articles that link to a page."""
    wikis: dict[str, Tree] = {}
    for name, tree in settings.seeds.engines.items():
        if tree["kind"] in WIKI_KINDS and tree["url"] not in {wiki["url"] for wiki in wikis.values()}:
            kept = {key: tree[key] for key in ("url", "article", *REQUEST_LIMIT_OPTIONS) if key in tree}
            wikis[f"{name} backlinks"] = complete_engine(name, {"kind": "mediawiki-backlinks", **kept})
    return with_seeds(settings, engines=wikis)


def _pages_above(url: str) -> Iterator[str]:
    """The directories above a page and the home page of its site, the nearest first."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    while path:
        path = path.rpartition("/")[0]
        yield urlunsplit((parts.scheme, parts.netloc, f"{path}/", "", ""))
