"""Compute the code length of labels sent in blocks, each by a probe trained on the earlier blocks.

Voita & Titov (2020), "Information-Theoretic Probing with Minimum Description Length", section 3.2
(online code). The first block is sent uniformly, with log2(classes) bits per label. Every later
label costs -log2 of its probability under the probe of its block. Compression is the length of the
uniform code divided by the length of the online code. It is 1 if the states carry no information
about the labels.

mixlens differs from the paper as follows. The probe is linear. Its regularisation is not tuned on
held-out data: one probe for each strength encodes the labels, and the result is the Bayesian
mixture of these codes and the uniform code. The mixture takes at most log2(number of codes) bits
more than the best code. Random labels therefore cost at most that many bits more than the uniform
code and, by Kraft's inequality, save k bits with a probability of at most 2^-k. The uniform code is
used until every class has occurred. In a small data set, the first blocks are merged until they
contain `LEAST` examples.

`released_fit` and `released_costs` reproduce the probe of Mohebbi et al. (2023), for compression on
the scale of their figure 3. mixlens keeps the ways in which the code released with the paper
differs from the code above. The probe has a hidden layer of 128 units (ReLU, layer norm, dropout .2
and .3). The cross-entropy loss applies a second softmax to the probe's softmax output, in training
and in evaluation. Costs are in nats, except those of the first block, which are in bits. The
learning rate falls to zero within the first epoch, so later epochs change nothing, and training on
small data sets stops far from the optimum. For two classes, a label costs ln 2 = .69 without
information and ln(1 + 1/e) = .31 at best, so compression ranges from 1.44 to 3.19.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from mixlens.errors import InvalidInput, MissingExtra

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)
LEAST = 4
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # prior variances of a logit

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
"""Training states and labels, states to predict, number of classes -> probabilities
[strength, example, class].
"""


def block_ends(count: int, fractions: tuple[float, ...] = FRACTIONS) -> tuple[int, ...]:
    """Return the index at which each block ends. The first block has at least `LEAST` examples."""
    if count < 2 * LEAST:
        raise InvalidInput(
            f"{count} labelled examples are too few for an online code. Pass at least {2 * LEAST}."
        )
    ends = {round(share * count) for share in fractions}
    return tuple(sorted(end for end in ends if LEAST <= end < count)) + (count,)


def blockwise(
    states: np.ndarray, labels: np.ndarray, classes: int, ends: tuple[int, ...], fit: Fit
) -> np.ndarray:
    """Return the probabilities [strength, example, class] with which each label is encoded.

    `states` are [example, d]. `fit` trains the probe of each block on all earlier blocks.
    """
    probabilities: np.ndarray | None = None
    for start, stop in itertools.pairwise(ends):
        if len(np.unique(labels[:start])) < classes:
            continue
        block_probabilities = fit(states[:start], labels[:start], states[start:stop], classes)
        if probabilities is None:
            probabilities = np.full((len(block_probabilities), len(labels), classes), 1 / classes)
        probabilities[:, start:stop] = block_probabilities
    return (
        np.full((1, len(labels), classes), 1 / classes) if probabilities is None else probabilities
    )


def bits(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the cost of each label in bits, [..., example]."""
    label_probabilities = np.take_along_axis(
        probabilities, np.broadcast_to(labels[:, None], (*probabilities.shape[:-1], 1)), -1
    )
    with np.errstate(divide="ignore"):
        cost: np.ndarray = -np.log2(label_probabilities[..., 0])
    return cost


def mixed_bits(costs: np.ndarray) -> np.ndarray:
    """Return the cost of each label [example] in a mixture of codes with equal prior weights.

    `costs` [code, example] are the costs of each label under the individual codes.
    """
    lengths = np.concatenate([np.zeros((len(costs), 1)), np.cumsum(costs, 1)], 1)
    shortest = lengths.min(0)
    with np.errstate(over="ignore"):
        whole = shortest - np.log2(np.exp2(-(lengths - shortest)).mean(0))
    bits: np.ndarray = np.diff(whole)
    return bits


def logistic(
    states: np.ndarray, labels: np.ndarray, new_states: np.ndarray, classes: int
) -> np.ndarray:
    """Fit a logistic regression for each regularisation strength, on standardised states.

    The states are scaled so that their norm is about one. Return the class probabilities of
    `new_states`.
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtra("scikit-learn") from error
    mean, spread = states.mean(0), states.std(0)
    scale = np.where(spread > 0, spread, 1) * math.sqrt(states.shape[1])
    train, test = (states - mean) / scale, (new_states - mean) / scale
    if len(train) < train.shape[1]:  # directions orthogonal to all training states have no weight
        basis = np.linalg.svd(train, full_matrices=False)[2]
        train, test = train @ basis.T, test @ basis.T
    probes = [LogisticRegression(C=c, max_iter=1000) for c in STRENGTHS]  # type: ignore[no-untyped-call]
    return np.stack([probe.fit(train, labels).predict_proba(test) for probe in probes])


def label_bits(labels: np.ndarray, classes: int) -> float:
    """Return the length of a code that uses only label counts, not states (Krichevsky & Trofimov).

    The length shows how many bits unequal class frequencies save.
    """
    counts, total = np.full(classes, 0.5), 0.0
    for label in labels:
        total -= math.log2(counts[label] / counts.sum())
        counts[label] += 1
    return total


RELEASED_FRACTIONS = (0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
_BATCH, _RATE, _HIDDEN = 128, 1e-3, 128


def released_costs(probabilities: np.ndarray, labels: np.ndarray, first: int) -> np.ndarray:
    """Return the cost of each label [example].

    In the first block, a label costs log2(classes) bits. Later, it costs the cross-entropy in nats,
    computed with probabilities in place of logits.
    """
    classes = probabilities.shape[-1]
    first_costs = (
        np.log(np.exp(probabilities).sum(-1))
        - np.take_along_axis(probabilities, labels[:, None], 1)[:, 0]
    )
    first_costs[:first] = math.log2(classes)
    costs: np.ndarray = first_costs
    return costs


def released_fit(
    states: np.ndarray, labels: np.ndarray, new_states: np.ndarray, classes: int, *, seed: int = 0
) -> np.ndarray:
    """Train the released probe, and return its class probabilities [1, example, class] for
    `new_states`.
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
        inputs, classes_of_inputs = (
            torch.tensor(states, dtype=torch.float32),
            torch.tensor(labels, dtype=torch.long),
        )
        starts = range(0, len(inputs), _BATCH)
        for step, start in enumerate(starts):
            optimiser.param_groups[0]["lr"] = _RATE * (1 - step / len(starts))
            loss = nn.functional.cross_entropy(
                probe(inputs[start : start + _BATCH]), classes_of_inputs[start : start + _BATCH]
            )
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        probe.eval()
        with torch.no_grad():
            result: np.ndarray = (
                probe(torch.tensor(new_states, dtype=torch.float32)).double().numpy()[None]
            )
    return result
