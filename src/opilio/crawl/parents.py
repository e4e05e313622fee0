"""Leads whose score counts all the pages they were found on (S3-17, X-11), in the writing process."""

import sqlite3
from collections.abc import Iterator

import numpy as np

from opilio.crawl.chooser import PlainChooser
from opilio.crawl.columns import leads_of, unpack
from opilio.model.records import Lead, LinkColumns, Outcome
from opilio.rank.parents import KnownParents, aggregate
from opilio.rank.tswt import TswtOptions

LINKS = 200_000  # whose parents are known: those found last

OF_ALL = """SELECT p.key, p.score, l.columns FROM page p JOIN links l ON l.parent = p.key
WHERE p.duplicate_of = 0 ORDER BY p.seq DESC"""
OF_AN_AGENT = """SELECT p.key, v.score, l.columns FROM verdict v JOIN page p ON p.key = v.page
JOIN links l ON l.parent = p.key WHERE v.agent = ? AND (v.own OR v.relevant) AND p.duplicate_of = 0
ORDER BY p.seq DESC"""


class ParentsChooser(PlainChooser):
    """Puts the relevance of all known parents in the place of the one page's own."""

    def __init__(self, options: TswtOptions) -> None:
        self._options = options
        self._parents = KnownParents(limit=LINKS, per_link=options.parents or LINKS)

    def resume(self, connection: sqlite3.Connection, agent: int = 0) -> None:
        """Know again what the collection's pages say (those of an agent): the newest, so far as there is room."""
        newest: list[tuple[int, float, list[int]]] = []
        links = 0
        for page in _told(connection, agent):
            newest.append(page)
            links += len(page[2])
            if links >= LINKS:
                break
        for key, relevance, found in reversed(newest):
            self._parents.tell(key, relevance, found)

    def _leads(self, outcome: Outcome) -> list[Lead]:
        analysis = outcome.analysis
        if analysis is None or analysis.verdict is None or not analysis.links:
            return []
        columns, verdict = unpack(analysis.links), analysis.verdict
        scores = self._scores(columns, outcome.lead.key, verdict.score)
        return leads_of(columns, outcome.lead, verdict.relevant, scores)

    def _scores(self, columns: LinkColumns, page: int, relevance: float) -> list[float]:
        keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
        known, how = self._parents, self._options.parent_agg
        alone = np.frombuffer(columns.scores, dtype=np.float32).astype(np.float64)
        together = np.array([aggregate([*known.of(key, page), relevance], how) for key in keys])
        known.tell(page, relevance, _followed(columns))
        # By rank, the parents' part has no size of its own: the page's share stays as the ranker found it.
        lifted = alone if self._options.scale == "rank" else alone + self._options.topic * (together - relevance)
        return list(map(float, lifted))


def _followed(columns: LinkColumns) -> list[int]:
    """The keys of the links that are followed, each once."""
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    return list(dict.fromkeys(key for at, key in enumerate(keys) if at not in columns.dropped))


def _told(connection: sqlite3.Connection, agent: int) -> Iterator[tuple[int, float, list[int]]]:
    """Every page with its relevance and the links it told of, the newest first."""
    rows = connection.execute(OF_AN_AGENT, (agent,)) if agent else connection.execute(OF_ALL)
    for key, score, blob in rows:
        yield key, score, _followed(unpack(blob))
