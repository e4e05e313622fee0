"""The scores of all links of one page, column by column, as every ranker makes them.

Rankers compute on columns (numpy) and this module turns them into records: `Ranked` one by one, or
`LinkColumns` for the whole page without a Python object per link. It also holds what every ranker refuses.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Lead, Link, LinkColumns, Page, Ranked, Reason, Verdict
from opilio.topic.senses import OTHER_SENSE

Column = NDArray[np.float64]


class LinkScores:
    """Scores and their named parts, one row per link of the page."""

    __slots__ = ("dropped", "features", "parts", "scores", "weights")

    def __init__(
        self,
        scores: Column,
        parts: Mapping[str, Column],
        dropped: Mapping[int, str] | None = None,
        weights: Mapping[str, float] | None = None,
        features: Sequence[bytes] = (),
    ) -> None:
        self.scores = scores
        self.parts = parts
        self.dropped = dropped or {}
        self.weights = weights or {}
        self.features = features

    def ranked(self, links: Sequence[Link]) -> list[Ranked]:
        """One record per link."""
        names = list(self.parts)
        weights = [self.weights.get(name, 1.0) for name in names]
        rows = zip(*(column.tolist() for column in self.parts.values()), strict=True) if names else ((),) * len(links)
        return [
            Ranked(
                link=link,
                score=score,
                parts=tuple(map(Reason, names, row, weights)),
                dropped=self.dropped.get(at, ""),
                features=self.features[at] if self.features else b"",
            )
            for at, (link, score, row) in enumerate(zip(links, self.scores.tolist(), rows, strict=True))
        ]

    def columns(self, links: Sequence[Link]) -> LinkColumns:
        """The whole page as one record: what `ranked` says, without an object per link and part."""
        parts = np.column_stack(list(self.parts.values())) if self.parts else np.zeros((len(links), 0))
        return LinkColumns(
            urls=[link.url for link in links],
            hosts=[link.host for link in links],
            anchors=[link.anchor for link in links],
            keys=np.array([link.key for link in links], dtype=np.int64).tobytes(),
            scores=self.scores.astype(np.float32).tobytes(),
            names=list(self.parts),
            parts=parts.astype(np.float32).tobytes(),
            dropped=dict(self.dropped),
            features=list(self.features),
        )


# Endings of files that are no pages: asking for them costs a fetch, and nothing but text can be judged. Endings that
# names of things have too (Node.js, Main.class) are not among them: there the answer's content type decides.
NO_PAGES = frozenset(
    """
    7z aac apk avi bmp bz2 deb dmg doc docx dvi eps epub exe flac flv gif gz gzip hqx ico iso jar jpeg jpg lzh
    m4a m4v mid midi mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps psd ram rar rpm
    rtf svg swf tar tgz tif tiff ttf wav webm webp wma wmv woff woff2 xls xlsx xpm xz zip zst
    """.split()
)


def refused(page: Page) -> dict[int, str]:
    """The links no ranker follows: those their page asks not to (nofollow), and those to files that are no pages."""
    if page.nofollow:
        return dict.fromkeys(range(len(page.links)), "nofollow page")
    dropped: dict[int, str] = {}
    for at, link in enumerate(page.links):
        if link.rel and "nofollow" in link.rel.lower():
            dropped[at] = "nofollow"
        elif (ending := ending_of(link.url)) in NO_PAGES:
            dropped[at] = f"no page: .{ending}"
    return dropped


@lru_cache(maxsize=1 << 16)  # the same addresses stand on page after page
def ending_of(url: str) -> str:
    """The file ending of a URL's path, in lower case, or nothing; a page about a file (`File:Wren.jpg`) has none.

    >>> ending_of("http://example.org/wiki/File:Wren.jpg"), ending_of("http://example.org/Wren.jpg")
    ('', 'jpg')
    >>> ending_of("http://example.org/a/Paper.PS?x=1.html"), ending_of("http://example.ps/"), ending_of("http://x.org/a.b/c")
    ('ps', '', '')
    """
    name = url.partition("?")[0].rpartition("/")[2]
    is_title = ":" in name or "%3a" in name.lower()
    return name.rpartition(".")[2].lower() if "." in name and not is_title and url.count("/") > 2 else ""


def out_of_reach(verdict: Verdict, lead: Lead, tunnel_depth: int) -> str:
    """Why the links of an irrelevant page are not followed (X-05), or "".

    `tunnel_depth` is the number of irrelevant pages in a row that may be crossed: 0 is the hard focus of
    S4-18, −1 has no bound (S0-28), anything else is bounded tunnelling (Pal et al.).
    """
    if verdict.reasons and verdict.reasons[0].name == OTHER_SENSE:
        return OTHER_SENSE  # S3-09: ignored together with its child URLs
    if verdict.relevant or tunnel_depth < 0 or lead.tunnel < tunnel_depth:
        return ""
    return "irrelevant page" if tunnel_depth == 0 else f"tunnel longer than {tunnel_depth}"


def drop_all(dropped: dict[int, str], links: int, reason: str) -> dict[int, str]:
    """Every link dropped for one reason; earlier reasons stay."""
    return {**dict.fromkeys(range(links), reason), **dropped} if reason else dropped


def below(scores: Column, threshold: float, strict: bool) -> NDArray[np.intp]:
    """Which scores fail the threshold: ≥ passes, or only > where strict (X-02)."""
    return np.flatnonzero(scores <= threshold if strict else scores < threshold)
