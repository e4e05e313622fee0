"""Success rates of links by host, directory, tag path and page, and delayed credit for pages with good links.

Counts are in hash tables of constant size. Delayed credit rewards a page whose links turned out well, whatever its own
text: this is how hubs are learned.
"""

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.caches import evict_oldest

HashArray = NDArray[np.uint32]
RateArray = NDArray[np.float64]


class _SuccessState(msgspec.Struct, array_like=True):
    used: bytes
    counts: bytes


class SuccessRates:
    """Sums of rewards and numbers of tries by hash. Places that share a bucket share counts: rare and harmless."""

    def __init__(self, bits: int) -> None:
        self._mask = np.uint32((1 << bits) - 1)
        # Side by side, so that a lookup touches one cache line instead of two.
        self._counts: NDArray[np.float32] = np.zeros((1 << bits, 2), dtype=np.float32)

    def add(self, hashes: HashArray, rewards: NDArray[np.floating]) -> None:
        """Add tries, one row each: every distinct nonzero hash of the row counts once."""
        mask = int(self._mask)
        # Faster than sorting for a few hashes.
        buckets = [{one & mask for one in row if one} for row in hashes.tolist()]
        at = np.array([bucket for row in buckets for bucket in row], dtype=np.intp)
        new = np.ones((len(at), 2), dtype=np.float32)
        new[:, 0] = np.repeat(rewards, [len(row) for row in buckets])
        np.add.at(self._counts, at, new)

    def correct(self, hashes: HashArray, change: float) -> None:
        """Change a reward that was added before by `change`."""
        at = np.unique(hashes & self._mask)
        rewards, tries = self._counts[at].T
        self._counts[at, 0] = np.clip(rewards + np.float32(change), 0.0, tries)

    def rate(self, hashes: HashArray, prior: NDArray[np.floating] | float, strength: float) -> RateArray:
        """The mean reward, shrunk towards `prior` with `strength` pseudo-tries."""
        found = self._counts.take(hashes & self._mask, axis=0)
        result: RateArray = (found[..., 0] + strength * np.asarray(prior, dtype=np.float64)) / (
            found[..., 1] + strength
        )
        return result

    def pooled_rate(self, hashes: HashArray, prior: float, strength: float) -> RateArray:
        """The mean reward of all nonzero hashes of a row together.

        Not the maximum: among many, that is the luckiest.
        """
        found = self._counts.take(hashes & self._mask, axis=0) * (hashes > 0)[..., None]
        rewards, tries = found.sum(axis=1, dtype=np.float64).T
        result: RateArray = (rewards + strength * prior) / (tries + strength)
        return result

    def nested_rate(self, chain: HashArray, prior: float, strength: float) -> RateArray:
        """The rate of the innermost place of each chain (host, directory, …), one chain per row.

        Each rate is shrunk towards that of the enclosing place, and the outermost towards `prior`. A repeated place
        counts once.
        """
        found = self._counts.take(chain & self._mask, axis=0).astype(np.float64)
        rewards, tries = found[..., 0], found[..., 1] + strength
        rate: RateArray = (rewards[:, 0] + strength * prior) / tries[:, 0]
        for level in range(1, chain.shape[1]):
            deeper = chain[:, level] != chain[:, level - 1]
            rate = np.where(deeper, (rewards[:, level] + strength * rate) / tries[:, level], rate)
        return rate

    def tries(self, hashes: HashArray) -> RateArray:
        """The number of tries of each hash."""
        return np.asarray(self._counts[hashes & self._mask, 1], dtype=np.float64)

    def snapshot(self) -> bytes:
        # Both counts as one number: a column alone would be copied first.
        used = self._counts.view(np.uint64)[:, 0].nonzero()[0].astype(np.uint32)
        return msgspec.msgpack.encode(_SuccessState(used.tobytes(), self._counts[used].tobytes()))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_SuccessState)
        used = np.frombuffer(kept.used, dtype=np.uint32)
        # Anew, because only used parts of a new table take memory.
        self._counts = np.zeros(self._counts.shape, dtype=np.float32)
        self._counts[used] = np.frombuffer(kept.counts, dtype=np.float32).reshape(-1, 2)


MAX_CREDIT_VISITS = 4_096  # visits whose features are kept
# Fetched links of a page before it gets credit.
MIN_FETCHED_CHILDREN = 3


class LinkExample(NamedTuple):
    """A training example: the features of a link when it was fetched, and its reward."""

    words: NDArray[np.uint32]
    dense: NDArray[np.float64]
    label: float


class _CreditedVisit(msgspec.Struct, array_like=True):
    page: int
    words: bytes
    dense: bytes
    label: float
    children: list[float]


class DelayedCredit:
    """Keeps recent visits and, once enough links of a page were fetched, gives the page credit for them."""

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._visits: dict[int, LinkExample] = {}
        self._children: dict[int, list[float]] = {}

    def add_visit(self, page: int, example: LinkExample) -> None:
        """Add a fetched page; `example.label` is its own reward."""
        if not self._gamma:
            return
        self._visits[page] = example
        for old in evict_oldest(self._visits, MAX_CREDIT_VISITS):
            self._children.pop(old, None)

    def credit_parents(self, parents: list[int], reward: float) -> list[LinkExample]:
        """Add the reward of a link to these pages; returns training examples for pages that get credit."""
        lessons = []
        for parent in parents if self._gamma else ():
            visit = self._visits.get(parent)
            if visit is None:
                continue
            rewards = self._children.setdefault(parent, [])
            # The page already got its credit.
            if len(rewards) == MIN_FETCHED_CHILDREN:
                continue
            rewards.append(reward)
            if len(rewards) == MIN_FETCHED_CHILDREN:
                label = min(1.0, visit.label + self._gamma * sum(rewards) / MIN_FETCHED_CHILDREN)
                if label > visit.label + 0.1:
                    lessons.append(visit._replace(label=label))
        return lessons

    def snapshot(self) -> bytes:
        kept = [
            _CreditedVisit(page, v.words.tobytes(), v.dense.tobytes(), v.label, self._children.get(page, []))
            for page, v in self._visits.items()
        ]
        return msgspec.msgpack.encode(kept)

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=list[_CreditedVisit])
        self._visits = {
            v.page: LinkExample(np.frombuffer(v.words, np.uint32), np.frombuffer(v.dense, np.float64), v.label)
            for v in kept
        }
        self._children = {v.page: v.children for v in kept if v.children}
