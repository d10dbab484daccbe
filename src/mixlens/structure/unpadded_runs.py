"""Check that a model computes the same with and without padding. Without padding, torch's fused
attention gets no mask and asks the module whether it is causal. AIMv2's text tower returns that it
is not.

One padded text gives all texts of a batch their mask, so a padded probe does not show the error.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import LayerCall
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import rounding
from mixlens.structure.model_structure import ModelStructure
from mixlens.structure.probe import Probe
from mixlens.structure.probe_passes import native_calls, native_error


def require_same_unpadded(
    model: nn.Module, probe: Probe, structure: ModelStructure, padded: Sequence[LayerCall]
) -> None:
    """Compare the first text alone with the native run of the padded probe (`padded`), if a causal
    layer holds a module that claims not to be causal.
    """
    paths = {
        layer.path
        for stack in structure.stacks
        for layer in stack.layers
        if layer.sites[0].causal and _denies_it(model.get_submodule(layer.path))
    }
    mask = probe.inputs.get("attention_mask")
    if not paths or not isinstance(mask, Tensor) or (probe.whole and bool(mask.all())):
        return
    row = {
        name: value[:1] if isinstance(value, Tensor) and value.dim() else value
        for name, value in probe.inputs.items()
    }
    row["attention_mask"] = torch.ones_like(mask[:1])
    with torch.no_grad():
        native = native_calls(model, row, paths)
    in_batch = [call.hidden_out[:1] for call in padded if call.path in paths]
    error, where = native_error(in_batch, native, row)
    if not error <= rounding(native[0].hidden_out):
        raise UnsupportedModel(
            f"layer `{where}`: without padding the output of {type(model).__name__} differs "
            f"from a padded batch (relative error {error:.1e}), because sdpa drops its causal "
            "mask. Load it with attn_implementation='eager'."
        )


def _denies_it(layer: nn.Module) -> bool:
    return any(getattr(part, "is_causal", None) is False for part in layer.modules())
