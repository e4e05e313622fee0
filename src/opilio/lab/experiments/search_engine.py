"""A search engine for an offline web: S3's crawls start from it and are compared with it (S3-02, S3-34).

Plain BM25 over the words of title and text; the query is the topic's brief. So an experiment can start at the first
results, as the papers do at Google's, and measure what a crawl finds beyond them. It sees no label. It can search news,
discussions and blogs, which it knows by the names of their hosts, and it can leave out a share of the pages: no engine
knows the whole web. It also makes the log of its users' queries (S4-24).
"""

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import ParseError
from opilio.core.records import EngineAnswer, FetchResult, rank_hits
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.lab.experiments.replay import OfflineWeb, lab_settings
from opilio.lab.synthetic.changing import hash_fraction
from opilio.lab.webs.pages import CachedParser
from opilio.lab.webs.readings import reading_version
from opilio.lab.webs.resources import file_digest, load_cached, save_cached
from opilio.lab.webs.topics import TopicBrief
from opilio.parse.html import HtmlParser
from opilio.seeds.merge import merge_answers
from opilio.text.term_arrays import term_array
from opilio.text.tokens import tokenize
from opilio.topic.genre import default_genres
from opilio.topic.setup import build_vocabulary

# The seed set `search-N` is the first N results; `search-news-N` those that are news; `search-genres-N` as many of the
# web, of news and of discussions, in turns (S3-36); `search-wanted-N` those of the genre that the topic wants (S3-37);
# `search-any-N` and `search-all-N` what any or all of three engines name (S0-12, S4-12), as `seeds.agree` does.
_SEARCH_SEEDS = re.compile(r"search-(?:([a-z]+)-)?(\d+)")
MIXED_GENRES = ("", "news", "discussions")
# The papers ask Google, Bing and Yahoo, or MSN (S0-10, S1-15, S4-12).
ENGINES = 3
# Of each engine: some are not named by all.
RESULTS_PER_SEED = 2
BM25_K1, BM25_B = 1.2, 0.75
# Results that a crawl is compared with (S3-34).
COMPARED_RESULTS = 500
# Queries of a log: users of a topical engine search for titles of its first results; some search for anything else.
LOGGED_TITLES = 300
NOISE_SHARE = 0.3
TYPING_ERROR_SHARE = 0.05


_Numbers = NDArray[np.uint32]
_InvertedIndex = tuple[dict[int, tuple[_Numbers, _Numbers]], NDArray[np.float64], dict[str, str]]


class SearchComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A crawl compared with the first results (S3-34)."""

    results: int
    results_relevant: int  # by label
    # Relevant pages the crawl found that are not among the results.
    new_relevant: int
    common_hosts: int
    # Share of the common hosts with more pages from the crawl, after each tenth of it.
    deeper: tuple[float, ...]


class OfflineSearchEngine:
    """An index of all pages of a web."""

    def __init__(self, offline: OfflineWeb) -> None:
        self._offline = offline
        self._containing: dict[str, frozenset[str]] = {}

    def seeds(self, brief: TopicBrief, name: str, coverage: float = 1.0, engine: int = 0) -> list[str]:
        """The results that a seed set of this name stands for; all kinds of pages where a genre has none."""
        genre, limit = _parse_search_seeds(name)
        if genre == "wanted":
            genre = brief.genres[0] if brief.genres else ""
        if genre in ("any", "all"):
            asked = self.ask_engines(brief, RESULTS_PER_SEED * limit, coverage, engine)
            answers = [build_answer(f"engine {number}", urls) for number, urls in enumerate(asked)]
            return [seed.url for seed in merge_answers(answers, "any" if genre == "any" else "all")][:limit]
        if genre != "genres":
            found = self.search(brief, limit, genre, coverage, engine)
            return found or self.search(brief, limit, coverage=coverage, engine=engine)
        lists = [self.search(brief, limit, kind, coverage, engine) for kind in MIXED_GENRES]
        return list(dict.fromkeys(url for row in zip_longest(*lists) for url in row if url))[:limit]

    @property
    def titles(self) -> Mapping[str, str]:
        """The title of every page."""
        return self._index[2]

    def search(
        self, brief: TopicBrief, limit: int, genre: str = "", coverage: float = 1.0, engine: int = 0
    ) -> list[str]:
        """The best pages for a brief, best first; ties by address.

        `coverage` is the share of the pages that it knows; an `engine` of another number knows other ones.
        """
        vocabulary = build_vocabulary(self._settings)
        query = set(vocabulary.terms(" ".join((brief.name, brief.description, *brief.keywords))))
        counts, lengths, titles = self._index
        urls = list(titles)
        rated = np.zeros(len(urls))
        usual = lengths / max(1.0, float(lengths.mean()))
        for term in query:
            if term not in counts:
                continue
            pages, tf = counts[term]
            rarity = np.log(1.0 + (len(urls) - len(pages) + 0.5) / (len(pages) + 0.5))
            rated[pages] += rarity * tf * (BM25_K1 + 1.0) / (tf + BM25_K1 * (1.0 - BM25_B + BM25_B * usual[pages]))
        order = sorted(np.flatnonzero(rated > 0).tolist(), key=lambda n: (-rated[n], urls[n]))
        found = (urls[n] for n in order if coverage >= 1.0 or hash_fraction(urls[n], engine) < coverage)
        if genre:
            names = default_genres()[genre].url
            found = (url for url in found if host_of(url).partition(".")[0] in names)
        return list(islice(found, limit))

    def ask_engines(self, brief: TopicBrief, limit: int, coverage: float, execution: int = 0) -> list[list[str]]:
        """The results of three engines, each of which knows another share of the pages; others for each execution."""
        numbers = range(ENGINES * execution, ENGINES * (execution + 1))
        return [self.search(brief, limit, coverage=coverage, engine=number) for number in numbers]

    def containing(self, query: str) -> frozenset[str]:
        """The pages that contain all words of a query."""
        counts, _, titles = self._index
        if query not in self._containing:
            found = [
                set(counts[t][0].tolist()) if t in counts else set()
                for t in build_vocabulary(self._settings).terms(query)
            ]
            urls = list(titles)
            self._containing[query] = frozenset(urls[n] for n in set.intersection(*found)) if found else frozenset()
        return self._containing[query]

    def logged_queries(self, brief: TopicBrief, count: int) -> list[str]:
        """Queries of users who search for the topic, drawn from titles, with noise; the same for the same brief."""
        titles, is_word = self.titles, build_vocabulary(self._settings).terms
        words = {url: [word for word in tokenize(title) if is_word(word)] for url, title in titles.items()}
        wanted = [words[url] for url in self.search(brief, LOGGED_TITLES)]
        others = list(words.values())
        drawn = (draw_query(wanted, others, random.Random(f"{brief.name} {number}")) for number in range(count))
        return [query for query in drawn if query]

    @property
    def _settings(self) -> Settings:
        return lab_settings("breadth", TopicBrief(name="search"), (), 1)

    @cached_property
    def _index(self) -> _InvertedIndex:
        """Term to (pages, counts); the pages' lengths; their addresses and titles. Every process of a run needs it."""
        version = f"{reading_version(self._settings)}/search-{file_digest(Path(__file__)).hex()}"
        file = self._offline.pages.folder / f"read-{version}"
        kept = load_cached(file, _StoredIndex)
        if kept is None:
            kept = self._build_index()
            save_cached(file, kept)
        terms, pages, counts = (np.frombuffer(data, dtype=np.uint32) for data in (kept.terms, kept.pages, kept.counts))
        found, starts = np.unique(terms, return_index=True)
        ends = [*starts[1:].tolist(), len(terms)]
        spans = zip(found.tolist(), starts.tolist(), ends, strict=True)
        return (
            {term: (pages[start:end], counts[start:end]) for term, start, end in spans},
            np.frombuffer(kept.lengths, dtype=np.float64),
            kept.titles,
        )

    def _build_index(self) -> "_StoredIndex":
        web, settings = self._offline.web, self._settings
        read = self._offline.readings(settings).reader(settings, build_vocabulary(settings))
        parser = CachedParser(web, self._offline.pages, HtmlParser(lists=True))
        columns: list[tuple[_Numbers, _Numbers]] = []
        lengths: list[float] = []
        titles: dict[str, str] = {}
        for number, url in enumerate(web.urls):
            answer = web.response(number)
            if answer.status != 200:
                continue
            try:
                page = parser.parse(FetchResult(url=url, status=200, headers=answer.headers, body=answer.body))
            except ParseError:
                continue
            words = read(page).terms
            found, times = np.unique(term_array(words), return_counts=True)
            columns.append((found, times.astype(np.uint32)))
            lengths.append(float(len(words)))
            titles[url] = page.title
        nothing: _Numbers = np.empty(0, dtype=np.uint32)
        terms = np.concatenate([nothing, *(found for found, _ in columns)])
        counts = np.concatenate([nothing, *(times for _, times in columns)])
        pages = np.repeat(np.arange(len(columns), dtype=np.uint32), [len(found) for found, _ in columns])
        order = np.argsort(terms, kind="stable")
        return _StoredIndex(
            terms[order].tobytes(), pages[order].tobytes(), counts[order].tobytes(), np.array(lengths).tobytes(), titles
        )


class _StoredIndex(msgspec.Struct):
    """The index in the cache: a row for each term of each page, sorted by term, then page; arrays as raw bytes."""

    terms: bytes
    pages: bytes
    counts: bytes
    lengths: bytes
    titles: dict[str, str]


class OfflineSeedSource:
    """The engine as a source of more seeds. In the lab it replaces every engine of `seeds.engines`."""

    def __init__(self, name: str, engine: OfflineSearchEngine) -> None:
        self.name = name
        self._engine = engine

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 it knows no genres
        """One answer of the engine."""
        return [build_answer(self.name, self._engine.search(TopicBrief(name=query), limit))]


def build_answer(engine: str, urls: Sequence[str]) -> EngineAnswer:
    """The results of an engine, best first, as the answer of a seed engine."""
    return EngineAnswer(voter=engine, hits=rank_hits(urls))


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


def draw_query(wanted: Sequence[list[str]], others: Sequence[list[str]], rng: random.Random) -> str:
    """Two to four neighbouring words of a title; now and then a letter is missing."""
    words = rng.choice(others if rng.random() < NOISE_SHARE or not wanted else wanted)
    size = rng.randint(2, 4)
    start = rng.randint(0, max(0, len(words) - size))
    asked = words[start : start + size]
    for place, word in enumerate(asked):
        if rng.random() < TYPING_ERROR_SHARE:
            lost = rng.randrange(len(word))
            asked[place] = word[:lost] + word[lost + 1 :]
    return " ".join(asked)


def search_result_count(name: str) -> int:
    """The number of results in a seed set of this name; 0 for other seed sets.

    >>> search_result_count("search-30"), search_result_count("search-news-10"), search_result_count("on-topic-1")
    (30, 10, 0)
    """
    return _parse_search_seeds(name)[1]


def _parse_search_seeds(name: str) -> tuple[str, int]:
    found = _SEARCH_SEEDS.fullmatch(name)
    if found is None or found[1] not in (None, "genres", "wanted", "any", "all", *default_genres()):
        return "", 0
    return found[1] or "", int(found[2])
