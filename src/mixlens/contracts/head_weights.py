"""Learned weights of attention heads, and the file that contains these weights.

The safetensors file contains the weights [layer, head] and a few parameters from each layer of the
model, so that mixlens can check that the weights were learned on the same model. The metadata
contains the name of the features and the settings of the fit.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mixlens.errors import CannotWrite, InvalidInput
from mixlens.model.json_values import parse_json, require_form

if TYPE_CHECKING:
    from torch import nn

FEATURES = ("attention", "attention_norm", "contribution_weights", "flow_routes")
_FORMAT = "mixlens head weights 1"
_SAMPLED = 16  # numbers of a layer by which it is recognised
_CLOSE = 0.02  # of their size: a model may be loaded in a different precision


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """A weight for each attention head, learned on one model."""

    weights: np.ndarray  # [layer, head]
    features: str  # the measure whose per-head scores are weighted
    samples: np.ndarray  # [layer, number]: of the model's own weights
    about: Mapping[str, Any]  # how they were learned

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same weights, learned on the same model in the same way."""
        if not isinstance(other, HeadWeights):
            return NotImplemented
        return (
            np.array_equal(self.weights, other.weights)
            and np.array_equal(self.samples, other.samples)
            and self.features == other.features
            and dict(self.about) == dict(other.about)
        )

    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __repr__(self) -> str:
        layers, heads = self.weights.shape
        return (
            f"<HeadWeights of {self.features} for {self.about.get('model')}: {layers} layers,"
            f" {heads} heads>"
        )

    def of_layer(self, number: int, module: nn.Module, heads: int) -> np.ndarray:
        """Return the weights of one layer, or raise `InvalidInput` if they were learned on another
        model.
        """
        layers, weight_heads = self.weights.shape
        if number >= layers or heads != weight_heads:
            raise InvalidInput(
                f"The head weights are for {layers} layers with {weight_heads} heads, but layer"
                f" {number} of this model has {heads} heads. Fit them on this model with"
                " `mixlens fit-heads`."
            )
        sample = sample_layer(module)
        if sample is not None and not _same(sample, self.samples[number]):
            raise InvalidInput(
                f"The head weights were learned on {self.about.get('model')}, and layer {number} of"
                " this model has different weights. Fit them on this model with"
                " `mixlens fit-heads`."
            )
        layer_weights: np.ndarray = self.weights[number]
        return layer_weights

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the weights to a safetensors file."""
        from safetensors.numpy import save_file

        about = {
            "format": _FORMAT,
            "features": self.features,
            "about": json.dumps(dict(self.about)),
        }
        tensors = {"weights": self.weights, "samples": self.samples}
        try:
            save_file(tensors, os.fspath(path), metadata=about)
        except OSError as error:
            raise CannotWrite(
                f"{os.fspath(path)} cannot be written ({error}). Pass a different path."
            ) from None


def holds_head_weights(path: str | os.PathLike[str]) -> bool:
    """Return whether `HeadWeights.save` has written a file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            return (file.metadata() or {}).get("format") == _FORMAT
    except (SafetensorError, OSError, ValueError):  # ValueError: a name that cannot be encoded
        return False


def load_head_weights(path: str | os.PathLike[str]) -> HeadWeights:
    """Load a file that `HeadWeights.save` has written."""
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidInput(f"weights={path!r} is not a file. Write one with `mixlens fit-heads`.")
    name = os.fspath(path)
    try:
        time_changed = os.stat(name).st_mtime_ns
    except OSError as error:
        raise InvalidInput(
            f"{name} cannot be read ({error.strerror}). Write it with `mixlens fit-heads`."
        ) from None
    return _load_file(name, time_changed)


@functools.lru_cache(maxsize=8)
def _load_file(name: str, time_changed: int) -> HeadWeights:
    """Read a file. `time_changed` is its modification time, so a changed file is read again."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(name, framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("format") != _FORMAT or about.get("features") not in FEATURES:
                raise ValueError("it is a different kind of file")
            weights, samples = file.get_tensor("weights"), file.get_tensor("samples")
            return _check_weights(weights, about["features"], samples, parse_json(about["about"]))
    except (SafetensorError, OSError, TypeError, ValueError, KeyError) as error:
        raise InvalidInput(
            f"{name} does not hold head weights ({error}). Write it with `mixlens fit-heads`."
        ) from None


def _check_weights(
    weights: np.ndarray, features: str, samples: np.ndarray, about: Any
) -> HeadWeights:
    """Return the head weights, or raise `ValueError` if the arrays or the metadata are invalid."""
    if weights.ndim != 2 or samples.ndim != 2 or len(weights) != len(samples):
        raise ValueError(f"weights of shape {weights.shape}, samples of shape {samples.shape}")
    for name, array in (("weights", weights), ("samples", samples)):
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{name} are not finite numbers")
    require_form(about, {str: object}, "about")
    return HeadWeights(weights, features, samples, about)


def sample_layer(module: nn.Module) -> np.ndarray | None:
    """Return a few parameters of a layer, or None if its weights cannot be read."""
    import torch

    tensors = [each for each in module.parameters() if each.is_floating_point()]
    if not tensors or any(each.is_meta for each in tensors):
        return None
    flat = torch.stack(
        [each.detach().reshape(-1)[each.numel() // 2].double().cpu() for each in tensors]
    ).numpy()
    places = np.linspace(0, len(flat) - 1, _SAMPLED).round().astype(int)
    sample: np.ndarray = flat[places]
    return sample


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    if one.shape != other.shape:
        return False
    return bool((np.abs(one - other) <= _CLOSE * np.abs(other) + 1e-12).all())
