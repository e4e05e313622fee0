"""SearXNG: one server that queries several engines; each of them has its own vote.

`engines` and `positions` of a result are not in the same order. A server without JSON responds 403 or, to an unknown
format, an HTML page with status 200. A suspended engine is only listed in `unresponsive_engines`, and one without
results is listed nowhere, so `/config` is read for the engines that were queried.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from opilio.core.records import EngineAnswer, EngineHit, Failure
from opilio.seeds.api_client import (
    MAX_MESSAGE_CHARS,
    UNEXPECTED_JSON,
    ApiRequest,
    EngineClient,
    get_objects,
    get_objects_or_none,
    get_path,
    get_string,
    get_strings,
    parse_json,
    sanitize_message,
)
from opilio.seeds.queries import add_genre_words

# Genres with a category; others are queried by words.
CATEGORIES = {"news": "news"}
MAX_RANK = 100_000  # higher positions are invalid
_RATE_LIMIT_WORDS = ("too many", "suspended", "captcha", "rate", "access denied")


class SearxngSource:
    """Queries a SearXNG server. `engines` selects some of its engines; by default all that are on in the category."""

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

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:
        """One answer per engine; if the server itself fails, one in its own name."""
        votes = _VoteCollector()
        failure = None
        for page in range(1, self._client.limits.pages + 1):
            tree = parse_json(await self._client.send(self._request(query, genre, page)))
            if isinstance(tree, Failure) or get_objects_or_none(tree, "results") is None:
                failure = _explain_failure(tree) if isinstance(tree, Failure) else UNEXPECTED_JSON
                break
            if not votes.add_page(tree) or votes.max_hits >= limit:
                break
        own = [] if failure is None else [EngineAnswer(voter=self.name, failure=failure)]
        queried = await self._queried_engines(genre) if failure is None else []
        return [*votes.answers(limit, queried), *own]

    def _request(self, query: str, genre: str, page: int) -> ApiRequest:
        category = CATEGORIES.get(genre, self._categories)
        words = query if genre in CATEGORIES else add_genre_words(query, genre)
        params = [("q", words), ("format", "json"), ("pageno", str(page)), *self._language]
        params.append(("engines", ",".join(self._engines)) if self._engines else ("categories", category))
        return ApiRequest(url=f"{self._url}/search", params=tuple(params), trusted=True)

    async def _queried_engines(self, genre: str) -> list[str]:
        """The engines that the server queried, as far as it reports them."""
        if self._engines:
            return list(self._engines)
        tree = parse_json(await self._client.send(ApiRequest(url=f"{self._url}/config", trusted=True)))
        wanted = set(CATEGORIES.get(genre, self._categories).split(","))
        listed = get_objects(tree, "engines")
        return [
            get_string(e, "name")
            for e in listed
            if get_path(e, "enabled") is True and wanted & set(get_strings(e, "categories"))
        ]


class _VoteCollector:
    """Collects the votes of a server's engines, page by page."""

    def __init__(self) -> None:
        self.hits: dict[str, list[EngineHit]] = defaultdict(list)
        self._failed: dict[str, str] = {}
        self._seen: set[str] = set()

    @property
    def max_hits(self) -> int:
        """The number of URLs of the engine with most of them."""
        return max(map(len, self.hits.values()), default=0)

    def add_page(self, tree: object) -> bool:
        """Add a page; False if it contains nothing new."""
        before = len(self._seen)
        for index, entry in enumerate(get_objects(tree, "results"), 1):
            url = get_string(entry, "url")
            if url and url not in self._seen:
                self._seen.add(url)
                place = min(_engine_ranks(entry), default=index)
                for voter in get_strings(entry, "engines") or [get_string(entry, "engine") or "searxng"]:
                    self.hits[voter].append(EngineHit(url=url, rank=before + place))
        for pair in _pairs(get_path(tree, "unresponsive_engines")):
            self._failed.setdefault(*pair)
        return len(self._seen) > before

    def answers(self, limit: int, queried: Iterable[str]) -> list[EngineAnswer]:
        """One answer per queried engine, also for those without results."""
        voters = dict.fromkeys([*queried, *self.hits, *self._failed])
        return [self._answer(voter, limit) for voter in sorted(voters)]

    def _answer(self, voter: str, limit: int) -> EngineAnswer:
        message = self._failed.get(voter)
        failure = None if message is None else Failure("limit" if _is_rate_limited(message) else "engine", message)
        hits = sorted(self.hits.get(voter, ()), key=lambda hit: hit.rank)[:limit]
        return EngineAnswer(voter=voter, hits=tuple(hits), failure=failure)


def _engine_ranks(entry: object) -> list[int]:
    found = get_path(entry, "positions")
    return (
        [place for place in found if isinstance(place, int) and 0 < place < MAX_RANK] if isinstance(found, list) else []
    )


def _pairs(found: object) -> list[tuple[str, str]]:
    listed = found if isinstance(found, list) else []
    return [
        (sanitize_message(str(p[0])), sanitize_message(str(p[1]))[:MAX_MESSAGE_CHARS])
        for p in listed
        if isinstance(p, list) and len(p) > 1
    ]


def _is_rate_limited(message: str) -> bool:
    return any(word in message.lower() for word in _RATE_LIMIT_WORDS)


def _explain_failure(failure: Failure) -> Failure:
    """The failure with advice on the server's settings.yml."""
    if failure.kind == "key" or "web page" in failure.detail:
        return Failure("answer", f"{failure.detail}; add json to search.formats in its settings.yml")
    return failure
