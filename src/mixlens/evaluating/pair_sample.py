"""Draw a uniform sample of all pairs of a data set, text by text.

Every pair gets a random priority, and each text keeps its lowest ones. The joint sample uses only
those below the lowest threshold of any text, so that each pair of the data set has the same chance,
whatever the length of its text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def lowest(
    count: int, keep: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the indices of the kept items, their priorities, and the priority below which none is
    missing.
    """
    priorities = generator.random(count)
    if count <= keep:
        return np.arange(count), priorities, 1.0
    order = np.argpartition(priorities, keep)
    chosen = np.sort(order[:keep])
    return chosen, priorities[chosen], float(priorities[order[keep]])


def joint_sample(
    priorities: Sequence[np.ndarray], thresholds: Sequence[float], most: int | None = None
) -> list[np.ndarray]:
    """Return, for each text, which of its kept items belong to the joint sample of `most` items."""
    least = min(thresholds, default=1.0)
    every = np.concatenate([own[own < least] for own in priorities])
    if most is not None and len(every) > most:
        least = float(np.partition(every, most)[most])
    return [own < least for own in priorities]
