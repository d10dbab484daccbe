"""The element-wise steps between the products of `zeroing_deltas`, in plain torch or fused on a
GPU.

`hidden_change` is the change of the hidden layer of an MLP if one source is zeroed, and `distances`
compares the layer's new output with the unedited one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.distances import prepared_for, separation
from mixlens.kernels.fused import zeroing as fused
from mixlens.kernels.fused.checked import Combination, Trial, run_checked
from mixlens.kernels.fused.sampling import Sampler, sample_size
from mixlens.replay.mlp import ACTIVATIONS
from mixlens.structure.layer_structure import ResidualSum
from mixlens.structure.norms import LinearisedNorm


def hidden_change(
    products: Sequence[Float[Tensor, "source target d_ff"]],
    sums: Sequence[Float[Tensor, "target d_ff"]],
    base: Float[Tensor, "target d_ff"],
    *,
    activation: str,
    sign: float,
    inverse: Float[Tensor, "source target"] | None,
    constants: Sequence[Float[Tensor, " d_ff"]],
    dtype: torch.dtype,
) -> Float[Tensor, "source target d_ff"]:
    """Return act((sums + sign * product) * inverse + constant) - base, or the gated form for two
    products.

    `sums` and `base` belong to the targets. Without `inverse` there is no scale and no constant.
    A fused kernel returns numbers of `dtype`, plain torch those of `sums`.
    """

    def plain() -> Tensor:
        return _plain_change(products, sums, base, activation, sign, inverse, constants)

    if not fused.applies(products[0]):
        return plain()
    _, targets, width = products[0].shape
    sizes, scaled = (sample_size(targets), 1024 + sample_size(width)), inverse is not None
    return run_checked(
        Combination(
            "hidden_change",
            base.device,
            (products[0].dtype, sums[0].dtype, base.dtype, dtype),
            (*sizes, activation, sign, len(products), scaled),
        ),
        fused=lambda: fused.hidden_change(
            products,
            sums,
            base,
            activation=activation,
            sign=sign,
            inverse=inverse,
            constants=constants,
            dtype=dtype,
        ),
        plain=plain,
        trial=lambda: _try_change(products, sums, base, *sizes, activation, sign, scaled, dtype),
    )


def _plain_change(
    products: Sequence[Tensor],
    sums: Sequence[Tensor],
    base: Tensor,
    activation: str,
    sign: float,
    inverse: Tensor | None,
    constants: Sequence[Tensor],
) -> Tensor:
    entering = [
        part + sign * product.to(part.dtype) for part, product in zip(sums, products, strict=True)
    ]
    if inverse is not None:
        pairs = zip(constants, entering, strict=True)
        entering = [torch.addcmul(shift, part, inverse[..., None]) for shift, part in pairs]
    hidden = ACTIVATIONS[activation](entering[0])
    return (hidden if len(entering) == 1 else hidden.mul_(entering[1])).sub_(base)


def _try_change(
    products: Sequence[Tensor],
    sums: Sequence[Tensor],
    base: Tensor,
    targets: int,
    width: int,
    activation: str,
    sign: float,
    scaled: bool,
    dtype: torch.dtype,
) -> Trial:
    """Both forms on small data with the dtypes and options of these tensors."""
    sampler = Sampler(base.device)
    changes = [sampler.normal(2, targets, width, dtype=part.dtype) for part in products]
    unedited = [sampler.normal(targets, width, dtype=part.dtype) for part in sums]
    hidden = sampler.normal(targets, width, dtype=base.dtype)
    inverse = sampler.uniform(2, targets).to(base.dtype) if scaled else None
    constants = [sampler.normal(width, dtype=base.dtype) for _ in products] if scaled else []
    by_kernel = fused.hidden_change(
        changes,
        unedited,
        hidden,
        activation=activation,
        sign=sign,
        inverse=inverse,
        constants=constants,
        dtype=dtype,
    )
    by_torch = _plain_change(
        [part.double() for part in changes],
        [part.double() for part in unedited],
        hidden.double(),
        activation,
        sign,
        None if inverse is None else inverse.double(),
        [part.double() for part in constants],
    )
    return Trial(by_kernel, by_torch, 1e-5 + torch.finfo(dtype).eps)


def distances(
    change: Float[Tensor, "source target d_model"],
    stream: Float[Tensor, "source target d_model"],
    branch: Float[Tensor, "target d_model"],
    unedited: Float[Tensor, "target d_model"],
    *,
    distance: str,
    residual: ResidualSum,
    norm: LinearisedNorm | None,
) -> Float[Tensor, "source target"]:
    """Return how far norm(residual.total(stream, branch + change)) is from the unedited output."""

    def plain() -> Tensor:
        return _plain_distances(change, stream, branch, unedited, distance, residual, norm)

    plain_norm = norm is None or (norm.scaled and norm.gain.dim() == 1)
    if not (fused.applies(stream) and plain_norm):  # the kernel reads one gain for all rows
        return plain()
    _, targets, width = change.shape
    form = None if norm is None else norm.centred
    size = sample_size(targets)
    return run_checked(
        Combination(
            "distances",
            stream.device,
            (change.dtype, stream.dtype, branch.dtype, unedited.dtype),
            (size, width, distance, form),
        ),
        fused=lambda: _fused_distances(change, stream, branch, unedited, distance, residual, norm),
        plain=plain,
        trial=lambda: _try_distances(change, stream, branch, unedited, size, distance, form),
    )


def _fused_distances(
    change: Tensor,
    stream: Tensor,
    branch: Tensor,
    unedited: Tensor,
    distance: str,
    residual: ResidualSum,
    norm: LinearisedNorm | None,
) -> Tensor:
    return fused.distances(
        change,
        stream,
        branch,
        unedited,
        distance=distance,
        residual_scale=residual.residual_scale,
        branch_scale=residual.scaled(_ones(int(stream.shape[-1]), stream.dtype, stream.device)),
        norm=None
        if norm is None
        else fused.OutputNorm(
            gain=norm.gain, shift=norm.shift, epsilon=norm.epsilon, centred=norm.centred
        ),
    )


def _plain_distances(
    change: Tensor,
    stream: Tensor,
    branch: Tensor,
    unedited: Tensor,
    distance: str,
    residual: ResidualSum,
    norm: LinearisedNorm | None,
) -> Tensor:
    total = residual.total(stream, branch + change)
    outputs = total if norm is None else norm(total)
    prepare = prepared_for(distance)
    before = prepare(unedited).expand_as(outputs).flatten(0, 1)
    return separation(distance, prepare(outputs.flatten(0, 1)), before).view(outputs.shape[:2])


def _try_distances(
    change: Tensor,
    stream: Tensor,
    branch: Tensor,
    unedited: Tensor,
    targets: int,
    distance: str,
    centred: bool | None,
) -> Trial:
    """Both forms on small data with the dtypes and width of these tensors; `centred`: of the norm,
    None without one.
    """
    sampler, width = Sampler(stream.device), stream.shape[-1]
    rows = [
        sampler.normal(2, targets, width, dtype=change.dtype),
        sampler.normal(2, targets, width, dtype=stream.dtype),
        sampler.normal(targets, width, dtype=branch.dtype),
        sampler.normal(targets, width, dtype=unedited.dtype),
    ]
    residual = ResidualSum(residual_scale=0.75, branch_scale=sampler.uniform(width))
    norm = None
    if centred is not None:
        gain, shift = sampler.uniform(width), sampler.normal(width)
        norm = LinearisedNorm(gain, shift, centred=centred, scaled=True, epsilon=1e-5)
    by_kernel = _fused_distances(rows[0], rows[1], rows[2], rows[3], distance, residual, norm)
    wide = [part.double() for part in rows]
    by_torch = _plain_distances(
        wide[0],
        wide[1],
        wide[2],
        wide[3],
        distance,
        residual,
        None if norm is None else norm.to(wide[0]),
    )
    return Trial(by_kernel, by_torch, 1e-5)


@functools.lru_cache(maxsize=64)
def _ones(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(width, dtype=dtype, device=device)
