"""Mojeek: an index of its own. Its errors come with status 200 and stand in `response.status`."""

from opilio.model.records import Failure
from opilio.seeds.asking import OTHER_SHAPE, Request, listed, text, whole
from opilio.seeds.genres import worded
from opilio.seeds.paging import Leaf, Want, leaf_of

URL = "https://api.mojeek.com/search"
SIZE = 10


class Mojeek:
    """Asks for ten results a call."""

    def __init__(self, key: str, url: str = URL, language: str = "", *, trusted: bool = False) -> None:
        self._key = key
        self._url = url
        self._language = (("lb", language),) if language else ()
        self._trusted = trusted

    def request(self, want: Want) -> Request:
        start = 1 + want.page * SIZE
        params = (("q", worded(want.query, want.genre)), ("fmt", "json"), ("s", str(start)), ("t", str(SIZE)))
        secret = (("api_key", self._key),)
        return Request(url=self._url, params=(*params, *self._language), secret_params=secret, trusted=self._trusted)

    def read(self, tree: object, want: Want) -> Leaf:
        status = text(tree, "response", "status")
        if status != "OK":
            kind = "key" if "key" in status.lower() else "limit" if "limit" in status.lower() else "answer"
            return Leaf([], False, Failure(kind, status) if status else OTHER_SHAPE)
        more = (want.page + 1) * SIZE < whole(tree, "response", "head", "results")
        return leaf_of(listed(tree, "response", "results", sign="response"), "url", more)

    def explain(self, failure: Failure, tree: object) -> Failure:
        status = text(tree, "response", "status")
        return Failure(failure.kind, status, failure.retry) if status else failure
