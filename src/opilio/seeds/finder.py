"""Asks all sources at once and merges what they answer; whoever fails is reported, the others go on.

Many engines' answers as one list of seeds, by votes (S0-10 … S0-12), with S1's and S4's rules as filters (X-04).

Pure. Votes are counted over the engines that answered: one that failed must not punish an address. A list (a file, a
sitemap) has no vote; its addresses come with the priority of the list.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from opilio.core.protocols import SeedSource
from opilio.core.records import EngineAnswer, Failure, Seed
from opilio.core.urls import canonicalize_url

Agreement = Literal["any", "two", "all"]
HIGH_PRIORITY, MEDIUM_PRIORITY, LOW_PRIORITY = 1, 2, 3

_INDEX_PAGE = re.compile(r"(?:^|(?<=/))(?:index|default)\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_SITE_ALIAS = re.compile(r"(?:^|(?<=\.))(?:www|m|mobile)\.(?=[^.]+\.)")


@dataclass(slots=True)
class _SeedCandidate:
    """An address in all its spellings, and who named it."""

    spellings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # URL: voters
    ranks: dict[str, int] = field(default_factory=dict)  # voter: best rank
    fixed_priority: int = 0  # priority by a list; 0: by none

    def add_vote(self, url: str, rank: int, answer: EngineAnswer) -> None:
        self.spellings[url].add(answer.voter)
        self.ranks[answer.voter] = min(rank, self.ranks.get(answer.voter, rank))
        if answer.fixed_priority:
            self.fixed_priority = min(self.fixed_priority or answer.fixed_priority, answer.fixed_priority)

    @property
    def url(self) -> str:
        """The spelling most engines use; of equals the encrypted, then the shorter one."""
        return min(self.spellings, key=lambda u: (-len(self.spellings[u]), not u.startswith("https:"), len(u), u))


def vote_priority(votes: int, answered: int) -> int:
    """Table 1 of S0 for any number of engines: 1 named by all that answered, 2 by several, 3 by only one.

    One engine alone agrees with nobody, so its addresses are of the lowest priority.

    >>> [vote_priority(votes, 3) for votes in (3, 2, 1)], [vote_priority(votes, 2) for votes in (2, 1)]
    ([1, 2, 3], [1, 3])
    """
    if votes < 2:
        return LOW_PRIORITY
    return HIGH_PRIORITY if votes >= answered else MEDIUM_PRIORITY


def merge_answers(answers: Sequence[EngineAnswer], agree: Agreement = "any", genre: str = "") -> list[Seed]:
    """All addresses by priority; ties by number of votes, best rank, order of the engines (S0-12).

    `agree`: `any` keeps all of them (S0), `two` those named by two engines at least (S1-15), `all` those named by every
    engine that answered (S4-12). Addresses of lists are always kept.
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
    """The engines that answered, in their order; the same engine reached in two ways is one."""
    return list(dict.fromkeys(a.voter for a in answers if a.has_answered and not a.fixed_priority))


def join_seed_lists(lists: Iterable[Sequence[Seed]]) -> list[Seed]:
    """The seeds of several queries as one list: each address once, where it stands best."""
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
    """What addresses that are nearly the same have in common: scheme, www., m., index.html and last slash don't count.

    >>> similarity_key("http://www.example.org/a/index.html") == similarity_key("https://example.org/a")
    True
    """
    host, _, rest = url.partition("://")[2].partition("/")
    path, _, query = rest.partition("?")
    path = _INDEX_PAGE.sub("", path).rstrip("/")
    return f"{_SITE_ALIAS.sub('', host)}/{path}?{'&'.join(sorted(query.split('&')))}"


class SeedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. Each genre is asked for by itself (S3-02); none means the web at large."""

    query: str
    genres: tuple[str, ...] = ("",)
    limit: int = 30  # addresses wanted of each engine: S0's N
    agree: Agreement = "any"


class SeedProblem(msgspec.Struct, frozen=True):
    """Why an engine brought nothing, or less than it could have."""

    engine: str
    failure: Failure

    def __str__(self) -> str:
        told = f"{self.failure.detail} ({self.failure.kind})" if self.failure.detail else self.failure.kind
        return f"{self.engine}: {told}"


class FoundSeeds(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds, who was heard, and who failed."""

    seeds: tuple[Seed, ...] = ()
    voters: tuple[str, ...] = ()
    problems: tuple[SeedProblem, ...] = ()


async def find_seeds(sources: Sequence[SeedSource], wish: SeedRequest) -> FoundSeeds:
    """Ask every source; engines side by side, each engine's own requests one after the other."""
    per_source = await asyncio.gather(*(_query_source(source, wish) for source in sources))
    lists, voters, problems = [], dict[str, None](), dict[SeedProblem, None]()
    for number, genre in enumerate(wish.genres):
        answers = [answer for answered in per_source for answer in answered[number]]
        lists.append(merge_answers(answers, wish.agree, genre))
        voters |= dict.fromkeys(answering_engines(answers))
        problems |= dict.fromkeys(SeedProblem(a.voter, a.failure) for a in answers if a.failure is not None)
    return FoundSeeds(seeds=tuple(join_seed_lists(lists)), voters=tuple(voters), problems=tuple(problems))


async def find_irrelevant_seeds(sources: Sequence[SeedSource], wish: SeedRequest, queries: Iterable[str]) -> FoundSeeds:
    """Seeds off the topic, for training, by the same process (S1-16): other queries, without what the topic brings.

    S1 says that the same query brought them; that can't be meant (S1-E1).
    """
    on_topic = await find_seeds(sources, msgspec.structs.replace(wish, agree="any"))
    known = {similarity_key(seed.url) for seed in on_topic.seeds}
    others = join_found([await find_seeds(sources, msgspec.structs.replace(wish, query=query)) for query in queries])
    seeds = tuple(seed for seed in others.seeds if similarity_key(seed.url) not in known)
    return msgspec.structs.replace(
        others, seeds=seeds, problems=_unique_problems((*on_topic.problems, *others.problems))
    )


def join_found(found: Sequence[FoundSeeds]) -> FoundSeeds:
    """What several wishes brought, each address once."""
    return FoundSeeds(
        seeds=tuple(join_seed_lists(each.seeds for each in found)),
        voters=tuple(dict.fromkeys(voter for each in found for voter in each.voters)),
        problems=_unique_problems(problem for each in found for problem in each.problems),
    )


def _unique_problems(problems: Iterable[SeedProblem]) -> tuple[SeedProblem, ...]:
    return tuple(dict.fromkeys(problems))


async def _query_source(source: SeedSource, wish: SeedRequest) -> list[Sequence[EngineAnswer]]:
    return [await source.find(wish.query, wish.limit, genre) for genre in wish.genres]
