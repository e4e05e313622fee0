"""The logistic function and the area under the ROC curve, shared by all models."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Logits beyond this bound have a probability of 0 or 1 for every purpose here; clipping avoids overflow.
MAX_LOGIT = 12.0


def sigmoid(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    """The logistic function of each logit, clipped to ±`MAX_LOGIT`."""
    result: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(logits, -MAX_LOGIT, MAX_LOGIT)))
    return result


def logistic(logit: float) -> float:
    """The logistic function of one number.

    >>> logistic(0.0)
    0.5
    """
    return 1.0 / (1.0 + math.exp(-logit))


def roc_auc(positive: ArrayLike, negative: ArrayLike) -> float | None:
    """The probability that a positive example scores above a negative one, ties counting half; None without both.

    >>> roc_auc([0.9, 0.5], [0.5, 0.1]), roc_auc([0.9], [])
    (0.875, None)
    """
    above, below = np.asarray(positive, dtype=np.float64), np.sort(np.asarray(negative, dtype=np.float64))
    if not len(above) or not len(below):
        return None
    lower, upper = np.searchsorted(below, above, "left"), np.searchsorted(below, above, "right")
    return float((lower + upper).sum() / (2.0 * len(above) * len(below)))
