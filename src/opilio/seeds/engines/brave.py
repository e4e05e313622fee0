"""Brave Search API: an index of its own, a key, JSON.

`offset` counts pages, not rows (0 to 9); a query has at most 400 characters and 50 words.
"""

from opilio.model.records import Failure
from opilio.seeds.asking import Request, at, listed, text
from opilio.seeds.genres import shortened, worded
from opilio.seeds.paging import Leaf, Want, leaf_of

URL = "https://api.search.brave.com/res/v1/web/search"
SIZE, LAST_PAGE = 20, 9


class Brave:
    """Asks for web results only."""

    def __init__(
        self, key: str, url: str = URL, country: str = "", language: str = "", *, trusted: bool = False
    ) -> None:
        self._key = key
        self._url = url
        self._region = tuple(
            (name, value) for name, value in (("country", country), ("search_lang", language)) if value
        )
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        query = shortened(worded(want.query, want.genre), 50, 400)
        size = str(min(SIZE, want.limit))
        params = (("q", query), ("count", size), ("offset", str(want.page)), ("result_filter", "web"), *self._region)
        secret = (("X-Subscription-Token", self._key),)
        return Request(url=self._url, params=params, secret_headers=secret, trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:
        more = at(tree, "query", "more_results_available") is not False
        return leaf_of(listed(tree, "web", "results", sign="query"), "url", more and want.page < LAST_PAGE)

    def explain(self, failure: Failure, tree: object) -> Failure:
        code, detail = text(tree, "error", "code"), text(tree, "error", "detail")
        if "TOKEN" in code or "token" in detail.lower():  # Brave says 422 where the key is wrong
            return Failure("key", f"refused the key ({detail or code})")
        return Failure(failure.kind, f"{failure.detail}: {detail}", failure.retry) if detail else failure
