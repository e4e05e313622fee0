"""The link score of S2: how near a link is to a target, by the T-Graph nodes it resembles (steps 4 to 6 of the flow).

Links of off-topic pages get the lowest priority and are not compared (S2-13, S2-E8); those of on-topic pages are, all
at once, and get it too where nothing matches or their own topical focus is another (S2-38). The watchdog learns in the
writing process (S2-14); workers hold its last snapshot. What a link was compared with comes back with its page.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from opilio.model.records import Lead, Outcome, Ranked, Reading, Verdict
from opilio.rank.focus import Focus, LinkFocus
from opilio.rank.scores import Column, LinkScores, drop_all, out_of_reach, refused
from opilio.tgraph.components import LinkParts, link_parts
from opilio.tgraph.matching import NodeIndex
from opilio.tgraph.priority import Matches, Matching, match
from opilio.tgraph.watchdog import Experience, Update, Watchdog

TermsOf = Callable[[str], Sequence[int]]
Words = Callable[[Sequence[int]], str]
HEADING_TERMS, WINDOW_TERMS = 12, 40  # what is handed on of a link's texts, for the watchdog


class Texts(NamedTuple):
    """Texts to terms, terms to words, and the terms by which nodes are found (with synonyms, S2-F3, where asked)."""

    terms_of: TermsOf
    words: Words
    of_nodes: TermsOf | None = None


class Handed(msgspec.Struct, frozen=True, array_like=True):
    """What a link hands on to its page: the node it matched, the similarities, its four texts."""

    node: str
    parts: tuple[float, ...]
    link: tuple[str, str, str, str]


class TreasureRanker:
    """Scores links by a T-Graph. `focus` None: any topical focus will do. `fit`: weights follow experience (S2-F8)."""

    def __init__(
        self,
        watchdog: Watchdog,
        texts: Texts,
        how: Matching | None = None,
        focus: LinkFocus | None = None,
        *,
        fit: bool = False,
        tunnel_depth: int = -1,
    ) -> None:
        self.watchdog = watchdog
        self.how = how or Matching()
        self.focus = focus
        self.fit = fit
        self.tunnel_depth = tunnel_depth
        self._texts = texts
        self._index: tuple[object, NodeIndex] | None = None

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        count = len(page.links)
        dropped = drop_all(refused(page), count, out_of_reach(verdict, lead, self.tunnel_depth))
        if not verdict.relevant or not count:
            lowest = np.full(count, self.how.unrelated)
            nothing = np.zeros(count)
            return LinkScores(lowest, {"osm": nothing, "distance": nothing - 1.0, "focus": nothing}, dropped)
        parts = link_parts(reading, self._texts.terms_of)
        found, focus = match(self.index, parts, self._matching), self._focus(reading)
        scores = np.where(focus.on_topic, found.priority, self.how.unrelated)
        columns = {"osm": found.osm, "distance": found.distance.astype(np.float64), "focus": focus.closeness}
        features = self._handed(parts, found, scores) if self.watchdog.habits.period else ()
        return LinkScores(scores, columns, dropped, features=features)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    @property
    def index(self) -> NodeIndex:
        """The nodes as they are now, ready for matching."""
        graph = self.watchdog.graph
        if self._index is None or self._index[0] is not graph:
            self._index = graph, NodeIndex(graph, self._texts.of_nodes or self._texts.terms_of)
        return self._index[1]

    @property
    def _matching(self) -> Matching:
        return msgspec.structs.replace(self.how, weights=self.watchdog.weights) if self.fit else self.how

    def _focus(self, reading: Reading) -> Focus:
        if self.focus is not None:
            return self.focus.of(reading)
        count = len(reading.page.links)
        return Focus(np.ones(count, dtype=np.bool_), np.zeros(count))

    def _handed(self, parts: LinkParts, found: Matches, scores: Column) -> list[bytes]:
        """What each link hands on; links that share headings and window share the text."""
        known: dict[tuple[int, int], tuple[str, str, str, str]] = {}
        handed, encode = [], msgspec.msgpack.encode
        matched = np.where(scores > self.how.unrelated, found.node, -1).tolist()
        for at, node in enumerate(matched):
            place = int(parts.head_of[at]), int(parts.window_of[at])
            if place not in known:
                ish, sh, mh, dc = parts.of(at)
                words = self._texts.words
                said = [words(terms[:HEADING_TERMS]) for terms in (ish, sh, mh)]
                known[place] = said[0], said[1], said[2], words(dc[:WINDOW_TERMS])
            similar = self.index.parts(node, parts.of(at)) if self.fit and node >= 0 else ()
            name = self.index.nodes[node].id if node >= 0 else ""
            handed.append(encode(Handed(name, similar, known[place])))
        return handed

    @property
    def version(self) -> int:
        """Grows with every round of the watchdog."""
        return self.watchdog.version

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """What became of links."""
        self.study(self.lesson(outcomes))

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """What is about to be learnt from these visits, for a journal; nothing where that is nothing."""
        if not self.watchdog.habits.period:
            return b""
        met = [one for outcome in outcomes if (one := _experience(outcome)) is not None]
        return msgspec.msgpack.encode(met) if met else b""

    def study(self, lesson: bytes) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        if lesson:
            self.watchdog.study(msgspec.msgpack.decode(lesson, type=list[Experience]))

    def news(self) -> list[Update]:
        """What the watchdog did since somebody last asked."""
        told, self.watchdog.news = self.watchdog.news, []
        return told

    def sight(self) -> bytes:
        """The graph and the weights: what workers must know."""
        return self.watchdog.sight()

    def snapshot(self) -> bytes:
        """The graph and everything the watchdog remembers."""
        return self.watchdog.snapshot()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self.watchdog.restore(state)


def _experience(outcome: Outcome) -> Experience | None:
    """A visit as the watchdog sees it; duplicates and failures teach nothing about the topic."""
    lead, analysis = outcome.lead, outcome.analysis
    if analysis is None or analysis.verdict is None or outcome.duplicate_of:
        return None
    try:
        handed = msgspec.msgpack.decode(lead.features, type=Handed) if lead.features else None
    except msgspec.DecodeError:
        handed = None  # the features of another ranker
    return Experience(
        lead.key,
        lead.parent,
        lead.url,
        analysis.verdict.relevant,
        analysis.verdict.score,
        analysis.title,
        f"{analysis.description} {analysis.keywords}".strip()[:400],
        handed.node if handed else "",
        handed.parts if handed else (),
        handed.link if handed else None,
        analysis.heading,
    )
