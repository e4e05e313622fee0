"""Where the nodes of a graph go: springs along edges, all nodes pushing each other away. Pure and deterministic."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 220


def spread(count: int, edges: Sequence[tuple[int, int, float]]) -> NDArray[np.float64]:
    """Places in the unit square, one a node (Fruchterman and Reingold, begun on a spiral instead of at random)."""
    if count == 0:
        return np.zeros((0, 2))
    turn = np.arange(count) * 2.399963  # the golden angle: even, whatever the number
    places = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    pull = np.zeros((count, count))
    for a, b, weight in edges:
        pull[a, b] = pull[b, a] = max(pull[a, b], weight)
    ideal = 1.6 / np.sqrt(count)
    for step in range(STEPS):
        apart = places[:, None, :] - places[None, :, :]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = ideal * ideal / distance**2 - pull * distance / ideal
        move = (apart * force[:, :, None]).sum(axis=1) - 1.2 * places
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        places += move / length * np.minimum(length, 0.12 * (1.0 - step / STEPS) + 0.002)
    low, high = places.min(axis=0), places.max(axis=0)
    fitted: NDArray[np.float64] = (places - low) / np.maximum(high - low, 1e-9)
    return fitted if count > 1 else np.full((1, 2), 0.5)
