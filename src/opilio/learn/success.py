"""How often did links of a kind pay off? Counts in hashed tables: constant memory, whatever the crawl meets."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]
Rates = NDArray[np.float64]


class _State(msgspec.Struct, array_like=True):
    used: bytes
    counts: bytes


class Success:
    """Sums of rewards and numbers of tries, by hash. Two kinds that share a bucket share their fate: rare, harmless."""

    def __init__(self, bits: int) -> None:
        self._mask = np.uint32((1 << bits) - 1)
        # Side by side, so that looking a kind up touches one cache line and not two.
        self._counts: NDArray[np.float32] = np.zeros((1 << bits, 2), dtype=np.float32)

    def add(self, hashes: Hashes, rewards: NDArray[np.floating]) -> None:
        """Tries, one per row: of each of its hashes, once where one is repeated; hash 0 is no kind."""
        mask = int(self._mask)
        buckets = [{one & mask for one in row if one} for row in hashes.tolist()]  # of a few this beats sorting
        at = np.array([bucket for row in buckets for bucket in row], dtype=np.intp)
        new = np.ones((len(at), 2), dtype=np.float32)
        new[:, 0] = np.repeat(rewards, [len(row) for row in buckets])
        np.add.at(self._counts, at, new)

    def correct(self, hashes: Hashes, change: float) -> None:
        """A reward that was added before is now known to be larger or smaller by `change`."""
        at = np.unique(hashes & self._mask)
        rewards, tries = self._counts[at].T
        self._counts[at, 0] = np.clip(rewards + np.float32(change), 0.0, tries)

    def rate(self, hashes: Hashes, prior: NDArray[np.floating] | float, strength: float) -> Rates:
        """The mean reward, shrunk towards `prior` as if that had been seen `strength` times."""
        found = self._counts.take(hashes & self._mask, axis=0)
        result: Rates = (found[..., 0] + strength * np.asarray(prior, dtype=np.float64)) / (found[..., 1] + strength)
        return result

    def pooled(self, hashes: Hashes, prior: float, strength: float) -> Rates:
        """The mean reward of several kinds taken together, those of one row each; hash 0 is no kind.

        Not the best of them: among many that is the luckiest.
        """
        found = self._counts.take(hashes & self._mask, axis=0) * (hashes > 0)[..., None]
        rewards, tries = found.sum(axis=1, dtype=np.float64).T
        result: Rates = (rewards + strength * prior) / (tries + strength)
        return result

    def rate_inwards(self, chain: Hashes, prior: float, strength: float) -> Rates:
        """For chains of kinds, each within the one before it (host, directory, …), one per row: the rate of the
        innermost, shrunk towards that of the one around it, and so on outwards to `prior`. A kind that is repeated
        counts once."""
        found = self._counts.take(chain & self._mask, axis=0).astype(np.float64)
        rewards, tries = found[..., 0], found[..., 1] + strength
        rate: Rates = (rewards[:, 0] + strength * prior) / tries[:, 0]
        for level in range(1, chain.shape[1]):
            deeper = chain[:, level] != chain[:, level - 1]
            rate = np.where(deeper, (rewards[:, level] + strength * rate) / tries[:, level], rate)
        return rate

    def seen(self, hashes: Hashes) -> Rates:
        """How often links of these kinds were tried."""
        return np.asarray(self._counts[hashes & self._mask, 1], dtype=np.float64)

    def snapshot(self) -> bytes:
        used = np.flatnonzero(self._counts[:, 1]).astype(np.uint32)
        return msgspec.msgpack.encode(_State(used.tobytes(), self._counts[used].tobytes()))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_State)
        used = np.frombuffer(kept.used, dtype=np.uint32)
        self._counts[:] = 0.0
        self._counts[used] = np.frombuffer(kept.counts, dtype=np.float32).reshape(-1, 2)
