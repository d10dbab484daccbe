"""How many bits a sequence of labels takes when it is sent in blocks, each by a probe trained on
the blocks before it.

Voita & Titov (2020), "Information-Theoretic Probing with Minimum Description Length", section 3.2
(online code). The first block is sent uniformly, log2(classes) bits a label; every later label
costs -log2 of the probability that the probe of its block gave it. Compression is the uniform
code's length over this one's: 1 if states say nothing about labels.

Departures. The probe is linear, but how strongly it is held back is not tuned on held-out data: a
probe of each strength sends the labels, the uniform code is one of them, and the code is their
Bayesian mixture. It takes at most log2(strengths) bits more than the best of them, so labels at
random cost no more than that above the uniform code, and by Kraft's inequality they gain k bits
with probability 2^-k at most. While a class has not been seen yet, the uniform code is kept. If
the data set is small, blocks that end before `LEAST` examples are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from mixlens.errors import InvalidInput, MissingExtra

FRACTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)
LEAST = 4
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # variances of a logit before anything is seen

Fit = Callable[[np.ndarray, np.ndarray, np.ndarray, int], np.ndarray]
"""Training states and labels, states to predict, number of classes -> probabilities
[strength, example, class].
"""


def block_ends(count: int, fractions: tuple[float, ...] = FRACTIONS) -> tuple[int, ...]:
    """Where each block ends: the given shares of the examples, those below `LEAST` left out."""
    if count < 2 * LEAST:
        raise InvalidInput(
            f"an online code needs at least {2 * LEAST} labelled examples, and {count} came: give"
            " more texts"
        )
    ends = {round(share * count) for share in fractions}
    return tuple(sorted(end for end in ends if LEAST <= end < count)) + (count,)


def blockwise(
    states: np.ndarray, labels: np.ndarray, classes: int, ends: tuple[int, ...], fit: Fit
) -> np.ndarray:
    """[strength, example, class]: the probabilities by which each label is sent.

    States are [example, d].
    """
    probabilities: np.ndarray | None = None
    for start, stop in itertools.pairwise(ends):
        if len(np.unique(labels[:start])) < classes:
            continue
        made = fit(states[:start], labels[:start], states[start:stop], classes)
        if probabilities is None:
            probabilities = np.full((len(made), len(labels), classes), 1 / classes)
        probabilities[:, start:stop] = made
    return (
        np.full((1, len(labels), classes), 1 / classes) if probabilities is None else probabilities
    )


def bits(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """[..., example]: what each label costs."""
    taken = np.take_along_axis(
        probabilities, np.broadcast_to(labels[:, None], (*probabilities.shape[:-1], 1)), -1
    )
    with np.errstate(divide="ignore"):
        cost: np.ndarray = -np.log2(taken[..., 0])
    return cost


def mixed_bits(costs: np.ndarray) -> np.ndarray:
    """[example]: what each label costs in the mixture of the codes [code, example], equal at the
    start, weighed by what they said so far.
    """
    lengths = np.concatenate([np.zeros((len(costs), 1)), np.cumsum(costs, 1)], 1)
    shortest = lengths.min(0)
    with np.errstate(over="ignore"):
        whole = shortest - np.log2(np.exp2(-(lengths - shortest)).mean(0))
    bits: np.ndarray = np.diff(whole)
    return bits


def logistic(
    states: np.ndarray, labels: np.ndarray, others: np.ndarray, classes: int
) -> np.ndarray:
    """Logistic regression on states scaled to unit length on average, once for each strength."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError as error:
        raise MissingExtra("scikit-learn") from error
    mean, spread = states.mean(0), states.std(0)
    scale = np.where(spread > 0, spread, 1) * math.sqrt(states.shape[1])
    known, asked = (states - mean) / scale, (others - mean) / scale
    if len(known) < known.shape[1]:  # what is orthogonal to all training states has no weight
        basis = np.linalg.svd(known, full_matrices=False)[2]
        known, asked = known @ basis.T, asked @ basis.T
    probes = [LogisticRegression(C=c, max_iter=1000) for c in STRENGTHS]  # type: ignore[no-untyped-call]
    return np.stack([probe.fit(known, labels).predict_proba(asked) for probe in probes])


def label_bits(labels: np.ndarray, classes: int) -> float:
    """The length of a code that counts labels and sees no states (Krichevsky & Trofimov): what
    unequal classes alone save.
    """
    seen, total = np.full(classes, 0.5), 0.0
    for label in labels:
        total -= math.log2(seen[label] / seen.sum())
        seen[label] += 1
    return total
