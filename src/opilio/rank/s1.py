"""The link score of S1: the probability, by a learner, that a link with these four attributes leads to a relevant page.

The learner is trained while crawling (S1-12): every fetched page is a row of its link's attributes and the verdict.
Until both classes are known the score is the mean of the four attributes. The page at hand is taken as a link's only
parent; where a URL is found again the frontier keeps the better context.
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.rows import ATTRIBUTES, WIDTH, Rows, rows_of
from opilio.learn.teacher import Teacher
from opilio.model.records import Lead, Outcome, Ranked, Reading, Verdict
from opilio.rank.attributes import TOP, masked, page_attributes
from opilio.rank.linkscore import UrlTerms
from opilio.rank.measure import LinkTexts
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.topic.living import LivingTopic, Sight, Terms, sight_of

PACKED = np.dtype([("values", "<f4", (4,)), ("missing", "?", (4,))])
Weigh = Callable[[Reading], tuple[Terms, NDArray[np.float64]]]


def packed(rows: Rows) -> list[bytes]:
    """Each row as the features of a link."""
    made = np.zeros(len(rows), dtype=PACKED)
    made["values"], made["missing"] = rows[:, :4], rows[:, 4:] >= 0.5
    data, size = made.tobytes(), PACKED.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def unpacked(features: Sequence[bytes]) -> Rows:
    """The rows again; features of another make are all missing."""
    nothing = packed(np.repeat([[0.0, 1.0]], 4, axis=1))[0]
    data = b"".join(f if len(f) == PACKED.itemsize else nothing for f in features)
    made = np.frombuffer(data, dtype=PACKED)
    return rows_of(made["values"].astype(np.float64), made["missing"])


class S1Ranker:
    """Scores links by a learner, and learns. `table`: the topic's heaviest words that count (S1-17: 7; 0: all).

    `weigh` gives the terms of a page with their tf·idf. S1-24 wants the text around links cut by `Beside(20)`.
    """

    def __init__(
        self,
        topic: LivingTopic,
        url_terms: UrlTerms,
        weigh: Weigh,
        teacher: Teacher,
        table: int = TOP,
        tunnel_depth: int = -1,
    ) -> None:
        self.topic = topic
        self.url_terms = url_terms
        self.weigh = weigh
        self.teacher = teacher
        self.table = table
        self.tunnel_depth = tunnel_depth
        self._sight: tuple[Sight, Sight] | None = None  # the topic's, and its head

    @property
    def version(self) -> int:
        """Grows with every fit."""
        return self.teacher.version

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page, rows = reading.page, self._rows(reading)
        parts = dict(zip(ATTRIBUTES, rows[:, :4].T, strict=True))
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, self.tunnel_depth))
        return LinkScores(self.chances(rows), parts, dropped, features=packed(rows))

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def probable(self, reading: Reading, _: LinkTexts) -> NDArray[np.float64]:
        """The probability of each link: a member's opinion."""
        return self.chances(self._rows(reading))

    def _rows(self, reading: Reading) -> Rows:
        urls = self.url_terms([link.url for link in reading.page.links])
        return rows_of(*page_attributes(reading, self._heaviest(reading), urls, self.head))

    def chances(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row."""
        if self.teacher.ready:
            return self.teacher.probability(rows)
        mean: NDArray[np.float64] = rows[:, :4].mean(axis=1)
        return mean

    @property
    def head(self) -> Sight:
        """The heaviest words of the topic as it is now, ready for matching."""
        whole = self.topic.sight
        if not self.table:
            return whole
        if self._sight is None or self._sight[0] is not whole:
            self._sight = whole, sight_of(self.topic.table.top(self.table))
        return self._sight[1]

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Every new page is a row (S1-12)."""
        self.study(self.lesson(outcomes))

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The rows of these visits, for a journal; nothing where there are none.

        A seed has no parents: its address is all that is known (S1-E6).
        """
        told: list[tuple[bytes, bool]] = []
        for outcome in outcomes:
            verdict = outcome.analysis.verdict if outcome.analysis else None
            if verdict is not None and not outcome.duplicate_of:
                told.append((outcome.lead.features or self._seed(outcome.lead.url), verdict.relevant))
        return msgspec.msgpack.encode(told) if told else b""

    def study(self, lesson: bytes) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        told = msgspec.msgpack.decode(lesson, type=list[tuple[bytes, bool]]) if lesson else []
        if told:
            self.teacher.tell(
                unpacked([row for row, _ in told]), np.array([label for _, label in told], dtype=np.bool_)
            )

    def snapshot(self) -> bytes:
        """What was learnt."""
        return self.teacher.snapshot()

    def sight(self) -> bytes:
        """What workers must know: a snapshot, for the rows it was fitted to are a part of the learner."""
        return self.snapshot()

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        self.teacher.restore(state)

    def _seed(self, url: str) -> bytes:
        row = np.zeros((1, WIDTH))
        words = self.url_terms([url])[0]
        row[0, 0] = masked(words, self.head)
        row[0, 4:] = (not words, True, True, True)
        return packed(row)[0]

    def _heaviest(self, reading: Reading) -> dict[int, float]:
        """The page's own top words (S1-23), ties by term."""
        terms, weights = self.weigh(reading)
        best = np.lexsort((terms, -weights))[:TOP]
        return dict(zip(terms[best].tolist(), weights[best].tolist(), strict=True))
