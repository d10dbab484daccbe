"""The singular values of the affine map x -> f(x), from the input of attention to each head's
transformed vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, rounding
from mixlens.replay.value_map import value_map
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
        _affine_values(layer, site).double() @ triangle.transpose(1, 2)
    )
    return values


def _affine_values(layer: Layer, site: Attention) -> Tensor:
    """Return the value projection of each head, [head, d_model + 1, d_head], with its bias as the
    last row.
    """
    read, values = read_by(layer, site)[0], site.values[0]
    try:
        weight, bias = value_map(layer, site)
    except UnsupportedModel:
        pass
    else:
        if weight.shape[1] == read.shape[-1]:  # otherwise it is a later one of several modules
            bar = rounding(values, layer.native_input.dtype)
            if difference(read @ weight + bias[:, None], values) <= bar:
                return torch.cat([weight, bias[:, None]], 1)
    raise UnsupportedModel(
        f"layer {layer.index} of {layer.stack.name}: no affine module computes the value "
        "vectors from the input of attention (the model may compute them in several steps), so "
        "singular values are not available"
    )
