"""Modarressi et al. (2023), DecompX: the masking protocol of its tables.

The tokens with the highest scores are replaced with [MASK]: 10, 20 … 90 % of all tokens, rounded
down. Special tokens are not replaced. AOPC is the mean drop in the probability of the class that
the model predicts for the whole text. ACC is the mean accuracy on the masked texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from mixlens.datasets.examples import Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import Case
from mixlens.evaluating.sources import select_sources
from mixlens.evaluations.aopc import read_without, removal_order
from mixlens.replay.explained_output import logits_of, select_explained
from mixlens.replay.probabilities import find_link, to_probabilities

SHARES = tuple(range(10, 100, 10))  # per cent


def mask_in_order(order: np.ndarray, tokens: int) -> np.ndarray:
    """Return which tokens are masked at each fraction, as a boolean array [fraction, token].

    `order` lists the tokens that may be masked, highest score first.
    """
    masked = np.zeros((len(SHARES), tokens), bool)
    for number, share in enumerate(SHARES):
        masked[number, order[: len(order) * share // 100]] = True
    return masked


def observe(
    case: Case, *, measure: str, options: Mapping[str, Any] | None = None, seed: int = 0
) -> dict[str, Any]:
    """Return `aopc` and `accuracy` of one text, each averaged over the fractions."""
    example = case.example
    if not isinstance(example, Labelled):
        raise InvalidInput(f"{example.kind} examples have no class. Use classification data.")
    right = int(select_explained(case.recording, label=example.label, of="logit").chosen[0])
    scores = case.target_row(measure, "rollout", **(options or {}))
    order = removal_order(
        scores, select_sources(case, special_tokens=False, include_target=False), seed
    )
    masked = mask_in_order(order, len(case.row))
    whole = np.zeros((1, len(case.row)), bool)
    link = find_link(case.recording.model, case.recording.output)

    def probabilities_in(output: Any, _: Tensor) -> Tensor:
        return to_probabilities(logits_of(output).float(), link)

    probabilities = read_without(
        case.recording, np.concatenate([whole, masked]), None, probabilities_in
    )
    predicted = int(probabilities[0].argmax())
    falls = probabilities[0, predicted] - probabilities[1:, predicted]
    return {
        "aopc": float(falls.mean()),
        "accuracy": float((probabilities[1:].argmax(-1) == right).mean()),
    }
