"""The committee's eyes: every member's score and the words of every link of a page, packed for the learner.

Runs in the workers and knows nothing of what was learnt: the score it gives is the cold start, the features are what
`learn.committee` scores again whenever it has learnt something.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkfeatures import (
    ANCHOR,
    AROUND,
    DENSE,
    HEADING,
    PACKED,
    URL,
    as_word,
    prefixes_of,
    text_hash,
)
from opilio.learn.scoring import Options
from opilio.model.records import Lead, Ranked, Reading, Verdict
from opilio.rank.hints import GraphHints
from opilio.rank.linkwords import ADDRESS, LinkWords
from opilio.rank.measure import LinkTexts
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.topic.living import LivingTopic

KINDS = {URL: "in the URL", ANCHOR: "in the anchor", AROUND: "around it", HEADING: "in the heading above"}


Member = Callable[[Reading, LinkTexts], NDArray[np.float64]]
"""Another opinion on the links of a page: one number from 0 to 1 for each."""


class CommitteeRanker:
    """Features of links. `tunnel_depth` as in `out_of_reach`: by default irrelevant pages end no path.

    `members` are further opinions, by the names they have in DENSE; a feature without one is 0.
    """

    def __init__(
        self, topic: LivingTopic, words: LinkWords, tunnel_depth: int = -1, options: Options | None = None
    ) -> None:
        self.topic = topic
        self.words = words
        self.tunnel_depth = tunnel_depth
        self.options = options or Options()
        self.members: dict[str, Member] = {}
        self.hints: GraphHints | None = None  # the members that begin with a graph

    def heed(self, hints: GraphHints) -> None:
        """Let a T-Graph and a context graph be members."""
        self.hints = hints
        self.members |= {"tgraph": hints.tgraph, "osm": hints.osm, "layer": hints.layer}

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        links = page.links
        addresses = [self.words.address(link.url) for link in links]
        texts = LinkTexts(reading, [address.terms for address in addresses])
        url, anchor, around = texts.score(self.topic.sight, "page")
        parent = np.full(len(links), verdict.score)
        parts = {"url": url, "anchor": anchor, "parent": parent, "around": around}
        dropped = drop_all(refused(page), len(links), out_of_reach(verdict, lead, self.tunnel_depth))
        rows = np.zeros(len(links), dtype=PACKED)
        self._fill(rows, reading, texts, np.frombuffer(b"".join([a.row for a in addresses]), dtype=ADDRESS))
        known = parts | {name: member(reading, texts) for name, member in self.members.items()}
        for name, column in known.items():
            rows["dense"][:, DENSE.index(name)] = column
        return LinkScores((url + anchor + parent + around) / 4.0, parts, dropped, features=_cut(rows))

    def _fill(self, rows: NDArray[np.void], reading: Reading, texts: LinkTexts, addresses: NDArray[np.void]) -> None:
        """What the link itself shows."""
        links, dense = reading.page.links, rows["dense"]
        rows["path"] = [text_hash(link.tag_path) for link in links]
        rows["prefixes"] = addresses["prefixes"]
        words = self.words.of(links, texts, addresses)
        rows["words"][:, :-2] = words
        rows["words"][:, -2], rows["words"][:, -1] = as_word(rows["path"]), as_word(rows["prefixes"][:, -1])
        here = reading.page.url.partition("://")[2].partition("/")[0]
        dense[:, DENSE.index("same_host")] = [link.host == here for link in links]
        dense[:, DENSE.index("textless")] = texts.anchors[:, 1] <= texts.anchors[:, 0]
        dense[:, DENSE.index("path_depth")] = addresses["depth"]
        dense[:, DENSE.index("query")] = addresses["query"]

    def named(self, reading: Reading, place: int) -> dict[int, str]:
        """The words of one link of a page as a person reads them, by the index they are hashed to."""
        links, book = reading.page.links, self.words.vocabulary
        texts = LinkTexts(reading, [self.words.address(link.url).terms for link in links])
        found = self.words.named(links[place], texts, place)
        names = {index: f"“{book.surface_of(term) or term}” {KINDS[kind]}" for index, (kind, term) in found.items()}
        path, directory = text_hash(links[place].tag_path), prefixes_of(links[place].url)[-1]
        for text, index in zip(
            ("its place on the page", "its path"), as_word(np.array([path, directory])), strict=True
        ):
            names.setdefault(int(index), text)
        return names


def _cut(rows: NDArray[np.void]) -> list[bytes]:
    """Each row as bytes of its own."""
    data = rows.tobytes()
    return [data[i : i + PACKED.itemsize] for i in range(0, len(data), PACKED.itemsize)]
