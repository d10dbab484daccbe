"""Aggregate the layers of one target into one set of scores.

`reading_of` decides how the layers of maps are aggregated if the caller does not select one. The
Python API, the command line, figures and the viewer all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from mixlens.errors import InvalidInput
from mixlens.maps.rollout import roll_out
from mixlens.maps.target_row import Reading, shares
from mixlens.measures import find_spec

if TYPE_CHECKING:
    from mixlens.contracts import Spec
    from mixlens.maps.mixing_maps import MixingMaps

__all__ = [
    "AGGREGATES",
    "DEFAULT_READING",
    "layer_rows",
    "reading_of",
    "roll_out_absolute",
    "shares",
    "target_row",
]

AGGREGATES = ("mean", "rollout", "last")

DEFAULT_READING = "mean"
"""The default aggregation: the mean of the normalised layers. It is the safest choice for decoders
with long prompts; on the small bundled models no reading is best (docs/maps.md).
"""


def reading_of(maps: MixingMaps) -> Reading:
    """Return how the layers of these maps are aggregated by default.

    If the layers are already aggregated, or if the scores of each layer refer to the input tokens,
    the last layer is used. If a measure returns a single set of scores per layer, the measure
    itself defines how the layers are aggregated.
    """
    layers, facts = maps.layers, maps.facts
    if len(layers) == 1:
        return Reading("last", _last_name(maps))
    spec = find_spec(str(maps.provenance.get("measure")))
    if spec is not None and spec.gives != "maps" and facts.joined_by is None:
        how = spec.one_row
        return Reading(how, _SEVERAL[how](layers))
    if facts.joined_by is not None or facts.reaches_input:
        return Reading("last", _last_name(maps))
    return Reading(DEFAULT_READING, _SEVERAL[DEFAULT_READING](layers))


_SEVERAL: dict[str, Callable[[Sequence[int]], str]] = {
    "mean": lambda layers: f"mean of {len(layers)} layers",
    "sum": lambda layers: f"sum of {len(layers)} layers",
    "first": lambda layers: f"layer {layers[0]}",
}


def _last_name(maps: MixingMaps) -> str:
    last, aggregation = maps.layers[-1], maps.facts.joined_by
    if aggregation is not None:
        how = aggregation.partition("(")[0]
        return "mean of the layers" if how == "mean" else f"{how} up to layer {last}"
    return f"up to layer {last}" if maps.facts.reaches_input else f"layer {last}"


def layer_rows(maps: MixingMaps, spec: Spec, target: int) -> Float[np.ndarray, "layer source"]:
    """Return the target's scores in each layer.

    If the measure returns a single set of scores per layer instead of a map, that set is returned.
    """
    return shares(maps.row(target).scores if spec.gives == "maps" else maps.scores[:, 0])


def target_row(
    maps: MixingMaps, spec: Spec, target: int, aggregate: str | int = "rollout"
) -> Float[np.ndarray, " source"]:
    """Return the scores of one target. Their absolute values sum to one.

    `aggregate` is "mean" (of the normalised layers), "rollout", "last", or a layer number. Measures
    of the whole model (hidden token attribution, and measures with a single set of scores) already
    have aggregated scores, which are returned as they are.
    """
    if isinstance(aggregate, str) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"Unknown aggregate {aggregate!r}. Choose one of: {', '.join(AGGREGATES)}, or "
            "pass a layer number."
        )
    if spec.gives != "maps":
        return shares(Reading(spec.one_row, "").of(maps.scores[:, 0]))
    if maps.facts.reaches_input and aggregate in AGGREGATES:
        return shares(maps.row(target).scores[-1])
    if aggregate == "rollout":
        return shares(roll_out_absolute(maps).row(target).scores[-1])
    by_layer = layer_rows(maps, spec, target)
    return shares(
        by_layer.mean(0)
        if aggregate == "mean"
        else by_layer[-1 if aggregate == "last" else int(aggregate)]
    )


def roll_out_absolute(
    maps: MixingMaps, residual: float | int | None = None, normalise: bool | None = None
) -> MixingMaps:
    """Return `maps.rollout`, with absolute values in place of signed scores.

    By default, the rollout follows the rule of the measure's authors.
    """
    return roll_out(
        maps.normalised(absolute=True) if maps.facts.signed else maps, residual, normalise
    )
