"""Seeds that are at hand: a file of addresses, and whatever our own collections know."""

from collections.abc import Callable, Sequence
from pathlib import Path

from opilio.model.errors import ConfigError, OpilioError
from opilio.model.records import Answer, Failure, Hit
from opilio.seeds.seedfile import read_seeds

Search = Callable[[str, int], Sequence[str]]


class FileSource:
    """Lists a seed file, whatever the query; what a person chose comes first."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:  # noqa: ARG002 the protocol's signature
        """An answer for each priority in the file."""
        try:
            seeds = read_seeds(self._path, self.name)
        except ConfigError as error:
            return [Answer(voter=self.name, failure=Failure("answer", str(error)), given=1)]
        by_priority: dict[int, list[Hit]] = {}
        for rank, seed in enumerate(seeds[:limit], 1):
            by_priority.setdefault(seed.priority, []).append(Hit(url=seed.url, rank=rank))
        return [Answer(voter=self.name, hits=tuple(hits), given=given) for given, hits in by_priority.items()]


class SearchSource:
    """An engine that answers at once, by a function: our own index over a collection. It votes like any engine."""

    def __init__(self, name: str, search: Search) -> None:
        self.name = name
        self._search = search

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:  # noqa: ARG002 the protocol's signature
        """One answer."""
        try:
            urls = dict.fromkeys(self._search(query, limit))
        except OpilioError as error:
            return [Answer(voter=self.name, failure=Failure("engine", str(error)))]
        hits = tuple(Hit(url=url, rank=rank) for rank, url in enumerate(list(urls)[:limit], 1))
        return [Answer(voter=self.name, hits=hits)]


class FailingSource:
    """An engine that can't be asked, and why."""

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._failure = Failure("engine", why)

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:  # noqa: ARG002 the protocol's signature
        """The reason."""
        return [Answer(voter=self.name, failure=self._failure)]
