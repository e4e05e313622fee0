"""Engines that answer page by page: one class pages, each engine only says how a page is asked for and read."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from opilio.model.records import Answer, Failure, Fetched, Hit
from opilio.seeds.asking import OTHER_SHAPE, EngineClient, Request, json_of, text


class Want(NamedTuple):
    """One page of results: `page` counts from 0, `limit` is how many addresses are wanted in all."""

    query: str
    genre: str
    page: int
    limit: int


class Leaf(NamedTuple):
    """What stands on one page of results."""

    urls: list[str]
    more: bool = True  # False: the engine says that this was the last page
    failure: Failure | None = None


def leaf_of(found: Sequence[object] | None, name: str, more: bool) -> Leaf:
    """A page of these results, whose addresses stand under `name`; of another shape where there is no list of them."""
    return Leaf([], False, OTHER_SHAPE) if found is None else Leaf([text(entry, name) for entry in found], more)


class Shape(Protocol):
    """How an engine is asked and how its answers are read. Pure."""

    def request(self, want: Want) -> Request: ...

    def read(self, tree: object, want: Want) -> Leaf: ...

    def explain(self, failure: Failure, tree: object) -> Failure: ...


class PagedSource:
    """Asks page after page until there is enough, nothing new comes, or the engine fails; what came before is kept."""

    def __init__(self, name: str, shape: Shape, client: EngineClient) -> None:
        self.name = name
        self._shape = shape
        self._client = client

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:
        """One answer."""
        found: dict[str, None] = {}
        failure = None
        for page in range(self._client.terms.pages):
            leaf = await self._leaf(Want(query, genre, page, limit))
            before = len(found)
            found |= dict.fromkeys(url for url in leaf.urls if url)
            failure = leaf.failure
            if failure or not leaf.more or len(found) == before or len(found) >= limit:
                break
        hits = tuple(Hit(url=url, rank=rank) for rank, url in enumerate(list(found)[:limit], 1))
        return [Answer(voter=self.name, hits=hits, failure=failure)]

    async def _leaf(self, want: Want) -> Leaf:
        request = self._shape.request(want)
        leaf = self._read(await self._client.ask(request), want)
        # Whatever an engine repeats of a request, its key goes no further.
        urls = [url for url in leaf.urls if request.scrubbed(url) == url]
        return leaf._replace(urls=urls, failure=request.cleared(leaf.failure))

    def _read(self, fetched: Fetched, want: Want) -> Leaf:
        tree = json_of(fetched)
        if isinstance(tree, Failure):
            # The body of a refusal often says more than its status: whether it is the key, for one.
            body = json_of(replace(fetched, failure=None)) if fetched.status >= 400 else None
            return Leaf([], False, self._shape.explain(tree, body))
        return self._shape.read(tree, want)
