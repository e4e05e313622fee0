"""A page as weighted terms: its main text with title and description, without text that its site repeats.

"tfidf" are the papers' weights (X-03, X-14), with counts instead of tf, since cosine ignores a common factor. "damped",
the default, is ln(1 + count): a page that repeats one word is not only about it, and the topic's table already contains
the idf. Measured on 13 topics of a school encyclopedia with all their on-topic seed sets (tables from keywords,
sentence and three seed pages), mean average precision: count·idf .66, count .69, ln·idf .74, ln .76. This is one web,
and the one the weights were chosen on. Arrays take half the time of dictionaries.

The topic's table must not learn text that a site repeats on its pages, such as notices and slogans. The parser
recognizes most navigation by its markup. What is left is found by repetition: a block at the start or end of the main
text that is on at least half of the pages of one host. Only whole blocks count, so a word that a site uses in all its
articles stays. The writing process counts blocks; workers get the hashes of those to leave out. The judge counts all
text: a site about the topic may name it on every page (measured in docs/lab/judge.md).
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Literal

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest
from opilio.core.protocols import BaseLearner
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START, Outcome, Page, Reading
from opilio.core.urls import host_of
from opilio.text.reading import main_terms
from opilio.text.term_arrays import Terms, count_distinct, term_array
from opilio.text.vocabulary import term_id
from opilio.topic.topic import ExamplePage

Values = NDArray[np.float64]
TermsOf = Callable[[str], Sequence[int]]
Idf = Callable[[Terms], Values]
Translate = Callable[[Terms, str], Terms]
"""Replaces words of a language that mean a word of the topic by that word."""
TermWeighting = Literal["damped", "tfidf"]


def flat_idf(terms: Terms) -> Values:
    """The same idf for all terms, for use without a background corpus."""
    return np.ones(terms.shape)


class PageTerms:
    """Counts and weights the words of pages. `title` and `description` are how often a word there counts."""

    def __init__(
        self,
        terms_of: TermsOf,
        idf: Idf = flat_idf,
        title: int = 3,
        description: int = 1,
        weights: TermWeighting = "damped",
        translate: Translate | None = None,
    ) -> None:
        self.idf = idf
        self.weights = weights
        self._translate = translate
        self._terms_of = terms_of
        self._title = title
        self._description = description
        self._last_counts: tuple[Reading, Terms, Values] | None = None

    def with_weighting(self, weights: TermWeighting) -> "PageTerms":
        """A copy with other weights."""
        return PageTerms(self._terms_of, self.idf, self._title, self._description, weights, self._translate)

    def terms(self, text: str) -> Sequence[int]:
        """The terms of a text."""
        return self._terms_of(text)

    def counts(self, reading: Reading) -> tuple[Terms, Values]:
        """The distinct terms and counts of main text (all text if nothing else is left), title and description."""
        # Cached because several judges need the same page.
        if self._last_counts is None or self._last_counts[0] is not reading:
            self._last_counts = reading, *self._count(reading)
        return self._last_counts[1:]

    def example_counts(self, example: ExamplePage) -> tuple[Terms, Values]:
        """The distinct terms and counts of an example page."""
        if isinstance(example, str):
            distinct, counts = count_distinct(term_array(self._terms_of(example)))
        else:
            distinct, counts = term_array([*map(term_id, example)]), np.array([*example.values()])
        return distinct, counts.astype(np.float64)

    def _count(self, reading: Reading) -> tuple[Terms, Values]:
        page = reading.page
        texts = [main_terms(reading)]
        for text, times in ((page.title, self._title), (page.description, self._description)):
            if text and times:
                terms = term_array(self._terms_of(text))
                texts += [self._translate(terms, reading.language) if self._translate else terms] * times
        distinct, counts = count_distinct(np.concatenate(texts))
        return distinct, counts.astype(np.float64)

    def weighted_terms(self, reading: Reading) -> tuple[Terms, Values]:
        """The distinct terms with their weights."""
        terms, counts = self.counts(reading)
        return terms, self.weights_for(terms, counts)

    def weights_for(self, terms: Terms, counts: Values) -> Values:
        """The weights of terms with these counts on a page."""
        return np.log1p(counts) if self.weights == "damped" else counts * self.idf(terms)


class CachedIdf:
    """A direct-mapped cache of idf values in arrays, in front of a function for single terms.

    The 650 distinct words of an average page take 18 µs once cached, against 80 µs with a dictionary lookup each.
    """

    def __init__(self, idf: Callable[[int], float], slots: int = 1 << 18) -> None:
        if slots < 1 or slots & (slots - 1):
            raise ValueError(f"slots must be a power of two, not {slots}")
        self._idf = idf
        self._mask = np.uint32(slots - 1)
        # 0 is not a term.
        self._terms = np.zeros(slots, dtype=np.uint32)
        self._values = np.zeros(slots)

    def __call__(self, terms: NDArray[np.uint32]) -> NDArray[np.float64]:
        """The idf of each term."""
        slots = terms & self._mask
        values: NDArray[np.float64] = self._values.take(slots)
        missed = (self._terms.take(slots) != terms).nonzero()[0]
        if missed.size:
            values[missed] = [self._idf(term) for term in terms[missed].tolist()]
            self._terms[slots[missed]] = terms[missed]
            self._values[slots[missed]] = values[missed]
        return values


SITE_TEXT_STATE = "site text"  # name of the state among the snapshots
# Blocks at each end of the main text that may be site text.
EDGE_BLOCKS = 12
MAX_BLOCK_CHARS = 1_000  # longer blocks are articles
# Pages of a host before anything of it is left out.
MIN_SITE_PAGES = 8
MIN_SITE_SHARE = 0.5  # of a host's pages that have the block
# Blocks on fewer pages are not counted further.
MIN_COUNTED_SHARE = 0.2
# Hosts are decided at 8, 16 and 32 pages, and then after every 16 pages.
COUNTED_PAGES = 32
MAX_COUNTED_HOSTS = 500
MAX_SITE_BLOCKS = 8_192  # of all hosts; sent to the workers
# Examples of one host that must share a text.
MIN_EXAMPLE_PAGES = 2
MAX_CACHED_BLOCKS = 2_048
_TITLE_SEPARATOR = re.compile(r"(?<!\s)\s++[-|\u2013\u2014\u00b7\u00bb\u2022:]++\s++")
_MARKS_TO_SPACES = str.maketrans(dict.fromkeys((LINK_START, LINK_END), " "))


def edge_blocks(page: Page) -> list[str]:
    """The blocks of a page that may be site text, each once."""
    blocks, skipped = page.flow.split(BLOCK_BREAK), page.boilerplate
    places = range(min(len(blocks), len(skipped)))
    # Only the ends of a long page are read, which takes a third of the time of all blocks.
    ends = [islice((blocks[i] for i in side if not skipped[i]), EDGE_BLOCKS) for side in (places, reversed(places))]
    return [block for block in dict.fromkeys(chain(*ends)) if 0 < len(block) <= MAX_BLOCK_CHARS]


def shown_text(block: str) -> str:
    """The text of a block without marks, on one line."""
    return " ".join(block.translate(_MARKS_TO_SPACES).split())


def example_texts(pages: Sequence[Page]) -> tuple[str, ...]:
    """Title and main text of example pages, without parts that at least half of the examples of a host share."""
    pages_of_host = Counter(host_of(page.url) for page in pages)
    parts_of = [{*_TITLE_SEPARATOR.split(page.title), *edge_blocks(page)} for page in pages]
    common = Counter((host_of(page.url), part) for page, parts in zip(pages, parts_of, strict=True) for part in parts)
    texts = []
    for page, parts in zip(pages, parts_of, strict=True):
        host = host_of(page.url)
        least = max(MIN_EXAMPLE_PAGES, MIN_SITE_SHARE * pages_of_host[host])
        shared = {part for part in parts if common[host, part] >= least}
        title = " ".join(part for part in _TITLE_SEPARATOR.split(page.title) if part not in shared)
        blocks = zip(page.flow.split(BLOCK_BREAK), page.boilerplate, strict=False)
        kept = [shown_text(block) for block, skipped in blocks if not skipped and block not in shared]
        text = "\n".join(filter(None, kept))
        texts.append(f"{title}\n{text}" if text else f"{page.title}\n{page.main_text}")
    return tuple(texts)


class _HostBlocks(msgspec.Struct, array_like=True):
    """How many pages of a host were counted, on how many of them each block is, and which blocks are left out."""

    pages: int = 0
    counts: dict[int, int] = {}
    left_out: list[int] = []

    def decide(self) -> bool:
        """Choose the blocks to leave out; True if they changed. Counts are halved so that a new design counts soon."""
        before = self.left_out
        self.left_out = sorted(block for block, n in self.counts.items() if n >= MIN_SITE_SHARE * self.pages)
        kept = {block: n for block, n in self.counts.items() if n >= MIN_COUNTED_SHARE * self.pages}
        if self.pages >= COUNTED_PAGES:
            self.pages //= 2
            kept = {block: n // 2 for block, n in kept.items()}
        self.counts = kept
        return self.left_out != before


class _SiteTextState(msgspec.Struct, array_like=True):
    version: int
    left_out: bytes
    hosts: dict[int, _HostBlocks] = {}


class SiteText(BaseLearner):
    """Learns the site text of hosts, and finds it on pages."""

    def __init__(self, terms_of: Callable[[str], Sequence[int]]) -> None:
        self.version = 0
        self._find_terms = terms_of
        self._hosts: dict[int, _HostBlocks] = {}
        self._left_out: frozenset[int] = frozenset()
        self._known_terms: dict[str, Sequence[int]] = {}
        self._last_hashed: tuple[Page, list[str], list[int]] | None = None

    @property
    def block_count(self) -> int:
        """The number of blocks that are left out, of all hosts."""
        return len(self._left_out)

    def blocks_of(self, page: Page) -> list[str]:
        """The blocks of a page that are site text."""
        if not self._left_out:
            return []
        blocks, hashes = self._hashed_blocks(page)
        return [block for block, number in zip(blocks, hashes, strict=True) if number in self._left_out]

    def terms_of(self, block: str) -> Sequence[int]:
        """The terms of a block, in order."""
        if block not in self._known_terms:
            self._known_terms[block] = self._find_terms(shown_text(block))
            evict_oldest(self._known_terms, MAX_CACHED_BLOCKS)
        return self._known_terms[block]

    def sample(self, page: Page) -> bytes:
        """What the writing process learns from: the hash of the host, and those of the blocks (uint64)."""
        return np.array([_host_hash(page), *self._hashed_blocks(page)[1]], dtype=np.uint64).tobytes()

    def _hashed_blocks(self, page: Page) -> tuple[list[str], list[int]]:
        # Cached because it is needed twice per page: to find site text on it, and to learn from it.
        if self._last_hashed is None or self._last_hashed[0] is not page:
            blocks, seed = edge_blocks(page), _host_hash(page)
            hashes = [xxhash.xxh3_64_intdigest(block.encode("utf-8", "replace"), seed) for block in blocks]
            self._last_hashed = page, blocks, hashes
        return self._last_hashed[1:]

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The samples of new pages."""
        analyses = [outcome.analysis for outcome in outcomes if not outcome.duplicate_of]
        samples = [analysis.site_blocks for analysis in analyses if analysis and analysis.site_blocks]
        return msgspec.msgpack.encode(samples) if samples else b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Count the blocks of pages; decide about a host when it has enough of them."""
        changed = False
        for sample in msgspec.msgpack.decode(lesson, type=list[bytes]) if lesson else ():
            host, *blocks = np.frombuffer(sample, dtype=np.uint64).tolist()
            # Reinserted, so that the hosts without new pages are evicted first.
            known = self._hosts[host] = self._hosts.pop(host) if host in self._hosts else _HostBlocks()
            evict_oldest(self._hosts, MAX_COUNTED_HOSTS)
            known.pages += 1
            for block in blocks:
                known.counts[block] = known.counts.get(block, 0) + 1
            if known.pages >= MIN_SITE_PAGES and known.pages & (known.pages - 1) == 0:
                changed |= known.decide()
        if changed:
            newest = [block for known in reversed(self._hosts.values()) for block in known.left_out]
            self._left_out = frozenset(newest[:MAX_SITE_BLOCKS])
            self.version += 1

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_SiteTextState(self.version, self._packed(), self._hosts))

    def worker_state(self) -> bytes:
        """The hashes of what is left out."""
        return msgspec.msgpack.encode(_SiteTextState(self.version, self._packed()))

    def _packed(self) -> bytes:
        return np.array(sorted(self._left_out), dtype=np.uint64).tobytes()

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_SiteTextState)
        self.version, self._hosts = kept.version, kept.hosts
        self._left_out = frozenset(np.frombuffer(kept.left_out, dtype=np.uint64).tolist())


def _host_hash(page: Page) -> int:
    return xxhash.xxh32_intdigest(host_of(page.url).encode("utf-8", "replace"))
