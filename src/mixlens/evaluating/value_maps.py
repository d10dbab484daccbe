"""Find the affine map from the input of attention to each head's value vectors.

mixlens identifies the map by comparing numbers, not by module names. One of the affine modules in a
layer returns every channel of the value vectors, either as a separate projection or fused with
queries and keys in any order. Channels are matched by their values for the tokens of a recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.capture.layer_calls import HookPoint, watching
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, rounding
from mixlens.structure.layer_structure import affine_map
from mixlens.structure.norms import norm_of

if TYPE_CHECKING:
    from torch import Tensor

    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer


def read_by(layer: Layer, site: Attention) -> Tensor:
    """Return the input of a layer's self-attention, [batch, target, d_model]: the residual stream,
    after the input norm if there is one.
    """
    path = site.structure.input_norm
    norm = None if path is None else norm_of(layer.module.get_submodule(path), layer.input)
    return layer.input if norm is None else norm(layer.input)


def value_map(layer: Layer, site: Attention) -> Tensor:
    """Return the value projection of each head, [head, d_model + 1, d_head], with its bias as the
    last row.
    """
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
        ):  # not a later step of a sequence of modules
            return torch.cat([matrix, bias[None]]).reshape(-1, heads, d_head).transpose(0, 1)
    raise UnsupportedModel(
        f"layer {layer.index} of {layer.stack.name}: no affine module computes the value "
        "vectors from the input of attention (the model may compute them in several steps), so "
        "singular values are not available"
    )


def singular_values_of(layer: Layer, site: Attention) -> Tensor:
    """Return the d_head largest singular values [head, d_head] of x -> f(x) = (x W_V + b_V) W_O, in
    descending order.

    The matrix of this affine map has d_model + 1 rows, the last one for the bias. All other
    singular values are zero.
    """
    triangle = torch.linalg.qr(site.output_weight.double().transpose(1, 2), mode="r")[
        1
    ]  # W_O = R^T Q^T: Q is orthogonal and keeps lengths
    values: Tensor = torch.linalg.svdvals(
        value_map(layer, site).double() @ triangle.transpose(1, 2)
    )
    return values
