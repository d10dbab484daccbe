"""Find the value projection of an attention module from its outputs, and return one matrix per
head.

The value projection is the affine module whose output contains the recorded values as columns. It
may be a separate module, or fused with queries and keys. Modules are not identified by name.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, same_bar
from mixlens.model.session import ModuleCache
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.structure.layer_structure import affine_map, may_add_bias

_DIRECTIONS, _EXACT = 4, "donot_use_mm_for_euclid_dist"
ValueMap = tuple[Float[Tensor, "head d_in d_head"], Float[Tensor, "head d_head"]]
Places = slice | Int[Tensor, " column"]


@dataclass(frozen=True)
class _ValueColumns:
    """The module that computes the values of an attention, and the columns of the module's output
    that contain the values.
    """

    path: str
    width: int  # of the module's input
    places: Places  # for each head and channel; a slice needs no copy


@torch.no_grad()
def value_map(layer: Layer, site: Attention) -> ValueMap:
    """Return the weights and biases of v = z W + b, where z is the input of the value projection.

    The location of the values is cached until the weights change.
    """
    weight, bias, places = _affine_columns(layer, site)
    shape = (site.structure.heads, site.structure.d_head)
    return weight[:, places].reshape(-1, *shape).transpose(0, 1), bias[places].view(shape)


def _affine_columns(layer: Layer, site: Attention) -> tuple[Tensor, Tensor, Places]:
    """Return the weight and bias of the module that computes the values, and the columns of its
    output that contain the values.
    """
    columns = _columns(layer, site)
    affine = affine_map(layer.submodule(columns.path), columns.width, layer.input)
    assert affine is not None  # it was one when the columns were found, and weights are the same
    return *affine, columns.places


def _columns(layer: Layer, site: Attention) -> _ValueColumns:
    return _known.of(
        layer.submodule(""),
        (site.structure.kind, layer.has_one_token),
        lambda: _discover_columns(layer, site),
    )


_known: ModuleCache[_ValueColumns] = ModuleCache()


def value_bias(layer: Layer, site: Attention) -> Float[Tensor, "head d_head"] | None:
    """Return the bias of the values, or None if it is zero."""
    try:
        if not may_add_bias(layer.submodule(_columns(layer, site).path)):
            return None
        _, every, places = _affine_columns(layer, site)
    except UnsupportedModel as error:
        raise UnsupportedModel(
            f"{str(error).removesuffix('.')}, and mixlens cannot tell whether the values have "
            "a bias. Pass value_bias=True to keep the bias in the values"
        ) from error
    bias = every[places].view(site.structure.heads, site.structure.d_head)
    return bias.to(site.head_maps) if bool(bias.any()) else None


def _discover_columns(layer: Layer, site: Attention) -> _ValueColumns:
    """Find the affine module that computes the values.

    The layer runs on noise, because on a real text, columns with different weights may produce
    equal values by chance.
    """
    whole, heads = layer.whole, site.structure.heads
    random_values = torch.randn(
        whole.input[:1].shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    noise = random_values.to(whole.input) * whole.input.std()
    run = whole.observe(hidden=noise if layer.structure.layout is None else None)
    values = run.cores[layer.position(site.structure.kind)].call.values[0]
    values = values.repeat_interleave(heads // len(values), 0)
    columns = values.transpose(0, 1).flatten(1)  # [token, head * d_head]
    generator = torch.Generator().manual_seed(0)
    random_values = torch.randn(_DIRECTIONS, len(columns), generator=generator, dtype=torch.float64)
    directions = random_values.to(columns)
    for event in run.events:
        if not event.inputs or event.output is None or list(event.module.children()):
            continue
        module_input, module_output = event.inputs[0].flatten(0, -2), event.output.flatten(0, -2)
        if (
            len(module_output) != len(columns)
            or module_output.shape[-1] < columns.shape[-1] // heads
        ):
            continue
        affine = affine_map(event.module, int(module_input.shape[-1]), layer.input)
        if affine is None:
            continue
        # Columns are distinguished by their products with random directions. One direction is not
        # enough: of thousands of columns two are closer than rounding.
        value_projections, output_projections = (
            (directions @ columns).T,
            (directions @ module_output.to(columns)).T,
        )
        nearest = torch.cdist(value_projections, output_projections, compute_mode=_EXACT).argmin(1)
        weight, bias = affine[0][:, nearest], affine[1][nearest]
        if difference(module_input.to(weight) @ weight + bias, columns) <= same_bar(columns):
            return _ValueColumns(event.path, int(module_input.shape[-1]), _as_slice(nearest))
    raise UnsupportedModel(
        f"`{layer.structure.path}`: no affine module computes its values, so parts of the "
        "stream cannot pass through them"
    )


def _as_slice(places: Int[Tensor, " column"]) -> Places:
    """Convert consecutive indices to a slice. Other indices are returned unchanged."""
    first, count = int(places[0]), len(places)
    follows = torch.equal(places, torch.arange(first, first + count, device=places.device))
    return slice(first, first + count) if follows else places
