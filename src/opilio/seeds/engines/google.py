"""Google Programmable Search (JSON API), for those who still have it: no new customers, the end is on 1 January 2027.

Ten results a call, a hundred in all. `items` is missing where nothing was found.
"""

from opilio.model.records import Failure
from opilio.seeds.asking import Request, entries, listed, text
from opilio.seeds.genres import worded
from opilio.seeds.paging import Leaf, Want, leaf_of

URL = "https://customsearch.googleapis.com/customsearch/v1"
SIZE, MOST = 10, 100


class Google:
    """Asks one search engine (`cx`) of the person's account."""

    def __init__(self, key: str, cx: str, url: str = URL, language: str = "", *, trusted: bool = False) -> None:
        self._key = key
        self._cx = cx
        self._url = url
        self._language = (("lr", f"lang_{language}"),) if language else ()
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        start = 1 + want.page * SIZE
        params = (("cx", self._cx), ("q", worded(want.query, want.genre)), ("num", str(SIZE)), ("start", str(start)))
        secret = (("key", self._key),)
        return Request(url=self._url, params=(*params, *self._language), secret_params=secret, trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:
        more = bool(entries(tree, "queries", "nextPage")) and (want.page + 1) * SIZE < MOST
        return leaf_of(listed(tree, "items", sign="queries"), "link", more)

    def explain(self, failure: Failure, tree: object) -> Failure:
        message = text(tree, "error", "message")
        reasons = {text(entry, "reason") for entry in entries(tree, "error", "errors")}
        if "API key" in message or reasons & {"keyInvalid", "keyExpired", "ipRefererBlocked", "accessNotConfigured"}:
            return Failure("key", f"refused the key ({message})")
        if reasons & {"rateLimitExceeded", "dailyLimitExceeded", "quotaExceeded", "userRateLimitExceeded"}:
            return Failure("limit", message)
        return Failure(failure.kind, f"{failure.detail}: {message}", failure.retry) if message else failure
