"""Engines with pages of results: one class does the paging, adapters build the requests and parse the results.

Brave: an index of its own. `offset` counts pages (0 to 9), not rows; a query has at most 400 characters and 50 words.
Kagi: POST with a JSON body; `data.search` is missing if nothing was found.
Marginalia: the small, non-commercial web; the shared key is slow, results are CC-BY-NC-SA.
Mojeek: an index of its own; errors have status 200 and are in `response.status`.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from opilio.core.records import EngineAnswer, Failure, FetchResult, rank_hits
from opilio.seeds.api_client import (
    UNEXPECTED_JSON,
    ApiRequest,
    EngineClient,
    get_int,
    get_objects,
    get_objects_or_none,
    get_path,
    get_string,
    parse_json,
)
from opilio.seeds.queries import add_genre_words, shorten_query


class ResultPageRequest(NamedTuple):
    """A request for one page of results: `page` counts from 0, `limit` is the total number of URLs wanted."""

    query: str
    genre: str
    page: int
    limit: int


class ResultPage(NamedTuple):
    """One page of results."""

    urls: list[str]
    more: bool = True  # False: this is the last page
    failure: Failure | None = None


def make_result_page(found: Sequence[object] | None, name: str, more: bool) -> ResultPage:
    """A page of results with their URLs under `name`; a failure if there is no list."""
    return (
        ResultPage([], False, UNEXPECTED_JSON)
        if found is None
        else ResultPage([get_string(entry, name) for entry in found], more)
    )


class EngineAdapter(Protocol):
    """Builds the requests of an engine and parses its responses."""

    def build_request(self, want: ResultPageRequest) -> ApiRequest: ...

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage: ...

    def explain_failure(self, failure: Failure, tree: object) -> Failure: ...


class PagedSource:
    """Requests pages until there are enough URLs, nothing new comes, or the engine fails; earlier pages are kept."""

    def __init__(self, name: str, adapter: EngineAdapter, client: EngineClient) -> None:
        self.name = name
        self._adapter = adapter
        self._client = client

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:
        """One answer."""
        found: dict[str, None] = {}
        failure = None
        for page in range(self._client.limits.pages):
            results = await self._fetch_page(ResultPageRequest(query, genre, page, limit))
            before = len(found)
            found |= dict.fromkeys(url for url in results.urls if url)
            failure = results.failure
            if failure or not results.more or len(found) == before or len(found) >= limit:
                break
        return [EngineAnswer(voter=self.name, hits=rank_hits(list(found)[:limit]), failure=failure)]

    async def _fetch_page(self, want: ResultPageRequest) -> ResultPage:
        request = self._adapter.build_request(want)
        results = self._parse_page(await self._client.send(request), want)
        # Drop URLs in which the engine repeats the key.
        urls = [url for url in results.urls if request.redact(url) == url]
        return results._replace(urls=urls, failure=request.redact_failure(results.failure))

    def _parse_page(self, fetched: FetchResult, want: ResultPageRequest) -> ResultPage:
        tree = parse_json(fetched)
        if isinstance(tree, Failure):
            # The body of an error often says more than its status, for example that the key is invalid.
            body = parse_json(replace(fetched, failure=None)) if fetched.status >= 400 else None
            return ResultPage([], False, self._adapter.explain_failure(tree, body))
        return self._adapter.parse_results(tree, want)


BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
BRAVE_PAGE_SIZE, BRAVE_LAST_PAGE = 20, 9


class Brave:
    """Web results of Brave Search."""

    def __init__(
        self, key: str, url: str = BRAVE_URL, country: str = "", language: str = "", *, trusted: bool = False
    ) -> None:
        self._key = key
        self._url = url
        self._region = tuple(
            (name, value) for name, value in (("country", country), ("search_lang", language)) if value
        )
        self._trusted = trusted

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        query = shorten_query(add_genre_words(want.query, want.genre), 50, 400)
        size = str(min(BRAVE_PAGE_SIZE, want.limit))
        params = (("q", query), ("count", size), ("offset", str(want.page)), ("result_filter", "web"), *self._region)
        secret = (("X-Subscription-Token", self._key),)
        return ApiRequest(url=self._url, params=params, secret_headers=secret, trusted=self._trusted)

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:
        more = get_path(tree, "query", "more_results_available") is not False
        return make_result_page(
            get_objects_or_none(tree, "web", "results", sign="query"), "url", more and want.page < BRAVE_LAST_PAGE
        )

    def explain_failure(self, failure: Failure, tree: object) -> Failure:
        code, detail = get_string(tree, "error", "code"), get_string(tree, "error", "detail")
        # Brave responds 422 to an invalid key.
        if "TOKEN" in code or "token" in detail.lower():
            return Failure("key", f"refused the key ({detail or code})")
        return Failure(failure.kind, f"{failure.detail}: {detail}", failure.retry) if detail else failure


KAGI_URL = "https://kagi.com/api/v1/search"
KAGI_PAGE_SIZE, KAGI_LAST_PAGE = 50, 9


class Kagi:
    """Web results of Kagi."""

    def __init__(self, key: str, url: str = KAGI_URL, *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._trusted = trusted

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        wanted = {
            "query": add_genre_words(want.query, want.genre),
            "workflow": "search",
            "page": want.page + 1,
            "limit": min(KAGI_PAGE_SIZE, want.limit),
        }
        secret = (("Authorization", f"Bearer {self._key}"),)
        body = msgspec.json.encode(wanted)
        return ApiRequest(url=self._url, body=body, secret_headers=secret, trusted=self._trusted)

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:
        return make_result_page(
            get_objects_or_none(tree, "data", "search", sign="data"), "url", want.page < KAGI_LAST_PAGE
        )

    def explain_failure(self, failure: Failure, tree: object) -> Failure:
        message = next((get_string(entry, "message") for entry in get_objects(tree, "error")), "")
        return Failure(failure.kind, f"{failure.detail}: {message}", failure.retry) if message else failure


MARGINALIA_URL = "https://api2.marginalia-search.com/search"
MARGINALIA_PAGE_SIZE = 100


class Marginalia:
    """Results of Marginalia, at most a hundred per request and two per domain."""

    def __init__(self, key: str, url: str = MARGINALIA_URL, per_domain: int = 2, *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._per_domain = per_domain
        self._trusted = trusted

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        size, page = str(min(MARGINALIA_PAGE_SIZE, want.limit)), str(want.page + 1)
        query = add_genre_words(want.query, want.genre)
        params = (("query", query), ("count", size), ("page", page), ("dc", str(self._per_domain)))
        return ApiRequest(url=self._url, params=params, secret_headers=(("API-Key", self._key),), trusted=self._trusted)

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:
        # Not in every version
        pages = get_int(tree, "pages")
        return make_result_page(get_objects_or_none(tree, "results"), "url", not pages or want.page + 1 < pages)

    def explain_failure(self, failure: Failure, tree: object) -> Failure:
        message = get_string(tree, "error")
        return Failure(failure.kind, f"{failure.detail}: {message}", failure.retry) if message else failure


MOJEEK_URL = "https://api.mojeek.com/search"
MOJEEK_PAGE_SIZE = 10


class Mojeek:
    """Results of Mojeek, ten per request."""

    def __init__(self, key: str, url: str = MOJEEK_URL, language: str = "", *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._language = (("lb", language),) if language else ()
        self._trusted = trusted

    def build_request(self, want: ResultPageRequest) -> ApiRequest:
        start = 1 + want.page * MOJEEK_PAGE_SIZE
        params = (
            ("q", add_genre_words(want.query, want.genre)),
            ("fmt", "json"),
            ("s", str(start)),
            ("t", str(MOJEEK_PAGE_SIZE)),
        )
        secret = (("api_key", self._key),)
        return ApiRequest(url=self._url, params=(*params, *self._language), secret_params=secret, trusted=self._trusted)

    def parse_results(self, tree: object, want: ResultPageRequest) -> ResultPage:
        status = get_string(tree, "response", "status")
        if status != "OK":
            kind = "key" if "key" in status.lower() else "limit" if "limit" in status.lower() else "answer"
            return ResultPage([], False, Failure(kind, status) if status else UNEXPECTED_JSON)
        more = (want.page + 1) * MOJEEK_PAGE_SIZE < get_int(tree, "response", "head", "results")
        return make_result_page(get_objects_or_none(tree, "response", "results", sign="response"), "url", more)

    def explain_failure(self, failure: Failure, tree: object) -> Failure:
        status = get_string(tree, "response", "status")
        return Failure(failure.kind, status, failure.retry) if status else failure
