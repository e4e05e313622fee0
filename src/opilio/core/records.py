"""Records that pass between the stages of a crawl, from the parsed page to the outcome of a visit.

They are frozen and typed, and encoded with msgspec on disk and on the wire.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum, StrEnum

import msgspec
import xxhash

# Control characters that structure `Page.flow`; the parser removes them from a page's own text.
LINK_START = "\x02"
LINK_END = "\x03"
BLOCK_BREAK = "\x04"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One link on a page. `index` is its number among the link marks of `Page.flow`."""

    url: str  # canonical, without fragment
    key: int
    # With the port unless it is the scheme's default.
    host: str
    anchor: str = ""
    # Immediate, section, main (S2: ISH, SH, MH).
    headings: tuple[str, str, str] = ("", "", "")
    tag_path: str = ""
    rel: str = ""
    index: int = 0


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed page.

    `flow` is all visible text in document order, with every link's anchor between LINK_START and LINK_END and
    BLOCK_BREAK between blocks (paragraph, list item, cell, heading), so that words, anchors and the text around links
    are found in one pass. `boilerplate` flags the blocks that are navigation and the like; the rest is the main text.
    """

    url: str  # canonical URL it was fetched from
    title: str = ""
    description: str = ""
    keywords: str = ""
    # rel=canonical, absolute and canonical; empty if absent.
    canonical: str = ""
    language: str = ""  # as declared by the page
    headings: tuple[tuple[int, str], ...] = ()  # (rank 1..6, text)
    flow: str = ""
    boilerplate: tuple[bool, ...] = ()  # one per block of `flow`
    # First and last + 1 block of each list; read for some strategies only.
    lists: tuple[tuple[int, int], ...] = ()
    links: tuple[Link, ...] = ()
    content_type: str = ""
    encoding: str = ""
    noindex: bool = False
    nofollow: bool = False
    # What the owner allows (PageSignals as JSON); empty if nothing is stated.
    signals: str = ""
    published: str = ""
    links_dropped: int = 0  # links beyond the parser's limit
    feeds: tuple[str, ...] = ()  # URLs of its feeds
    # 64 bits of the body's MD5, where copies are recognised by the body.
    body_digest: int = 0

    @property
    def main_heading(self) -> str:
        """The first heading of the highest rank, else the title."""
        return next((text for rank, text in self.headings if rank == 1), self.title)[:500]

    @property
    def text(self) -> str:
        """All visible text, one block per line."""
        return _join_blocks(self.flow.split(BLOCK_BREAK))

    @property
    def main_text(self) -> str:
        """The text without boilerplate; all text if nothing else is left."""
        blocks = self.flow.split(BLOCK_BREAK)
        kept = [b for b, boiler in zip(blocks, self.boilerplate, strict=False) if not boiler]
        return _join_blocks(kept) or _join_blocks(blocks)


def _join_blocks(blocks: list[str]) -> str:
    joined = "\n".join(b.strip() for b in blocks if b.strip())
    return joined.replace(LINK_START, "").replace(LINK_END, "")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A page with its words as stable integers (terms), computed once and used by every scorer.

    `terms` holds one term per word that is neither a stop word nor noise, in the order of `Page.flow`. `anchors[i]` and
    `link_contexts[i]` are (start, end) slices of it for link i: the anchor's words, and the words around the link
    (anchor included). `main_slices` are the slices that are not boilerplate.
    """

    page: Page
    terms: Sequence[int]
    anchors: list[tuple[int, int]]
    link_contexts: list[tuple[int, int]]
    main_slices: list[tuple[int, int]]
    language: str = ""
    fingerprint: int = 0  # 64-bit, of the normalised text (S4-15)
    simhash: int = 0  # 64-bit near-duplicate signature


# Kinds of failures.
SOFT_404, SCOPE_FAILURE, CONTENT_TYPE_FAILURE = "soft-404", "scope", "content-type"
# A worker of a cluster was too late to send the request.
NOT_SENT_FAILURE = "not-sent"
# The owner denies a purpose of `politeness.heed`.
SIGNAL_FAILURE = "signal"
# A form instead of the page. Opilio does not get past it.
CHALLENGE, LOGIN, CONSENT = "challenge", "login", "consent"


def url_key(url: str) -> int:
    """The stable 64-bit key of a canonical URL, signed so that SQLite stores it as an integer.

    >>> url_key("http://example.org/") == url_key("http://example.org/")
    True
    """
    return xxhash.xxh3_64_intdigest(url.encode("utf-8", "surrogatepass")) - (1 << 63)


class UrlState(StrEnum):
    """The state of a URL in the frontier. It is independent of the URL's score."""

    QUEUED = "queued"
    LEASED = "leased"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"


class Tier(IntEnum):
    """Groups of queued URLs: every URL of a higher tier is fetched before those of a lower one."""

    LINK = 0  # links, by their score
    # Seeds, new addresses of moved pages, and the batch that an N-best order has chosen.
    FIRST = 1
    # Moved to the front by the user, or to explore a host.
    BOOSTED = 2
    # Fetched before and requeued; its priority is the urgency of the revisit.
    REVISIT = 3


class Reason(msgspec.Struct, frozen=True):
    """One named contribution to a score, as shown by `why` and in the web interface."""

    name: str
    value: float
    weight: float = 1.0


class Failure(msgspec.Struct, frozen=True):
    """An expected failure of the web. `retry` means that a later request may succeed."""

    # dns, connect, tls, timeout, too-large, headers, redirect-loop, private-address, robots, status, ...
    kind: str
    detail: str = ""
    retry: bool = False


class FetchResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one request: a response or a typed failure.

    Redirects are not followed: the target becomes a lead of its own, so that politeness, robots.txt, the address check
    and the seen test apply to every hop.
    """

    url: str
    status: int = 0
    # The target of a 3xx response, absolute and canonical; the engine queues it as a lead.
    location: str = ""
    headers: tuple[tuple[str, str], ...] = ()  # as received
    body: bytes = b""  # decoded from its content encoding
    # Of the body, also after the body was dropped.
    size_bytes: int = 0
    address: str = ""  # IP address of the server
    started_at: float = 0.0
    elapsed_s: float = 0.0
    retry_after_s: float = 0.0
    failure: Failure | None = None
    # Why the body is incomplete: a reason of WARC-Truncated (disconnect, length, time …).
    truncated: str = ""
    # The page as HTML where the body is not: a document converted, the DOM of a browser.
    converted: bytes = b""
    # Of an archive: the gzip member of its WARC file that can be stored as it is.
    record: bytes = b""
    # Of an archive: the record, from which the analyzing process reads headers and body.
    packed: bytes = b""
    # Signals of the whole host (robots.txt, tdmrep.json) as the response headers that mean the same.
    host_signals: tuple[tuple[str, str], ...] = ()

    def header(self, name: str) -> str:
        """The last value of a header, or an empty string."""
        wanted = name.lower()
        # A loop: this runs eight times per page, and a generator takes twice as long.
        for known, value in reversed(self.headers):
            if known.lower() == wanted:
                return value
        return ""


def media_type(content_type: str) -> str:
    """The media type in a Content-Type header.

    >>> media_type("Text/HTML; charset=utf-8")
    'text/html'
    """
    return content_type.partition(";")[0].strip().lower()


class SitemapEntry(msgspec.Struct, frozen=True):
    """A page, or another sitemap, listed in a sitemap or feed; `modified_at` is 0 if unknown."""

    url: str
    modified_at: float = 0.0
    is_sitemap: bool = False


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's decision about a page."""

    score: float  # 0..1
    relevant: bool
    reasons: tuple[Reason, ...] = ()
    # By the page alone, if `score` counts its link; rankers learn from this one.
    page_score: float | None = None


# The first: a lead that no agent owns yet, for example a seed.
NO_AGENT, MAX_AGENTS = 0, 255


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A URL to fetch, as the frontier stores it."""

    url: str
    key: int
    host: str
    score: float = 0.0
    depth: int = 0  # links from the nearest seed
    # Consecutive irrelevant pages on the path to it.
    tunnel: int = 0
    # Key of the page it was found on; 0 for a seed.
    parent: int = 0
    hops: int = 0  # redirects followed to get here
    retries: int = 0
    # The ranker's data for scoring it again; opaque to the frontier.
    features: bytes = b""
    # Number of the agent that owns it, where agents share the frontier (S3).
    agent: int = NO_AGENT
    # Of a new lead: `LINK` or `FIRST`; of a leased one: the tier it was queued in.
    tier: int = Tier.LINK


class HostLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to fetch some URLs of one host until it expires. `token` rejects holders whose lease has expired."""

    host: str
    token: int
    expires_at: float
    leads: tuple[Lead, ...]
    delay_s: float


class UrlResult(msgspec.Struct, frozen=True, kw_only=True):
    """The final state of a leased URL: done, failed, dropped, or queued again (a retry)."""

    key: int
    host: str
    state: UrlState
    reason: str = ""  # for failed and dropped
    # With state QUEUED: earliest time of the retry.
    retry_at: float = 0.0


class EngineHit(msgspec.Struct, frozen=True, kw_only=True):
    """One URL in a seed engine's answer."""

    url: str
    rank: int = 1  # 1 is the first


def rank_hits(urls: Iterable[str]) -> tuple[EngineHit, ...]:
    """URLs in the order of an engine or list as hits."""
    return tuple(EngineHit(url=url, rank=rank) for rank, url in enumerate(urls, 1))


class EngineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one seed engine or list. An engine that failed half-way has both hits and a failure."""

    voter: str
    hits: tuple[EngineHit, ...] = ()
    failure: Failure | None = None
    # Above 0: a list, whose URLs have this priority and which has no vote.
    fixed_priority: int = 0

    @property
    def has_answered(self) -> bool:
        """True if the engine answered; an empty list of hits is an answer."""
        return self.failure is None or self.hits != ()


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A URL to start from; priority 1 is the highest (S0-11)."""

    url: str
    priority: int = 1
    sources: tuple[str, ...] = ()  # engines or lists that named it
    # Genre of the query that found it (S3-02); empty: any.
    genre: str = ""


class LinkColumns(msgspec.Struct, frozen=True, kw_only=True):
    """All ranked links of one page as columns, which are cheap to send, store and search.

    `scores` is float32, `parts` float32 of shape (links, len(names)), `keys` int64, as raw bytes.
    """

    urls: list[str]
    hosts: list[str]
    anchors: list[str]
    keys: bytes
    scores: bytes
    names: list[str]
    parts: bytes
    # Index of a link -> why it is not followed.
    dropped: dict[int, str]
    # One per link when the ranker learns, else empty.
    features: list[bytes] = []


class AgentAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's verdict on a page, and the links as it ranks them (LinkColumns, encoded)."""

    agent: int
    verdict: Verdict
    links: bytes = b""
    # The agent's analysis failed; the other fields are not valid.
    error: str = ""


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """The result of analysing one response: everything except the body, ready to send to another process."""

    title: str = ""
    heading: str = ""  # the main heading, else the title
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
    signals: str = ""
    # Why the text is incomplete; see FetchResult.
    truncated: str = ""
    rendered: bool = False  # made of the DOM of a browser
    # Next to no text, but a script that may bring it.
    needs_browser: bool = False
    verdict: Verdict | None = None
    links: bytes = b""  # LinkColumns, encoded: stored as it is
    # Stems of a relevant page, which expand the topic's table.
    counts: tuple[tuple[str, int], ...] = ()
    # The displayed form of each stem (S0-E4).
    surfaces: tuple[str, ...] = ()
    # The page's most distinctive terms (uint32), which train a learning judge.
    sample_terms: bytes = b""
    # Hashes of its host and of blocks that its site may repeat (uint64).
    site_blocks: bytes = b""
    # The gzip member to append to the WARC file.
    warc_record: bytes = b""
    # If it was packed: the response without its body.
    response: FetchResult | None = None
    copies_record: bool = False  # the packed record is the one to append
    sitemap_entries: tuple[SitemapEntry, ...] = ()  # of a sitemap or feed
    feeds: tuple[str, ...] = ()  # feeds that the page links
    # A typed failure of parsing, or a skipped content type.
    failure: Failure | None = None
    # Of several agents; `verdict` is the best of theirs.
    agent_analyses: tuple[AgentAnalysis, ...] = ()


class PageChange(StrEnum):
    """What a visit means for a page that is stored already; NEW if it is not stored."""

    NEW = "new"
    UNCHANGED = "unchanged"
    # Different main text: the stored version becomes a past version.
    CHANGED = "changed"
    # Checked once more before the page is removed (S1-06).
    MISSING_ONCE = "struck"
    GONE = "gone"  # missing at two visits
    MOVED = "moved"  # permanent redirect
    UNKNOWN = "unknown"  # no usable response


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one visit."""

    lead: Lead
    fetched: FetchResult  # without the body
    analysis: Analysis | None = None
    # Key of the page whose text this one repeats.
    duplicate_of: int = 0
    near_duplicate: bool = False
    change: PageChange = PageChange.NEW

    @property
    def relevant(self) -> bool:
        """Does it bring a relevant page? The text of a copy was counted before."""
        verdict = self.analysis.verdict if self.analysis is not None else None
        return verdict is not None and verdict.relevant and not self.duplicate_of
