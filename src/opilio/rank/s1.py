"""The link score of S1: the probability, by a learner, that a link with these four attributes leads to a relevant page.

The learner is trained while crawling (S1-12): every fetched page is a row of its link's attributes and the verdict.
Until both classes are known the score is the mean of the four attributes. A page is scored as its links' only parent;
the writing process, which knows the first five, works the rows out again (`S1Chooser`).
"""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.rows import ATTRIBUTES, CAPACITY, Rows, rows_of
from opilio.learn.teacher import Teacher
from opilio.model.records import Lead, Outcome, Ranked, Reading, Verdict
from opilio.rank.evidence import packed as packed_evidence
from opilio.rank.linkrows import LinkRows
from opilio.rank.measure import LinkTexts
from opilio.rank.scores import LinkScores, drop_all, out_of_reach, refused
from opilio.topic.living import Terms
from opilio.topic.table import WeightTable

PACKED = np.dtype([("values", "<f4", (4,)), ("missing", "?", (4,))])
Weigh = Callable[[Reading], tuple[Terms, NDArray[np.float64]]]


def packed(rows: Rows) -> list[bytes]:
    """Each row as it stands in a lesson."""
    made = np.zeros(len(rows), dtype=PACKED)
    made["values"], made["missing"] = rows[:, :4], rows[:, 4:] >= 0.5
    data, size = made.tobytes(), PACKED.itemsize
    return [data[at : at + size] for at in range(0, len(data), size)]


def unpacked(rows: Sequence[bytes]) -> Rows:
    """The rows again; those of another make are all missing."""
    nothing = packed(np.repeat([[0.0, 1.0]], 4, axis=1))[0]
    data = b"".join(row if len(row) == PACKED.itemsize else nothing for row in rows)
    made = np.frombuffer(data, dtype=PACKED)
    return rows_of(made["values"].astype(np.float64), made["missing"])


class _Told(msgspec.Struct, array_like=True, frozen=True):
    """What is told of one page: the row of its link, what it is, its key; `corrects`: a person said so."""

    row: bytes
    relevant: bool
    key: int = 0
    corrects: bool = False


class _State(msgspec.Struct):
    teacher: bytes = b""  # nothing in what was kept before tables were: then the whole is the teacher's
    table: WeightTable = WeightTable()
    told: dict[int, bytes] = {}


class S1Ranker:
    """Scores links by a learner, and learns. A link's features are what its page says of it (`Evidence`).

    `held` are the rows of pages that were just fetched, by key, until they are learnt. Those it was told it remembers
    by key too, so that a person can correct them.
    """

    def __init__(self, links: LinkRows, teacher: Teacher, tunnel_depth: int = -1) -> None:
        self.links = links
        self.teacher = teacher
        self.tunnel_depth = tunnel_depth
        self.held: dict[int, bytes] = {}
        self._told: dict[int, bytes] = {}

    @property
    def version(self) -> int:
        """Grows with every fit."""
        return self.teacher.version

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """All links of the page at once."""
        page = reading.page
        rows, found = self.links.alone(reading)
        parts = dict(zip(ATTRIBUTES, rows[:, :4].T, strict=True))
        dropped = drop_all(refused(page), len(page.links), out_of_reach(verdict, lead, self.tunnel_depth))
        return LinkScores(self.chances(rows), parts, dropped, features=packed_evidence(found))

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> Sequence[Ranked]:
        """See `Ranker`."""
        return self.score(reading, verdict, lead).ranked(reading.page.links)

    def probable(self, reading: Reading, _: LinkTexts) -> NDArray[np.float64]:
        """The probability of each link: a member's opinion."""
        return self.chances(self.links.alone(reading)[0])

    def chances(self, rows: Rows) -> NDArray[np.float64]:
        """The score of each row."""
        if self.teacher.ready:
            return self.teacher.probability(rows)
        mean: NDArray[np.float64] = rows[:, :4].mean(axis=1)
        return mean

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Every new page is a row (S1-12)."""
        self.study(self.lesson(outcomes))

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The rows of these visits, for a journal; nothing where there are none."""
        told: list[_Told] = []
        for outcome in outcomes:
            verdict, lead = outcome.analysis.verdict if outcome.analysis else None, outcome.lead
            if verdict is not None and not outcome.duplicate_of:
                told.append(_Told(self.held.get(lead.key) or self._alone(lead), verdict.relevant, lead.key))
        self.held.clear()
        return msgspec.msgpack.encode(told) if told else b""

    def correction(self, links: Sequence[tuple[Lead, bool]]) -> bytes:
        """The lesson of a person who says of pages whether they are relevant, otherwise than they were told."""
        rows = ((self._told.get(lead.key) or self._alone(lead), relevant, lead.key) for lead, relevant in links)
        return msgspec.msgpack.encode([_Told(*row, corrects=True) for row in rows])

    def _alone(self, lead: Lead) -> bytes:
        return packed(self.links.of_lead(lead))[0]

    def study(self, lesson: bytes) -> None:
        """Learn from a lesson: the first time, or again from a journal."""
        told = msgspec.msgpack.decode(lesson, type=list[_Told]) if lesson else []
        for corrects, teach in ((False, self.teacher.tell), (True, self.teacher.correct)):
            rows = [one for one in told if one.corrects is corrects]
            if rows:
                teach(unpacked([one.row for one in rows]), np.array([one.relevant for one in rows], dtype=np.bool_))
        self._told |= {one.key: one.row for one in told if one.key}
        while len(self._told) > CAPACITY:  # older rows are forgotten by the learner too
            del self._told[next(iter(self._told))]

    def snapshot(self) -> bytes:
        """What was learnt, with the table it counts by."""
        return msgspec.msgpack.encode(_State(self.teacher.snapshot(), self.links.given, self._told))

    def sight(self) -> bytes:
        """What workers must know: all but which page had which row."""
        return msgspec.msgpack.encode(_State(self.teacher.snapshot(), self.links.given))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot."""
        kept = msgspec.msgpack.decode(state, type=_State)
        self.teacher.restore(kept.teacher or state)
        self.links.given, self._told = kept.table, kept.told
