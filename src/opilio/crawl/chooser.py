"""Who decides how promising the links of new pages are, in the writing process, between fetch and frontier."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from opilio.crawl.columns import leads_of, unpack
from opilio.crawl.rankmemory import RankMemory
from opilio.judge.learned import LearnedJudge
from opilio.learn.committee import Found
from opilio.learn.lessons import FoundPage, Visit
from opilio.learn.linkfeatures import unpacked
from opilio.model.protocols import Entry
from opilio.model.records import Lead, LinkColumns, Outcome, key_of
from opilio.model.urls import host_of


class Chooser(Protocol):
    """Turns outcomes into leads, and says which queued URLs have a new score."""

    def watch(self, outcomes: Sequence[Outcome]) -> None: ...

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        """The links of each page, as many as are worth following."""

    def pass_over(self, keys: Sequence[int]) -> None: ...

    def changes(self) -> Iterable[tuple[str, int, float]]: ...

    def correct(self, entry: Entry, before: float, after: float) -> None: ...

    def save(self, now: float, *, at_end: bool = False) -> None: ...

    @property
    def expected(self) -> float | None: ...


class PlainChooser:
    """The ranker's own score, once and for all."""

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        pass

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._leads(outcome) for outcome in outcomes]

    def _leads(self, outcome: Outcome) -> list[Lead]:
        analysis = outcome.analysis
        if analysis is None or not analysis.links:
            return []
        return leads_of(unpack(analysis.links), outcome.lead, _relevant(outcome))

    def pass_over(self, keys: Sequence[int]) -> None:
        """Links that the frontier refused: they will never be fetched."""

    def changes(self) -> Iterable[tuple[str, int, float]]:
        return ()

    def correct(self, entry: Entry, before: float, after: float) -> None:
        """A person said that a fetched page is worth `after`, not `before`."""

    def save(self, now: float, *, at_end: bool = False) -> None:
        """Keep what was learnt, where anything learns here."""

    @property
    def expected(self) -> float | None:
        """Relevant pages that still wait in the queue, where anybody can tell."""
        return None


class CommitteeChooser(PlainChooser):
    """Lets the committee learn from every outcome and score every link; a judge that learns tells it of words."""

    def __init__(self, memory: RankMemory, judge: LearnedJudge | None = None) -> None:
        self._memory = memory
        self._committee = memory.committee
        self._judge = judge
        self._heard = 0

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        self._listen()
        ended, passed = [], []
        for outcome in outcomes:
            fetched, lead = outcome.fetched, outcome.lead
            if fetched.location:  # the link lives on in the address it leads to, which is still to be fetched
                self._committee.move(lead.key, key_of(fetched.location), host_of(fetched.location))
                passed.append(lead.key)
            elif fetched.failure is None or not fetched.failure.retry:
                ended.append(outcome)
        self._memory.learn([*(_passed(key) for key in passed), *map(_visit, ended)])

    def pass_over(self, keys: Sequence[int]) -> None:
        self._memory.learn([_passed(key) for key in keys])

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        every = [unpack(outcome.analysis.links if outcome.analysis else b"") for outcome in outcomes]
        kept = [_kept(outcome.lead.key, columns) for outcome, columns in zip(outcomes, every, strict=True)]
        found = [_found(*page) for page in zip(outcomes, every, kept, strict=True)]
        scored = self._committee.discover_all(found)
        leads = []
        for outcome, columns, places, scores in zip(outcomes, every, kept, scored, strict=True):
            told = np.frombuffer(columns.scores, dtype=np.float32).astype(np.float64)
            told[places] = scores
            leads.append(leads_of(columns, outcome.lead, _relevant(outcome), told.tolist()))
        return leads

    def changes(self) -> Iterable[tuple[str, int, float]]:
        self._listen()
        return self._committee.changes()

    def correct(self, entry: Entry, before: float, after: float) -> None:
        self._memory.correct(entry, before, after)

    def save(self, now: float, *, at_end: bool = False) -> None:
        self._memory.save(now, at_end=at_end)

    @property
    def expected(self) -> float | None:
        return self._memory.expected

    def _listen(self) -> None:
        """Hear what words are worth since the judge learnt last."""
        if self._judge is not None and self._judge.version != self._heard:
            self._heard = self._judge.version
            self._committee.hear(*self._judge.model.known)


def _kept(page: int, columns: LinkColumns) -> list[int]:
    """The places of the links of a page that may be followed and lead elsewhere."""
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    return [at for at, key in enumerate(keys) if at not in columns.dropped and key != page]


def _found(outcome: Outcome, columns: LinkColumns, places: list[int]) -> Found:
    """Those links as the committee wants them."""
    relevant = _relevant(outcome)
    page = FoundPage(outcome.lead.key, relevant, 0 if relevant else outcome.lead.tunnel + 1)
    keys, rows = np.frombuffer(columns.keys, dtype=np.int64), unpacked(columns.features)
    if len(places) == len(keys):
        return Found(page, columns.hosts, keys, rows)
    return Found(page, [columns.hosts[at] for at in places], keys[places], rows[places])


def _relevant(outcome: Outcome) -> bool:
    verdict = outcome.analysis.verdict if outcome.analysis else None
    return verdict is not None and verdict.relevant


def _passed(key: int) -> Visit:
    return Visit(key, "", 0.0, page=False, passed=True)


def _visit(outcome: Outcome) -> Visit:
    """A duplicate, a failure and a page that is none pay nothing."""
    verdict = outcome.analysis.verdict if outcome.analysis else None
    new = verdict is not None and not outcome.duplicate_of
    reward = verdict.score if verdict is not None and new else 0.0
    relevant = new and _relevant(outcome)
    return Visit(outcome.lead.key, outcome.lead.url, reward, verdict is not None, relevant)
