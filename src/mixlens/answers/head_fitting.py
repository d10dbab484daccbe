"""Learn the weights of attention heads from the effect of hiding sources.

The method is AT2 (Cohen-Wang et al. 2025, Learning to Attribute with Attention), as in the authors'
released code. For each example, random masks hide some of the sources: mask k is drawn with seed k,
keeps each source with probability 1/2, and hides the keys of the other sources from all other
tokens. The output for a mask is the log-odds of the target under this mask. The prediction for a
mask b is `sum_j (2 b_j - 1) theta . phi_j`. The loss of an example is minus the Pearson correlation
of predictions and outputs over its masks. Adam (learning rate 1e-3, cosine decay to 0, gradients
clipped to norm 1) minimises the mean loss of a batch, starting from equal weights. Finally, the
weights are divided by their L1 norm. The released code stores features and outputs in float16,
while mixlens uses float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

_RATE = 1e-3
_BATCH = 512  # examples of a step, each with one target


@dataclass(frozen=True)
class HeadExample:
    """Features and outputs of one target for every mask."""

    features: Float[np.ndarray, "mask feature"]
    outputs: Float[np.ndarray, " mask"]


@dataclass(frozen=True)
class Fit:
    """Learned weights."""

    before: Float[np.ndarray, " feature"]  # before they are divided by their L1 norm
    weights: Float[np.ndarray, " feature"]
    loss: float  # of all targets


def draw_masks(count: int, sources: int) -> Bool[np.ndarray, "mask source"]:
    """Return which sources each mask keeps. Mask k is drawn with seed k."""
    draws = [
        np.random.RandomState(k).choice([False, True], size=sources, p=[0.5, 0.5])
        for k in range(count)
    ]
    return np.stack(draws)


def mask_features(
    masks: Bool[np.ndarray, "mask source"], by_source: Float[np.ndarray, "source feature"]
) -> Float[np.ndarray, "mask feature"]:
    """Return the features of each mask b, `sum_j (2 b_j - 1) phi_j`."""
    summed: np.ndarray = (2.0 * masks - 1) @ by_source
    return summed


def pearson_loss(
    weights: Float[Tensor, " feature"],
    features: Float[Tensor, "example mask feature"],
    outputs: Float[Tensor, "example mask"],
) -> Float[Tensor, " example"]:
    """Return the negative correlation of predictions and outputs over the masks of each example."""
    predicted = features @ weights
    x, y = (each - each.mean(1, keepdim=True) for each in (predicted, outputs))
    spread = x.square().mean(1).sqrt() * y.square().mean(1).sqrt()
    return -(x * y).mean(1) / (spread + 1e-8)


def fit_weights(examples: Sequence[Sequence[HeadExample]], steps: int, seed: int = 0) -> Fit:
    """Learn weights from examples, each with one or several targets."""
    count = examples[0][0].features.shape[1]
    weights = torch.full((count,), 1 / count, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([weights], lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
    chance = np.random.RandomState(seed)
    size = min(_BATCH, len(examples))
    every = _stack_targets([target for targets in examples for target in targets])
    with torch.enable_grad():
        for _ in range(steps):
            places = chance.choice(len(examples), size=size, replace=False)
            targets = [examples[place][chance.randint(len(examples[place]))] for place in places]
            loss = pearson_loss(weights, *_stack_targets(targets)).mean()
            (weights.grad,) = torch.autograd.grad(loss, weights)
            torch.nn.utils.clip_grad_norm_([weights], 1.0)
            optimiser.step()
            schedule.step()
    before = weights.detach()
    learned = before / before.abs().sum()
    return Fit(before.numpy(), learned.numpy(), float(pearson_loss(learned, *every).mean()))


def _stack_targets(targets: Sequence[HeadExample]) -> tuple[Tensor, Tensor]:
    features = torch.from_numpy(np.stack([target.features for target in targets]))
    outputs = torch.from_numpy(np.stack([target.outputs for target in targets]))
    return features.double(), outputs.double()
