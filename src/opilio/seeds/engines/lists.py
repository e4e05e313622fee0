"""Seeds that are at hand: a file of addresses, and whatever our own collections know."""

from collections.abc import Callable, Sequence
from pathlib import Path

from opilio.model.errors import ConfigError, OpilioError
from opilio.model.records import Answer, Failure, Hit
from opilio.model.urls import canonical
from opilio.seeds.seedfile import numbered_seeds

Search = Callable[[str, int], Sequence[str]]
TOLD = 5  # lines that are named


class FileSource:
    """Lists a seed file, whatever the query; what a person chose comes first, and all of it."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    async def find(self, query: str, limit: int, genre: str = "") -> list[Answer]:  # noqa: ARG002 the protocol's signature
        """An answer for each priority in the file, and one that tells which lines are no addresses."""
        try:
            seeds = numbered_seeds(self._path, self.name)
        except ConfigError as error:
            return [self._failed(str(error))]
        wrong = {number: seed for number, seed in seeds.items() if canonical(seed.url) is None}
        usable = [seed for number, seed in seeds.items() if number not in wrong]
        by_priority: dict[int, list[Hit]] = {}
        for rank, seed in enumerate(usable, 1):
            by_priority.setdefault(seed.priority, []).append(Hit(url=seed.url, rank=rank))
        answers = [Answer(voter=self.name, hits=tuple(hits), given=given) for given, hits in by_priority.items()]
        return [*answers, self._failed(_told(self._path, list(wrong)))] if wrong else answers

    def _failed(self, why: str) -> Answer:
        return Answer(voter=self.name, failure=Failure("answer", why), given=1)


def _told(path: Path, wrong: Sequence[int]) -> str:
    more = f" and {len(wrong) - TOLD} more" if len(wrong) > TOLD else ""
    lines = f"line{'s' * (len(wrong) > 1)} {', '.join(map(str, wrong[:TOLD]))}{more}"
    return f"{path}, {lines}: no http or https URL, left out; write it whole, for example https://example.org/"


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
