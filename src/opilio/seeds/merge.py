"""Merges the answers of seed sources by votes (S0-10 … S0-12; filters of S1 and S4, X-04).

Votes are counted over the engines that answered, so that a failed engine does not lower a URL's priority. A list (a
file, a sitemap) has no vote; its URLs have the list's priority.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from opilio.core.records import EngineAnswer, Seed
from opilio.core.urls import canonicalize_url
from opilio.text.languages import stop_words
from opilio.text.word_vectors import load_surface_vectors, text_vector

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
