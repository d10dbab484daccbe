"""One attention site of one recorded layer: its parts, rebuilt from the discovered structure and
checked against what was seen.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.kernels.decomposition import Decomposition
from mixlens.kernels.written import Vectors
from mixlens.recording.calls import LayerCall, first_tensor, hooks_removed
from mixlens.recording.capture import AttentionCall
from mixlens.recording.events import float_tensors
from mixlens.recording.norms import LinearisedNorm, norm_of
from mixlens.recording.projection import affine_map
from mixlens.recording.structure import LayerStructure, SiteStructure, Witness

# Largest difference, relative to the largest number, that rounding can explain in each precision.
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def rounding(like: Tensor, dtype: torch.dtype | None = None) -> float:
    """The bar for a tensor's dtype and device: float32 products told to use TF32 or bf16 have fewer
    digits.
    """
    dtype = like.dtype if dtype is None else dtype
    if dtype == torch.float32:
        setting = torch.get_float32_matmul_precision()
        if setting != "highest" and like.device.type == "cuda":  # torch takes TF32 for both there
            dtype = torch.float16
        elif setting == "medium":
            dtype = torch.bfloat16
    return ROUNDING[dtype]


def difference(found: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest expected number."""
    if found.shape != expected.shape:
        return float("inf")
    found, expected = found.detach(), expected.detach().to(found.dtype)
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6))


def product_difference(
    product: Tensor, left: Tensor, right: Tensor, shift: Tensor | None = None
) -> float:
    """How far `product` is from `left @ right + shift`, without making it: both are applied to two
    vectors of random signs.

    Freivalds' check: a row that is off shows in a vector unless the signs cancel it, at the cost of
    one column instead of all. The vectors stand on the left of transposed factors: columns would
    take several times as long.
    """
    signs = _random_signs(product.shape[-1], product.dtype, product.device)
    remade = signs @ right.mT @ left.mT
    if shift is not None:
        remade = remade + (signs @ shift)[:, None]
    return difference(remade, signs @ product.mT)


@functools.lru_cache(maxsize=64)
def _random_signs(
    width: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "two width"]:
    generator = torch.Generator().manual_seed(width)
    return (torch.randint(0, 2, (2, width), generator=generator) * 2 - 1).to(device, dtype)


@contextlib.contextmanager
def watching(layer: nn.Module, witnesses: frozenset[Witness]) -> Iterator[dict[Witness, Tensor]]:
    """Collects copies of the named tensors while the layer runs.

    Copies, because some layers add in place.
    """
    seen: dict[Witness, Tensor] = {}
    handles: list[Any] = []
    with hooks_removed(handles):
        handles += [watch(layer, witness, lambda: seen) for witness in witnesses]
        yield seen


def watch(layer: nn.Module, witness: Witness, into: Callable[[], dict[Witness, Tensor]]) -> Any:
    """A hook that keeps one witness; returns its handle."""

    def entered(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        into()[witness] = list(float_tensors((*args, *kwargs.values())))[witness.position].clone()

    def left(module: nn.Module, args: Any, output: Any) -> None:
        into()[witness] = first_tensor(output).clone()

    module = layer.get_submodule(witness.path)
    if witness.side == "in":
        return module.register_forward_pre_hook(entered, with_kwargs=True)
    return module.register_forward_hook(left)


@dataclass(frozen=True)
class Internals:
    """What a recording keeps of one attention site."""

    attention: AttentionCall
    seen: Mapping[Witness, Tensor]
    layer_output: Tensor

    @classmethod
    def of_layer(
        cls, calls: Sequence[AttentionCall], seen: Mapping[Witness, Tensor], output: Tensor
    ) -> list[Internals]:
        return [cls(call, seen, output) for call in calls]

    @property
    def nbytes(self) -> int:
        """Of what is kept and of what a rebuilt site adds to it: grouped values repeated, the
        block's output and its parts.
        """
        call = self.attention
        tensors = [call.weights, call.values, call.output, *self.seen.values()]
        kept = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        return kept + 5 * self.layer_output.numel() * self.layer_output.element_size()


Block = tuple[list[Callable[[Tensor], Tensor]], Tensor, Tensor, Tensor]
"""Linear maps that a contribution passes through, the factor of each target, the residual's part,
the block's output.
"""


@dataclass(frozen=True)
class Parts:
    """A block's output as a sum over sources: y_i = sum_j T_ij + constant_i, T_ij = scale_i * sum_h
    A_hij vectors_hj (+ own_i if i = j).

    For cross-attention `own` belongs to no source and stands beside the sum.
    """

    vectors: Vectors
    scale: Float[Tensor, "batch target"]
    own: Float[Tensor, "batch target d_model"]
    constant: (
        Float[Tensor, "batch target d_model"] | None
    )  # None where the parts went on through a later norm
    total: Float[Tensor, "batch target d_model"]


@runtime_checkable
class Targets(Protocol):
    """Which targets are asked for."""

    def take(self, tensor: Tensor, dim: int) -> Tensor:
        """The wanted targets of a tensor [batch, ...] along its target axis."""
        ...

    def target_positions(self, batch: int, count: int, device: torch.device) -> Tensor:
        """[batch, target]: the position of every wanted target."""
        ...


@dataclass(frozen=True)
class Site:
    """One attention site of one layer, for the whole batch, in float32 or better."""

    structure: SiteStructure
    weights: Float[Tensor, "batch head target source"]
    values: Float[Tensor, "batch head source d_head"]
    output_weight: Float[Tensor, "head d_head d_model"]
    output_bias: Float[Tensor, " d_model"]
    residual: Float[Tensor, "batch target d_model"]
    projected: Float[Tensor, "batch target d_model"]  # the attention module's output, A V W_O + b
    block_output: Float[Tensor, "batch target d_model"]  # y
    branch: tuple[LinearisedNorm, ...]
    output_norm: LinearisedNorm | None
    errors: Mapping[str, float]  # how far the parts are from what the model computed

    @property
    def head_groups(self) -> Int[Tensor, " head"]:
        """Which key-value head each query head reads."""
        groups = torch.arange(self.structure.kv_heads)
        return groups.repeat_interleave(self.structure.heads // self.structure.kv_heads)

    @property
    def vectors(self) -> Vectors:
        """f: the value vectors after the output projection of their head, without its bias."""
        return Vectors(self.values, self.output_weight)

    def transformed(self) -> Float[Tensor, "batch head source d_model"]:
        """`vectors`, multiplied out."""
        return self.vectors.of()

    def parts(self, *, normed: bool = True, through: LinearisedNorm | None = None) -> Parts:
        """The block's output (or with `normed=False` the sum before its output norm), split by
        source.

        `through` takes `vectors` and `own` on through the linear part of a later norm; `total`
        stays the block's.
        """
        maps, scale, own, total = self._normed_block if normed else self._block(normed=False)
        weight = self.output_weight
        for linear in (
            maps
        ):  # through the projection's rows: d_head of them for each head, not one for each source
            weight = linear(weight)
        if through is not None:
            onwards = Vectors(self.values, through.linear(weight))
            return Parts(onwards, scale, through.linear(own), None, total)
        summed = self.projected - self.output_bias
        for linear in maps:
            summed = linear(summed)
        constant = total - own - summed * scale[..., None]
        return Parts(Vectors(self.values, weight), scale, own, constant, total)

    def decomposition(
        self, targets: Targets, *, normed: bool = True, through: LinearisedNorm | None = None
    ) -> Decomposition:
        """`parts` of the wanted targets, as the kernels take them."""
        parts, take = self.parts(normed=normed, through=through), targets.take
        batch, _, count, _ = self.weights.shape
        return Decomposition(
            weights=take(self.weights, 2),
            vectors=parts.vectors,
            scale=take(parts.scale, 1),
            own=take(parts.own, 1),
            own_is_source=self.structure.kind == "self",
            constant=None if parts.constant is None else take(parts.constant, 1),
            total=take(parts.total, 1),
            positions=targets.target_positions(batch, count, self.weights.device),
        )

    @functools.cached_property
    def _normed_block(self) -> Block:
        return self._block(normed=True)

    def _block(self, normed: bool) -> Block:
        """The linear maps that a contribution passes, the factor of each target, the residual's
        part, and the block's output.
        """
        maps: list[Callable[[Tensor], Tensor]] = []
        state, scale = self.projected, torch.ones_like(self.projected[..., 0])
        for norm in self.branch:
            maps.append(norm.linear)
            inverse = norm.inverse_sigma(state)
            scale, state = scale * inverse, norm.with_inverse(state, inverse)
        factor = self.structure.branch_scale
        if isinstance(factor, Tensor) or factor != 1:
            by = factor.to(state) if isinstance(factor, Tensor) else factor
            maps.append(lambda vectors: vectors * by)
            state = state * by
        own = self.residual * self.structure.residual_scale
        total = own + state
        if normed and self.output_norm is not None:
            inverse = self.output_norm.inverse_sigma(total)
            maps.append(self.output_norm.linear)
            scale, own = scale * inverse, self.output_norm.linear(own) * inverse[..., None]
            total = self.output_norm.with_inverse(total, inverse)
        return maps, scale, own, total

    @classmethod
    def rebuilt(
        cls,
        structure: SiteStructure,
        layer: LayerStructure,
        call: LayerCall,
        stream: Tensor,
        internals: Internals,
        where: str,
    ) -> Site:
        """The site from what was overheard; raises `UnsupportedModel` where its parts do not add
        up.
        """
        attention, like = internals.attention, stream
        dtype = internals.attention.output.dtype
        weights, values = attention.weights.to(like), attention.values.to(like)
        _require_plain_shapes(weights, values, attention, stream, where)
        values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
        module = call.module
        found = affine_map(
            module.get_submodule(structure.output_projection),
            structure.heads * structure.d_head,
            like,
        )
        if found is None:
            raise UnsupportedModel(
                f"{where}: `{structure.output_projection}` is no longer an affine map"
            )
        matrix, bias = found
        seen = (
            internals.seen[Witness(structure.output_projection, "out")]
            .to(like)
            .reshape(stream.shape)
        )
        output = attention.output.to(like)
        if (
            dtype == like.dtype
        ):  # what was seen has all its digits: products are checked, not made again
            projected = seen
            product_error = product_difference(output.transpose(1, 2), weights, values)
            projection_error = product_difference(seen, output.flatten(2), matrix, bias)
        else:
            product = (weights @ values).transpose(1, 2)
            projected = product.flatten(2) @ matrix + bias
            product_error, projection_error = (
                difference(product, output),
                difference(projected, seen),
            )

        def norm(path: str) -> LinearisedNorm:
            form = norm_of(module.get_submodule(path), like)
            if form is None:
                raise UnsupportedModel(f"{where}: `{path}` is no longer a norm or a scale")
            return form

        residual = (
            stream if structure.residual_from is None else norm(structure.residual_from)(stream)
        )
        site = cls(
            structure,
            weights,
            values,
            matrix.reshape(structure.heads, structure.d_head, -1),
            bias,
            residual,
            projected,
            projected,
            tuple(norm(path) for path in structure.branch),
            None if structure.output_norm is None else norm(structure.output_norm),
            {},
        )
        object.__setattr__(site, "block_output", site._normed_block[-1])
        errors = {
            "attention product": product_error,
            "output projection": projection_error,
            "block output": _block_error(site, layer, internals),
        }
        object.__setattr__(site, "errors", errors)
        for part, error in errors.items():
            if not error <= rounding(like, dtype):
                raise UnsupportedModel(
                    f"{where}, {structure.kind}-attention: the rebuilt {part} is off by {error:.1e}"
                    f" (relative; {rounding(like, dtype):.0e} would be rounding). No numbers are"
                    " given for this model; please report its architecture."
                )
        return site


def _block_error(site: Site, layer: LayerStructure, internals: Internals) -> float:
    """How far y is from the tensor in which the running layer had it."""
    structure, rebuilt = site.structure, site.block_output
    output = internals.layer_output.to(rebuilt)
    if structure.witness is None:
        return difference(rebuilt, output)
    seen = internals.seen[structure.witness].to(rebuilt).reshape(rebuilt.shape)
    if not structure.parallel:
        return difference(rebuilt, seen)
    assert layer.feed_forward is not None
    factor = layer.feed_forward.branch_scale
    return difference(
        rebuilt + seen * (factor.to(seen) if isinstance(factor, Tensor) else factor), output
    )


def _require_plain_shapes(
    weights: Tensor, values: Tensor, attention: AttentionCall, stream: Tensor, where: str
) -> None:
    batch, heads, targets, sources = weights.shape
    ok = batch == stream.shape[0] and targets == stream.shape[1] and heads % values.shape[1] == 0
    ok = ok and values.shape[0] == batch and values.shape[2] == sources
    if not ok or tuple(attention.output.shape) != (batch, targets, heads, values.shape[-1]):
        raise UnsupportedModel(
            f"{where}: attention works on pieces of the sequence (weights {tuple(weights.shape)}"
            f" for hidden states {tuple(stream.shape)}), as window, block and sparse attention do."
            " These are not supported."
        )
