"""Reproduce the probe of Mohebbi et al. (2023), for compression on the scale of their figure 3.

mixlens keeps the ways in which the code released with the paper differs from an online code with a
linear probe. The probe has a hidden layer of 128 units (ReLU, layer norm, dropout .2 and .3). The
cross-entropy loss applies a second softmax to the probe's softmax output, in training and in
evaluation. Costs are in nats, except those of the first block, which are in bits. The learning rate
falls to zero within the first epoch, so later epochs change nothing, and training on small data
sets stops far from the optimum. For two classes, a label costs ln 2 = .69 without information and
ln(1 + 1/e) = .31 at best, so compression ranges from 1.44 to 3.19.
"""

from __future__ import annotations

import math

import numpy as np

FRACTIONS = (0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
_BATCH, _RATE, _HIDDEN = 128, 1e-3, 128


def released_costs(probabilities: np.ndarray, labels: np.ndarray, first: int) -> np.ndarray:
    """Return the cost of each label [example].

    In the first block, a label costs log2(classes) bits. Later, it costs the cross-entropy in nats,
    computed with probabilities in place of logits.
    """
    classes = probabilities.shape[-1]
    again = (
        np.log(np.exp(probabilities).sum(-1))
        - np.take_along_axis(probabilities, labels[:, None], 1)[:, 0]
    )
    again[:first] = math.log2(classes)
    costs: np.ndarray = again
    return costs


def released_fit(
    states: np.ndarray, labels: np.ndarray, others: np.ndarray, classes: int, *, seed: int = 0
) -> np.ndarray:
    """Train the released probe, and return its class probabilities [1, example, class] for
    `others`.
    """
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        probe = nn.Sequential(
            nn.Dropout(0.2),
            nn.Linear(states.shape[1], _HIDDEN),
            nn.ReLU(),
            nn.LayerNorm(_HIDDEN),
            nn.Dropout(0.3),
            nn.Linear(_HIDDEN, classes),
            nn.Softmax(-1),
        )
        optimiser = torch.optim.AdamW(probe.parameters(), lr=_RATE, weight_decay=0.0)
        given, wanted = (
            torch.tensor(states, dtype=torch.float32),
            torch.tensor(labels, dtype=torch.long),
        )
        starts = range(0, len(given), _BATCH)
        for step, start in enumerate(starts):
            optimiser.param_groups[0]["lr"] = _RATE * (1 - step / len(starts))
            loss = nn.functional.cross_entropy(
                probe(given[start : start + _BATCH]), wanted[start : start + _BATCH]
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        probe.eval()
        with torch.no_grad():
            made: np.ndarray = (
                probe(torch.tensor(others, dtype=torch.float32)).double().numpy()[None]
            )
    return made
