"""What a crawl of an experiment knows before it starts, beside brief and seeds: graphs, and S1's training.

Relevant pages are results that two of three engines have for the topic (S1-15); irrelevant ones are results of other
queries (S1-16, S1-E1). The three engines are one engine that knows three different shares of the web. Parents come from
the web's own links; a live crawl asks a wiki for them (`manage.train_attributes`). No label of the web is read.

The T-Graphs that rankers start with are built from the back-links of a web, once for each set of targets (S2-27). On
the live web a search service would give back-links; here the link graph is known. A crawl that starts with a T-Graph
knows the back-links of a few relevant pages, as S2 and the context graph require: the report says so.

Tables built from pages (S0-13), query logs (S4-24) and trained classifiers (S1) come from the search engine of the web,
which sees no label.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xxhash

from opilio.core.errors import UsageError
from opilio.core.records import url_key
from opilio.core.settings import Settings, Tree
from opilio.core.urls import canonicalize_url, host_of
from opilio.lab.experiments.declarations import Variant
from opilio.lab.experiments.replay import OfflineWeb, lab_settings
from opilio.lab.experiments.search_engine import ENGINES, RESULTS_PER_SEED, OfflineSearchEngine
from opilio.lab.synthetic.changing import hash_fraction
from opilio.lab.webs.pages import WebLinks
from opilio.lab.webs.readings import reading_version
from opilio.lab.webs.resources import default_cache_folder, save_bytes
from opilio.lab.webs.topics import TopicBrief
from opilio.manage.topic_builder import build_table_from_pages
from opilio.methods.attributes.features import MAX_PARENTS, rows_to_arrays
from opilio.methods.attributes.learner import LEARNER_NAMES, make_learner
from opilio.methods.attributes.training import (
    CollectionTrainingSet,
    LearnerComparison,
    TrainingPage,
    add_link_evidence,
    compare_learners,
    write_models,
)
from opilio.methods.treasure.build import (
    GraphBuilder,
    GraphLimits,
    bottom_up,
    build_graph_builder,
    encode_graph_state,
    graph_state_name,
    top_down,
)
from opilio.methods.treasure.graph import TGraph
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, build_vocabulary
from opilio.topic.topic import make_topic

ENGINE_COVERAGE = 0.8
MIN_AGREEMENT = 2  # engines that must name a page (S1-15)
RESULTS_PER_QUERY = 3  # of a query off the topic
# All strategies of S1 read pages in the same way.
STRATEGY = "s1-bayes"


class SeedListTraining:
    """Training sets of one web."""

    def __init__(self, offline: OfflineWeb, search: OfflineSearchEngine, links: WebLinks) -> None:
        self._offline = offline
        self._search = search
        self._links = links
        self._sets: dict[tuple[str, int], CollectionTrainingSet] = {}

    def seed_lists(self, brief: TopicBrief, size: int) -> tuple[list[str], list[str]]:
        """Up to `size` relevant and irrelevant pages, the best ones first."""
        lists = self._search.ask_engines(brief, RESULTS_PER_SEED * size, ENGINE_COVERAGE)
        votes = Counter(url for found in lists for url in found)
        ranked = dict.fromkeys(url for found in lists for url in found)
        relevant = [url for url in ranked if votes[url] >= MIN_AGREEMENT][:size]
        topical = set(self._search.search(brief, 20 * size))
        irrelevant: dict[str, None] = {}
        titles = self._search.titles
        for url in sorted(titles, key=lambda url: hash_fraction(url, ENGINES)):
            if len(irrelevant) >= size:
                break
            if url not in topical and titles[url]:
                found = self._search.search(TopicBrief(name=titles[url]), RESULTS_PER_QUERY)
                irrelevant |= dict.fromkeys(hit for hit in found if hit not in topical)
        return relevant, list(irrelevant)[:size]

    def training_set(self, brief: TopicBrief, size: int) -> CollectionTrainingSet:
        """The rows of both lists, with the evidence of up to five parents of each page."""
        key = (brief.name, size)
        if key not in self._sets:
            relevant, irrelevant = self.seed_lists(brief, size)
            self._sets[key] = self._read(dict.fromkeys(irrelevant, False) | dict.fromkeys(relevant, True))
        return self._sets[key]

    def _read(self, labels: dict[str, bool]) -> CollectionTrainingSet:
        settings = lab_settings(STRATEGY, TopicBrief(name="topic"), (), 1)
        vocabulary = build_vocabulary(settings)
        read = self._offline.readings(settings).reader(settings, vocabulary)
        words = PageTerms(vocabulary.terms, CachedIdf(background_frequencies().__getitem__), weights="tfidf")
        examples = []
        for url, relevant in labels.items():
            page = self._links.page(url)
            if page is None:
                continue
            terms, counts = words.counts(read(page))
            example = TrainingPage(url, host_of(url), relevant, terms, counts / max(1.0, counts.sum()))
            for parent in self._links.parents_of(url)[:MAX_PARENTS]:
                linking = self._links.page(parent)
                if linking is not None:
                    add_link_evidence(url_key(parent), read(linking), words, {url_key(url): example})
            examples.append(example)
        return CollectionTrainingSet(examples, vocabulary)

    def model_file(self, brief: TopicBrief, size: int) -> Path:
        """All learners, trained on all rows, as a file that `rank.model` reads."""
        pages = self.training_set(brief, size)
        table = pages.table(np.arange(len(pages)))
        rows = rows_to_arrays(pages.rows(table))
        learners = [make_learner(name) for name in LEARNER_NAMES]
        for learner in learners:
            learner.fit(*rows)
        data = write_models(learners, topic=brief.name, table=table.weights)
        path = default_cache_folder() / "models" / f"{xxhash.xxh3_64_hexdigest(data)}.json"
        save_bytes(path, data)
        return path

    def compare(self, brief: TopicBrief, size: int) -> LearnerComparison:
        """Precision, time and complexity of the three classifiers on the rows (S1-30)."""
        return compare_learners(self.training_set(brief, size), LEARNER_NAMES, time.process_time)


# Pages between two readings of a query log (S4-05).
LOG_INTERVAL = 100
BUILT_TABLE_SIZE = 300  # words of a table from pages (S0-13)


class CrawlPreparation:
    """Prepares crawls of one web."""

    def __init__(self, offline: OfflineWeb, search: OfflineSearchEngine) -> None:
        self.links = WebLinks(offline.web, offline.pages)
        self.tgraphs = TGraphCache(offline, self.links)
        self.training = SeedListTraining(offline, search, self.links)
        self._search = search
        self._tables: dict[tuple[str, int], dict[str, float]] = {}
        self._logs: dict[tuple[str, int], Path] = {}

    def settings(self, variant: Variant, brief: TopicBrief, budget: int, training: int = 0) -> Tree:
        """The settings that a variant gets from the search engine. `training`: pages of each seed list (S1-13)."""
        tree: Tree = {}
        if variant.queries:
            tree["expansion"] = self._query_log(brief, variant.queries, budget)
        if variant.table_pages:
            words = self._table(brief, variant.table_pages)
            tree["topic"] = {"keywords": words, "description": "", "table_size": BUILT_TABLE_SIZE}
        if training and variant.trained:
            tree["rank"] = {"model": str(self.training.model_file(brief, training))}
        return tree

    def _query_log(self, brief: TopicBrief, per_interval: int, budget: int) -> Tree:
        """The settings of a log of queries, long enough for the whole crawl (S4-24)."""
        count = per_interval * (budget // LOG_INTERVAL + 2)
        if (brief.name, count) not in self._logs:
            text = "\n".join(self._search.logged_queries(brief, count)).encode()
            log = default_cache_folder() / "query-logs" / f"{xxhash.xxh3_64_hexdigest(text)}.txt"
            save_bytes(log, text)
            self._logs[brief.name, count] = log
        log = self._logs[brief.name, count]
        return {"log": str(log), "interval": LOG_INTERVAL, "per_interval": per_interval}

    def _table(self, brief: TopicBrief, pages: int) -> dict[str, float]:
        """Words with weights from the first results for a topic, as S0 builds its table from an encyclopaedia."""
        if (brief.name, pages) not in self._tables:
            found = (self.links.page(url) for url in self._search.search(brief, pages))
            texts = tuple(f"{page.title}\n{page.main_text}" for page in found if page is not None)
            table, _ = build_table_from_pages(make_topic(brief.name, {}, positive=texts), BUILT_TABLE_SIZE)
            self._tables[brief.name, pages] = {keyword.label: keyword.weight for keyword in table.keywords}
        return self._tables[brief.name, pages]


def resolve_targets(targets: Sequence[str], links: WebLinks) -> tuple[list[str], list[str]]:
    """Targets as canonical URLs, and those that are not in the web. UsageError if none is."""
    found, missing = [], []
    for target in targets:
        url = canonicalize_url(target) if "://" in target else None
        if url is not None and links.page(url) is not None:
            found.append(url)
        else:
            missing.append(target)
    if not found:
        raise UsageError(f"--target {missing[0]}: not in this web; give the URL of one of its pages")
    return list(dict.fromkeys(found)), missing


def build_tgraph(
    links: WebLinks, maker: GraphBuilder, targets: Sequence[str], bounds: GraphLimits, portals: Sequence[str] = ()
) -> TGraph:
    """Bottom-up from the targets, or top-down if portals are given."""
    worth = maker.similarity_to(targets)
    if portals:
        layers = top_down(portals, targets, links.links_of, bounds, worth)
    else:
        layers = bottom_up(targets, links.parents_of, bounds, worth)
    return maker.build(layers, bounds)


class TGraphCache:
    """Builds first states; equal targets with equal settings are built once."""

    def __init__(self, offline: OfflineWeb, links: WebLinks) -> None:
        self._offline = offline
        self._links = links
        self._known: dict[tuple[object, ...], bytes] = {}

    def initial_state(self, settings: Settings, targets: Sequence[str]) -> Mapping[str, bytes]:
        """The first state of a ranker that needs a graph; empty for others, and without targets."""
        learner = graph_state_name(settings)
        if not targets or not learner or settings.rank.get("graph"):
            return {}
        key = (tuple(targets), reading_version(settings))
        if key not in self._known:
            read = self._offline.readings(settings).reader
            maker = build_graph_builder(settings, self._links.page, read)
            wanted, _ = resolve_targets(targets, self._links)
            self._known[key] = encode_graph_state(build_tgraph(self._links, maker, wanted, GraphLimits()))
        return {learner: self._known[key]}
