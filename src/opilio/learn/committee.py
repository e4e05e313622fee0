"""The committee: one online model over every member's score, trained by what fetched pages turned out to be.

It keeps the queued links it can still learn about in arrays of fixed size, so that all of them are scored again in a few
vector operations whenever something was learnt. Hubs are found by sibling success: what the other links of the same page,
and of the same place on that page, turned out to be. Pure: no I/O, no clock; chance only from the seed.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.linkfeatures import DENSE, WORDS, LinkFeatures
from opilio.learn.linkmodel import LinkModel, sigmoid
from opilio.learn.success import Success

CONTEXTS = 5  # link contexts kept per URL
BITS = 18
# Dense features as the model sees them, with the weights they begin with: the papers' scores before anything is learnt.
FEATURES = {
    "bias": -2.2,
    "parent": 2.0,  # γ of the best page that links to it
    "anchor": 1.5,  # β
    "around": 1.2,  # ω
    "url": 0.8,  # α
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "same host": 0.0,
    "textless": -0.3,
    "tunnel": -0.3,
    "tag path": 1.5,  # success of links at the same place of other pages
    "directory": 1.5,
    "host": 1.0,
    "page": 1.0,  # success of the other links of the same page
}
NAMES = tuple(FEATURES)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What can be tuned, and what ablations switch off."""

    capacity: int = 100_000  # links kept in memory for rescoring
    shrinkage: float = 4.0  # tries that sibling evidence must outweigh
    credit: float = 0.4  # γ of delayed credit; 0: off
    explore: float = 0.1  # how much an unknown place is worth at first; 0: off
    explore_for: float = 500.0  # fetches after which that has halved
    siblings: bool = True
    words: bool = True  # hashed words
    statistics: bool = True  # success of tag paths, directories and hosts
    rescore: bool = True
    top: int = 1_000  # best links whose words are weighed again at every turn


class Visit(msgspec.Struct, frozen=True):
    """What became of a fetched link: its reward (0..1) and whether there was a page at all."""

    key: int
    reward: float
    page: bool


class Queue:
    """The links in memory: one row each, found by key. Rows are reused; the worst go when it is full."""

    def __init__(self, capacity: int) -> None:
        self.row_of: dict[int, int] = {}
        self.keys: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.words: NDArray[np.uint32] = np.zeros((capacity, WORDS), dtype=np.uint32)
        self.dense: NDArray[np.float32] = np.zeros((capacity, len(NAMES)), dtype=np.float32)
        self.groups: NDArray[np.uint32] = np.zeros((capacity, CONTEXTS), dtype=np.uint32)  # (page, tag path); 0: none
        self.pages: NDArray[np.uint32] = np.zeros((capacity, CONTEXTS), dtype=np.uint32)
        self.places: NDArray[np.uint32] = np.zeros((capacity, 3), dtype=np.uint32)  # tag path, directory, host
        self.contexts: NDArray[np.int16] = np.zeros(capacity, dtype=np.int16)
        self.said: NDArray[np.float32] = np.zeros(
            capacity, dtype=np.float32
        )  # the score the frontier holds; <0: free row
        self.said.fill(-1.0)
        self.sparse: NDArray[np.float64] = np.zeros(capacity)  # logit of the words when last weighed
        self.hosts: list[str] = [""] * capacity
        self.used = 0  # rows ever used
        self._free: list[int] = []

    def row(self, key: int) -> int:
        """A free row for a new link."""
        row = self._free.pop() if self._free else self.used
        self.used = max(self.used, row + 1)
        self.row_of[key] = row
        self.keys[row] = key
        self.contexts[row] = 0
        self.groups[row] = 0
        self.pages[row] = 0
        self.dense[row] = 0.0
        self.said[row] = 0.0
        return row

    def drop(self, key: int) -> None:
        row = self.row_of.pop(key, None)
        if row is not None:
            self.said[row] = -1.0
            self._free.append(row)

    def make_room(self, wanted: int) -> None:
        """Forget the least promising eighth when there is no room: the frontier keeps them at their last score."""
        capacity = len(self.keys)
        if len(self.row_of) + wanted <= capacity:
            return
        live = np.flatnonzero(self.said[: self.used] >= 0.0)
        worst = live[np.argsort(self.said[live], kind="stable")[: max(wanted, capacity // 8)]]
        for key in self.keys[worst].tolist():
            self.drop(key)


class FoundPage(msgspec.Struct, frozen=True):
    """The page that links were found on."""

    key: int
    relevant: bool
    tunnel: int


_STATIC = {"parent": "parent", "anchor": "anchor", "around": "around", "url": "url", "same host": "same_host"}
_STATIC["textless"] = "textless"
_FOUND, _RELEVANT, _TUNNEL = NAMES.index("found"), NAMES.index("relevant parents"), NAMES.index("tunnel")
_PLACES = (NAMES.index("tag path"), NAMES.index("directory"), NAMES.index("host"))
_PAGE = NAMES.index("page")
_CHANGE = 1e-3


class Credit:
    """Delayed credit: a page whose links paid was worth fetching, whatever it said itself (hubs).

    Remembers the features of recent visits, and once `ENOUGH` links of a page were fetched, tells what it was worth.
    """

    RECENT = 4_096
    ENOUGH = 3

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._visits: dict[int, tuple[NDArray[np.uint32], NDArray[np.float64], float]] = {}
        self._children: dict[int, list[float]] = {}

    def after(
        self, visit: Visit, parents: list[int], words: NDArray[np.uint32], dense: NDArray[np.float64]
    ) -> list[tuple[NDArray[np.uint32], NDArray[np.float64], float]]:
        """Examples to learn from, now that this visit is known."""
        if not self._gamma:
            return []
        if visit.page:
            self._visits[(visit.key & 0xFFFFFFFF) | 1] = (words.copy(), dense, visit.reward)
            if len(self._visits) > self.RECENT:
                old = next(iter(self._visits))
                del self._visits[old]
                self._children.pop(old, None)
        worth = []
        for parent in parents:
            known = self._visits.get(parent)
            if known is None:
                continue
            rewards = self._children.setdefault(parent, [])
            rewards.append(visit.reward)
            if len(rewards) == self.ENOUGH:
                label = min(1.0, known[2] + self._gamma * sum(rewards) / self.ENOUGH)
                if label > known[2] + 0.1:
                    worth.append((known[0], known[1], label))
        return worth


class Marks:
    """Which keys were fetched, in a bitmap of fixed size: now and then it says yes for one that was not."""

    BITS = 1 << 24

    def __init__(self) -> None:
        self._bits = bytearray(self.BITS >> 3)

    def add(self, key: int) -> None:
        for bit in (key % self.BITS, (key >> 24) % self.BITS):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, key: int) -> bool:
        first, second = key % self.BITS, (key >> 24) % self.BITS
        return bool(self._bits[first >> 3] >> (first & 7) & 1 and self._bits[second >> 3] >> (second & 7) & 1)


class Committee:
    """Scores links, learns from visits, says which queued links changed their place.

    Order of calls for one batch: `learn` what was fetched, `discover` the links of the new pages, `changes`.
    """

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.model = LinkModel(np.array(list(FEATURES.values())))
        self.queue = Queue(self.options.capacity)
        self._groups = Success(BITS + 2)
        self._pages = Success(BITS)
        self._places = (Success(BITS), Success(BITS), Success(BITS))  # tag path, directory, host
        self._base = Success(1)
        self._credit = Credit(self.options.credit)
        self._done = Marks()

    @property
    def fetched(self) -> int:
        """How many outcomes it has learnt from."""
        return int(self._base.tries[0])

    @property
    def base_rate(self) -> float:
        """The mean reward so far, with a cautious beginning."""
        return float(self._base.rate(np.zeros(1, dtype=np.uint32), 0.2, 5.0)[0])

    def learn(self, visits: Iterable[Visit]) -> None:
        """What became of links it had queued (others, such as seeds, teach nothing)."""
        queue = self.queue
        for visit in visits:
            self._done.add(visit.key)
            row = queue.row_of.get(visit.key)
            if row is None:
                continue
            dense = self._dense(np.array([row]))[0]
            words = queue.words[row]
            self._teach(words, dense, visit.reward)
            used = int(min(queue.contexts[row], CONTEXTS))
            self._base.add(np.zeros(1, dtype=np.uint32), visit.reward)
            self._groups.add(queue.groups[row, :used], visit.reward)
            self._pages.add(queue.pages[row, :used], visit.reward)
            for place, table in enumerate(self._places):
                table.add(queue.places[row, place : place + 1], visit.reward)
            for example in self._credit.after(visit, queue.pages[row, :used].tolist(), words, dense):
                self._teach(*example)
            queue.drop(visit.key)

    def _teach(self, words: NDArray[np.uint32], dense: NDArray[np.float64], label: float) -> None:
        self.model.learn(words if self.options.words else words * 0, dense, label)

    def discover(self, page: "FoundPage", hosts: Sequence[str], keys: Sequence[int], rows: LinkFeatures) -> list[float]:
        """The links of a fetched page: remembered, and scored."""
        queue = self.queue
        queue.make_room(len(keys))
        at: list[int] = []
        known = [place for place, key in enumerate(keys) if key not in self._done]
        for place in known:
            key = keys[place]
            row = queue.row_of.get(key)
            if row is None:
                row = queue.row(key)
                queue.hosts[row] = hosts[place]
                queue.words[row] = rows["words"][place]
                queue.places[row] = (rows["path"][place], rows["directory"][place], rows["host"][place])
                queue.dense[row, _TUNNEL] = page.tunnel
                queue.dense[row, 0] = 1.0
            at.append(row)
        scores = [0.0] * len(keys)
        if at:
            where = np.array(at, dtype=np.int64)
            self._meet(where, page, rows[known])
            self._weigh(where)
            for place, score in zip(known, self._scores(where).tolist(), strict=True):
                scores[place] = score
        return scores

    def _meet(self, where: NDArray[np.int64], page: "FoundPage", rows: LinkFeatures) -> None:
        """Merge another context into each row: the best of every score, and one more group of siblings."""
        queue = self.queue
        # A URL that stands twice on a page is one context: only its first mention counts.
        where, first = np.unique(where, return_index=True)
        rows = rows[first]
        dense = rows["dense"].astype(np.float32)
        for name, source in _STATIC.items():
            column = NAMES.index(name)
            queue.dense[where, column] = np.maximum(queue.dense[where, column], dense[:, DENSE.index(source)])
        queue.dense[where, _TUNNEL] = np.minimum(queue.dense[where, _TUNNEL], page.tunnel)
        queue.dense[where, _RELEVANT] = np.minimum(queue.dense[where, _RELEVANT] + 0.25 * page.relevant, 1.0)
        slot = np.minimum(queue.contexts[where], CONTEXTS - 1)
        page_hash = np.uint32(page.key & 0xFFFFFFFF) | np.uint32(1)
        queue.pages[where, slot] = page_hash
        queue.groups[where, slot] = (rows["path"] * np.uint32(0x9E3779B1)) ^ page_hash
        queue.contexts[where] = np.minimum(queue.contexts[where] + 1, 32_000)
        queue.dense[where, _FOUND] = np.log1p(queue.contexts[where]) * 0.5

    def _dense(self, where: NDArray[np.int64]) -> NDArray[np.float64]:
        """The dense features with what the success tables say now."""
        dense = self.queue.dense[where].astype(np.float64)
        dense[:, _TUNNEL] = np.minimum(dense[:, _TUNNEL], 4.0) * 0.25
        if self.options.statistics:
            base = self.base_rate
            for column, place, table, strength in zip(_PLACES, range(3), self._places, (1.0, 2.0, 3.0), strict=True):
                dense[:, column] = table.rate(self.queue.places[where, place], base, strength) - base
            pages = self._pages.rate(self.queue.pages[where], base, 3.0)
            dense[:, _PAGE] = np.where(self.queue.pages[where] > 0, pages, 0.0).max(axis=1) - base
        return dense

    def _weigh(self, where: NDArray[np.int64]) -> None:
        if self.options.words:
            self.queue.sparse[where] = self.model.sparse_logits(self.queue.words[where])

    def _scores(self, where: NDArray[np.int64]) -> NDArray[np.float64]:
        """The chance that each link pays: the model's, moved by what its siblings did, plus a bonus for the unknown."""
        queue, options = self.queue, self.options
        chance = sigmoid(self.model.logits(queue.sparse[where], self._dense(where)))
        if options.siblings:
            groups = queue.groups[where]
            moved = self._groups.rate(groups, chance[:, None], options.shrinkage)
            chance = np.where(groups > 0, moved, 0.0).max(axis=1)
        if options.explore:
            unknown = 1.0 / np.sqrt(1.0 + self._places[1].seen(queue.places[where, 1]))
            unknown += 1.0 / np.sqrt(1.0 + self._places[2].seen(queue.places[where, 2]))
            decay = options.explore * 0.5 ** (self.fetched / options.explore_for)
            chance = chance + 0.5 * decay * unknown * chance
        return chance

    def changes(self) -> list[tuple[str, int, float]]:
        """Queued links whose place changed enough to matter, as (host, key, new score)."""
        queue = self.queue
        live = np.flatnonzero(queue.said[: queue.used] >= 0.0)
        if not self.options.rescore or not len(live):
            return []
        scores = self._scores(live)
        top = min(self.options.top, len(live))
        best = np.argpartition(-scores, top - 1)[:top]
        self._weigh(live[best])
        scores[best] = self._scores(live[best])
        floor = scores[best].min()
        said = queue.said[live]
        moved = (np.abs(scores - said) > _CHANGE) & (np.maximum(scores, said) >= floor)
        rows = live[moved]
        queue.said[rows] = scores[moved]
        keys, values = queue.keys[rows].tolist(), scores[moved].tolist()
        return [(queue.hosts[row], key, value) for row, key, value in zip(rows.tolist(), keys, values, strict=True)]
