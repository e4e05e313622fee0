"""The parsed pages of a web, cached in the user's cache folder, with the links between them as arrays.

Nodes 0..pages-1 are the pages of the web in its own order; nodes from `pages` on are URLs that some page links to
and that are not in the web (dead links: requesting one costs a fetch).

Runs over one web then look pages up instead of parsing them. The cache key is the content of the web and the code of
the parser: after a change of either all pages are parsed again, in several processes.
"""

import mmap
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from opilio.core.errors import OfflineWebError, ParseError
from opilio.core.protocols import Parser
from opilio.core.records import FetchResult, Page
from opilio.fetch.decoding import RecordedResponse
from opilio.fetch.http import redirect_target
from opilio.lab.webs.resources import (
    default_cache_folder,
    is_complete,
    load_cached,
    map_ordered,
    prune,
    save_cached,
    write_atomically,
)
from opilio.lab.webs.web import WarcWeb
from opilio.parse.html import HtmlParser

Nodes = NDArray[np.int32]


class WebLinkGraph:
    """Compressed rows: the targets of page i are `targets[starts[i]:starts[i + 1]]`, distinct, in page order."""

    def __init__(self, starts: NDArray[np.int64], targets: Nodes, nodes: int) -> None:
        self.starts = starts
        self.targets = targets
        self.nodes = nodes

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int]], nodes: int | None = None) -> "WebLinkGraph":
        """A graph from one list of targets per page; repeated targets of a page count once."""
        distinct = [list(dict.fromkeys(row)) for row in rows]
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in distinct], out=starts[1:])
        targets = np.array([t for row in distinct for t in row], dtype=np.int32)
        most = int(targets.max()) + 1 if len(targets) else 0
        return cls(starts, targets, max(len(rows), most, nodes or 0))

    @property
    def pages(self) -> int:
        return len(self.starts) - 1

    @property
    def links(self) -> int:
        """Links that lead to a page of the web."""
        return int((self.targets < self.pages).sum())

    @property
    def dead(self) -> int:
        """Links that lead nowhere."""
        return len(self.targets) - self.links

    def out_links(self, node: int) -> Nodes:
        """The targets of a node; a dead URL has none."""
        if node >= self.pages:
            return self.targets[:0]
        return self.targets[self.starts[node] : self.starts[node + 1]]

    def edges_of(self, nodes: Nodes) -> tuple[Nodes, Nodes]:
        """All links of some nodes as (source, target) arrays, in the order of the nodes."""
        nodes = nodes[nodes < self.pages]
        begins = self.starts[nodes]
        sizes = self.starts[nodes + 1] - begins
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        places = np.arange(total) - np.repeat(ends - sizes, sizes) + np.repeat(begins, sizes)
        return np.repeat(nodes, sizes), self.targets[places]

    def depths(self, seeds: Iterable[int]) -> Nodes:
        """Links from the nearest seed to each node, -1 where it can't be reached."""
        depth = np.full(self.nodes, -1, dtype=np.int32)
        front = np.array(sorted(set(seeds)), dtype=np.int32)
        depth[front] = 0
        level = 0
        while len(front):
            level += 1
            _, targets = self.edges_of(front)
            front = np.unique(targets[depth[targets] < 0])
            depth[front] = level
        return depth


_FORMAT_VERSION = 2
_MAX_CACHED_VERSIONS = 3  # of one web, made by different code
_CHUNK_PAGES = 250  # pages per task of a process
# Starting processes costs more than parsing fewer pages.
_MIN_PAGES_FOR_POOL = 400


class _ParsedChunk(msgspec.Struct):
    """The result of parsing some pages: packed pages in one buffer, and the targets of each."""

    packed: bytes
    sizes: list[int]
    # Hashes of the bodies, to make sure that a page is looked up with the bytes that were parsed.
    hashes: list[int]
    live: list[list[int]]  # numbers of pages of the web
    dead: list[list[str]]  # URLs that are not in the web


class _ParsedPagesIndex(msgspec.Struct):
    offsets: bytes
    hashes: bytes
    starts: bytes
    targets: bytes
    nodes: int


class ParsedPages:
    """Every page of a web as the parser reads it. A page that can't be parsed has an empty entry."""

    def __init__(self, folder: Path, kept: _ParsedPagesIndex, packed: mmap.mmap) -> None:
        # The cache folder; other data computed from the pages is stored there too.
        self.folder = folder
        self._offsets = memoryview(kept.offsets).cast("q")
        self._hashes = memoryview(kept.hashes).cast("Q")
        self._index = kept
        self._packed = packed

    @classmethod
    def open(cls, web: WarcWeb, cache: Path | None = None, processes: int = 2) -> "ParsedPages":
        """The parsed pages of a web, from the cache or by parsing all of them."""
        folder = (cache or default_cache_folder()) / f"pages-{web.digest[:16]}-{parser_version()}"
        kept = load_cached(folder / "index", _ParsedPagesIndex)
        if kept is None or not is_complete(folder / "packed", memoryview(kept.offsets).cast("q")[-1] + 1):
            _parse_all(web, folder, cache, processes)
        parsed = cls.load(folder)
        prune(folder, f"pages-{web.digest[:16]}-*", _MAX_CACHED_VERSIONS)
        return parsed

    @classmethod
    def load(cls, folder: Path) -> "ParsedPages":
        """The parsed pages in a folder."""
        kept = load_cached(folder / "index", _ParsedPagesIndex)
        if kept is None:
            raise OfflineWebError(f"{folder}: the parsed pages can't be stored or read; is the disk full?")
        with (folder / "packed").open("rb") as file:
            return cls(folder, kept, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def body_hashes(self) -> Sequence[int]:
        """A number for the body of each page: equal bodies have equal numbers."""
        return self._hashes

    @cached_property
    def graph(self) -> WebLinkGraph:
        starts: NDArray[np.int64] = np.frombuffer(self._index.starts, dtype=np.int64)
        return WebLinkGraph(starts, np.frombuffer(self._index.targets, dtype=np.int32), self._index.nodes)

    def page(self, number: int) -> Page | None:
        """A page by its number, None if the response was not a page."""
        begin, end = self._offsets[number], self._offsets[number + 1]
        return _decode_page(self._packed[begin:end]) if end > begin else None

    def page_if_same_body(self, number: int, body: bytes) -> Page | None:
        """The same, but only if it was parsed from this body."""
        return self.page(number) if self._hashes[number] == xxhash.xxh3_64_intdigest(body) else None


class CachedParser:
    """A parser that looks up the pages of one web and parses everything else: the same result, faster."""

    def __init__(self, web: WarcWeb, pages: ParsedPages, parser: Parser) -> None:
        self._web = web
        self._pages = pages
        self._parser = parser

    def parse(self, fetched: FetchResult) -> Page:
        number = self._web.number_of(fetched.url)
        page = None if number is None else self._pages.page_if_same_body(number, fetched.body)
        return self._parser.parse(fetched) if page is None else page


def parser_version() -> str:
    """A digest of the parser's code and libraries.

    It covers the parser's own files, the decoding of recorded responses, the URL rules and the records.
    """
    root = files("opilio")
    digest = xxhash.xxh3_64(f"{_FORMAT_VERSION} {version('turbohtml')} {version('msgspec')}".encode())
    parse_files = [f for f in root.joinpath("parse").iterdir() if f.name.endswith(".py")]
    more = ("core/urls.py", "core/records.py", "core/warc.py", "fetch/decoding.py")
    for file in [*sorted(parse_files, key=lambda f: f.name), *(root.joinpath(*name.split("/")) for name in more)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def to_fetched(url: str, answer: RecordedResponse) -> FetchResult:
    """A recorded response as the parser's input."""
    return FetchResult(url=url, status=answer.status, headers=answer.headers, body=answer.body)


def _parse_all(web: WarcWeb, folder: Path, cache: Path | None, processes: int) -> None:
    offsets, hashes = array("q", [0]), array("Q")
    rows: list[list[int]] = []
    # Dead URLs get the numbers after the pages.
    names: dict[str, int] = {}
    with write_atomically(folder / "packed") as file:
        for chunk in _parse_chunks(web, cache, processes):
            file.write(chunk.packed)
            hashes.extend(chunk.hashes)
            for size, live, dead in zip(chunk.sizes, chunk.live, chunk.dead, strict=True):
                offsets.append(offsets[-1] + size)
                rows.append(live + [names.setdefault(url, len(web) + len(names)) for url in dead])
        # An empty file can't be mapped.
        file.write(b"\0")
    graph = WebLinkGraph.from_rows(rows)
    kept = _ParsedPagesIndex(
        offsets.tobytes(), hashes.tobytes(), graph.starts.tobytes(), graph.targets.tobytes(), max(graph.nodes, len(web))
    )
    save_cached(folder / "index", kept)


def _parse_chunks(web: WarcWeb, cache: Path | None, processes: int) -> Iterator[_ParsedChunk]:
    ranges = [range(start, min(start + _CHUNK_PAGES, len(web))) for start in range(0, len(web), _CHUNK_PAGES)]
    if processes < 2 or len(web) < _MIN_PAGES_FOR_POOL:
        yield from (_parse_chunk(web, numbers) for numbers in ranges)
        return
    yield from map_ordered(_parse_in_process, [(web.folder, cache, numbers) for numbers in ranges], processes)


def _parse_in_process(job: tuple[Path, Path | None, range]) -> _ParsedChunk:
    folder, cache, numbers = job
    return _parse_chunk(WarcWeb.open(folder, cache), numbers)


def _parse_chunk(web: WarcWeb, wanted: Sequence[int]) -> _ParsedChunk:
    parser = HtmlParser(lists=True)
    out = _ParsedChunk(b"", [], [], [], [])
    packed: list[bytes] = []
    for number in wanted:
        url, answer = web.urls[number], web.response(number)
        page = _parse_page(parser, url, answer)
        packed.append(b"" if page is None else _encode_page(page))
        out.sizes.append(len(packed[-1]))
        out.hashes.append(xxhash.xxh3_64_intdigest(answer.body))
        targets = _targets(url, answer, page)
        numbers = [(web.number_of(target), target) for target in targets]
        out.live.append([n for n, _ in numbers if n is not None])
        out.dead.append([target for n, target in numbers if n is None])
    out.packed = b"".join(packed)
    return out


def _parse_page(parser: Parser, url: str, answer: RecordedResponse) -> Page | None:
    if answer.status != 200:
        return None
    try:
        return parser.parse(to_fetched(url, answer))
    except ParseError:
        return None


def _targets(url: str, answer: RecordedResponse, page: Page | None) -> list[str]:
    """The targets of a page without itself. Links that a polite crawler would not follow are included."""
    found = (
        [link.url for link in page.links] if page else [redirect_target(answer.status, answer.header("location"), url)]
    )
    return [target for target in dict.fromkeys(found) if target and target != url]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Page)


def _encode_page(page: Page) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(_encoder.encode(page))


def _decode_page(data: bytes) -> Page:
    return _decoder.decode(zstandard.ZstdDecompressor().decompress(data))


class WebLinks:
    """Pages of a web by URL, with the links between them in both directions."""

    def __init__(self, web: WarcWeb, pages: ParsedPages) -> None:
        self._web = web
        self._pages = pages

    def page(self, url: str) -> Page | None:
        number = self._web.number_of(url)
        return None if number is None else self._pages.page(number)

    def parents_of(self, url: str) -> list[str]:
        """The pages that link to a page."""
        number = self._web.number_of(url)
        return [] if number is None else [self._web.urls[p] for p in self._sources_of(number)]

    def links_of(self, url: str) -> list[str]:
        """The pages of the web that a page links to."""
        number = self._web.number_of(url)
        found = [] if number is None else self._pages.graph.out_links(number).tolist()
        return [self._web.urls[n] for n in found if n < len(self._web)]

    def _sources_of(self, number: int) -> list[int]:
        order, starts, sources = self._reverse
        return [int(source) for source in sources[order[starts[number] : starts[number + 1]]]]

    @cached_property
    def _reverse(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        graph = self._pages.graph
        order = np.argsort(graph.targets, kind="stable")
        starts = np.searchsorted(graph.targets[order], np.arange(graph.nodes + 1))
        return order, starts, np.repeat(np.arange(graph.pages), np.diff(graph.starts))
