"""S1's links in the writing process: known by their first five parents, classified again when either side changed.

A link's row grows with every parent that is found (S1-22…S1-24), and old scores came from an older model (S1-14).
"""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from opilio.crawl.chooser import PlainChooser
from opilio.crawl.columns import unpack
from opilio.crawl.parents import LINKS, OF_ALL, OF_AN_AGENT
from opilio.model.protocols import Entry
from opilio.model.records import Lead, LinkColumns, Outcome
from opilio.rank.evidence import meet
from opilio.rank.s1 import S1Ranker, packed, unpacked

CHANGE = 1e-3
LIMIT = 50_000  # queued links whose parents are remembered


@dataclass(slots=True)
class _Link:
    """A queued link: what its parents say of it, the row that makes, and the score in the frontier."""

    url: str
    host: str
    score: float
    said: dict[int, bytes] = field(default_factory=dict)
    row: bytes = b""


class S1Chooser(PlainChooser):
    """Remembers queued links, at most `limit` of them; the rest keep the score they had."""

    def __init__(self, ranker: S1Ranker, limit: int = LIMIT) -> None:
        self._ranker = ranker
        self._limit = limit
        self._version = ranker.version
        self._queued: dict[int, _Link] = {}
        self._fallen: dict[int, _Link] = {}  # the frontier keeps the better score, so these it must be told

    def resume(self, waiting: Iterable[Entry], connection: sqlite3.Connection, agent: int = 0) -> None:
        """Know the links that wait again, by what the collection's pages say: the newest, so far as there is room."""
        leads = {entry.lead.key: entry.lead for entry in waiting if entry.parents}
        pages = _newest(connection, agent)
        for key, lead in leads.items():
            link = self._queued[key] = _Link(lead.url, lead.host, lead.score)
            if lead.parent not in pages:
                meet(link.said, lead.parent, lead.features)
        for page, columns in reversed(pages.items()):
            keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
            for at, (key, said) in enumerate(zip(keys, columns.features, strict=False)):
                if key in leads and at not in columns.dropped:
                    meet(self._queued[key].said, page, said)
        self._work_out(list(self._queued.values()))

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            failure = outcome.fetched.failure
            link = self._queued.get(outcome.lead.key)
            if link is not None and not (failure is not None and failure.retry):
                del self._queued[outcome.lead.key]
                self._ranker.held[outcome.lead.key] = link.row

    def pass_over(self, keys: Sequence[int]) -> None:
        for key in keys:
            self._queued.pop(key, None)

    def _leads(self, outcome: Outcome) -> list[Lead]:
        leads = super()._leads(outcome)
        links = [self._queued.setdefault(lead.key, _Link(lead.url, lead.host, lead.score)) for lead in leads]
        met = {o.key: link for o, link in zip(leads, links, strict=True) if meet(link.said, o.parent, o.features)}
        self._work_out(list(met.values()))
        for (key, link), score in zip(met.items(), self._scores(met.values()), strict=True):
            if len(link.said) > 1 and score < link.score - CHANGE:
                self._fallen[key] = link
            link.score = score
        told = [replace(lead, score=link.score) for lead, link in zip(leads, links, strict=True)]
        while len(self._queued) > self._limit:
            del self._queued[next(iter(self._queued))]
        return told

    def changes(self) -> Iterable[tuple[str, int, float]]:
        moved, self._fallen = {key: link for key, link in self._fallen.items() if key in self._queued}, {}
        if self._ranker.version != self._version and self._queued:
            self._version = self._ranker.version
            for (key, link), score in zip(self._queued.items(), self._scores(self._queued.values()), strict=True):
                if abs(score - link.score) > CHANGE:
                    moved[key] = link
                link.score = score
        return [(link.host, key, link.score) for key, link in moved.items()]

    def _work_out(self, links: Sequence[_Link]) -> None:
        rows = packed(self._ranker.links.rows([link.url for link in links], [link.said.values() for link in links]))
        for link, row in zip(links, rows, strict=True):
            link.row = row

    def _scores(self, links: Iterable[_Link]) -> list[float]:
        rows = unpacked([link.row for link in links])
        return self._ranker.chances(rows).tolist() if len(rows) else []


def _newest(connection: sqlite3.Connection, agent: int) -> dict[int, LinkColumns]:
    """The pages stored last (by an agent) with their links, the newest first."""
    pages, links = dict[int, LinkColumns](), 0
    for page, _, blob in connection.execute(OF_AN_AGENT, (agent,)) if agent else connection.execute(OF_ALL):
        columns = pages[page] = unpack(blob)
        links += len(columns.urls)
        if links >= LINKS:
            break
    return pages
