"""Many engines' answers as one list of seeds, by votes (S0-10 … S0-12), with S1's and S4's rules as filters (X-04).

Pure. Votes are counted over the engines that answered: one that failed must not punish an address. A list (a file, a
sitemap) has no vote; its addresses come with the priority of the list.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from opilio.model.records import Answer, Seed
from opilio.model.urls import canonical

Agree = Literal["any", "two", "all"]
HIGH, MEDIUM, LOW = 1, 2, 3

_INDEX_PAGE = re.compile(r"(?:^|(?<=/))(?:index|default)\.(?:html?|php|aspx?|jsp)$", re.IGNORECASE)
_SAME_SITE = re.compile(r"(?:^|(?<=\.))(?:www|m|mobile)\.(?=[^.]+\.)")


@dataclass(slots=True)
class _Named:
    """An address in all its spellings, and who named it."""

    spellings: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # URL: voters
    ranks: dict[str, int] = field(default_factory=dict)  # voter: best rank
    given: int = 0  # priority by a list; 0: by none

    def name(self, url: str, rank: int, answer: Answer) -> None:
        self.spellings[url].add(answer.voter)
        self.ranks[answer.voter] = min(rank, self.ranks.get(answer.voter, rank))
        if answer.given:
            self.given = min(self.given or answer.given, answer.given)

    @property
    def url(self) -> str:
        """The spelling most engines use; of equals the encrypted, then the shorter one."""
        return min(self.spellings, key=lambda u: (-len(self.spellings[u]), not u.startswith("https:"), len(u), u))


def priority_of(votes: int, answered: int) -> int:
    """Table 1 of S0 for any number of engines: 1 named by all that answered, 2 by several, 3 by only one.

    One engine alone agrees with nobody, so its addresses are of the lowest priority.

    >>> [priority_of(votes, 3) for votes in (3, 2, 1)], [priority_of(votes, 2) for votes in (2, 1)]
    ([1, 2, 3], [1, 3])
    """
    if votes < 2:
        return LOW
    return HIGH if votes >= answered else MEDIUM


def merge(answers: Sequence[Answer], agree: Agree = "any", genre: str = "") -> list[Seed]:
    """All addresses by priority; ties by number of votes, best rank, order of the engines (S0-12).

    `agree`: `any` keeps all of them (S0), `two` those named by two engines at least (S1-15), `all` those named by every
    engine that answered (S4-12). Addresses of lists are always kept.
    """
    voters = voters_of(answers)
    place = {voter: i for i, voter in enumerate(dict.fromkeys(a.voter for a in answers))}
    least = {"any": 1, "two": 2, "all": max(1, len(voters))}[agree]
    rows = []
    for number, named in enumerate(_named(answers)):
        votes = [voter for voter in named.ranks if voter in voters]
        if len(votes) < least and not named.given:
            continue
        priority = min(p for p in (named.given, votes and priority_of(len(votes), len(voters))) if p)
        sources = tuple(sorted(named.ranks, key=place.__getitem__))
        order = (priority, -len(votes), min(named.ranks.values()), place[sources[0]], number)
        rows.append((order, Seed(url=named.url, priority=priority, sources=sources, genre=genre)))
    return [seed for _, seed in sorted(rows, key=lambda row: row[0])]


def voters_of(answers: Iterable[Answer]) -> list[str]:
    """The engines that answered, in their order; the same engine reached in two ways is one."""
    return list(dict.fromkeys(a.voter for a in answers if a.answered and not a.given))


def joined(lists: Iterable[Sequence[Seed]]) -> list[Seed]:
    """The seeds of several queries as one list: each address once, where it stands best."""
    seeds = sorted((seed for listed in lists for seed in listed), key=lambda seed: seed.priority)
    kept: dict[str, Seed] = {}
    for seed in seeds:
        kept.setdefault(likeness(seed.url), seed)
    return list(kept.values())


def _named(answers: Sequence[Answer]) -> list[_Named]:
    found: dict[str, _Named] = defaultdict(_Named)
    for answer in answers:
        for hit in answer.hits:
            url = canonical(hit.url)
            if url is not None:
                found[likeness(url)].name(url, hit.rank, answer)
    return list(found.values())


def likeness(url: str) -> str:
    """What addresses that are nearly the same have in common: scheme, www., m., index.html and last slash don't count.

    >>> likeness("http://www.example.org/a/index.html") == likeness("https://example.org/a")
    True
    """
    host, _, rest = url.partition("://")[2].partition("/")
    path, _, query = rest.partition("?")
    path = _INDEX_PAGE.sub("", path).rstrip("/")
    return f"{_SAME_SITE.sub('', host)}/{path}?{'&'.join(sorted(query.split('&')))}"
