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
from mixlens.recording.events import Run
from mixlens.recording.layer import Layer
from mixlens.recording.projection import affine_map
from mixlens.recording.remembered import Remembered
from mixlens.recording.site import Site
from mixlens.recording.structure import SiteStructure

_DIRECTIONS, _EXACT = 4, "donot_use_mm_for_euclid_dist"
ValueMap = tuple[Float[Tensor, "head d_model d_head"], Float[Tensor, "head d_head"]]


@torch.no_grad()
def value_map(layer: Layer, site: Site) -> ValueMap:
    """Weights and biases of v = z W + b, with z what enters the attention."""
    values = site.values[0].to(layer.input)
    return _searched(layer, layer.whole.observed(), values, site.structure)


def value_bias(layer: Layer, site: Site) -> Float[Tensor, "head d_head"] | None:
    """b alone, or None if it is zero; remembered. It is read off a run in float32 or better,
    whatever the model's dtype.
    """
    bias = _biases.of(layer.submodule(""), site.structure.kind, lambda: _bias(layer, site))
    return None if bias is None else bias.to(site.head_maps)


_biases: Remembered[Float[Tensor, "head d_head"] | None] = Remembered()


@torch.no_grad()
def _bias(layer: Layer, site: Site) -> Float[Tensor, "head d_head"] | None:
    run = layer.whole.observed()
    values = run.cores[layer.position(site.structure.kind)].call.values[0]
    try:
        bias = _searched(layer, run, values, site.structure)[1]
        return bias if bool(bias.any()) else None
    except UnsupportedModel as error:
        raise UnsupportedModel(
            f"{error}: it is not known whether they have a bias. value_bias=True leaves it in them"
        ) from error


def _searched(
    layer: Layer, run: Run, values: Float[Tensor, "kv_head token d_head"], structure: SiteStructure
) -> ValueMap:
    """The affine module among those of a run that made these values."""
    heads, d_head = structure.heads, structure.d_head
    values = values.repeat_interleave(heads // len(values), 0)
    columns = values.transpose(0, 1).flatten(1)  # [token, head * d_head]
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(_DIRECTIONS, len(columns), generator=generator, dtype=torch.float64)
    directions = drawn.to(columns)
    for event in run.events:
        if not event.inputs or event.output is None or list(event.module.children()):
            continue
        given, made = event.inputs[0].flatten(0, -2), event.output.flatten(0, -2)
        if len(made) != len(columns) or made.shape[-1] < columns.shape[-1] // heads:
            continue
        affine = affine_map(event.module, int(given.shape[-1]), layer.input)
        if affine is None:
            continue
        # Columns are told apart by their products with random directions: one alone does not do,
        # as of thousands of columns two are closer than rounding.
        ours, theirs = (directions @ columns).T, (directions @ made.to(columns)).T
        nearest = torch.cdist(ours, theirs, compute_mode=_EXACT).argmin(1)
        weight, bias = affine[0][:, nearest], affine[1][nearest]
        if difference(given.to(weight) @ weight + bias, columns) <= same_bar(columns):
            matrices = weight.view(-1, heads, d_head).transpose(0, 1).contiguous()
            return matrices, bias.view(heads, d_head)
    raise UnsupportedModel(
        f"`{layer.structure.path}`: no affine module makes its values, so parts of the stream"
        " cannot be followed through them"
    )
