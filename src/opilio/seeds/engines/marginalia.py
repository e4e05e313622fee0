"""Marginalia: the small, non-commercial web. A shared key is slow; results are CC-BY-NC-SA. Be gentle with it."""

from opilio.model.records import Failure
from opilio.seeds.asking import Request, listed, text, whole
from opilio.seeds.genres import worded
from opilio.seeds.paging import Leaf, Want, leaf_of

URL = "https://api2.marginalia-search.com/search"
SIZE = 100


class Marginalia:
    """Asks for at most a hundred results a call, two of a domain."""

    def __init__(self, key: str, url: str = URL, per_domain: int = 2, *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._per_domain = per_domain
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        size, page = str(min(SIZE, want.limit)), str(want.page + 1)
        query = worded(want.query, want.genre)
        params = (("query", query), ("count", size), ("page", page), ("dc", str(self._per_domain)))
        return Request(url=self._url, params=params, secret_headers=(("API-Key", self._key),), trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:
        pages = whole(tree, "pages")  # not in every version
        return leaf_of(listed(tree, "results"), "url", not pages or want.page + 1 < pages)

    def explain(self, failure: Failure, tree: object) -> Failure:
        told = text(tree, "error")
        return Failure(failure.kind, f"{failure.detail}: {told}", failure.retry) if told else failure
