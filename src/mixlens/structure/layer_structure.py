"""Describe the structure of a transformer layer as plain data, with methods that compute its
residual sums.

`affine_map` reads an output projection as a matrix. It accepts any affine module (Linear, Conv1D,
an adapter, a quantised layer).
"""

from __future__ import annotations

import functools
from collections.abc import Hashable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.model.placement import raise_if_out_of_memory

if TYPE_CHECKING:
    from mixlens.structure.layouts import Layout


Affine = tuple[Float[Tensor, "d_in d_out"], Float[Tensor, " d_out"]]


def affine_map(module: nn.Module, d_in: int, like: Tensor) -> Affine | None:
    """Return the weight and bias of a module that computes x W + b, or None if it is not affine."""
    matrix = plain_matrix(module)
    if matrix is None:
        return _probe_affine(module, d_in, like)
    if matrix.shape[0] != d_in:
        return None
    return matrix.to(like), _bias(module, int(matrix.shape[1]), like)


def _bias(module: nn.Module, width: int, like: Tensor) -> Float[Tensor, " d_out"]:
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    return _zeros(width, like.dtype, like.device) if bias is None else bias.detach().to(like)


def plain_matrix(module: nn.Module) -> Float[Tensor, "d_in d_out"] | None:
    """Return the weight if the module only multiplies by it and adds a bias, or None."""
    if not _is_plain(module):
        return None
    weight: Tensor = module.weight.detach()  # type: ignore[operator]
    return weight.T if type(module).forward is nn.Linear.forward else weight


def may_add_bias(module: nn.Module) -> bool:
    """Return False if the module certainly has no bias."""
    return not _is_plain(module) or module.bias is not None


def _is_plain(module: nn.Module) -> bool:
    runs = type(module).forward  # an adapter may be called Linear too, and does more
    return runs in (nn.Linear.forward, Conv1D.forward)


@functools.lru_cache(maxsize=64)
def _zeros(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(width, dtype=dtype, device=device)


def _probe_affine(module: nn.Module, d_in: int, like: Tensor) -> Affine | None:
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
    if dtype is None:
        return None
    probes = torch.cat([torch.zeros(1, d_in), torch.eye(d_in), torch.linspace(-1, 1, d_in)[None]])
    try:
        with torch.no_grad():
            answers = module(probes.to(like.device, dtype)[None])
    except Exception as error:  # a module that rejects tensors of this width is not a projection
        raise_if_out_of_memory(error)
        return None
    if not isinstance(answers, Tensor) or answers.dim() != 3 or answers.shape[1] != d_in + 2:
        return None
    answers = answers[0].to(like)
    shift, matrix = answers[0], answers[1:-1] - answers[0]
    check = probes[-1].to(like) @ matrix + shift
    tolerance = 50 * torch.finfo(dtype).eps * answers.abs().max().clamp_min(1e-30) * d_in**0.5
    if (check - answers[-1]).abs().max() > tolerance:
        return None
    return matrix, shift


@dataclass(frozen=True, kw_only=True)
class ResidualSum:
    """Computes the sum residual_scale * residual + branch_scale * branch."""

    residual_scale: float = 1.0
    branch_scale: float | Tensor = 1.0  # tensor: one factor per channel

    def scale_branch(
        self, branch: Float[Tensor, "*rows d_model"]
    ) -> Float[Tensor, "*rows d_model"]:
        """Multiply the branch by its factor in the sum."""
        factor = self.branch_scale
        if isinstance(factor, Tensor):
            return branch * factor.to(branch)
        return branch if factor == 1.0 else branch * factor

    def scale_residual(
        self, residual: Float[Tensor, "*rows d_model"]
    ) -> Float[Tensor, "*rows d_model"]:
        """Multiply the residual by its factor in the sum."""
        return residual if self.residual_scale == 1.0 else residual * self.residual_scale

    def total(
        self,
        residual: Float[Tensor, "*rows d_model"],
        branch: Float[Tensor, "*rows d_model"],
    ) -> Float[Tensor, "*rows d_model"]:
        """Return the sum of the scaled residual and the scaled branch."""
        return torch.add(self.scale_branch(branch), residual, alpha=self.residual_scale)


@dataclass(frozen=True, kw_only=True)
class AttentionStructure(ResidualSum):
    """Describes the structure of one attention block: y = output_norm(residual_scale * residual +
    branch_scale * branch(A V W_O + b)).

    With gates, the projection computes (g * A V) W_O + b. If the block is open, its sources and
    values are known and the layer can be re-run, but the output is not a sum of this form.
    """

    kind: AttentionKind  # of its sources, or of its own tokens if it reads both at once
    heads: int
    kv_heads: int
    d_head: int
    causal: bool
    own_values: bool = (
        True  # computed from the layer's input; False: from an earlier layer or stack
    )
    projection: str | None  # path of W_O; None if no linear module takes A V
    gated: bool = False  # whether A V is multiplied by factors of each target before the projection
    branch: tuple[str, ...]  # norms and per-channel scales between the projection and the residual
    branch_norm: bool  # whether one of them is a norm
    residual_from: str | None = None  # module whose output is the residual, if it is not the stream
    input_norm: str | None = None
    output_norm: str | None = None
    parallel: bool = False
    hook_point: HookPoint | None = None  # where y can be captured; None if it is the layer's output
    enters: HookPoint | None = (
        None  # where its stream can be captured, if it is not the layer's input
    )
    own_sources: str | None = (
        None  # "first" or "last": position of its own tokens among all sources
    )
    across: bool = False  # whether two streams read each other; its sources are then its own tokens
    open: str | None = None  # why y is not a known sum; None if it is
    has_sink: bool = False  # whether a part of the softmax goes to no source

    @property
    def rows_sum_to_one(self) -> bool:
        """Return whether each target's attention weights sum to one and all sources belong to one
        stack.
        """
        return not self.has_sink and self.own_sources is None

    @property
    def output_projection(self) -> str:
        """Return the path of W_O, or raise an error if it is unknown."""
        if self.projection is None:
            raise UnsupportedModel(f"the output projection of this layer is unknown: {self.open}")
        return self.projection

    @property
    def kinds(self) -> tuple[AttentionKind, ...]:
        """Return the kinds of this attention: self, cross, or both.

        For example, T5Gemma 2 attends to the tokens of the decoder and of the encoder in one call.
        """
        return (self.kind,) if self.own_sources is None else tuple(AttentionKind)

    def columns(self, kind: AttentionKind, targets: int, sources: int) -> slice:
        """Return the slice of the source axis that contains the sources of one kind."""
        if self.own_sources is None:
            return slice(0, sources)
        other_count = sources - targets
        if self.own_sources == "first":
            return slice(0, targets) if kind == AttentionKind.SELF else slice(targets, sources)
        return slice(other_count, sources) if kind == AttentionKind.SELF else slice(0, other_count)

    @property
    def signature(self) -> Hashable:
        """Return a key that is equal for attention blocks of the same structure."""
        return (
            self.kind,
            self.projection,
            self.branch,
            self.residual_scale,
            self.residual_from,
            self.input_norm,
            self.output_norm,
            self.hook_point,
            self.enters,
            self.gated,
        )

    def residual(self, module: nn.Module, stream: Tensor) -> Tensor:
        """Return the residual that the block adds to its branch, given the residual stream that
        enters the block.
        """
        if self.residual_from is None:
            return stream
        residual: Tensor = module.get_submodule(self.residual_from)(stream)
        return residual

    def levels(
        self,
        module: nn.Module,
        residual: Float[Tensor, "*rows d_model"],
        projected: Float[Tensor, "*rows d_model"],
    ) -> dict[str, Tensor]:
        """Apply the layer's own norms and residual sum to the projection's output, and return all
        results.

        The keys are "projected" (the projection), "branch" (the branch after its norms) and "block"
        (the block's output y).
        """
        branch = projected
        for path in self.branch:
            branch = module.get_submodule(path)(branch)
        block = self.total(residual, branch)
        if self.output_norm is not None:
            block = module.get_submodule(self.output_norm)(block)
        return {"projected": projected, "branch": branch, "block": block}


@dataclass(frozen=True, kw_only=True)
class FeedForwardStructure(ResidualSum):
    """Describes the structure of an MLP: e = output_norm(residual_scale * y + branch_scale *
    feed_forward(y)).
    """

    output: str  # the module whose output is added
    input_norm: str | None = None
    output_norm: str | None = None


@dataclass(frozen=True, eq=False)  # identity of a layer, and its cache key
class LayerStructure:
    """Describes the structure of one layer: its attention blocks in call order, and its MLP.

    The MLP is None if the layer has none, or if several modules add to the residual stream after
    attention.
    """

    path: str
    sites: tuple[AttentionStructure, ...]
    feed_forward: FeedForwardStructure | None
    axes: Any  # batch axis of every argument, for re-runs
    _: KW_ONLY
    further: tuple[
        str, ...
    ] = ()  # parts that add to the stream after attention, if there are several
    number: int = 0  # number in its list, unsupported layers counted
    shape: tuple[int, int] = (0, 0)  # numbers of texts and tokens on the probe
    layout: Layout | None = (
        None  # layout of its hidden states, if they are not [batch, tokens, d_model]
    )

    @property
    def open(self) -> str | None:
        """Return the reason why the layer's output is not a known sum, or None."""
        return self.sites[0].open

    @property
    def has_other_parts(self) -> bool:
        """Return whether any module besides attention and one MLP adds to the residual stream."""
        return bool(self.further) or self.sites[0].enters is not None

    @property
    def style(self) -> str:
        """Return where the norms are: post, pre, sandwich, branch (a norm on the branch only),
        parallel, or bare (no norm).

        The style is "open" if the rest of the layer after its attention is not a known sum.
        """
        site = self.sites[0]
        if self.open is not None:
            return "open"
        if site.parallel:
            return "parallel"
        if site.output_norm is not None:
            return "post"
        if site.branch_norm:
            return "sandwich" if site.input_norm is not None else "branch"
        return "pre" if site.input_norm is not None else "bare"

    def signature(self, module: nn.Module) -> Hashable:
        """Return a key that is equal for layers with the same modules and the same structure."""
        parts = tuple((path, type(part)) for path, part in module.named_modules())
        return parts, tuple(site.signature for site in self.sites), self.further

    @functools.cached_property
    def watched(self) -> frozenset[HookPoint]:
        """Return the hook points of the tensors that a recording keeps to verify the layer."""
        if self.feed_forward is None or self.feed_forward.output_norm is None:
            return self.blocks
        # GlobEnc needs the second norm's true input
        return self.blocks | {HookPoint(self.feed_forward.output_norm, "in")}

    @functools.cached_property
    def blocks(self) -> frozenset[HookPoint]:
        """Return the hook points of the attention blocks: their projections and outputs."""
        projecting = [site for site in self.sites if site.projection is not None]
        hook_points = {HookPoint(site.output_projection, "out") for site in projecting}
        hook_points |= {
            HookPoint(site.output_projection, "in") for site in projecting if site.gated
        }
        for site in self.sites:
            hook_points |= {
                hook_point
                for hook_point in (site.hook_point, site.enters)
                if hook_point is not None
            }
        return frozenset(hook_points)
