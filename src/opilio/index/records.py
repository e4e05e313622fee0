"""What goes into an index and what a search gives back. Plain values: nothing here opens a file.

Text of the web that is meant for showing comes as `Segment`s, cleaned of control characters and overrides of the
writing direction, never as markup: whoever shows them escapes them.
"""

from collections.abc import Sequence

import msgspec

FOREVER = (1 << 62) - 1  # `until` of a page that is still what the web shows
PAGE_SIZE = 10
SORTS = ("best", "relevance", "newest")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A page as the index takes it."""

    key: int
    seq: int  # the commit that stored it: tells a newer version from an older one
    url: str
    host: str
    title: str = ""
    description: str = ""
    headings: str = ""
    body: str = ""  # the main text, blocks on lines of their own
    anchors: tuple[str, ...] = ()  # texts of links that point to it
    parents: int = 0  # how many pages those come from
    targets: bytes = b""  # keys of the pages it links to, int64
    language: str = ""
    genre: str = ""
    score: float = 0.0  # the judge's
    relevant: bool = False
    date: float = 0.0  # its own date where it tells one, else when it was fetched
    fetched_at: float = 0.0
    until: int = FOREVER  # when this version was replaced, in seconds since 1970


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """What hits must be like. Several values of one kind mean any of them; different kinds must all hold."""

    hosts: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    genres: tuple[str, ...] = ()
    bands: tuple[str, ...] = ()  # names of `BANDS`
    subtopics: tuple[str, ...] = ()  # by name
    years: tuple[str, ...] = ()
    collections: tuple[str, ...] = ()  # by the folder's name
    relevant: bool | None = None
    after: str = ""  # ISO date, of the page's own date
    before: str = ""
    at: float | None = None  # the state of the collection at this moment (seconds since 1970)


class Segment(msgspec.Struct, frozen=True):
    """A piece of text; `marked` where it matches the query."""

    text: str
    marked: bool = False


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One page that was found."""

    url: str
    key: int
    host: str
    title: tuple[Segment, ...]
    snippet: tuple[Segment, ...]
    collections: tuple[str, ...]  # names of those that hold it
    language: str = ""
    genre: str = ""
    subtopic: str = ""
    band: str = ""
    relevance: float = 0.0  # the judge's score
    relevant: bool = False
    authority: float = 0.0  # 0..1, of the link graph
    date: float = 0.0
    fetched_at: float = 0.0
    score: float = 0.0  # what the order is made by
    text_score: float = 0.0  # the part of the words alone (BM25)


class FacetValue(msgspec.Struct, frozen=True):
    value: str  # what a filter takes
    count: int
    chosen: bool = False


class Facet(msgspec.Struct, frozen=True):
    """How the hits divide by one property. `name` is the field of `Filters`."""

    name: str
    values: tuple[FacetValue, ...]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """One page of hits."""

    query: str
    total: int
    page: int
    pages: int
    size: int
    hits: tuple[Hit, ...]
    facets: tuple[Facet, ...] = ()
    suggestion: str = ""  # a better spelling of the whole query; empty where there is none
    notes: tuple[str, ...] = ()  # what a person should know of how the query was understood
    took_s: float = 0.0


class Subtopic(msgspec.Struct, frozen=True, kw_only=True):
    """Relevant pages that belong together (S0-F1). Browse it with `Filters(subtopics=(name,))`."""

    name: str
    words: tuple[str, ...]
    pages: int
    collection: str = ""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a catching up has come."""

    indexed: int = 0  # documents written by this call
    removed: int = 0
    waiting: int = 0  # pages of the collection that the index has not taken in yet
    busy: bool = False  # another process is writing the index: it catches up, this one only reads
    read_only: bool = False  # the index can't be written here: what waits goes on waiting

    @staticmethod
    def summed(of: "Sequence[Progress]") -> "Progress":
        """How far several indexes have come together."""
        return Progress(
            indexed=sum(p.indexed for p in of),
            removed=sum(p.removed for p in of),
            waiting=sum(p.waiting for p in of),
            busy=any(p.busy for p in of),
            read_only=any(p.read_only for p in of),
        )


# Bands of the judge's score, best first: (name, lower bound).
BANDS = (("very high", 0.8), ("high", 0.6), ("medium", 0.4), ("low", 0.2), ("very low", 0.0))


def band_of(score: float) -> str:
    """The name of a score's band.

    >>> band_of(0.85), band_of(0.0)
    ('very high', 'very low')
    """
    return next((name for name, bound in BANDS if score >= bound), BANDS[-1][0])
