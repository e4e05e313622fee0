"""A parsed page: its text with marks, its links, and its words as integers."""

from collections.abc import Sequence

import msgspec

# Control characters that structure `Page.flow`; the parser removes them from a page's own text.
LINK_START = "\x02"
LINK_END = "\x03"
BLOCK_BREAK = "\x04"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """One link on a page. `index` is its number among the link marks of `Page.flow`."""

    url: str  # canonical, without fragment
    key: int
    host: str  # with the port unless it is the scheme's default
    anchor: str = ""
    headings: tuple[str, str, str] = ("", "", "")  # immediate, section, main (S2: ISH, SH, MH)
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
    canonical: str = ""  # rel=canonical, absolute and canonical; empty if absent
    language: str = ""  # as declared by the page
    headings: tuple[tuple[int, str], ...] = ()  # (rank 1..6, text)
    flow: str = ""
    boilerplate: tuple[bool, ...] = ()  # one per block of `flow`
    lists: tuple[tuple[int, int], ...] = ()  # first and last + 1 block of each list; read for some strategies only
    links: tuple[Link, ...] = ()
    content_type: str = ""
    encoding: str = ""
    noindex: bool = False
    nofollow: bool = False
    signals: str = ""  # what the owner allows (PageSignals as JSON); empty if nothing is stated
    published: str = ""
    links_dropped: int = 0  # links beyond the parser's limit
    feeds: tuple[str, ...] = ()  # URLs of its feeds
    body_digest: int = 0  # 64 bits of the body's MD5, where copies are recognised by the body

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
