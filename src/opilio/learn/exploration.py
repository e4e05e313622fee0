"""Exploration while a crawl finds hardly anything: some fetches go to the hosts tried least, whatever the scores say.

A crawl that has not found its topic has learned from irrelevant pages only. That says little about hosts that it never
tried, but it orders all links: without exploration, a crawl from a portal fetches one barren site after the other, in
depth. Once pages of the topic are found, the model knows more than this rule, and exploration ends
(docs/lab/committee.md).
"""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.learn.link_pool import LinkPool, RowIndices
from opilio.learn.logistic import FEATURE_INDEX
from opilio.learn.success_rates import HashArray, RateArray

# Exploration begins after this number of links, and pauses while more than this number of the recent ones paid.
MIN_RECENT, MAX_RECENT_HITS = 6, 2
# With this number of relevant pages, a crawl has found its topic. It does not explore when there are no more: the hosts
# that were tried least are often traps then (docs/lab/committee.md).
ENOUGH_HITS = 30
MAX_LINKS = 8  # at once
# A longer queue takes longer to search: it is searched for one more link at once.
LINKS_PER_QUEUED = 10_000
MAX_REMEMBERED = 1_000
PRIOR_ANSWERED = 3.0
# Scores are mostly noise then: their order counts, but less than how close a link is to the seeds.
SCORE_POWER, STEP_FACTOR = 0.5, 0.5
# For each wanted link: only one per host is taken.
_CANDIDATES = 20
CountTries = Callable[[HashArray], RateArray]


class Exploration:
    """Chooses links to fetch next: a share of all fetches."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._links_before: int | None = None
        self._pending = 0
        self._turn = 0
        self._chosen_keys: deque[int] = deque(maxlen=MAX_REMEMBERED)
        # Hashes of hosts that were new when a link to them was chosen. Some never answer, so they have no fetches.
        self._new_hosts: deque[int] = deque(maxlen=MAX_REMEMBERED)

    def due(self, links: int, recent_hits: Sequence[bool], queued: int) -> int:
        """How many links to choose now that this number of links was fetched. Call it after every batch."""
        before, self._links_before = self._links_before, links
        fails = len(recent_hits) >= MIN_RECENT and sum(recent_hits) <= MAX_RECENT_HITS
        if before is None or not fails:
            self._pending = 0
            return 0
        self._pending = min(MAX_LINKS, self._pending + int(links * self._share) - int(before * self._share))
        if self._pending < min(MAX_LINKS, 1 + queued // LINKS_PER_QUEUED):
            return 0
        count, self._pending = self._pending, 0
        return count

    def choose(self, pool: LinkPool, count: int, tries_of: CountTries, new_host_rate: float) -> RowIndices:
        """The rows of links to the least tried hosts, each link once.

        In turns the best link and the oldest one, which is nearest to the seeds: scores are mostly noise here, and a
        page that is taken for relevant by mistake has many links. `tries_of` counts the fetches of hosts by their
        hashes; `new_host_rate` is the share of new hosts whose first fetch was a page, among those that had one.
        """
        rows = np.fromiter(pool.row_of.values(), dtype=np.int64, count=len(pool))
        rows = rows[~np.isin(pool.rows["key"][rows], self._chosen_keys)]
        hosts = pool.rows["prefixes"][rows, 0]
        tries = tries_of(hosts)
        by_host = 1.0 / (1.0 + tries)
        by_host[tries == 0.0] *= new_host_rate * self._answered_share(tries_of)
        by_host[(tries == 0.0) & np.isin(hosts, self._new_hosts)] = 0.0
        steps = pool.rows["dense"][rows, FEATURE_INDEX["tunnel"]].astype(np.float64)
        by_score = by_host * pool.scores[rows] ** SCORE_POWER * STEP_FACTOR**steps
        orders = [rows[_first_highest(value, _CANDIDATES * count)].tolist() for value in (by_host, by_score)]
        chosen = self._take_turns(pool, orders, min(count, len(rows)))
        hashes = pool.rows["prefixes"][chosen, 0]
        self._chosen_keys.extend(pool.rows["key"][chosen].tolist())
        self._new_hosts.extend(hashes[tries_of(hashes) == 0.0].tolist())
        return chosen

    def _take_turns(self, pool: LinkPool, orders: Sequence[list[int]], count: int) -> RowIndices:
        """Up to this number of rows, in turns from the beginning of each order, one per host."""
        chosen: dict[str, int] = {}
        for _ in range(count):
            self._turn += 1
            order = orders[self._turn % len(orders)]
            row = next((row for row in order if pool.hosts[row] not in chosen), None)
            if row is not None:
                chosen[pool.hosts[row]] = row
        return np.array(list(chosen.values()), dtype=np.int64)

    def _answered_share(self, tries_of: CountTries) -> float:
        """The share of the new hosts that were fetched since a link to them was chosen."""
        answered = float((tries_of(np.array(self._new_hosts, dtype=np.uint32)) > 0.0).sum())
        return (answered + PRIOR_ANSWERED) / (len(self._new_hosts) + PRIOR_ANSWERED)


def _first_highest(values: NDArray[np.float64], count: int) -> RowIndices:
    """The indices of the highest values, highest first; of equal ones the first."""
    if len(values) > count:
        least = np.partition(values, -count)[-count]
        higher = np.flatnonzero(values > least)
        kept = np.concatenate((higher, np.flatnonzero(values == least)[: count - len(higher)]))
    else:
        kept = np.arange(len(values))
    result: RowIndices = kept[np.argsort(-values[kept], kind="stable")]
    return result
