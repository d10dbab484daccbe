"""The value projection of an attention site as matrices, one for each head: found by numbers.

It is the affine module whose output has the recorded values among its columns, on its own (a value
projection) or next to queries and keys (a fused one). No names are read.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.recording.differences import difference, same_bar
from mixlens.recording.layer import Layer
from mixlens.recording.projection import affine_map
from mixlens.recording.site import Site

ValueMap = tuple[Float[Tensor, "head d_model d_head"], Float[Tensor, "head d_head"]]


@torch.no_grad()
def value_map(layer: Layer, site: Site) -> ValueMap:
    """Weights and biases of v = z W + b, with z what enters the attention."""
    heads, d_head = site.structure.heads, site.structure.d_head
    values = site.values[0].repeat_interleave(heads // site.values.shape[1], 0).to(layer.input)
    columns = values.transpose(0, 1).flatten(1)  # [token, head * d_head]
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(len(columns), generator=generator, dtype=torch.float64).to(columns)
    for event in layer.whole.observed().events:
        if not event.inputs or event.output is None or list(event.module.children()):
            continue
        given, made = event.inputs[0].flatten(0, -2), event.output.flatten(0, -2)
        if len(made) != len(columns) or made.shape[-1] < columns.shape[-1] // heads:
            continue
        affine = affine_map(event.module, int(given.shape[-1]), layer.input)
        if affine is None:
            continue
        # Columns are told apart by their product with one random direction.
        gaps = (direction @ columns)[:, None] - (direction @ made.to(columns))[None]
        nearest = gaps.abs().argmin(1)
        weight, bias = affine[0][:, nearest], affine[1][nearest]
        if difference(given.to(weight) @ weight + bias, columns) <= same_bar(columns):
            matrices = weight.view(-1, heads, d_head).transpose(0, 1).contiguous()
            return matrices, bias.view(heads, d_head)
    raise UnsupportedModel(
        f"`{layer.structure.path}`: no affine module makes its values, so that parts of the stream"
        " cannot be followed through them"
    )
