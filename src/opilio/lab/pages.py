"""The pages of a web, parsed once and kept in the user's cache folder, with the links between them as a graph.

Many runs over one web then cost a look-up a page instead of a parse. What is kept is found by the content of
the web and the code of the parser: change either and it is worked out again. The first time uses several processes.
"""

import mmap
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import xxhash
import zstandard
from numpy.typing import NDArray

from opilio.fetch.answers import location_of
from opilio.lab.cachefolder import default_cache, is_whole, load, made_whole, prune, save
from opilio.lab.linkgraph import LinkGraph
from opilio.lab.processes import in_order
from opilio.lab.warcfile import Answer
from opilio.lab.web import Web
from opilio.model.errors import ParseError, WebError
from opilio.model.protocols import Parser
from opilio.model.records import Fetched, Page
from opilio.parse.html import HtmlParser

_FORMAT = 2
_EDITIONS = 3  # of one web, made by different code, that are kept
_CHUNK = 250  # pages a process takes at once
_INLINE_BELOW = 400  # starting processes costs more than parsing so few pages


class _Parsed(msgspec.Struct):
    """What parsing some pages gave: packed pages end to end, and where each leads."""

    packed: bytes
    sizes: list[int]
    hashes: list[int]  # of the bodies, to be sure that a page is asked for with the bytes that were parsed
    live: list[list[int]]  # numbers of pages of the web
    dead: list[list[str]]  # addresses that the web does not hold


class _Kept(msgspec.Struct):
    offsets: bytes
    hashes: bytes
    starts: bytes
    targets: bytes
    nodes: int


class ParsedPages:
    """Every page of a web as the parser reads it. A page that can't be parsed has an empty entry."""

    def __init__(self, folder: Path, kept: _Kept, packed: mmap.mmap) -> None:
        self.folder = folder  # where they are kept; what else is worked out from them is kept there too
        self._offsets = memoryview(kept.offsets).cast("q")
        self._hashes = memoryview(kept.hashes).cast("Q")
        self._kept = kept
        self._packed = packed

    @classmethod
    def open(cls, web: Web, cache: Path | None = None, processes: int = 2) -> "ParsedPages":
        """The parsed pages of a web, from the cache or by parsing all of them."""
        folder = (cache or default_cache()) / f"pages-{web.digest[:16]}-{parser_version()}"
        kept = load(folder / "index", _Kept)
        if kept is None or not is_whole(folder / "packed", memoryview(kept.offsets).cast("q")[-1] + 1):
            _parse_all(web, folder, cache, processes)
        parsed = cls.load(folder)
        prune(folder, f"pages-{web.digest[:16]}-*", _EDITIONS)
        return parsed

    @classmethod
    def load(cls, folder: Path) -> "ParsedPages":
        """What was kept in a folder."""
        kept = load(folder / "index", _Kept)
        if kept is None:
            raise WebError(f"{folder}: the parsed pages can't be kept or read there; is the disk full?")
        with (folder / "packed").open("rb") as file:
            return cls(folder, kept, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def bodies(self) -> Sequence[int]:
        """A number for the body of each page: equal ones have the same."""
        return self._hashes

    @cached_property
    def graph(self) -> LinkGraph:
        starts: NDArray[np.int64] = np.frombuffer(self._kept.starts, dtype=np.int64)
        return LinkGraph(starts, np.frombuffer(self._kept.targets, dtype=np.int32), self._kept.nodes)

    def page(self, number: int) -> Page | None:
        """A page by its number, None where the parser found none in the answer."""
        begin, end = self._offsets[number], self._offsets[number + 1]
        return _unpacked(self._packed[begin:end]) if end > begin else None

    def parsed(self, number: int, body: bytes) -> Page | None:
        """The same, but only when it was parsed from this body."""
        return self.page(number) if self._hashes[number] == xxhash.xxh3_64_intdigest(body) else None


class CachedParser:
    """A parser that looks up the pages of one web and parses everything else: the same pages, sooner."""

    def __init__(self, web: Web, pages: ParsedPages, parser: Parser) -> None:
        self._web = web
        self._pages = pages
        self._parser = parser

    def parse(self, fetched: Fetched) -> Page:
        number = self._web.number_of(fetched.url)
        page = None if number is None else self._pages.parsed(number, fetched.body)
        return self._parser.parse(fetched) if page is None else page


def parser_version() -> str:
    """Names the parser's code: its own files, what unpacks recorded answers, the address rules, the records, and the
    library underneath."""
    root = files("opilio")
    digest = xxhash.xxh3_64(f"{_FORMAT} {version('turbohtml')} {version('msgspec')}".encode())
    parse_files = [f for f in root.joinpath("parse").iterdir() if f.name.endswith(".py")]
    more = ("model/urls.py", "model/records.py", "lab/warcfile.py", "fetch/decoding.py")
    for file in [*sorted(parse_files, key=lambda f: f.name), *(root.joinpath(*name.split("/")) for name in more)]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def as_fetched(url: str, answer: Answer) -> Fetched:
    """A recorded answer in the form the parser takes."""
    return Fetched(url=url, status=answer.status, headers=answer.headers, body=answer.body)


def _parse_all(web: Web, folder: Path, cache: Path | None, processes: int) -> None:
    offsets, hashes = array("q", [0]), array("Q")
    rows: list[list[int]] = []
    names: dict[str, int] = {}  # dead addresses get the numbers behind the pages
    with made_whole(folder / "packed") as file:
        for chunk in _chunks(web, cache, processes):
            file.write(chunk.packed)
            hashes.extend(chunk.hashes)
            for size, live, dead in zip(chunk.sizes, chunk.live, chunk.dead, strict=True):
                offsets.append(offsets[-1] + size)
                rows.append(live + [names.setdefault(url, len(web) + len(names)) for url in dead])
        file.write(b"\0")  # an empty file can't be mapped
    graph = LinkGraph.from_rows(rows)
    kept = _Kept(
        offsets.tobytes(), hashes.tobytes(), graph.starts.tobytes(), graph.targets.tobytes(), max(graph.nodes, len(web))
    )
    save(folder / "index", kept)


def _chunks(web: Web, cache: Path | None, processes: int) -> Iterator[_Parsed]:
    ranges = [range(start, min(start + _CHUNK, len(web))) for start in range(0, len(web), _CHUNK)]
    if processes < 2 or len(web) < _INLINE_BELOW:
        yield from (_parse_some(web, numbers) for numbers in ranges)
        return
    yield from in_order(_parse_in_process, [(web.folder, cache, numbers) for numbers in ranges], processes)


def _parse_in_process(job: tuple[Path, Path | None, range]) -> _Parsed:
    folder, cache, numbers = job
    return _parse_some(Web.open(folder, cache), numbers)


def _parse_some(web: Web, wanted: Sequence[int]) -> _Parsed:
    parser = HtmlParser()
    out = _Parsed(b"", [], [], [], [])
    packed: list[bytes] = []
    for number in wanted:
        url, answer = web.urls[number], web.answer(number)
        page = _page_of(parser, url, answer)
        packed.append(b"" if page is None else _pack(page))
        out.sizes.append(len(packed[-1]))
        out.hashes.append(xxhash.xxh3_64_intdigest(answer.body))
        targets = _targets(url, answer, page)
        numbers = [(web.number_of(target), target) for target in targets]
        out.live.append([n for n, _ in numbers if n is not None])
        out.dead.append([target for n, target in numbers if n is None])
    out.packed = b"".join(packed)
    return out


def _page_of(parser: Parser, url: str, answer: Answer) -> Page | None:
    if answer.status != 200:
        return None
    try:
        return parser.parse(as_fetched(url, answer))
    except ParseError:
        return None


def _targets(url: str, answer: Answer, page: Page | None) -> list[str]:
    """Where a page leads, itself left out. Links a polite crawler would not follow are in: the oracle knows all."""
    found = [link.url for link in page.links] if page else [location_of(answer.status, answer.header("location"), url)]
    return [target for target in dict.fromkeys(found) if target and target != url]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Page)


def _pack(page: Page) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(_encoder.encode(page))


def _unpacked(data: bytes) -> Page:
    return _decoder.decode(zstandard.ZstdDecompressor().decompress(data))
