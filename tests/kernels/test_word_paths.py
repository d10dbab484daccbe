"""Paths through words against inseq's, and against their definition with loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mixlens.measures.integrated_gradients import ANCHORS, anchor_words, word_path
from tests import reference


@pytest.mark.parametrize("neighbours", [10, 49])
@pytest.mark.parametrize("anchors", ANCHORS)
def test_anchors_are_those_of_inseq(anchors: str, neighbours: int) -> None:
    numbers = reference.arrays("inseq/numbers.npz")
    model: Any = reference.pretrained("chefer2021/bert", "BertForSequenceClassification")
    vectors = model.get_input_embeddings().weight.detach()
    words = torch.from_numpy(numbers["ids"][0])
    made = anchor_words(words, 0, vectors, steps=10, anchors=anchors, neighbours=neighbours)
    np.testing.assert_array_equal(made.T.numpy(), numbers[f"words/{anchors}/{neighbours}"])


def _loops(word: int, baseline: int, vectors: Tensor, steps: int, neighbours: int) -> list[Tensor]:
    """Greedy, one channel at a time."""

    def moved(anchor: Tensor, start: Tensor) -> Tensor:
        out = anchor.clone()
        for channel in range(len(out)):
            ends = sorted([float(start[channel]), float(vectors[baseline][channel])])
            if not ends[0] <= float(anchor[channel]) <= ends[1]:
                out[channel] = start[channel] - (start - vectors[baseline])[channel] / steps
        return out

    path = [word]
    while len(path) < steps - 1:
        now = path[-1]
        if now == baseline:
            path.append(baseline)
            continue
        near = (vectors - vectors[now]).norm(dim=1).argsort().tolist()[1 : neighbours + 1]
        left = [other for other in near if other not in [*path, baseline]]
        costs = [float((vectors[o] - moved(vectors[o], vectors[now])).norm()) for o in left]
        path.append(left[int(np.argmin(costs))] if left else baseline)
    points = [vectors[word]]
    for anchor in path[1:]:
        points.append(moved(vectors[anchor], points[-1]))
    return [vectors[baseline], *points[::-1]]


@pytest.mark.parametrize(("steps", "neighbours"), [(2, 5), (6, 4), (9, 3)])
def test_paths_are_those_of_the_definition(steps: int, neighbours: int) -> None:
    """With few neighbours all are used up in the end, and the path stays at the baseline."""
    torch.manual_seed(1)
    vectors = torch.randn(8, 5, dtype=torch.float64)
    words = torch.tensor([1, 4, 6])
    made = word_path(
        words, 0, vectors, steps=steps, anchors="greedy", size=2, neighbours=neighbours
    )
    for place, word in enumerate(words.tolist()):
        expected = torch.stack(_loops(word, 0, vectors, steps, neighbours))
        torch.testing.assert_close(made[:, place], expected, rtol=0, atol=1e-12)
    back = (made[1:] - made[:-1]) * (vectors[words] - vectors[0])
    assert (back >= -1e-12).all()  # every channel runs one way
