"""Leads whose score counts all the pages they were found on (S3-17, X-11), in the writing process."""

import numpy as np

from opilio.crawl.chooser import PlainChooser
from opilio.crawl.columns import leads_of, unpack
from opilio.model.records import Lead, LinkColumns, Outcome
from opilio.rank.parents import KnownParents, aggregate
from opilio.rank.tswt import TswtOptions


class ParentsChooser(PlainChooser):
    """Puts the relevance of all known parents in the place of the one page's own.

    Parents are known for the links found last (some 200,000), and for those of this run: the score that a queued
    URL got before stays in the frontier.
    """

    def __init__(self, options: TswtOptions) -> None:
        self._options = options
        self._parents = KnownParents(limit=200_000)

    def leads(self, outcome: Outcome) -> list[Lead]:
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
        followed = [key for at, key in enumerate(keys) if at not in columns.dropped]
        known.tell(page, relevance, dict.fromkeys(followed))
        # By rank, the parents' part has no size of its own: the page's share stays as the ranker found it.
        lifted = alone if self._options.scale == "rank" else alone + self._options.topic * (together - relevance)
        return list(map(float, lifted))
