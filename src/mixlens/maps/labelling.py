"""Turn scores that were computed elsewhere into `MixingMaps`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from mixlens.contracts import Facts
from mixlens.errors import InvalidInput
from mixlens.maps.provenance import plain
from mixlens.measures import find_spec
from mixlens.text.tokens import TokenRow


def label_scores(
    scores: Any,
    tokens: Sequence[str] | TokenRow | None,
    source_tokens: Sequence[str] | TokenRow | None,
    *,
    measure: str,
    facts: Facts | None,
    rollout_residual: float | int | None,
    rollout_normalised: bool | None,
    provenance: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the fields of the maps that `MixingMaps.of` creates.

    If mixlens has a measure of this name, properties that you do not pass are taken from it.
    """
    array = _array(scores)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"Scores have dtype {array.dtype}. Pass real numbers.")
    if not np.isfinite(array).all():
        raise InvalidInput("The scores contain NaN or infinity. Pass finite scores.")
    targets = _row(tokens, array.shape[-2])
    sources = targets if source_tokens is None else _row(source_tokens, array.shape[-1])
    spec = find_spec(measure)
    if spec is not None:
        facts = spec.facts if facts is None else facts
        if rollout_residual is None:
            rollout_residual = spec.rollout_residual
        if rollout_normalised is None:
            rollout_normalised = spec.rollout_normalised
    facts = facts or Facts()
    return {
        "scores": array,
        "layers": tuple(range(len(array))),
        "target_row": targets,
        "source_row": sources,
        "target_positions": tuple(range(len(targets))),
        "facts": replace(facts, same_tokens=facts.same_tokens and sources == targets),
        "provenance": plain({"measure": measure, "options": {}, "steps": [], **(provenance or {})}),
        "rollout_residual": rollout_residual,
        "rollout_normalised": rollout_normalised is not False,
        "rollout_adds_identity": spec is not None and spec.rollout_adds_identity,
    }


def _array(scores: Any) -> np.ndarray:
    """Return the scores as a NumPy array. Tensors on any device are accepted."""
    try:
        if hasattr(scores, "detach"):
            scores = scores.detach().cpu()
            scores = scores.float() if scores.dtype.itemsize == 2 else scores  # bfloat16 as well
        array = np.asarray(scores)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InvalidInput(
            f"{type(scores).__name__} is not an array of numbers [layer, (head,) target, "
            f"source] ({error}). Pass an array or a tensor."
        ) from error
    if np.ma.is_masked(scores):
        raise InvalidInput(
            "Some scores are masked, and maps have a score for each entry. Fill them with "
            "scores.filled(0), or select other entries."
        )
    if array.ndim not in (3, 4):
        raise InvalidInput(
            f"Scores have shape {array.shape}. Pass [layer, target, source] or [layer, head, "
            "target, source]."
        )
    if not array.size:
        raise InvalidInput(f"Scores are empty (shape {array.shape}). Pass at least one layer.")
    return array


def _row(tokens: Sequence[str] | TokenRow | None, count: int) -> TokenRow:
    if tokens is None:
        return TokenRow.numbered(count)
    if isinstance(tokens, TokenRow):
        return tokens
    if isinstance(tokens, Set):
        raise InvalidInput("Tokens are a set, which has no order. Pass a list.")
    labels: tuple[Any, ...] = tuple(tokens) if hasattr(tokens, "__iter__") else (tokens,)
    if not all(isinstance(label, str) for label in labels):
        raise InvalidInput(
            "Tokens are not strings. Pass strings, or leave them out to number them."
        )
    return TokenRow(labels)
