"""Asks all sources at once and merges what they answer; whoever fails is reported, the others go on."""

import asyncio
from collections.abc import Iterable, Sequence

import msgspec

from opilio.model.protocols import SeedSource
from opilio.model.records import Answer, Failure, Seed
from opilio.seeds.merge import Agree, joined, likeness, merge, voters_of


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for. Each genre is asked for by itself (S3-02); none means the web at large."""

    query: str
    genres: tuple[str, ...] = ("",)
    limit: int = 30  # addresses wanted of each engine: S0's N
    agree: Agree = "any"


class Problem(msgspec.Struct, frozen=True):
    """Why an engine brought nothing, or less than it could have."""

    engine: str
    failure: Failure

    def __str__(self) -> str:
        told = f"{self.failure.detail} ({self.failure.kind})" if self.failure.detail else self.failure.kind
        return f"{self.engine}: {told}"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """The seeds, who was heard, and who failed."""

    seeds: tuple[Seed, ...] = ()
    voters: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


async def find(sources: Sequence[SeedSource], wish: Wish) -> Found:
    """Ask every source; engines side by side, each engine's own requests one after the other."""
    per_source = await asyncio.gather(*(_ask(source, wish) for source in sources))
    lists, voters, problems = [], dict[str, None](), dict[Problem, None]()
    for number, genre in enumerate(wish.genres):
        answers = [answer for answered in per_source for answer in answered[number]]
        lists.append(merge(answers, wish.agree, genre))
        voters |= dict.fromkeys(voters_of(answers))
        problems |= dict.fromkeys(Problem(a.voter, a.failure) for a in answers if a.failure is not None)
    return Found(seeds=tuple(joined(lists)), voters=tuple(voters), problems=tuple(problems))


async def find_irrelevant(sources: Sequence[SeedSource], wish: Wish, queries: Iterable[str]) -> Found:
    """Seeds off the topic, for training, by the same process (S1-16): other queries, without what the topic brings.

    S1 says that the same query brought them; that can't be meant (S1-E1).
    """
    on_topic = await find(sources, msgspec.structs.replace(wish, agree="any"))
    known = {likeness(seed.url) for seed in on_topic.seeds}
    others = together([await find(sources, msgspec.structs.replace(wish, query=query)) for query in queries])
    seeds = tuple(seed for seed in others.seeds if likeness(seed.url) not in known)
    return msgspec.structs.replace(others, seeds=seeds, problems=_once((*on_topic.problems, *others.problems)))


def together(found: Sequence[Found]) -> Found:
    """What several wishes brought, each address once."""
    return Found(
        seeds=tuple(joined(each.seeds for each in found)),
        voters=tuple(dict.fromkeys(voter for each in found for voter in each.voters)),
        problems=_once(problem for each in found for problem in each.problems),
    )


def _once(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problems))


async def _ask(source: SeedSource, wish: Wish) -> list[Sequence[Answer]]:
    return [await source.find(wish.query, wish.limit, genre) for genre in wish.genres]
