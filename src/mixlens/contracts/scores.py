"""Store the result of a measure: the scores of a whole batch, with padding, and arrays that are
measured together with the scores of one text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mixlens.contracts.spec import Facts

if TYPE_CHECKING:
    import torch
    from torch import Tensor


def by_layer(parts: Sequence[Tensor]) -> Tensor:
    """Stack the scores of layers along a new first axis, on the device of the first layer."""
    import torch  # not above, because listing the measures needs no torch

    if len(parts) == 1:
        return parts[0][None]
    return torch.stack([part.to(parts[0].device) for part in parts])


@dataclass(frozen=True)
class LayerScores:
    """The scores of one layer for the whole batch: [batch, target, source] or [batch, head, target,
    source].

    Padding may hold any finite numbers, which mixlens removes later.
    """

    values: Tensor
    # Extras have a leading axis [batch, ...]; axes named target or source in `extra_dims` are cut
    # like `values`.
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    extra_dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _: KW_ONLY
    facts: Facts | None = None  # if options or the layer change them
    # If the sources are segments: their names, for each text of the batch.
    source_labels: Sequence[Sequence[str]] | None = None
    # [batch, target]: the size to which rounding is relative (`Spec.empty_below`).
    scale: Tensor | None = None


@dataclass(frozen=True)
class Scores:
    """The scores of a measure for the whole batch: [layer, batch, target, source] or [layer, batch,
    head, target, source].

    Padding may hold any finite numbers, which mixlens removes later.
    """

    values: Tensor
    # Extras have leading axes [layer, batch, ...]; axes named target or source in `extra_dims` are
    # cut like `values`.
    extras: Mapping[str, Tensor] = field(default_factory=dict)
    extra_dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _: KW_ONLY
    # If they are not the requested ones (0 = the input of the first layer, for gradients).
    layers: Sequence[int] | None = None
    # If the targets are not tokens of the attention (one explained output per text of the batch).
    target_labels: Sequence[str] | None = None
    source_labels: Sequence[Sequence[str]] | None = None  # of segments, for each text of the batch
    facts: Facts | None = None  # if options change them
    # [layer, batch, target]: the size to which rounding is relative (`Spec.empty_below`).
    scale: Tensor | None = None

    def to(self, device: str | torch.device) -> Scores:
        """Return the scores moved to a device."""
        return replace(
            self,
            values=self.values.to(device),
            extras={name: tensor.to(device) for name, tensor in self.extras.items()},
            scale=None if self.scale is None else self.scale.to(device),
        )

    @classmethod
    def of_layers(cls, layers: Sequence[LayerScores]) -> Scores:
        """Stack the scores of layers, in their order."""
        first = layers[0]
        scales = [part.scale for part in layers if part.scale is not None]
        facts = first.facts
        if facts is not None:
            whole = all(part.facts is None or part.facts.rows_sum_to_one for part in layers)
            facts = replace(facts, rows_sum_to_one=facts.rows_sum_to_one and whole)
        return cls(
            by_layer([part.values for part in layers]),
            {name: by_layer([part.extras[name] for part in layers]) for name in first.extras},
            first.extra_dims,
            source_labels=first.source_labels,
            facts=facts,
            scale=by_layer(scales) if scales else None,
        )

    @classmethod
    def of_outputs(cls, outputs: Sequence[Scores]) -> Scores:
        """Return the scores of several explained outputs of one text, stacked as targets."""
        import torch

        first = outputs[0]
        scales = [part.scale for part in outputs if part.scale is not None]
        return replace(
            first,
            values=torch.cat([part.values for part in outputs], -2),
            extras={
                name: torch.stack([part.extras[name] for part in outputs], 2)
                for name in first.extras
            },
            extra_dims={name: ("target", *first.extra_dims[name]) for name in first.extras},
            target_labels=None
            if first.target_labels is None
            else [label for part in outputs for label in part.target_labels or ()],
            scale=torch.cat(scales, -1) if scales else None,
        )

    def known_facts(self, usual: Facts) -> Facts:
        """Return the properties of these scores, or `usual` (the properties of the measure) if none
        are set.
        """
        return usual if self.facts is None else self.facts


@dataclass(frozen=True, eq=False)
class Extra:
    """An array that was computed together with the scores. `dims` names its axes."""

    dims: tuple[str, ...]
    values: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", as_readonly(self.values, np.asarray(self.values).dtype))


def as_readonly(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a read-only array: the array itself if it owns its data and is read-only, or else a
    copy.
    """
    flags = array.flags
    if flags.owndata and flags.c_contiguous and not flags.writeable and array.dtype == dtype:
        return array
    return freeze(np.array(array, dtype=dtype, order="C"))


def freeze(array: np.ndarray) -> np.ndarray:
    """Make the array read-only and return it."""
    array.flags.writeable = False
    return array
