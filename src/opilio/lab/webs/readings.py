"""The words of a web's pages, cached beside the parsed pages: a run looks its token vectors up.

The cache key is the content of the web, the code that reads, and the options that it depends on. Terms are stable
hashes; one word of each is stored so that a table can still be shown in words. The first time uses several processes.
"""

import mmap
from array import array
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec
import numpy as np
import xxhash

from opilio.core.records import Page, Reading
from opilio.core.settings import Settings
from opilio.engine.wiring.assembly import build_page_reader
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.resources import is_complete, load_cached, map_ordered, prune, save_cached, write_atomically
from opilio.lab.webs.web import WarcWeb
from opilio.text.term_arrays import TermList, term_array
from opilio.text.vocabulary import Vocabulary
from opilio.topic.setup import build_vocabulary

_FORMAT_VERSION = 1
_MAX_CACHED_VERSIONS = 6  # made by different code or options
_CHUNK_PAGES = 250
_MIN_PAGES_FOR_POOL = 400  # as for parsing


class _PackedReading(msgspec.Struct, array_like=True):
    """A reading without its page; arrays as raw bytes."""

    terms: bytes
    anchors: bytes
    arounds: bytes
    main: bytes
    language: str
    fingerprint: int
    simhash: int


class _ReadingsChunk(msgspec.Struct):
    packed: bytes
    sizes: list[int]
    words: dict[int, str]


class _ReadingsIndex(msgspec.Struct):
    offsets: bytes
    words: dict[int, str]  # some word of every term


class Readings:
    """Readings of the pages of one web under one set of options; a page without one is read again."""

    def __init__(self, web: WarcWeb, kept: _ReadingsIndex, packed: mmap.mmap) -> None:
        self._web = web
        self._offsets = memoryview(kept.offsets).cast("q")
        self._words = kept.words
        self._packed = packed

    @classmethod
    def open(cls, web: WarcWeb, pages: ParsedPages, settings: Settings, processes: int = 2) -> "Readings":
        """The readings under these settings, from the cache or by reading every page."""
        folder = pages.folder / f"read-{reading_version(settings)}"
        kept = load_cached(folder / "index", _ReadingsIndex)
        if kept is None or not is_complete(folder / "packed", memoryview(kept.offsets).cast("q")[-1] + 1):
            kept = _read_all(web, pages, settings, folder, processes)
        # Opened now, so that a later removal of the folder does no harm.
        with (folder / "packed").open("rb") as file:
            packed = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        prune(folder, "read-*", _MAX_CACHED_VERSIONS)
        return cls(web, kept, packed)

    def reader(self, settings: Settings, vocabulary: Vocabulary) -> Callable[[Page], Reading]:
        """A reader that looks up the pages of the web, and adds their words to the vocabulary."""
        vocabulary.set_word_source(lambda term: self._words.get(term, ""))
        anew = build_page_reader(settings, vocabulary)

        def read(page: Page) -> Reading:
            number = self._web.number_of(page.url)
            begin, end = (0, 0) if number is None else (self._offsets[number], self._offsets[number + 1])
            return _decode_reading(page, self._packed[begin:end]) if end > begin else anew(page)

        return read


def reading_version(settings: Settings) -> str:
    """A digest of the code that reads, its libraries, and the options that it depends on."""
    topic = settings.topic
    words = (topic.language, topic.normaliser, topic.phrases)
    options = (_FORMAT_VERSION, *words, topic.around, topic.identify, settings.seen.near)
    digest = xxhash.xxh3_64(msgspec.msgpack.encode((options, version("PyStemmer"), version("numpy"))))
    root = files("opilio")
    text_files = [f for f in root.joinpath("text").iterdir() if f.name.endswith(".py")]
    more = [root / "dedup.py", root / "engine" / "wiring" / "assembly.py", root / "topic" / "setup.py"]
    for file in [*sorted(text_files, key=lambda f: f.name), *more]:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _read_all(web: WarcWeb, pages: ParsedPages, settings: Settings, folder: Path, processes: int) -> _ReadingsIndex:
    offsets, words = array("q", [0]), dict[int, str]()
    with write_atomically(folder / "packed") as file:
        for some in _read_chunks(web, pages, settings, processes):
            file.write(some.packed)
            words |= some.words
            for size in some.sizes:
                offsets.append(offsets[-1] + size)
        # An empty file can't be mapped.
        file.write(b"\0")
    kept = _ReadingsIndex(offsets.tobytes(), words)
    save_cached(folder / "index", kept)
    return kept


def _read_chunks(web: WarcWeb, pages: ParsedPages, settings: Settings, processes: int) -> Iterator[_ReadingsChunk]:
    ranges = [range(start, min(start + _CHUNK_PAGES, len(web))) for start in range(0, len(web), _CHUNK_PAGES)]
    if processes < 2 or len(web) < _MIN_PAGES_FOR_POOL:
        yield from (_read_chunk(pages, settings, numbers) for numbers in ranges)
        return
    encoded = msgspec.msgpack.encode(settings)
    yield from map_ordered(_read_in_process, [(pages.folder, encoded, numbers) for numbers in ranges], processes)


def _read_in_process(job: tuple[Path, bytes, range]) -> _ReadingsChunk:
    folder, settings, numbers = job
    return _read_chunk(ParsedPages.load(folder), msgspec.msgpack.decode(settings, type=Settings), numbers)


def _read_chunk(pages: ParsedPages, settings: Settings, numbers: Sequence[int]) -> _ReadingsChunk:
    vocabulary = build_vocabulary(settings)
    read = build_page_reader(settings, vocabulary)
    packed: list[bytes] = []
    for number in numbers:
        page = pages.page(number)
        packed.append(b"" if page is None else _encode_reading(read(page)))
    words = {term: vocabulary.surface_of(term) for term in set(vocabulary.values()) if term > 0}
    return _ReadingsChunk(b"".join(packed), [len(p) for p in packed], words)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_PackedReading)


def _encode_reading(reading: Reading) -> bytes:
    terms = term_array(reading.terms).tobytes()
    anchors, arounds, main = (
        np.array(s, dtype=np.int32).tobytes() for s in (reading.anchors, reading.link_contexts, reading.main_slices)
    )
    return _encoder.encode(
        _PackedReading(terms, anchors, arounds, main, reading.language, reading.fingerprint, reading.simhash)
    )


def _decode_reading(page: Page, data: bytes) -> Reading:
    kept = _decoder.decode(data)
    return Reading(
        page=page,
        terms=TermList(np.frombuffer(kept.terms, dtype=np.uint32)),
        anchors=_decode_pairs(kept.anchors),
        link_contexts=_decode_pairs(kept.arounds),
        main_slices=_decode_pairs(kept.main),
        language=kept.language,
        fingerprint=kept.fingerprint,
        simhash=kept.simhash,
    )


def _decode_pairs(data: bytes) -> list[tuple[int, int]]:
    flat = np.frombuffer(data, dtype=np.int32)
    return list(zip(flat[::2].tolist(), flat[1::2].tolist(), strict=True))
