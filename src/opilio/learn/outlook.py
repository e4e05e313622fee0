"""How many relevant pages wait in the queue? The sum of the chances, corrected by how such chances came true of late.

A ranker's scores order links well before they are good probabilities, so they are compared with what became of the
last few hundred links. What is asked first is what looks best: the correction says most about links like those.
"""

from collections import deque

import msgspec

WINDOW = 300
FEWEST = 30  # outcomes before anything is said
CAUTION = 0.5  # relevant pages, promised and come, that are imagined beside the seen ones


class _State(msgspec.Struct, array_like=True):
    recent: list[tuple[float, bool]]
    promise: float


class Outlook:
    """`promise` is the sum of the chances of what is queued, as the ranker last told it."""

    def __init__(self) -> None:
        self.promise = 0.0
        self._recent: deque[tuple[float, bool]] = deque(maxlen=WINDOW)

    def saw(self, predicted: float, relevant: bool) -> None:
        """A link that was held this promising turned out to be relevant, or not."""
        self._recent.append((min(1.0, max(0.0, predicted)), relevant))

    @property
    def calibration(self) -> float:
        """How many relevant pages came for each one promised."""
        promised = sum(predicted for predicted, _ in self._recent)
        came = sum(relevant for _, relevant in self._recent)
        return (came + CAUTION) / (promised + CAUTION)

    @property
    def expected(self) -> float | None:
        """Relevant pages still to be found in the queue; None while too little was seen to say."""
        if len(self._recent) < FEWEST:
            return None
        return self.promise * self.calibration

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(_State(list(self._recent), self.promise))

    def restore(self, state: bytes) -> None:
        kept = msgspec.msgpack.decode(state, type=_State)
        self.promise = kept.promise
        self._recent = deque(kept.recent, WINDOW)
