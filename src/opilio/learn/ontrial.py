"""A dense model whose newcomers have to earn their seat: features that may help on one web and mislead on another.

Two models learn side by side, one without the features on trial. Before an example is learnt both foretell it; the
whole one is asked only while it has been the better prophet. So a feature that tells nothing changes no score, and one
that tells is heard after some dozens of visits. Pure: the same examples give the same answer.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.learn.densemodel import MAX_LOGIT, DenseModel, Matrix

EARNED = 1.0  # nats by which the whole model must have foretold better
FORGET = 0.99  # of that lead at every example: about the last hundred count
_MARK = b"on trial\x00"


class _State(msgspec.Struct, array_like=True):
    core: bytes
    whole: bytes
    lead: float


class TrialModel:
    """As `DenseModel`; `on_trial` are places of features. While none of them ever spoke there is one model only."""

    def __init__(self, prior: Matrix, strength: float | Matrix = 1.0, on_trial: Sequence[int] = ()) -> None:
        self._on_trial = np.array(on_trial, dtype=np.int64)
        self.core = DenseModel(_without(prior, self._on_trial), strength)
        self.whole = DenseModel(prior, strength)
        self.lead = 0.0
        self._spoke = False

    @property
    def weights(self) -> Matrix:
        """Of the model that is asked."""
        return self.whole.weights if self.lead > EARNED else self.core.weights

    def logits(self, rows: NDArray[np.floating]) -> Matrix:
        """Of one example or of many."""
        result: Matrix = rows @ self.weights
        return result

    def learn(self, rows: Matrix, labels: Matrix, offsets: Matrix) -> None:
        """Examples; `offsets` are what another model already says of them."""
        if not self._spoke and rows[:, self._on_trial].any():
            self._spoke = True
            self.whole.restore(self.core.snapshot())
            self.whole.weights[self._on_trial] = self.whole.prior[self._on_trial]
        if self._spoke:
            lost, kept = (_losses(rows @ m.weights + offsets, labels) for m in (self.core, self.whole))
            for better in (lost - kept).tolist():
                self.lead = FORGET * self.lead + better
            self.whole.learn(rows, labels, offsets)
        self.core.learn(_without(rows, self._on_trial), labels, offsets)

    def snapshot(self) -> bytes:
        """Everything learnt; that of the one model where there is one."""
        core = self.core.snapshot()
        if not self._spoke:
            return core
        return _MARK + msgspec.msgpack.encode(_State(core, self.whole.snapshot(), self.lead))

    def restore(self, state: bytes, places: Sequence[int] | None = None) -> None:
        """Go on from a snapshot; `places` tells where each of its features stands now, -1: it is gone."""
        self._spoke = state.startswith(_MARK)
        kept = msgspec.msgpack.decode(state[len(_MARK) :], type=_State) if self._spoke else _State(state, b"", 0.0)
        self.core.restore(kept.core, places)
        self.core.forget(self._on_trial)  # an older version had them there
        if self._spoke:
            self.whole.restore(kept.whole, places)
        self.lead = kept.lead


def _without(rows: Matrix, places: NDArray[np.int64]) -> Matrix:
    kept = rows.copy()
    kept[..., places] = 0.0
    return kept


def _losses(logits: Matrix, labels: Matrix) -> Matrix:
    """−log of the chances that were given to what came."""
    bounded = np.clip(logits, -MAX_LOGIT, MAX_LOGIT)
    losses: Matrix = np.logaddexp(0.0, bounded) - np.clip(labels, 0.0, 1.0) * bounded
    return losses
