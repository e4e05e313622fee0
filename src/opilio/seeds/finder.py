"""Queries all seed sources at once and joins what they found.

Sources that fail are reported; the others are used.
"""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from opilio.core.protocols import SeedSource
from opilio.core.records import EngineAnswer, Failure, Seed
from opilio.seeds.merge import Agreement, answering_engines, join_seed_lists, merge_answers, similarity_key


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
