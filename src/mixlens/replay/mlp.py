"""Read the MLP of a layer as matrices, if it is plain or gated.

A plain MLP computes act(z W_1 + b_1) W_2 + b_2, and a gated MLP (act(z W_g + b_g) * (z W_u + b_u))
W_2 + b_2. z is the output of a norm, or the stream itself. Mixtures of experts, convolutions and
other kinds of MLPs are not recognised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.kernels.differences import difference, same_bar
from mixlens.model.session import ModuleCache
from mixlens.recording.layer import Layer
from mixlens.structure.layer_structure import Affine, affine_map, may_add_bias
from mixlens.structure.norms import LinearisedNorm, norm_of

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu_squared": lambda x: F.relu(x).square(),
}


@dataclass(frozen=True)
class _Paths:
    norm: str | None  # None if it reads the stream directly
    first: tuple[str, ...]  # one, or the gate and its factor
    second: str
    activation: str
    after: str | None  # a norm between the second product and the residual


@dataclass(frozen=True)
class _MlpModules:
    """The modules of one layer's MLP.

    Only the modules are stored, because copies of their weights would become stale if the model
    moved to another device.
    """

    norm: nn.Module | None
    first: tuple[nn.Module, ...]
    second: nn.Module
    activation: str
    after: str | None
    biased: bool


@dataclass(frozen=True)
class Mlp:
    """The matrices of one layer's MLP."""

    norm: LinearisedNorm  # norm with output z
    first: tuple[Affine, ...]  # [d_model, d_ff]
    second: Affine  # [d_ff, d_model]
    activation_name: str
    after: str | None
    biased: bool  # False if no product has a bias

    @property
    def activation(self) -> Callable[[Tensor], Tensor]:
        """Return the activation function of the hidden layer."""
        return ACTIVATIONS[self.activation_name]

    def normalise(
        self, vectors: Float[Tensor, "*rows d_model"], *, needed: bool = True
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, "*rows 1"]]:
        """Return z and 1 / sigma for vectors before the norm.

        Since there can be n^2 vectors, the number of passes over the data is kept small. For a norm
        that does not centre, z is computed only if `needed`; otherwise the vectors are returned
        unchanged in place of z.
        """
        norm, width = self.norm, vectors.shape[-1]
        if norm.centred:
            normed, _, inverse = torch.native_layer_norm(
                vectors, [width], norm.gain, norm.shift, norm.epsilon
            )
            return normed, inverse
        length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
        inverse = torch.rsqrt(length.square() / width + norm.epsilon)
        return (vectors * inverse).mul_(norm.gain).add_(norm.shift) if needed else vectors, inverse

    def hidden(self, products: list[Tensor]) -> Tensor:
        """Return the hidden activations of the MLP, given the outputs of the first matrix
        products.
        """
        activated = self.activation(products[0])
        return activated if len(products) == 1 else activated.mul_(products[1])


def find_mlp(layer: Layer, dtype: torch.dtype | None = None, *, normed: bool = True) -> Mlp | None:
    """Return the MLP of a layer, or None if the layer has no plain or gated MLP.

    The matrices have the dtype `dtype`, or by default float32 or better. If `dtype` is the model's
    own dtype, they are not copied. By default, the MLP must follow a norm; set `normed=False` to
    accept an MLP without a norm.
    """
    key = (layer.structure, layer.has_one_token)
    parts = _modules.of(layer.submodule(""), key, lambda: _modules_of(layer))
    if parts is None or (normed and parts.norm is None):
        return None
    wide = layer.input
    like = layer.native_input if dtype == layer.native_input.dtype else wide
    like = like if dtype is None else like.to(dtype)
    norm = _identity(wide) if parts.norm is None else norm_of(parts.norm, wide)
    if norm is None or (parts.norm is not None and not norm.scaled):
        return None
    first, width = [], int(like.shape[-1])
    for module in parts.first:
        product = affine_map(module, width, like)
        if product is None:
            return None
        first.append(product)
    second = affine_map(parts.second, int(first[0][0].shape[1]), like)
    if second is None:
        return None
    return Mlp(
        norm=norm,
        first=tuple(first),
        second=second,
        activation_name=parts.activation,
        after=parts.after,
        biased=parts.biased,
    )


def _identity(like: Tensor) -> LinearisedNorm:
    gain = torch.ones_like(like[0, 0])
    return LinearisedNorm(gain, torch.zeros_like(gain), centred=False, scaled=False, shifted=False)


_known: ModuleCache[_Paths | None] = ModuleCache()
_modules: ModuleCache[_MlpModules | None] = ModuleCache()


def _modules_of(layer: Layer) -> _MlpModules | None:
    paths = _known.of(layer.model, layer.signature, lambda: _discover_paths(layer.whole))
    if paths is None:
        return None
    first, second = tuple(map(layer.submodule, paths.first)), layer.submodule(paths.second)
    return _MlpModules(
        norm=None if paths.norm is None else layer.submodule(paths.norm),
        first=first,
        second=second,
        activation=paths.activation,
        after=paths.after,
        biased=any(map(may_add_bias, (*first, second))),
    )


@dataclass(frozen=True)
class _ModuleCall:
    """The input and output of a submodule in its last call, with batch and token axes flattened."""

    path: str
    module: nn.Module
    input: Tensor
    output: Tensor


@torch.no_grad()
def _discover_paths(layer: Layer) -> _Paths | None:
    structure, site = layer.structure.feed_forward, layer.structure.sites[-1]
    if (
        structure is None
        or site.parallel
        or site.branch_norm
        or site.branch
        or (site.output_norm and structure.input_norm)
    ):
        return None
    norm_path = site.output_norm or structure.input_norm
    if norm_path == structure.output:  # a single neuron may pass for a scale of each channel
        norm_path = None
    events = {
        event.path: _ModuleCall(
            event.path, event.module, event.inputs[0].flatten(0, -2), event.output.flatten(0, -2)
        )
        for event in layer.observe().events
        if event.output is not None and event.output.dim() > 1
        if event.inputs and event.inputs[0].dim() > 1
    }
    if structure.output not in events or (norm_path is not None and norm_path not in events):
        return None
    output_event = events[structure.output]
    if norm_path is None:
        z = layer.sites()[-1].block_output[0]
    else:
        z = events[norm_path].output
    affine = [
        event
        for event in events.values()
        if not list(event.module.children()) and event.input.shape[:-1] == z.shape[:-1]
    ]
    firsts = [
        e
        for e in affine
        if _same(e.input, z) and affine_map(e.module, int(z.shape[-1]), z) is not None
    ]
    for second in affine:
        after = None if _same(second.output, output_event.output) else structure.output
        if after is not None and not (
            _same(second.output, output_event.input) and norm_of(output_event.module, z) is not None
        ):
            continue
        if second in firsts or affine_map(second.module, int(second.input.shape[-1]), z) is None:
            continue
        explanation = _explain_hidden(second.input, firsts)
        if explanation is not None:
            return _Paths(norm_path, explanation[0], second.path, explanation[1], after)
    return None


def _explain_hidden(
    hidden: Tensor, firsts: list[_ModuleCall]
) -> tuple[tuple[str, ...], str] | None:
    """Return the paths of the modules and the name of the activation that compute `hidden`, or None
    if no combination matches.

    A plain MLP has one such module, and a gated MLP has two.
    """
    wide = [event for event in firsts if event.output.shape == hidden.shape]
    for name, activation in ACTIVATIONS.items():
        for one in wide:
            activated = activation(one.output)
            if _same(activated, hidden):
                return (one.path,), name
            for other in wide:
                if other is not one and _same(activated * other.output, hidden):
                    return (one.path, other.path), name
    return None


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and difference(a, b) <= same_bar(a)
