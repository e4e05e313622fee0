"""Local seed sources: files of URLs, and an index of the user's own collections.

A seed file has one URL per line, optionally followed by priority and sources, separated by tabs; # starts a comment.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from opilio.core.errors import ConfigError, OpilioError
from opilio.core.files import read_text
from opilio.core.records import EngineAnswer, EngineHit, Failure, Seed
from opilio.core.urls import canonicalize_url


def read_numbered_seeds(path: Path, option: str) -> dict[int, Seed]:
    """The seeds of a file by line number."""
    lines = enumerate(read_text(path, option).splitlines(), 1)
    kept = {n: line for n, line in lines if line.strip() and not line.startswith("#")}
    return {n: _parse_line(line, f"{option} {path}, line {n}") for n, line in kept.items()}


def _parse_line(line: str, where: str) -> Seed:
    url, *more = (part.strip() for part in line.strip().split("\t"))
    if not more or not more[0]:
        return Seed(url=url, sources=("given",))
    if more[0] not in ("1", "2", "3"):
        raise ConfigError(f"{where}: priority '{more[0]}' must be 1, 2 or 3, after a tab")
    sources = tuple(name for part in more[1:2] for name in part.split(", ") if name)
    return Seed(url=url, priority=int(more[0]), sources=sources or ("given",))


def format_seeds(seeds: Iterable[Seed], heading: str) -> str:
    """The text of a seed file.

    >>> format_seeds([Seed(url="https://a.example/", priority=2, sources=("brave", "kagi"))], "wrens")
    '# wrens\\nhttps://a.example/\\t2\\tbrave, kagi\\n'
    """
    title = " ".join(heading.split())
    rows = "".join(f"{seed.url}\t{seed.priority}\t{', '.join(seed.sources)}\n" for seed in seeds)
    return f"# {title}\n{rows}"


SearchFunction = Callable[[str, int], Sequence[str]]
MAX_REPORTED_LINES = 5


class FileSource:
    """Lists all URLs of a seed file, whatever the query."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self._path = path

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer per priority, and one that reports lines without a valid URL."""
        try:
            seeds = read_numbered_seeds(self._path, self.name)
        except ConfigError as error:
            return [self._failure_answer(str(error))]
        wrong = {number: seed for number, seed in seeds.items() if canonicalize_url(seed.url) is None}
        usable = [seed for number, seed in seeds.items() if number not in wrong]
        by_priority: dict[int, list[EngineHit]] = {}
        for rank, seed in enumerate(usable, 1):
            by_priority.setdefault(seed.priority, []).append(EngineHit(url=seed.url, rank=rank))
        answers = [
            EngineAnswer(voter=self.name, hits=tuple(hits), fixed_priority=given) for given, hits in by_priority.items()
        ]
        return [*answers, self._failure_answer(_bad_lines_message(self._path, list(wrong)))] if wrong else answers

    def _failure_answer(self, message: str) -> EngineAnswer:
        return EngineAnswer(voter=self.name, failure=Failure("answer", message), fixed_priority=1)


def _bad_lines_message(path: Path, wrong: Sequence[int]) -> str:
    more = f" and {len(wrong) - MAX_REPORTED_LINES} more" if len(wrong) > MAX_REPORTED_LINES else ""
    lines = f"line{'s' * (len(wrong) > 1)} {', '.join(map(str, wrong[:MAX_REPORTED_LINES]))}{more}"
    return f"{path}, {lines}: not a valid http(s) URL, skipped; include the scheme, for example https://example.org/"


class SearchSource:
    """An engine that calls a function, such as a search in the index of a collection. It votes like any engine."""

    def __init__(self, name: str, search: SearchFunction) -> None:
        self.name = name
        self._search = search

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer."""
        try:
            urls = dict.fromkeys(self._search(query, limit))
        except OpilioError as error:
            return [EngineAnswer(voter=self.name, failure=Failure("engine", str(error)))]
        hits = tuple(EngineHit(url=url, rank=rank) for rank, url in enumerate(list(urls)[:limit], 1))
        return [EngineAnswer(voter=self.name, hits=hits)]


class FailingSource:
    """An engine that can't be used."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._failure = Failure("engine", message)

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer with the failure."""
        return [EngineAnswer(voter=self.name, failure=self._failure)]
