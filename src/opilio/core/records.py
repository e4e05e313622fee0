"""The records that pass between the stages: frozen, slotted, typed, encoded by msgspec at disk and wire.

Whose URL it is: the first byte of a lead's features names its agent. Pure.

Features are opaque to the frontier and follow the better link when two are merged, so a URL belongs to the agent that
promises most for it, and neither frontier nor schema know of agents. No features at all: nobody's yet (a seed).
"""

from enum import StrEnum

import msgspec
import xxhash

SOFT_404 = "soft-404"


# Control characters that structure `Page.flow`; the parser removes them from the page's own text.
LINK_START = "\x02"
LINK_END = "\x03"
BLOCK_BREAK = "\x04"


def url_key(url: str) -> int:
    """The stable 64-bit key of a canonical URL, signed so that SQLite stores it in eight bytes.

    >>> url_key("http://example.org/") == url_key("http://example.org/")
    True
    """
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "surrogatepass")) - (1 << 63)


class UrlState(StrEnum):
    """Where a URL stands. State and score are separate: a score never carries state."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


class Reason(msgspec.Struct, frozen=True):
    """One named contribution to a score: what `why` and the pages show."""

    name: str
    value: float
    weight: float = 1.0


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One link as it stands on a page. `index` is its number among the link marks of `Page.flow`."""

    url: str  # canonical, without fragment
    key: int
    host: str  # host, with the port when it is not the scheme's own
    anchor: str = ""
    headings: tuple[str, str, str] = ("", "", "")  # immediate, section, main (S2: ISH, SH, MH)
    tag_path: str = ""
    rel: str = ""
    index: int = 0


class Failure(msgspec.Struct, frozen=True):
    """An expected failure of the web. `retry` says that asking again later may help."""

    # dns, connect, tls, timeout, too-large, headers, redirect-loop, private-address, robots, status, ...
    kind: str
    detail: str = ""
    retry: bool = False


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one request: an answer of the server or a typed failure.

    A redirect is an answer, not something the fetcher follows: its target becomes a lead of its own, so
    that politeness, robots.txt, the address check and the seen test hold for every hop by construction.
    """

    url: str
    status: int = 0
    # Where a 3xx answer points, absolute and canonical; the engine queues it as a lead
    location: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # as received
    body: bytes = b""  # decoded from its content encoding
    size_bytes: int = 0  # of the body, also when the body itself is no longer carried
    address: str = ""  # IP address that answered
    started_at: float = 0.0
    elapsed_s: float = 0.0
    retry_after_s: float = 0.0
    failure: Failure | None = None

    def header(self, name: str) -> str:
        """The last value of a header, or an empty string."""
        wanted = name.lower()
        # A loop: asked eight times a page, a generator takes twice as long
        for known, value in reversed(self.headers):
            if known.lower() == wanted:
                return value
        return ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed page.

    `flow` is all visible text in document order, with every link's anchor between LINK_OPENS and
    LINK_CLOSES and BLOCK_BREAK between blocks (paragraph, list item, cell, heading). Words, anchors and
    the text around links are then found in one pass over one string. `boilerplate` tells, block by block,
    which blocks are navigation and the like; the main text is the rest.
    """

    url: str  # canonical address it was got from
    title: str = ""
    description: str = ""
    keywords: str = ""
    canonical: str = ""  # rel=canonical, made absolute and canonical; empty when absent
    language: str = ""  # as declared; the judge may detect
    headings: tuple[tuple[int, str], ...] = ()  # (rank 1..6, text)
    flow: str = ""
    boilerplate: tuple[bool, ...] = ()  # one per block of `flow`
    links: tuple[Link, ...] = ()
    content_type: str = ""
    encoding: str = ""
    noindex: bool = False
    nofollow: bool = False
    published: str = ""
    links_dropped: int = 0  # links beyond the parser's bound
    feeds: tuple[str, ...] = ()  # addresses of its feeds

    @property
    def main_heading(self) -> str:
        """The first heading of the highest rank, else the title."""
        return next((text for rank, text in self.headings if rank == 1), self.title)[:500]

    @property
    def text(self) -> str:
        """All visible text, blocks on lines of their own."""
        return _join_blocks(self.flow.split(BLOCK_BREAK))

    @property
    def main_text(self) -> str:
        """The text without navigation and other boiler-plate; all of it where nothing else is left."""
        blocks = self.flow.split(BLOCK_BREAK)
        kept = [b for b, boiler in zip(blocks, self.boilerplate, strict=False) if not boiler]
        return _join_blocks(kept) or _join_blocks(blocks)


def _join_blocks(blocks: list[str]) -> str:
    joined = "\n".join(b.strip() for b in blocks if b.strip())
    return joined.replace(LINK_START, "").replace(LINK_END, "")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A page with its words as stable integers (terms), computed once and shared by every scorer.

    `terms` holds one term per word that is neither a stop word nor noise, in the order of `Page.flow`.
    `anchors[i]` and `arounds[i]` are (start, end) slices of it for link i: the anchor's own words, and the
    words between its break points (anchor included). `main` are the slices that are not boiler-plate.
    """

    page: Page
    terms: list[int]
    anchors: list[tuple[int, int]]
    link_contexts: list[tuple[int, int]]
    main_slices: list[tuple[int, int]]
    language: str = ""
    fingerprint: int = 0  # 64-bit, of the normalised text (S4-15)
    simhash: int = 0  # 64-bit near-duplicate signature


class SitemapEntry(msgspec.Struct, frozen=True):
    """A page, or another sitemap (`index`), that a sitemap or feed tells of; `at`: its last change, 0: not said."""

    url: str
    modified_at: float = 0.0
    is_sitemap: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Is the page on topic?"""

    score: float  # 0..1
    relevant: bool
    reasons: tuple[Reason, ...] = ()


class ScoredLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link with how promising it is, and the parts of that score by name."""

    link: Link
    score: float
    parts: tuple[Reason, ...] = ()
    dropped: str = ""  # why the ranker would not follow it (below the threshold, nofollow, ...)
    # Handed on to Lead.features: what the ranker wants back with the page itself
    features: bytes = b""


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A URL worth asking for, as the frontier holds it."""

    url: str
    key: int
    host: str
    score: float = 0.0
    depth: int = 0  # links from the nearest seed
    tunnel: int = 0  # irrelevant pages in a row on the way here
    parent: int = 0  # key of the page it was found on; 0 for a seed
    hops: int = 0  # redirects followed to get here
    retries: int = 0
    features: bytes = b""  # what a learning ranker needs to score it again; opaque to the frontier
    # Above 0: ask for a known URL soon, once more if it is done or failed; the more, the sooner
    revisit_priority: float = 0.0


class HostLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to ask one host for some URLs, until it expires. `token` fences whoever wakes too late."""

    host: str
    token: int
    expires_at: float
    leads: tuple[Lead, ...]
    delay_s: float


class UrlResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one leased URL ended: done, failed, dropped, or back in the queue (a retry)."""

    key: int
    host: str
    state: UrlState
    reason: str = ""  # for failed and dropped
    retry_at: float = 0.0  # with state QUEUED: not before this time


class EngineHit(msgspec.Struct, frozen=True, kw_only=True):
    """One address in an engine's answer to a query."""

    url: str
    rank: int = 1  # 1 is the first


class EngineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one engine (or list) answered to a query. One that failed half-way has both hits and a failure."""

    voter: str
    hits: tuple[EngineHit, ...] = ()
    failure: Failure | None = None
    # Above 0: a list, whose addresses have this priority and which has no vote
    fixed_priority: int = 0

    @property
    def has_answered(self) -> bool:
        """Does it count among those that answered? An empty list of hits is an answer."""
        return self.failure is None or self.hits != ()


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A place to begin: priority 1 is the highest (S0-11)."""

    url: str
    priority: int = 1
    sources: tuple[str, ...] = ()  # who named it
    genre: str = ""  # of the query that brought it (S3-02); empty for the web at large


class LinkColumns(msgspec.Struct, frozen=True, kw_only=True):
    """All ranked links of one page, column by column: cheap to send, to store and to search.

    `scores` is float32, `parts` float32 of shape (links, len(names)), `keys` int64, as raw bytes.
    """

    urls: list[str]
    hosts: list[str]
    anchors: list[str]
    keys: bytes
    scores: bytes
    names: list[str]
    parts: bytes
    dropped: dict[int, str]  # index -> why it is not followed
    features: list[bytes] = []  # one per link when the ranker learns, else empty


class AgentAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent thinks of a page: its verdict, and its links as it ranks them (LinkColumns, encoded)."""

    agent: int
    verdict: Verdict
    links: bytes = b""
    error: str = ""  # its mind broke: nothing else in here counts


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """What thinking about one answer produced: everything but the body, ready to cross a process boundary."""

    title: str = ""
    heading: str = ""  # the main one, else the title
    description: str = ""
    keywords: str = ""
    canonical: str = ""
    language: str = ""
    content_type: str = ""
    encoding: str = ""
    genre: str = ""
    words: int = 0
    fingerprint: int = 0
    simhash: int = 0
    noindex: bool = False
    verdict: Verdict | None = None
    links: bytes = b""  # LinkColumns, encoded: stored as it is
    # Stems of a relevant page with their counts: feeds table expansion
    counts: tuple[tuple[str, int], ...] = ()
    surfaces: tuple[str, ...] = ()  # how each of those stems was written, for showing (S0-E4)
    # The page's most telling terms (uint32): what a learning judge is taught with
    sample_terms: bytes = b""
    warc_record: bytes = b""  # the gzip member to append to the WARC file
    sitemap_entries: tuple[SitemapEntry, ...] = ()  # of a sitemap or feed, which is no page
    feeds: tuple[str, ...] = ()  # that the page names
    failure: Failure | None = None  # a typed failure of parsing, or a skipped content type
    # Of every agent that looked, where more than one did; `verdict` is the best
    agent_analyses: tuple[AgentAnalysis, ...] = ()


class PageChange(StrEnum):
    """What a visit means for a page that is stored already; NEW where none is."""

    NEW = "new"
    UNCHANGED = "unchanged"
    CHANGED = "changed"  # another main text: the older version becomes history
    # Not there, for the first time: looked at once more before it goes (S1-06)
    MISSING_ONCE = "struck"
    GONE = "gone"  # not there, and has not been for a while
    MOVED = "moved"  # redirects for good
    UNKNOWN = "unknown"  # no answer that says anything


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one visit produced: the unit of work."""

    lead: Lead
    fetched: FetchResult  # without the body
    analysis: Analysis | None = None
    duplicate_of: int = 0  # key of the page whose text this one repeats
    near_duplicate: bool = False
    change: PageChange = PageChange.NEW
