"""Kagi Search API v1: POST with a JSON body. Where nothing was found, `data.search` is missing."""

import msgspec

from opilio.model.records import Failure
from opilio.seeds.asking import Request, entries, listed, text
from opilio.seeds.genres import worded
from opilio.seeds.paging import Leaf, Want, leaf_of

URL = "https://kagi.com/api/v1/search"
SIZE, LAST_PAGE = 50, 9


class Kagi:
    """Asks for web results."""

    def __init__(self, key: str, url: str = URL, *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        wanted = {
            "query": worded(want.query, want.genre),
            "workflow": "search",
            "page": want.page + 1,
            "limit": min(SIZE, want.limit),
        }
        secret = (("Authorization", f"Bearer {self._key}"),)
        body = msgspec.json.encode(wanted)
        return Request(url=self._url, body=body, secret_headers=secret, trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:
        return leaf_of(listed(tree, "data", "search", sign="data"), "url", want.page < LAST_PAGE)

    def explain(self, failure: Failure, tree: object) -> Failure:
        told = next((text(entry, "message") for entry in entries(tree, "error")), "")
        return Failure(failure.kind, f"{failure.detail}: {told}", failure.retry) if told else failure
