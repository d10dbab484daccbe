"""Select a layer, a head or a target of maps for a figure, and describe the selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput
from mixlens.maps.target_row import layer_index
from mixlens.text.tokens import position_of
from mixlens.views.labels import token_labels

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps


def format_caption(maps: MixingMaps, detail: str = "") -> str:
    """Return the caption of a figure, with measure, steps, selection and model."""
    about = maps.provenance
    steps = " → ".join([str(about.get("measure")), *about.get("steps", [])])
    site = about.get("site") if about.get("kind") == AttentionKind.CROSS else None
    model = str(about.get("name") or about.get("model") or "")
    model = model.rstrip("/").split("/")[-1] if model.startswith("/") else model  # a folder
    target_naming = about.get("target_names")
    names = f"targets named by {target_naming}" if target_naming else None
    parts = [steps, detail, f"{site}-attention" if site == "cross" else site, names, model]
    return " · ".join(str(part) for part in parts if part)


def whole_layers(maps: MixingMaps, head: int | None) -> tuple[MixingMaps, str]:
    """Return maps without an axis of heads, and the name of the selected head."""
    if head is not None:
        return maps.head(head), f"head {head}"
    if maps.per_head:
        raise InvalidInput(
            "These maps have separate heads. Select one with head=…, merge them with "
            "maps.heads(), or draw plot('heads')."
        )
    return maps, ""


class ReadLayers(NamedTuple):
    """The scores [target, source] of one layer, or aggregated over all layers."""

    scores: np.ndarray
    name: str  # name of the layer or of the aggregation
    unit: str  # label of the colour bar


def read_layers(maps: MixingMaps, layer: int | None) -> ReadLayers:
    """Return the scores of one layer. By default, the layers are aggregated."""
    if layer is not None:
        place = layer_index(layer, maps.layers)
        return ReadLayers(maps.scores[place], f"layer {maps.layers[place]}", "score")
    reading = maps.reading
    unit = "normalised score" if reading.how == "mean" else "score"
    return ReadLayers(reading.of(maps.scores), reading.name, unit)


def target_of(maps: MixingMaps, target: int | str | None) -> int:
    """Return the position of the target.

    By default, this is the mask token, or else the last token that is not special.
    """
    if target is not None:
        return position_of(target, maps.target_row, maps.target_positions)
    tokens, positions = maps.target_row, maps.target_positions
    special = tokens.special or (False,) * len(tokens)
    masks = [at for at in positions if special[at] and "mask" in tokens.labels[at].lower()]
    ordinary = [at for at in positions if not special[at]]
    return masks[0] if len(masks) == 1 else (ordinary or list(positions))[-1]


def target_name(maps: MixingMaps, position: int) -> str:
    """Return the label of the target, with its position if the text has more than one token."""
    name = token_labels(maps.target_row)[position]
    return f"target {name}" + (f" (token {position})" if len(maps.target_row) > 1 else "")


def target_labels(maps: MixingMaps) -> list[str]:
    """Return readable labels of the targets."""
    labels = token_labels(maps.target_row)
    return [labels[place] for place in maps.target_positions]


def source_labels(maps: MixingMaps) -> list[str]:
    """Return readable labels of the sources."""
    return token_labels(maps.source_row)


def row_of(maps: MixingMaps, target: int) -> np.ndarray:
    """Return the scores of one target, [layer, source] or [layer, head, source]."""
    scores: np.ndarray = maps.scores[..., maps.target_positions.index(target), :]
    return scores
