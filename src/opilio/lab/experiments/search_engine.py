"""A search engine for an offline web: S3's crawls start from it and are compared with it (S3-02, S3-34).

Plain BM25 over the words of title and text; the query is the topic's brief. So an experiment can start at the first
results, as the papers do at Google's, and measure what a crawl finds beyond them. It sees no label.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ParseError
from opilio.core.records import EngineAnswer, EngineHit, FetchResult
from opilio.core.settings import Settings
from opilio.lab.experiments.replay import OfflineWeb, lab_settings
from opilio.lab.webs.pages import CachedParser
from opilio.lab.webs.topics import TopicBrief
from opilio.parse.html import HtmlParser
from opilio.topic.setup import build_vocabulary

# The seed set `search-N` is the first N results.
SEARCH_SEED_PREFIX = "search-"
BM25_K1, BM25_B = 1.2, 0.75
COMPARED_RESULTS = 500  # results that a crawl is compared with (S3-34)


_Numbers = NDArray[np.int64]
_Amounts = NDArray[np.float64]
_InvertedIndex = tuple[dict[int, tuple[_Numbers, _Amounts]], _Amounts, list[str]]


class SearchComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl compared with the first results (S3-34)."""

    results: int
    results_relevant: int  # by label
    new_relevant: int  # relevant pages the crawl found that are not among the results
    common_hosts: int
    deeper: tuple[float, ...]  # share of the common hosts with more pages from the crawl, after each tenth of it


class OfflineSearchEngine:
    """An index of all pages of a web."""

    def __init__(self, offline: OfflineWeb) -> None:
        self._offline = offline

    def search(self, brief: TopicBrief, limit: int) -> list[str]:
        """The best pages for a brief, best first; ties by address."""
        vocabulary = build_vocabulary(self._settings)
        query = set(vocabulary.terms(" ".join((brief.name, brief.description, *brief.keywords))))
        counts, lengths, urls = self._index
        rated = np.zeros(len(urls))
        usual = lengths / max(1.0, float(lengths.mean()))
        for term in query:
            if term not in counts:
                continue
            pages, tf = counts[term]
            rarity = np.log(1.0 + (len(urls) - len(pages) + 0.5) / (len(pages) + 0.5))
            rated[pages] += rarity * tf * (BM25_K1 + 1.0) / (tf + BM25_K1 * (1.0 - BM25_B + BM25_B * usual[pages]))
        order = sorted(np.flatnonzero(rated > 0).tolist(), key=lambda n: (-rated[n], urls[n]))
        return [urls[n] for n in order[:limit]]

    @property
    def _settings(self) -> Settings:
        return lab_settings("breadth", TopicBrief(name="search"), (), 1)

    @cached_property
    def _index(self) -> _InvertedIndex:
        """Term to (pages, counts); the pages' lengths and addresses."""
        web, settings = self._offline.web, self._settings
        read = self._offline.readings(settings).reader(settings, build_vocabulary(settings))
        parser = CachedParser(web, self._offline.pages, HtmlParser())
        found: dict[int, list[tuple[int, int]]] = {}
        lengths: list[float] = []
        urls: list[str] = []
        for number, url in enumerate(web.urls):
            answer = web.response(number)
            if answer.status != 200:
                continue
            try:
                page = parser.parse(FetchResult(url=url, status=200, headers=answer.headers, body=answer.body))
            except ParseError:
                continue
            terms = read(page).terms
            for term, count in Counter(terms).items():
                found.setdefault(term, []).append((len(urls), count))
            lengths.append(float(len(terms)))
            urls.append(url)
        columns = {t: (np.array([p for p, _ in r]), np.array([float(n) for _, n in r])) for t, r in found.items()}
        return columns, np.array(lengths), urls


class OfflineSeedSource:
    """The engine as a source of more seeds. In the lab it replaces every engine of `seeds.engines`."""

    def __init__(self, name: str, engine: OfflineSearchEngine) -> None:
        self.name = name
        self._engine = engine

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 it knows no genres
        """One answer of the engine."""
        urls = self._engine.search(TopicBrief(name=query), limit)
        hits = tuple(EngineHit(url=url, rank=rank) for rank, url in enumerate(urls, 1))
        return [EngineAnswer(voter=self.name, hits=hits)]


def deeper_host_shares(listed: Mapping[str, int], hosts: Sequence[str]) -> list[float]:
    """After each tenth of a crawl: of the common hosts, the share with more pages from the crawl than in the list.

    >>> deeper_host_shares({"a": 1, "b": 5}, ["a"] * 5 + ["b"] * 5)
    [0.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    """
    shares = []
    for step in range(1, 11):
        mine = Counter(hosts[: len(hosts) * step // 10])
        common = listed.keys() & mine.keys()
        shares.append(sum(mine[h] > listed[h] for h in common) / len(common) if common else 0.0)
    return shares


def search_result_count(name: str) -> int:
    """The number of results in a seed set of this name; 0 for other seed sets.

    >>> search_result_count("search-30"), search_result_count("on-topic-1")
    (30, 0)
    """
    number = name.removeprefix(SEARCH_SEED_PREFIX)
    return int(number) if name.startswith(SEARCH_SEED_PREFIX) and number.isdigit() else 0
