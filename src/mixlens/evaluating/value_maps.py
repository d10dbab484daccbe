"""The affine map from what attention reads to each head's value vectors, found by numbers.

No module is looked up by its name: of the affine modules inside a layer, one returns every channel
of the value vectors, be it a projection of its own or one fused with queries and keys in any order.
Channels are matched by what they hold for the tokens of a recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.capture.hook_points import HookPoint, watching
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, rounding
from mixlens.structure.norms import norm_of
from mixlens.structure.projection import affine_map

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer


def read_by(layer: Layer, site: Attention) -> Tensor:
    """What the self-attention of a layer reads, [batch, target, d_model]: the stream, after the
    input norm if there is one.
    """
    path = site.structure.input_norm
    norm = None if path is None else norm_of(layer.module.get_submodule(path), layer.input)
    return layer.input if norm is None else norm(layer.input)


def value_map(layer: Layer, site: Attention) -> Tensor:
    """[head, d_model + 1, d_head]: the value projection of each head, its bias as the last row."""
    module, dtype = layer.module, layer.native_input.dtype
    heads, tokens, d_head = site.values.shape[1:]
    wanted = site.values[0].transpose(0, 1).reshape(tokens, heads * d_head)
    paths = [
        path
        for path, part in module.named_modules()
        if path and any(p.dim() == 2 for p in part.parameters(recurse=False))
    ]
    with watching(module, frozenset(HookPoint(path, "out") for path in paths)) as seen:
        layer.rerun(copies=1)
    for hook_point, output in seen.items():
        channels = output.reshape(-1, output.shape[-1]).to(wanted)
        if len(channels) != tokens:
            continue
        gaps, places = torch.cdist(wanted.T, channels.T, p=float("inf")).min(1)
        if float(gaps.max()) > rounding(wanted, dtype) * float(wanted.abs().max()):
            continue
        affine = affine_map(module.get_submodule(hook_point.path), layer.input.shape[-1], wanted)
        if affine is None:
            continue
        matrix, bias = affine[0][:, places], affine[1][places]
        if difference(read_by(layer, site)[0] @ matrix + bias, wanted) <= rounding(
            wanted, dtype
        ):  # not a later step of a chain
            return torch.cat([matrix, bias[None]]).reshape(-1, heads, d_head).transpose(0, 1)
    raise UnsupportedModel(
        f"layer {layer.index} of {layer.stack.name}: no affine module makes the value vectors of"
        " what attention reads (they may take several steps), so the map from tokens to them has"
        " no singular values"
    )


def singular_values_of(layer: Layer, site: Attention) -> Tensor:
    """[head, d_head]: singular values, largest first, of x -> f(x) = (x W_V + b_V) W_O with d_model
    + 1 rows; the others are zero.
    """
    triangle = torch.linalg.qr(site.output_weight.double().transpose(1, 2), mode="r")[
        1
    ]  # W_O = R^T Q^T: Q turns and keeps lengths
    values: Tensor = torch.linalg.svdvals(
        value_map(layer, site).double() @ triangle.transpose(1, 2)
    )
    return values
