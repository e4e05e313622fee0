"""An offline web: a folder with `*.warc.gz`, every page found by its canonical URL.

The files are scanned once; the index is stored in the user's cache folder and found again by the names, sizes and
times of the files. A web holds only what a server would respond: labels are in labels.py, which only the evaluation
may read. Any collection made by `opilio crawl` is a web without labels. `ResponseSource` is the protocol of a web that
can be replayed or served, recorded or synthetic.
"""

import mmap
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec
import xxhash

from opilio.core.errors import OfflineWebError
from opilio.core.urls import canonicalize_url, host_of
from opilio.core.warc import ScannedWarcRecord, scan_records
from opilio.fetch.decoding import RecordedResponse, read_response
from opilio.lab.webs.resources import default_cache_folder, load_cached, save_cached

_UNCOMPRESSED_MESSAGE = "not compressed, so it is not read; compress it with 'warcio recompress'"
# Increase it when the meaning of the index file changes.
_INDEX_FORMAT_VERSION = 2


class LabProblem(msgspec.Struct, frozen=True, order=True):
    """Something in a web that was skipped, and why."""

    # Damaged, duplicate, address, revisit, label, topic, seed, error.
    kind: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.detail}"


class _WebIndex(msgspec.Struct, frozen=True):
    """The result of scanning the files; page i is in file `file[i]` at `offset[i]`, `length[i]` bytes long."""

    files: list[str]
    urls: list[str]
    file: bytes
    offset: bytes
    length: bytes
    status: bytes
    digest: str  # of the files' content
    problems: list[LabProblem]


class WarcWeb:
    """The pages of a web. Invariant: `urls[i]` is canonical, and no URL occurs twice."""

    def __init__(self, folder: Path, index: _WebIndex) -> None:
        self.folder = folder
        self._index = index
        self._places = [_int_view(index.file), _int_view(index.offset), _int_view(index.length)]
        self._statuses = _int_view(index.status)
        self._maps: dict[int, mmap.mmap] = {}

    @classmethod
    def open(cls, folder: Path, cache: Path | None = None) -> "WarcWeb":
        """Open a web, with the stored index if the files are the same."""
        folder = folder.resolve()
        files = warc_files(folder)
        path = (cache or default_cache_folder()) / f"web-{_files_digest(folder, files)}.index"
        index = load_cached(path, _WebIndex)
        if index is None:
            index = _build_index(files)
            save_cached(path, index)
        return cls(folder, index)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def urls(self) -> Sequence[str]:
        return self._index.urls

    @property
    def digest(self) -> str:
        """A digest of the web's content: data computed from it is cached under this name."""
        return self._index.digest

    @property
    def problems(self) -> Sequence[LabProblem]:
        """What was skipped when the files were scanned."""
        return [
            *self._index.problems,
            *(LabProblem("damaged", f.name, _UNCOMPRESSED_MESSAGE) for f in _uncompressed_files(self.folder)),
        ]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each page by its canonical URL."""
        return {url: number for number, url in enumerate(self.urls)}

    @cached_property
    def hosts(self) -> dict[str, int]:
        """The number of pages of each host."""
        return dict(Counter(map(host_of, self.urls)))

    def __len__(self) -> int:
        return len(self._index.urls)

    def response(self, number: int) -> RecordedResponse:
        """The recorded response of a page."""
        file, offset, length = (column[number] for column in self._places)
        return read_response(self._map(file), offset, length)

    def status(self, number: int) -> int:
        """The recorded status; only 200 is a page."""
        return self._statuses[number]

    def number_of(self, url: str) -> int | None:
        """The number of the page at a canonical URL, or None.

        Some webs were recorded under file names: their links have `%2528` where the record has `%28`. Such a URL is
        looked up again with one layer of encoding less.
        """
        number = self.numbers.get(url)
        if number is None and "%25" in url:
            number = self.numbers.get(canonicalize_url(url.replace("%25", "%")) or "")
        return number

    def find(self, url: str) -> RecordedResponse | None:
        """The recorded response of a canonical URL, or None."""
        number = self.number_of(url)
        return None if number is None else self.response(number)

    def _map(self, file: int) -> mmap.mmap:
        found = self._maps.get(file)
        if found is None:
            found = self._maps[file] = _map_file(self.folder / self._index.files[file])
        return found


def warc_files(folder: Path) -> list[Path]:
    """The WARC files of a web, by name."""
    if not folder.is_dir():
        raise OfflineWebError(f"{folder}: no such folder; a web is a folder with *.warc.gz files")
    files = sorted(p for p in folder.glob("*.warc.gz") if p.stat().st_size)
    if not files:
        plain = next((f"; {path.name} is {_UNCOMPRESSED_MESSAGE}" for path in _uncompressed_files(folder)), "")
        raise OfflineWebError(f"{folder}: no *.warc.gz file with anything in it; a web needs at least one{plain}")
    return files


def _uncompressed_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.warc"))


def _files_digest(folder: Path, files: list[Path]) -> str:
    marks = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in files]
    return xxhash.xxh3_128_hexdigest(msgspec.msgpack.encode((_INDEX_FORMAT_VERSION, str(folder), marks)))


def _build_index(files: list[Path]) -> _WebIndex:
    numbers: dict[str, int] = {}
    places = [array("q"), array("q"), array("q"), array("q")]
    problems: list[LabProblem] = []
    digest = xxhash.xxh3_128()
    for file, path in enumerate(files):
        data = _map_file(path)
        digest.update(data)
        for record in _records(path, data):
            url, problem = _classify_record(path.name, record, numbers)
            if problem is not None:
                problems.append(problem)
            if url:
                numbers[url] = len(numbers)
                for column, value in zip(places, (file, record.offset, record.length, record.status), strict=True):
                    column.append(value)
    if not numbers:
        raise OfflineWebError(f"{files[0].parent}: no page in {len(files)} files: {_first_problem(problems)}")
    names = [p.name for p in files]
    file_of, offset_of, length_of, status_of = (column.tobytes() for column in places)
    return _WebIndex(names, list(numbers), file_of, offset_of, length_of, status_of, digest.hexdigest(), problems)


def _records(path: Path, data: mmap.mmap) -> list[ScannedWarcRecord]:
    try:
        return list(scan_records(data))
    except OfflineWebError as error:
        raise OfflineWebError(f"{path}: {error}") from error


def _classify_record(file: str, record: ScannedWarcRecord, known: dict[str, int]) -> tuple[str, LabProblem | None]:
    """The canonical URL of a record that is a page, or what is wrong with it (both empty: a record to ignore)."""
    if record.kind == "damaged":
        return "", LabProblem("damaged", file, f"{record.detail}; the other records are used")
    if record.kind == "revisit":
        return "", LabProblem("revisit", record.url, "a revisit record holds no content; skipped")
    if record.kind not in ("response", "resource") or (record.kind == "response" and not record.is_http):
        return "", None
    url = canonicalize_url(record.url)
    if url is None:
        return "", LabProblem("address", record.url or file, "not an http(s) URL; skipped")
    if url in known:
        return "", LabProblem("duplicate", url, "recorded more than once; the first record is used")
    return url, None


def _first_problem(problems: list[LabProblem]) -> str:
    return str(problems[0]) if problems else "they contain no response record"


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _int_view(data: bytes) -> memoryview:
    return memoryview(data).cast("q")


class ResponseSource(Protocol):
    """Responses by canonical URL; None if there is no page."""

    @property
    def hosts(self) -> Mapping[str, int]: ...

    def find(self, url: str) -> RecordedResponse | None: ...
