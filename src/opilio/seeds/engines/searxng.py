"""SearXNG: one server that asks several engines; each of them has its own vote.

Traps: `engines` and `positions` of a result are not in the same order; a server that does not offer JSON answers 403
or, to an unknown format, an HTML page with status 200; an engine that is suspended is only named in
`unresponsive_engines`, and one that found nothing is named nowhere, so `/config` says who was asked.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from opilio.model.records import Answer, Failure, Hit
from opilio.seeds.asking import (
    OTHER_SHAPE,
    TOLD,
    EngineClient,
    Request,
    at,
    entries,
    json_of,
    listed,
    plain,
    text,
    texts,
)
from opilio.seeds.genres import worded

CATEGORIES = {"news": "news"}  # genres it has a category for; others are asked for by words
FAR = 100_000  # places from here on are no places
_TIRED = ("too many", "suspended", "captcha", "rate", "access denied")


class SearxngSource:
    """Asks a SearXNG server. `engines` chooses among its engines; without, all that are on in the category."""

    def __init__(
        self,
        name: str,
        client: EngineClient,
        url: str,
        engines: Sequence[str] = (),
        categories: str = "general",
        language: str = "",
    ) -> None:
        self.name = name
        self._client = client
        self._url = url.rstrip("/").removesuffix("/search")
        self._engines = tuple(engines)
        self._categories = categories
        self._language = (("language", language),) if language else ()

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:
        """One answer of each engine behind the server; where the server itself fails, one in its own name."""
        ballot = _Ballot()
        failure = None
        for page in range(1, self._client.terms.pages + 1):
            tree = json_of(await self._client.ask(self._request(query, genre, page)))
            if isinstance(tree, Failure) or listed(tree, "results") is None:
                failure = _explained(tree) if isinstance(tree, Failure) else OTHER_SHAPE
                break
            if not ballot.take(tree) or ballot.fullest >= limit:
                break
        own = [] if failure is None else [Answer(voter=self.name, failure=failure)]
        asked = await self._asked(genre) if failure is None else []
        return [*ballot.answers(limit, asked), *own]

    def _request(self, query: str, genre: str, page: int) -> Request:
        category = CATEGORIES.get(genre, self._categories)
        said = query if genre in CATEGORIES else worded(query, genre)
        params = [("q", said), ("format", "json"), ("pageno", str(page)), *self._language]
        params.append(("engines", ",".join(self._engines)) if self._engines else ("categories", category))
        return Request(url=f"{self._url}/search", params=tuple(params), trusted=True)

    async def _asked(self, genre: str) -> list[str]:
        """The engines that the server has asked, as far as it tells."""
        if self._engines:
            return list(self._engines)
        tree = json_of(await self._client.ask(Request(url=f"{self._url}/config", trusted=True)))
        wanted = set(CATEGORIES.get(genre, self._categories).split(","))
        listed = entries(tree, "engines")
        return [text(e, "name") for e in listed if at(e, "enabled") is True and wanted & set(texts(e, "categories"))]


class _Ballot:
    """The votes in the answers of one server, page by page."""

    def __init__(self) -> None:
        self.hits: dict[str, list[Hit]] = defaultdict(list)
        self._failed: dict[str, str] = {}
        self._seen: set[str] = set()

    @property
    def fullest(self) -> int:
        """How many addresses the engine has named that named most."""
        return max(map(len, self.hits.values()), default=0)

    def take(self, tree: object) -> bool:
        """One page; False: nothing new stands on it."""
        before = len(self._seen)
        for index, entry in enumerate(entries(tree, "results"), 1):
            url = text(entry, "url")
            if url and url not in self._seen:
                self._seen.add(url)
                place = min(_places(entry), default=index)
                for voter in texts(entry, "engines") or [text(entry, "engine") or "searxng"]:
                    self.hits[voter].append(Hit(url=url, rank=before + place))
        for pair in _pairs(at(tree, "unresponsive_engines")):
            self._failed.setdefault(*pair)
        return len(self._seen) > before

    def answers(self, limit: int, asked: Iterable[str]) -> list[Answer]:
        """An answer of everybody who was asked, whether or not anything came of it."""
        voters = dict.fromkeys([*asked, *self.hits, *self._failed])
        return [self._answer(voter, limit) for voter in sorted(voters)]

    def _answer(self, voter: str, limit: int) -> Answer:
        told = self._failed.get(voter)
        failure = None if told is None else Failure("limit" if _is_tired(told) else "engine", told)
        hits = sorted(self.hits.get(voter, ()), key=lambda hit: hit.rank)[:limit]
        return Answer(voter=voter, hits=tuple(hits), failure=failure)


def _places(entry: object) -> list[int]:
    found = at(entry, "positions")
    return [place for place in found if isinstance(place, int) and 0 < place < FAR] if isinstance(found, list) else []


def _pairs(found: object) -> list[tuple[str, str]]:
    listed = found if isinstance(found, list) else []
    return [(plain(str(p[0])), plain(str(p[1]))[:TOLD]) for p in listed if isinstance(p, list) and len(p) > 1]


def _is_tired(told: str) -> bool:
    return any(word in told.lower() for word in _TIRED)


def _explained(failure: Failure) -> Failure:
    """What to change in the server's settings.yml."""
    if failure.kind == "key" or "web page" in failure.detail:
        return Failure("answer", f"{failure.detail}; put json into search.formats of its settings.yml")
    return failure
