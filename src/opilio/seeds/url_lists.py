"""Seed sources that list URLs instead of searching: files, the user's collections, sitemaps, Common Crawl's index.

A seed file has one URL per line, optionally followed by priority and sources, separated by tabs; # starts a comment.
Sitemap indexes are followed, gzip files are unpacked. Common Crawl is one shared server: its list of crawls is
requested once, and requests run one after the other. A 404 means that nothing was found. The URL of the newest crawl
comes from the list, so it is trusted only on the same server.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from opilio.core.errors import ConfigError, OpilioError
from opilio.core.files import read_text
from opilio.core.records import EngineAnswer, EngineHit, Failure, FetchResult, Seed, rank_hits
from opilio.core.urls import canonicalize_url, origin_of
from opilio.parse.sitemaps import gunzip_bounded, has_sitemap_root, sitemap_entries
from opilio.seeds.api_client import ApiRequest, EngineClient, get_string, parse_json
from opilio.seeds.merge import LOW_PRIORITY
from opilio.seeds.queries import sort_by_query_words


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
        return [EngineAnswer(voter=self.name, hits=rank_hits(list(urls)[:limit]))]


class FailingSource:
    """An engine that can't be used."""

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._failure = Failure("engine", message)

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer with the failure."""
        return [EngineAnswer(voter=self.name, failure=self._failure)]


COMMONCRAWL_URL = "https://index.commoncrawl.org"
NOT_FOUND = 404
# URLs requested per pattern; those with words of the query come first.
MAX_URLS_PER_PATTERN = 1000


class CommonCrawlSource:
    """Lists URLs under `patterns` such as `*.example.org` or `example.org/birds/*`; it has no vote."""

    def __init__(
        self,
        name: str,
        client: EngineClient,
        patterns: Sequence[str],
        url: str = COMMONCRAWL_URL,
        crawl: str = "",
        *,
        trusted: bool = False,
    ) -> None:
        self.name = name
        self._client = client
        self._patterns = patterns
        self._url = url.rstrip("/")
        self._index = f"{self._url}/{crawl}-index" if crawl else ""
        self._trusted = trusted

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer of the lowest priority: these pages need not be on the topic."""
        failure = await self._choose_crawl()
        found: dict[str, None] = {}
        for pattern in self._patterns if failure is None else ():
            urls, failure = await self._list_urls(pattern)
            found |= dict.fromkeys(urls)
            if failure is not None:
                break
        best = sort_by_query_words(found, query)[:limit]
        return [EngineAnswer(voter=self.name, hits=rank_hits(best), failure=failure, fixed_priority=LOW_PRIORITY)]

    async def _choose_crawl(self) -> Failure | None:
        """Find the newest crawl, unless one was configured."""
        if self._index:
            return None
        tree = parse_json(await self._client.send(ApiRequest(url=f"{self._url}/collinfo.json", trusted=self._trusted)))
        if isinstance(tree, Failure):
            return tree
        newest = get_string(tree[0], "cdx-api") if isinstance(tree, list) and tree else ""
        if not newest.startswith(("http://", "https://")):
            return Failure("answer", "its list of crawls has an unexpected format")
        self._index = newest
        return None

    async def _list_urls(self, pattern: str) -> tuple[list[str], Failure | None]:
        params = (
            *(("url", pattern), ("output", "json"), ("fl", "url"), ("limit", str(MAX_URLS_PER_PATTERN))),
            *(("filter", "=status:200"), ("filter", "=mime-detected:text/html")),
        )
        trusted = self._trusted and origin_of(self._index) == origin_of(self._url)
        fetched = await self._client.send(ApiRequest(url=self._index, params=params, trusted=trusted))
        if fetched.status == NOT_FOUND:
            return [], None
        return (parse_lines(fetched), None) if fetched.failure is None else ([], fetched.failure)


def parse_lines(fetched: FetchResult) -> list[str]:
    """The URLs in lines of JSON; invalid lines are skipped."""
    found = []
    for line in fetched.body.splitlines():
        try:
            found.append(get_string(msgspec.json.decode(line), "url"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    return [url for url in found if url]


MAX_FILES = 20


class SitemapSource:
    """Lists the URLs in the sitemaps at `urls`, those with words of the query first. Its URLs do not count as votes."""

    def __init__(self, name: str, client: EngineClient, urls: Sequence[str]) -> None:
        self.name = name
        self._client = client
        self._urls = urls

    async def find(self, query: str, limit: int, genre: str = "") -> list[EngineAnswer]:  # noqa: ARG002 the protocol's signature
        """One answer, of the lowest priority."""
        waiting, read = deque(self._urls), set[str]()
        found: dict[str, None] = {}
        failure = None
        while waiting and len(read) < MAX_FILES:
            url = waiting.popleft()
            if url in read:
                continue
            read.add(url)
            listed, failed = await self._read(url)
            failure = failure or failed
            waiting.extend(listed.sitemaps)
            found |= dict.fromkeys(listed.pages)
        best = sort_by_query_words(found, query)[:limit]
        return [EngineAnswer(voter=self.name, hits=rank_hits(best), failure=failure, fixed_priority=LOW_PRIORITY)]

    async def _read(self, url: str) -> tuple["SitemapFile", Failure | None]:
        # Only the servers that the user named may have private addresses, not those that their sitemaps name.
        user_origins = {origin_of(given) for given in self._urls}
        fetched = await self._client.send(ApiRequest(url=url, trusted=origin_of(url) in user_origins))
        if fetched.location:
            return SitemapFile(sitemaps=[fetched.location]), None
        if fetched.failure is not None:
            return SitemapFile(), Failure(fetched.failure.kind, f"{url}: {fetched.failure.detail}"[:200])
        body = gunzip_bounded(fetched.body)
        listed = parse_sitemap_urls(body.decode("utf-8", "replace"), url)
        known = listed.pages or listed.sitemaps or has_sitemap_root(body)
        return listed, None if known else Failure("answer", f"{url}: is not a sitemap")


class SitemapFile:
    """The URLs in one file: pages and further sitemaps."""

    def __init__(self, pages: Sequence[str] = (), sitemaps: Sequence[str] = ()) -> None:
        self.pages = pages
        self.sitemaps = sitemaps


def parse_sitemap_urls(xml: str, url: str) -> SitemapFile:
    """The URLs in a sitemap or sitemap index.

    >>> parse_sitemap_urls("<urlset><url><loc> /a?b=1&amp;c=2 </loc></url></urlset>", "https://a.example/map.xml").pages
    ['https://a.example/a?b=1&c=2']
    """
    entries = list(sitemap_entries(xml, url))
    return SitemapFile(
        pages=[entry.url for entry in entries if not entry.is_sitemap],
        sitemaps=[entry.url for entry in entries if entry.is_sitemap],
    )
