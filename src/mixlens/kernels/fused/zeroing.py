"""Fused GPU kernels for the elementwise steps of Value Zeroing: one pass over the data instead of
ten.

`hidden_change` returns how zeroing one source changes the hidden layer of an MLP, and `distances`
compares the layer's new output with the unedited one. Both read and write each number once and
compute in float32, regardless of the precision of the products.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

if TYPE_CHECKING:
    import triton.language as tl

ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu", "quick_gelu", "relu_squared")
DISTANCES = ("cosine", "euclidean")
_TILE = 1024  # hidden channels of one program


@dataclass(frozen=True, kw_only=True)
class OutputNorm:
    """A norm that is applied to the sum of the MLP's output and the residual stream."""

    gain: Float[Tensor, " d_model"]
    shift: Float[Tensor, " d_model"]
    epsilon: float
    centred: bool


@functools.cache
def _kernels() -> Any:
    global tl  # Triton before 3.4 looks for names only in the module
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def hidden(  # type: ignore[no-untyped-def]
        product,
        other,
        sums,
        other_sums,
        constant,
        other_constant,
        inverse,
        base,
        out,
        targets,
        width,
        SCALED: tl.constexpr,
        GATED: tl.constexpr,
        KIND: tl.constexpr,
        TILE: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        target = row % targets
        channel = tl.program_id(1) * TILE + tl.arange(0, TILE)
        inside = channel < width
        element, of_target = row * width + channel, target * width + channel
        x = tl.load(sums + of_target, mask=inside, other=0.0)
        x += tl.load(product + element, mask=inside, other=0.0).to(tl.float32)
        if SCALED:
            factor = tl.load(inverse + row)
            x = x * factor + tl.load(constant + channel, mask=inside, other=0.0)
        if KIND == 0:  # Triton's interpreter would not see a separate function
            hidden = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
        elif KIND == 1:
            hidden = x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
        elif KIND == 2:
            hidden = tl.maximum(x, 0.0)
        elif KIND == 3:
            hidden = x * tl.sigmoid(x)
        elif KIND == 4:
            hidden = x * tl.sigmoid(1.702 * x)
        else:
            hidden = tl.maximum(x, 0.0) * tl.maximum(x, 0.0)
        if GATED:
            y = tl.load(other_sums + of_target, mask=inside, other=0.0)
            y += tl.load(other + element, mask=inside, other=0.0).to(tl.float32)
            if SCALED:
                y = y * factor + tl.load(other_constant + channel, mask=inside, other=0.0)
            hidden = hidden * y
        hidden -= tl.load(base + of_target, mask=inside, other=0.0)
        tl.store(out + element, hidden.to(out.dtype.element_ty), mask=inside)

    @triton.jit  # type: ignore[untyped-decorator]
    def distance(  # type: ignore[no-untyped-def]
        change,
        stream,
        branch,
        unedited,
        scale,
        gain,
        shift,
        out,
        targets,
        width,
        residual_scale,
        epsilon,
        NORMED: tl.constexpr,
        CENTRED: tl.constexpr,
        COSINE: tl.constexpr,
        TILE: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        target = row % targets
        channel = tl.arange(0, TILE)
        inside = channel < width
        x = tl.load(branch + target * width + channel, mask=inside, other=0.0)
        x += tl.load(change + row * width + channel, mask=inside, other=0.0).to(tl.float32)
        x *= tl.load(scale + channel, mask=inside, other=0.0)
        s = tl.load(stream + row * width + channel, mask=inside, other=0.0).to(tl.float32)
        x += residual_scale * s
        if NORMED:
            if CENTRED:
                mean = tl.sum(x) / width
                x = tl.where(inside, x - mean, 0.0)
            x = x * tl.rsqrt(tl.sum(x * x) / width + epsilon)
            x = x * tl.load(gain + channel, mask=inside, other=0.0)
            x += tl.load(shift + channel, mask=inside, other=0.0)
        e = tl.load(unedited + target * width + channel, mask=inside, other=0.0)
        apart = tl.sum((x - e) * (x - e))
        if COSINE:
            a, b = tl.sqrt(tl.sum(x * x)), tl.sqrt(tl.sum(e * e))
            apart = tl.maximum(apart - (a - b) * (a - b), 0.0) / (2.0 * a * b)
        else:
            apart = tl.sqrt(apart)
        tl.store(out + row, apart)

    return hidden, distance


def hidden_change(
    products: Sequence[Float[Tensor, "source target d_ff"]],
    sums: Sequence[Float[Tensor, "target d_ff"]],
    base: Float[Tensor, "target d_ff"],
    *,
    activation: str,
    inverse: Float[Tensor, "source target"] | None = None,
    constants: Sequence[Float[Tensor, " d_ff"]] = (),
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "source target d_ff"]:
    """Return act((sums + product) * inverse + constant) - base, or the gated version for two
    products.

    `sums` and `base` have one vector for each target. Without `inverse`, the sum enters the
    activation without a scale or constant.
    """
    sources, targets, width = products[0].shape
    out = torch.empty(sources, targets, width, dtype=dtype, device=base.device)
    last = len(products) - 1
    scaled = inverse is not None
    of = list(constants) if scaled else [base]
    _kernels()[0][(sources * targets, -(-width // _TILE))](
        products[0].contiguous(),
        products[last].contiguous(),
        sums[0].contiguous(),
        sums[last].contiguous(),
        of[0],
        of[-1],
        base if inverse is None else inverse.contiguous(),
        base.contiguous(),
        out,
        targets,
        width,
        SCALED=scaled,
        GATED=last == 1,
        KIND=ACTIVATIONS.index(activation),
        TILE=_TILE,
    )
    return out


def distances(
    change: Float[Tensor, "source target d_model"],
    stream: Float[Tensor, "source target d_model"],
    branch: Float[Tensor, "target d_model"],
    unedited: Float[Tensor, "target d_model"],
    *,
    distance: str,
    residual_scale: float,
    branch_scale: Float[Tensor, " d_model"],
    norm: OutputNorm | None,
) -> Float[Tensor, "source target"]:
    """Return the distance between norm(residual_scale * stream + branch_scale * (branch + change))
    and the unedited output.
    """
    sources, targets, width = change.shape
    out = torch.empty(sources, targets, dtype=torch.float32, device=change.device)
    _kernels()[1][(sources * targets,)](
        change.contiguous(),
        stream.contiguous(),
        branch.contiguous(),
        unedited.contiguous(),
        branch_scale,
        branch_scale if norm is None else norm.gain,
        branch_scale if norm is None else norm.shift,
        out,
        targets,
        width,
        residual_scale,
        0.0 if norm is None else norm.epsilon,
        NORMED=norm is not None,
        CENTRED=norm is not None and norm.centred,
        COSINE=distance == "cosine",
        TILE=1 << (width - 1).bit_length(),
    )
    return out
