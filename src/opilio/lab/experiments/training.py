"""S1's training before a crawl: rows from seed lists of a search engine, labelled by the list (S1-13 … S1-17).

Relevant pages are results that two of three engines have for the topic (S1-15); irrelevant ones are results of other
queries (S1-16, S1-E1). The three engines are one engine that knows three different shares of the web. Parents come from
the web's own links; a live crawl asks a wiki for them (`manage.train_attributes`). No label of the web is read.
"""

import time
from collections import Counter
from pathlib import Path

import numpy as np
import xxhash

from opilio.core.records import url_key
from opilio.core.urls import host_of
from opilio.lab.experiments.replay import OfflineWeb, lab_settings
from opilio.lab.experiments.search_engine import OfflineSearchEngine
from opilio.lab.synthetic.faults import hash_fraction
from opilio.lab.webs.cache import default_cache_folder, save_bytes
from opilio.lab.webs.pages import WebLinks
from opilio.lab.webs.topics import TopicBrief
from opilio.methods.attributes.evaluation import LearnerComparison, compare_learners
from opilio.methods.attributes.features import MAX_PARENTS
from opilio.methods.attributes.models import LEARNER_NAMES, make_learner
from opilio.methods.attributes.rows import rows_to_arrays
from opilio.methods.attributes.training import (
    CollectionTrainingSet,
    TrainingPage,
    add_link_evidence,
    write_models,
)
from opilio.topic.page_terms import CachedIdf, PageTerms
from opilio.topic.setup import background_frequencies, build_vocabulary

ENGINES = 3
ENGINE_COVERAGE = 0.8
MIN_AGREEMENT = 2  # engines that must name a page (S1-15)
RESULTS_PER_QUERY = 3  # of a query off the topic
STRATEGY = "s1-bayes"  # all strategies of S1 read pages in the same way


class SeedListTraining:
    """Training sets of one web."""

    def __init__(self, offline: OfflineWeb, search: OfflineSearchEngine, links: WebLinks) -> None:
        self._offline = offline
        self._search = search
        self._links = links
        self._sets: dict[tuple[str, int], CollectionTrainingSet] = {}

    def seed_lists(self, brief: TopicBrief, size: int) -> tuple[list[str], list[str]]:
        """Up to `size` relevant and irrelevant pages, the best ones first."""
        lists = [self._search.search(brief, 2 * size, coverage=ENGINE_COVERAGE, engine=n) for n in range(ENGINES)]
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
