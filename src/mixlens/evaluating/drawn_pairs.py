"""Sample target-source pairs with their weight and norm from every text, for the rank correlations
of `norm_statistics`.

The sample is uniform over all pairs of a data set, and is drawn text by text. Every pair gets a
random priority, and each text keeps the pairs with the lowest priorities. The joint sample uses
only pairs below the lowest threshold of any text, so that each pair of the data set is drawn with
the same probability, whatever the length of its text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixlens.evaluating.states import CATEGORIES


def lowest(
    count: int, keep: int, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw at most `keep` of `count` items, by random priority.

    Return the indices of the drawn items, their priorities, and the threshold. All items with a
    priority below the threshold are drawn.
    """
    priorities = generator.random(count)
    if count <= keep:
        return np.arange(count), priorities, 1.0
    order = np.argpartition(priorities, keep)
    places = np.sort(order[:keep])
    return places, priorities[places], float(priorities[order[keep]])


def joint_sample(
    priorities: Sequence[np.ndarray], thresholds: Sequence[float], most: int | None = None
) -> list[np.ndarray]:
    """Return, for each text, a mask of the drawn items that belong to the joint sample.

    The joint sample of all texts contains at most `most` items.
    """
    least = min(thresholds, default=1.0)
    every = np.concatenate(
        [text_priorities[text_priorities < least] for text_priorities in priorities]
    )
    if most is not None and len(every) > most:
        least = float(np.partition(every, most)[most])
    return [text_priorities < least for text_priorities in priorities]


@dataclass(frozen=True)
class DrawnPairs:
    """The sampled pairs of one text, chosen before their scores are computed."""

    pairs: np.ndarray  # [pair, 5]: category, layer, head, weight, |f(x)|
    places: np.ndarray  # [pair, 2]: target, source
    priority: np.ndarray
    threshold: np.ndarray

    @classmethod
    def of(
        cls,
        shape: tuple[int, int],
        visible: np.ndarray,
        kinds: np.ndarray,
        keep: int,
        generator: np.random.Generator,
    ) -> DrawnPairs:
        """Sample at most `keep` visible pairs from each category, over all layers and heads."""
        pairs, places, priorities, thresholds = [], [], [], []
        for kind in range(len(CATEGORIES)):
            at = np.argwhere(visible & (kinds == kind))
            entries, priority, threshold = lowest(math.prod(shape) * len(at), keep, generator)
            layer, head, pair = np.unravel_index(entries, (*shape, max(1, len(at))))
            unknown = np.full(len(entries), np.nan)
            pairs.append(np.stack([np.full(len(entries), kind), layer, head, unknown, unknown], -1))
            places.append(at[pair])
            priorities.append(priority)
            thresholds.append(threshold)
        return cls(
            np.concatenate(pairs),
            np.concatenate(places),
            np.concatenate(priorities),
            np.array(thresholds),
        )

    def fill(self, layer: int, weights: np.ndarray, sizes: np.ndarray) -> None:
        """Store the weights and norms of the sampled pairs that belong to one layer."""
        in_layer = self.pairs[:, 1] == layer
        head, (target, source) = self.pairs[in_layer, 2].astype(int), self.places[in_layer].T
        self.pairs[in_layer, 3], self.pairs[in_layer, 4] = (
            weights[head, target, source],
            sizes[head, source],
        )


def join_pairs(observations: Sequence[dict[str, Any]], most: int) -> dict[str, np.ndarray]:
    """Return the joint sample of all texts as a dict of columns.

    The sample contains at most `most` pairs of each category.
    """
    tables = []
    for kind in range(len(CATEGORIES)):
        masks = [observation["pairs"][:, 0] == kind for observation in observations]
        samples = joint_sample(
            [
                observation["priority"][mask]
                for observation, mask in zip(observations, masks, strict=True)
            ],
            [float(observation["threshold"][kind]) for observation in observations],
            most,
        )
        tables += [
            observation["pairs"][mask][sample]
            for observation, mask, sample in zip(observations, masks, samples, strict=True)
        ]
    columns = np.concatenate(tables).T
    return {
        name: column.astype(int) if name in ("category", "layer", "head") else column
        for name, column in zip(
            ("category", "layer", "head", "weight", "norm"), columns, strict=True
        )
    }
