"""Queries all seed sources at once, merges their answers by votes, keeps answers for a day, and suggests more queries.

Sources that fail are reported; the others are used (S0-10 … S0-12; filters of S1 and S4, X-04). Votes are counted over
the engines that answered, so that a failed engine does not lower a URL's priority. A list (a file, a sitemap) has no
vote; its URLs have the list's priority.

The daily cache in the user's cache folder has answers, counts of requests, and engines that asked for a pause. Losing
it costs requests, never results. It contains no API keys. Several processes may use it at once: a request appends one
byte to a file, whose size is the count; other files are written atomically.

A further query (relevance feedback as in Vieira et al. 2016) is the topic's two heaviest words and one more: from the
table, or one that distinguishes relevant pages from others. The two kinds alternate, so that a static table does not
decide alone. Lists that answer no query (sitemaps, URL indexes, external links) are sorted by the query's words.
"""

import asyncio
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from opilio.core.clock import Clock
from opilio.core.files import write_atomically
from opilio.core.protocols import SeedSource
from opilio.core.records import EngineAnswer, Failure, Seed
from opilio.core.urls import canonicalize_url
from opilio.text.languages import stop_words
from opilio.text.tokens import is_short_word, tokenize, tokenize_verbatim
from opilio.text.word_vectors import load_surface_vectors, text_vector

CORE_WORDS = 2  # words in every query
MIN_WORD_PAGES = 2  # words of a single page are ignored
# Last queries whose pages decide whether to continue.
YIELD_WINDOW_QUERIES = 3
MIN_JUDGED_PAGES = 5  # pages needed for a decision

IsWord = Callable[[str], bool]


class QueryYield(NamedTuple):
    """The result of a query: how many of its new URLs were judged, and how many were relevant."""

    query: str
    judged: int
    relevant: int


def distinctive_words(relevant: Iterable[str], others: Iterable[str], is_word: IsWord, limit: int = 30) -> list[str]:
    """Words that distinguish the titles of relevant pages from those of other pages, most distinctive first.

    >>> distinctive_words(["wren song", "song of wrens", "wren nest"], ["car song"], str.isalpha)[:2]
    ['wren', 'song']
    """
    good, bad = _count_word_pages(relevant, is_word), _count_word_pages(others, is_word)
    pages, rest = max(1, good.total_pages), max(1, bad.total_pages)

    def weight(word: str) -> float:
        share = good[word] / pages
        return share * (share / (share + (bad[word] + 0.5) / (rest + 1)))

    kept = [word for word, count in good.items() if count >= MIN_WORD_PAGES and not is_short_word(word)]
    return sorted(kept, key=lambda word: (-weight(word), word))[:limit]


def candidate_queries(name: str, keywords: Sequence[str], distinctive: Sequence[str]) -> Iterator[str]:
    """Further queries in order of expected value; the topic's name first.

    >>> list(candidate_queries("wrens", ["wren", "bird", "nest"], ["song"]))[:3]
    ['wrens', 'wren bird nest', 'wren bird song']
    """
    core = list(keywords[:CORE_WORDS]) or tokenize(name)[:CORE_WORDS]
    alternating = chain.from_iterable(zip_longest(keywords[CORE_WORDS:], distinctive))
    further = [word for word in dict.fromkeys(alternating) if word and word not in core]
    if name:
        yield name
    # When all were used, the same with one core word less.
    for common in (core, core[:1]):
        yield from (" ".join([*common, word]) for word in further)


def next_query(candidates: Iterable[str], used: Collection[str]) -> str:
    """The first candidate that was not used yet in any word order; empty if there is none."""
    known = {frozenset(tokenize(query)) for query in used}
    return next((query for query in candidates if frozenset(tokenize(query)) not in known), "")


def exhaustion_reason(yields: Sequence[QueryYield], precision: float) -> str:
    """Why further queries are not worthwhile, by the results of the last ones; empty if they are."""
    last = [one for one in yields if one.judged][-YIELD_WINDOW_QUERIES:]
    judged, relevant = sum(one.judged for one in last), sum(one.relevant for one in last)
    if judged >= MIN_JUDGED_PAGES and relevant < precision * judged:
        return f"{relevant} of {judged} pages from the last queries were relevant"
    return ""


class _WordPageCounts(Counter[str]):
    total_pages = 0


def _count_word_pages(texts: Iterable[str], is_word: IsWord) -> _WordPageCounts:
    """The number of texts that contain each word."""
    counts = _WordPageCounts()
    for text in texts:
        counts.total_pages += 1
        counts.update({word for word in tokenize(text) if is_word(word)})
    return counts


GENRE_QUERY_WORDS = {"news": "news", "discussions": "forum discussion", "blogs": "blog", "web": ""}


def add_genre_words(query: str, genre: str) -> str:
    """The query with the words for a genre, for engines without genres (S3-02).

    >>> add_genre_words("audi quattro", "discussions"), add_genre_words("audi quattro", "")
    ('audi quattro forum discussion', 'audi quattro')
    """
    return f"{query} {GENRE_QUERY_WORDS.get(genre, genre)}".strip()


def shorten_query(query: str, words: int, characters: int) -> str:
    """A query cut between words to an engine's limits."""
    kept = " ".join(query.split()[:words])
    return kept if len(kept) <= characters else kept[:characters].rpartition(" ")[0] or kept[:characters]


def plain_query(query: str) -> str:
    """A query as plain words, for engines in which punctuation is syntax.

    >>> plain_query('title:wren -"song thrush"')
    'title wren song thrush'
    """
    return " ".join(tokenize_verbatim(query))


# One query for each broad field of library classifications.
# fmt: off
OFF_TOPIC_FIELDS = (
    "cooking recipes", "football results", "railway timetable", "personal finance advice", "medieval history",
    "jazz music concerts", "garden plants", "software tutorial", "travel guide", "court law", "chemistry experiments",
    "film reviews", "religion and philosophy", "house building", "health and medicine", "weather and climate",
)
# fmt: on


def off_topic_queries(topic: Iterable[str], contexts: Sequence[str] = (), limit: int = 5) -> list[str]:
    """Queries without words of the topic (S1-16, S1-E1): other senses first, as they teach most, then broad fields.

    >>> off_topic_queries(["garden", "plants", "medicine"], ["jungle cat"], limit=3)
    ['jungle cat', 'cooking recipes', 'football results']
    """
    own = {word for text in topic for word in tokenize(text) if not is_short_word(word)}
    queries = [query for query in (*contexts, *OFF_TOPIC_FIELDS) if own.isdisjoint(tokenize(query))]
    return queries[:limit]


def sort_by_query_words(urls: Iterable[str], query: str) -> list[str]:
    """URLs sorted by the number of the query's words in them; equals keep their order.

    >>> sort_by_query_words(["https://a.example/about", "https://a.example/songs/wren-song.html"], "songs of the wren")
    ['https://a.example/songs/wren-song.html', 'https://a.example/about']
    """
    return sorted(urls, key=lambda url: -count_query_words(url, query))


def count_query_words(url: str, query: str) -> int:
    """The number of the query's words in a URL."""
    return len(_query_words(query).intersection(map(_strip_plural, tokenize(unquote(url.partition("://")[2])))))


@lru_cache(maxsize=8)
def _query_words(query: str) -> frozenset[str]:
    return frozenset(_strip_plural(word) for word in tokenize(query) if not is_short_word(word) and word != "the")


def _strip_plural(word: str) -> str:
    """A word without its plural ending, enough to match words in URLs."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word


_answers_decoder = msgspec.msgpack.Decoder(tuple[EngineAnswer, ...])
# Files that are kept beyond the day: an engine may ask for a month.
BLOCKED_PREFIX = "until-"


class DailyCache:
    """A folder with a subfolder per day; old days are removed."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def now(self) -> float:
        """The current time of the cache's clock."""
        return self._clock.now()

    def today_folder(self) -> Path:
        """The folder of the day (UTC)."""
        return self._folder / datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%d")

    def lasting_file(self, name: str) -> Path:
        """A file that is kept beyond the day."""
        return self._folder / f"{BLOCKED_PREFIX}{_file_name(name)}"

    def open_today(self) -> Path | None:
        """The folder of the day, created if it is missing; None if it can't be written."""
        today = self.today_folder()
        try:
            if not today.is_dir():
                today.mkdir(parents=True, exist_ok=True)
                for old in self._folder.iterdir():
                    if old.is_dir() and old.name < today.name:
                        shutil.rmtree(old, ignore_errors=True)
        except OSError:
            return None
        return today

    def get(self, request: bytes) -> tuple[EngineAnswer, ...] | None:
        """Today's answers to a request, or None."""
        try:
            return _answers_decoder.decode((self.today_folder() / _digest(request)).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, request: bytes, answers: Sequence[EngineAnswer]) -> None:
        """Store answers; a folder that can't be written only means that nothing is cached."""
        today = self.open_today()
        if today is not None:
            _write(today / _digest(request), msgspec.msgpack.encode(tuple(answers)))


class DailyQuota:
    """The number of today's requests to an engine by all processes, and until when it is blocked."""

    def __init__(self, cache: DailyCache, engine: str) -> None:
        self._cache = cache
        self._engine = engine

    def used_today(self) -> int:
        try:
            return self._path(self._cache.today_folder()).stat().st_size
        except OSError:
            return 0

    def count_request(self) -> None:
        today = self._cache.open_today()
        with suppress(OSError):
            if today is not None:
                with self._path(today).open("ab") as file:
                    file.write(b".")

    def blocked_until(self) -> float:
        try:
            return float(self._cache.lasting_file(self._engine).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0.0

    def block_until(self, until: float) -> None:
        if self._cache.open_today() is not None:
            _write(self._cache.lasting_file(self._engine), f"{until:.0f}".encode())

    def _path(self, day: Path) -> Path:
        return day / f"asked-{_file_name(self._engine)}"


class CachedSource:
    """Caches the answers of a source for a day. `options` are those of the engine, without keys."""

    def __init__(self, source: SeedSource, cache: DailyCache, options: bytes) -> None:
        self._source = source
        self._cache = cache
        self._options = options

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._source.name

    async def find(self, query: str, limit: int, genre: str = "") -> Sequence[EngineAnswer]:
        """Today's answer, or a new one; answers with a failure are not cached."""
        request = msgspec.msgpack.encode((self.name, self._options, query, limit, genre))
        known = self._cache.get(request)
        if known is not None:
            return known
        answers = await self._source.find(query, limit, genre)
        if all(answer.failure is None for answer in answers):
            self._cache.put(request, answers)
        return answers


def _digest(request: bytes) -> str:
    return sha256(request).hexdigest()[:32]


def _file_name(name: str) -> str:
    """A safe file name for a name that the user chose."""
    return sha256(name.encode()).hexdigest()[:16]


def _write(path: Path, data: bytes) -> None:
    # A cache folder without space or permission only means that nothing is cached.
    with suppress(OSError):
        write_atomically(path, data)


Agreement = Literal["any", "two", "all"]
HIGH_PRIORITY, MEDIUM_PRIORITY, LOW_PRIORITY = 1, 2, 3
# Of reciprocal rank fusion: the larger, the less the first places count.
FUSION_PLACES = 20

_INDEX_PAGE = re.compile(r"(?:^|(?<=/))(?:index|default)\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_SITE_ALIAS = re.compile(r"(?:^|(?<=\.))(?:www|m|mobile)\.(?=[^.]+\.)")


@dataclass(slots=True)
class _SeedCandidate:
    """A URL in all its spellings, and the engines that named it."""

    # URL: voters.
    spellings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ranks: dict[str, int] = field(default_factory=dict)  # voter: best rank
    fixed_priority: int = 0  # priority of a list; 0: not in a list

    def add_vote(self, url: str, rank: int, answer: EngineAnswer) -> None:
        self.spellings[url].add(answer.voter)
        self.ranks[answer.voter] = min(rank, self.ranks.get(answer.voter, rank))
        if answer.fixed_priority:
            self.fixed_priority = min(self.fixed_priority or answer.fixed_priority, answer.fixed_priority)

    @property
    def url(self) -> str:
        """The spelling of most engines; among equals https, then the shorter one."""
        return min(self.spellings, key=lambda u: (-len(self.spellings[u]), not u.startswith("https:"), len(u), u))


def vote_priority(votes: int, answered: int) -> int:
    """Table 1 of S0 for any number of engines: 1 if all that answered named it, 2 for several, 3 for only one.

    If only one engine answered, its URLs have the lowest priority, because no other engine confirms them.

    >>> [vote_priority(votes, 3) for votes in (3, 2, 1)], [vote_priority(votes, 2) for votes in (2, 1)]
    ([1, 2, 3], [1, 3])
    """
    if votes < 2:
        return LOW_PRIORITY
    return HIGH_PRIORITY if votes >= answered else MEDIUM_PRIORITY


def merge_answers(answers: Sequence[EngineAnswer], agree: Agreement = "any", genre: str = "") -> list[Seed]:
    """All URLs by priority; ties by number of votes, best rank, order of the engines (S0-12).

    `agree`: `any` keeps all of them (S0), `two` those named by at least two engines (S1-15), `all` those named by every
    engine that answered (S4-12). URLs of lists are always kept.
    """
    voters = answering_engines(answers)
    place = {voter: i for i, voter in enumerate(dict.fromkeys(a.voter for a in answers))}
    least = {"any": 1, "two": 2, "all": max(1, len(voters))}[agree]
    rows = []
    for number, named in enumerate(_collect_candidates(answers)):
        votes = [voter for voter in named.ranks if voter in voters]
        if len(votes) < least and not named.fixed_priority:
            continue
        priority = min(p for p in (named.fixed_priority, votes and vote_priority(len(votes), len(voters))) if p)
        sources = tuple(sorted(named.ranks, key=place.__getitem__))
        order = (priority, -len(votes), min(named.ranks.values()), place[sources[0]], number)
        rows.append((order, Seed(url=named.url, priority=priority, sources=sources, genre=genre)))
    return [seed for _, seed in sorted(rows, key=lambda row: row[0])]


def answering_engines(answers: Iterable[EngineAnswer]) -> list[str]:
    """The engines that answered, in order; an engine that is reached in two ways counts once."""
    return list(dict.fromkeys(a.voter for a in answers if a.has_answered and not a.fixed_priority))


def order_by_meaning(seeds: Sequence[Seed], topic: str, language: str) -> list[Seed]:
    """Seeds of equal priority and votes by their place and by the similarity of their URL's last part to a topic.

    Priorities stay (S0-11). Measured in docs/lab/seeds.md.
    """
    words = load_surface_vectors()
    direction = text_vector(words, topic, stop_words(language))
    # Some sites encode their URLs twice.
    names = [unquote(unquote(urlsplit(seed.url).path.rstrip("/").rpartition("/")[2])) for seed in seeds]
    vectors = [text_vector(words, name.replace("_", " "), frozenset()) for name in names]
    nearest = sorted(range(len(seeds)), key=lambda at: -float(vectors[at] @ direction))
    worth = [1.0 / (FUSION_PLACES + place) for place in range(len(seeds))]
    for place, at in enumerate(nearest):
        worth[at] += 1.0 / (FUSION_PLACES + place)
    order = sorted(range(len(seeds)), key=lambda at: (seeds[at].priority, -len(seeds[at].sources), -worth[at]))
    return [seeds[at] for at in order]


def join_seed_lists(lists: Iterable[Sequence[Seed]]) -> list[Seed]:
    """The seeds of several queries as one list: each URL once, with its best priority."""
    seeds = sorted((seed for listed in lists for seed in listed), key=lambda seed: seed.priority)
    kept: dict[str, Seed] = {}
    for seed in seeds:
        kept.setdefault(similarity_key(seed.url), seed)
    return list(kept.values())


def _collect_candidates(answers: Sequence[EngineAnswer]) -> list[_SeedCandidate]:
    found: dict[str, _SeedCandidate] = defaultdict(_SeedCandidate)
    for answer in answers:
        for hit in answer.hits:
            url = canonicalize_url(hit.url)
            if url is not None:
                found[similarity_key(url)].add_vote(url, hit.rank, answer)
    return list(found.values())


def similarity_key(url: str) -> str:
    """A key for nearly identical URLs: it ignores scheme, www., m., index.html and a final slash.

    >>> similarity_key("http://www.example.org/a/index.html") == similarity_key("https://example.org/a")
    True
    """
    host, _, rest = url.partition("://")[2].partition("/")
    path, _, query = rest.partition("?")
    path = _INDEX_PAGE.sub("", path).rstrip("/")
    return f"{_SITE_ALIAS.sub('', host)}/{path}?{'&'.join(sorted(query.split('&')))}"


class SeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A search for seeds. Each genre is queried separately (S3-02); an empty genre means any."""

    query: str
    genres: tuple[str, ...] = ("",)
    # URLs requested from each engine: N of S0.
    limit: int = 30
    agree: Agreement = "any"


class SeedProblem(msgspec.Struct, frozen=True):
    """Why an engine failed, completely or in part."""

    engine: str
    failure: Failure

    def __str__(self) -> str:
        reason = f"{self.failure.detail} ({self.failure.kind})" if self.failure.detail else self.failure.kind
        return f"{self.engine}: {reason}"


class FoundSeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds, the engines that answered, and those that failed."""

    seeds: tuple[Seed, ...] = ()
    voters: tuple[str, ...] = ()
    problems: tuple[SeedProblem, ...] = ()


async def find_seeds(sources: Sequence[SeedSource], request: SeedRequest) -> FoundSeeds:
    """Query all sources concurrently; the requests to one engine run one after the other."""
    per_source = await asyncio.gather(*(_query_source(source, request) for source in sources))
    lists, voters, problems = [], dict[str, None](), dict[SeedProblem, None]()
    for number, genre in enumerate(request.genres):
        answers = [answer for answered in per_source for answer in answered[number]]
        lists.append(merge_answers(answers, request.agree, genre))
        voters |= dict.fromkeys(answering_engines(answers))
        problems |= dict.fromkeys(SeedProblem(a.voter, a.failure) for a in answers if a.failure is not None)
    return FoundSeeds(seeds=tuple(join_seed_lists(lists)), voters=tuple(voters), problems=tuple(problems))


async def find_irrelevant_seeds(
    sources: Sequence[SeedSource], request: SeedRequest, queries: Iterable[str]
) -> FoundSeeds:
    """Off-topic seeds for training (S1-16): other queries, without the URLs that the topic's query finds.

    S1 says that the same query found them, which can't be meant (S1-E1).
    """
    on_topic = await find_seeds(sources, msgspec.structs.replace(request, agree="any"))
    known = {similarity_key(seed.url) for seed in on_topic.seeds}
    others = join_found([await find_seeds(sources, msgspec.structs.replace(request, query=query)) for query in queries])
    seeds = tuple(seed for seed in others.seeds if similarity_key(seed.url) not in known)
    return msgspec.structs.replace(
        others, seeds=seeds, problems=_unique_problems((*on_topic.problems, *others.problems))
    )


def join_found(found: Sequence[FoundSeeds]) -> FoundSeeds:
    """The results of several requests, each URL once."""
    return FoundSeeds(
        seeds=tuple(join_seed_lists(each.seeds for each in found)),
        voters=tuple(dict.fromkeys(voter for each in found for voter in each.voters)),
        problems=_unique_problems(problem for each in found for problem in each.problems),
    )


def _unique_problems(problems: Iterable[SeedProblem]) -> tuple[SeedProblem, ...]:
    return tuple(dict.fromkeys(problems))


async def _query_source(source: SeedSource, request: SeedRequest) -> list[Sequence[EngineAnswer]]:
    return [await source.find(request.query, request.limit, genre) for genre in request.genres]
