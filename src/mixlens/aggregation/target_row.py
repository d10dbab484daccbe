"""One row out of all layers: what a measure says about one target, as shares that add up to one in
absolute value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from mixlens.errors import InvalidInput

if TYPE_CHECKING:
    from mixlens.maps import MixingMaps
    from mixlens.measures import Spec

AGGREGATES = ("mean", "rollout", "last")


def shares(values: Float[np.ndarray, "*rows source"]) -> Float[np.ndarray, "*rows source"]:
    """Rows divided by the sum of their sizes; signs stay, and a row of zeros too."""
    wide = values.astype(np.float64)
    sums = np.abs(wide).sum(-1, keepdims=True)
    found: np.ndarray = np.divide(wide, sums, out=np.zeros_like(wide), where=sums > 0)
    return found


def layer_rows(maps: MixingMaps, spec: Spec, target: int) -> Float[np.ndarray, "layer source"]:
    """The target's row in each layer.

    A measure that explains an output has one row for the whole model (or one for each layer).
    """
    return shares(maps.scores[:, 0] if spec.explains_output else maps.row(target).scores)


def target_row(
    maps: MixingMaps, spec: Spec, target: int, aggregate: str | int = "rollout"
) -> Float[np.ndarray, " source"]:
    """The layers as one row: "mean" of the layers' shares, "rollout", "last", or a layer's number.

    Measures of the whole model (hidden token attribution and those that explain an output) have a
    single natural row and use that.
    """
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"aggregate {aggregate!r}: choose one of {', '.join(AGGREGATES)}, or a layer's number"
        )
    if spec.explains_output:
        return shares(maps.scores[0, 0])
    if maps.provenance.get("reaches_input") and aggregate in AGGREGATES:
        return shares(maps.row(target).scores[-1])
    if aggregate == "rollout":
        return shares(rolled_out_absolute(maps).row(target).scores[-1])
    rows = layer_rows(maps, spec, target)
    return shares(
        rows.mean(0) if aggregate == "mean" else rows[-1 if aggregate == "last" else int(aggregate)]
    )


def rolled_out_absolute(
    maps: MixingMaps, residual: float | int | None = None, normalize: bool | None = None
) -> MixingMaps:
    """`maps.rollout`, by the measure's own rule where nothing else is said; of the sizes of scores
    that have both signs.
    """
    return (maps.normalized(absolute=True) if maps.facts.signed else maps).rollout(
        residual, normalize
    )
