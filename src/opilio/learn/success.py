"""How often did links of a kind pay off? Counts in hashed tables: constant memory, whatever the crawl meets."""

import msgspec
import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]
Rates = NDArray[np.float64]


class _State(msgspec.Struct, array_like=True):
    used: bytes
    rewards: bytes
    tries: bytes


class Success:
    """Sums of rewards and numbers of tries, by hash. Two kinds that share a bucket share their fate: rare, harmless."""

    def __init__(self, bits: int) -> None:
        self._mask = np.uint32((1 << bits) - 1)
        self.rewards: NDArray[np.float32] = np.zeros(1 << bits, dtype=np.float32)
        self.tries: NDArray[np.float32] = np.zeros(1 << bits, dtype=np.float32)

    def add(self, hashes: Hashes, reward: float) -> None:
        """One try for each of the hashes, once where one is repeated."""
        at = np.unique(hashes & self._mask)
        self.rewards[at] += np.float32(reward)
        self.tries[at] += np.float32(1.0)

    def correct(self, hashes: Hashes, change: float) -> None:
        """A reward that was added before is now known to be larger or smaller by `change`."""
        at = np.unique(hashes & self._mask)
        self.rewards[at] = np.clip(self.rewards[at] + np.float32(change), 0.0, self.tries[at])

    def rate(self, hashes: Hashes, prior: NDArray[np.floating] | float, strength: float) -> Rates:
        """The mean reward, shrunk towards `prior` as if that had been seen `strength` times."""
        at = hashes & self._mask
        rewards = self.rewards[at] + strength * np.asarray(prior, dtype=np.float64)
        result: Rates = rewards / (self.tries[at] + strength)
        return result

    def seen(self, hashes: Hashes) -> Rates:
        """How often links of these kinds were tried."""
        return np.asarray(self.tries[hashes & self._mask], dtype=np.float64)

    def snapshot(self) -> bytes:
        used = np.flatnonzero(self.tries).astype(np.uint32)
        parts = (used, self.rewards[used], self.tries[used])
        return msgspec.msgpack.encode(_State(*(p.tobytes() for p in parts)))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_State)
        used = np.frombuffer(kept.used, dtype=np.uint32)
        self.rewards[:] = 0.0
        self.tries[:] = 0.0
        self.rewards[used] = np.frombuffer(kept.rewards, dtype=np.float32)
        self.tries[used] = np.frombuffer(kept.tries, dtype=np.float32)
