"""The elementwise steps between the matrix products of `zeroing_fast`, in plain PyTorch or fused on
a GPU.

`hidden_change` returns the change of an MLP's hidden layer if one source is zeroed. `Ending`
computes the rest of the layer after the MLP's second product, and the distance between the layer's
new output and the unedited output.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.kernels.distances import Distance
from mixlens.kernels.fused import zeroing as fused
from mixlens.kernels.fused.checked import Combination, Sampler, Trial, run_checked, sample_size
from mixlens.recording.layer import Layer
from mixlens.replay.mlp import ACTIVATIONS, Mlp
from mixlens.structure.layer_structure import ResidualSum
from mixlens.structure.norms import LinearisedNorm, norm_of


def hidden_change(
    products: Sequence[Float[Tensor, "source target d_ff"]],
    sums: Sequence[Float[Tensor, "target d_ff"]],
    base: Float[Tensor, "target d_ff"],
    *,
    activation: str,
    inverse: Float[Tensor, "source target"] | None,
    constants: Sequence[Float[Tensor, " d_ff"]],
    dtype: torch.dtype,
) -> Float[Tensor, "source target d_ff"]:
    """Return act((sums + product) * inverse + constant) - base, or the gated version for two
    products.

    `sums` and `base` contain the unedited values of the targets. If `inverse` is None, nothing is
    scaled and no constant is added. A fused kernel returns the result in `dtype`, and plain PyTorch
    in the dtype of `sums`. The products may be overwritten.
    """
    if not _can_be_fused(products[0]):
        return _plain_change(products, sums, base, activation, inverse, constants)
    _, targets, width = products[0].shape
    sizes, scaled = (sample_size(targets), 1024 + sample_size(width)), inverse is not None
    dtypes = (products[0].dtype, sums[0].dtype, base.dtype, dtype)
    count = len(products)
    return run_checked(
        Combination("hidden_change", base.device, dtypes, (*sizes, activation, count, scaled)),
        fused=lambda: fused.hidden_change(
            products,
            sums,
            base,
            activation=activation,
            inverse=inverse,
            constants=constants,
            dtype=dtype,
        ),
        plain=lambda: _plain_change(products, sums, base, activation, inverse, constants),
        trial=lambda: _try_change(base.device, dtypes, *sizes, activation, count, scaled),
    )


def _can_be_fused(tensor: Tensor) -> bool:
    """Return whether the fused kernels support this tensor."""
    return tensor.device.type == "cuda" and tensor.dtype != torch.float64


def _plain_change(
    products: Sequence[Tensor],
    sums: Sequence[Tensor],
    base: Tensor,
    activation: str,
    inverse: Tensor | None,
    constants: Sequence[Tensor],
) -> Tensor:
    pairs = zip(products, sums, strict=True)
    entering = [product.to(part.dtype).add_(part) for product, part in pairs]
    if inverse is not None:
        for shift, part in zip(constants, entering, strict=True):
            torch.addcmul(shift, part, inverse[..., None], out=part)
    hidden = ACTIVATIONS[activation](entering[0])
    return (hidden if len(entering) == 1 else hidden.mul_(entering[1])).sub_(base)


def _try_change(
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
    targets: int,
    width: int,
    activation: str,
    count: int,
    scaled: bool,
) -> Trial:
    """Run the fused and the plain implementation on small data.

    The random data has the same dtypes (of products, sums, base and result) and options as the real
    call.
    """
    sampler, (of_products, of_sums, of_base, dtype) = Sampler(device), dtypes
    products = [sampler.normal(2, targets, width, dtype=of_products) for _ in range(count)]
    sums = [sampler.normal(targets, width, dtype=of_sums) for _ in range(count)]
    base = sampler.normal(targets, width, dtype=of_base)
    inverse = sampler.uniform(2, targets).to(of_base) if scaled else None
    constants = [sampler.normal(width, dtype=of_base) for _ in range(count)] if scaled else []
    computed = fused.hidden_change(
        products,
        sums,
        base,
        activation=activation,
        inverse=inverse,
        constants=constants,
        dtype=dtype,
    )
    expected = _plain_change(
        [part.double() for part in products],
        [part.double() for part in sums],
        base.double(),
        activation,
        None if inverse is None else inverse.double(),
        [part.double() for part in constants],
    )
    return Trial(computed, expected, 1e-5 + torch.finfo(dtype).eps)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The end of a layer: output_norm(residual.total(stream, norm(branch)))."""

    residual: ResidualSum
    branch_norm: LinearisedNorm | None  # between the MLP and the sum
    output_norm: LinearisedNorm | None

    def outputs(
        self, stream: Float[Tensor, "*rows d_model"], branch: Float[Tensor, "*rows d_model"]
    ) -> Float[Tensor, "*rows d_model"]:
        """Return the layer's output, given the residual stream and the output of the MLP."""
        branch = branch if self.branch_norm is None else self.branch_norm(branch)
        total = self.residual.total(stream, branch)
        return total if self.output_norm is None else self.output_norm(total)

    def distances(
        self,
        change: Float[Tensor, "source target d_model"],
        stream: Float[Tensor, "source target d_model"],
        branch: Float[Tensor, "target d_model"],
        unedited: Float[Tensor, "target d_model"],
        distance: Distance,
    ) -> Float[Tensor, "source target"]:
        """Return the distance between the layer's output for `branch + change` and the unedited
        output.
        """

        def plain() -> Tensor:
            return self._plain_distances(change, stream, branch, unedited, distance)

        if not (_can_be_fused(stream) and self._has_fused_form(distance)):
            return plain()
        _, targets, width = change.shape
        dtypes = (change.dtype, stream.dtype, branch.dtype, unedited.dtype)
        centred = None if self.output_norm is None else self.output_norm.centred
        name, size = distance.name, sample_size(targets)
        return run_checked(
            Combination("distances", stream.device, dtypes, (size, width, name, centred)),
            fused=lambda: self._fused_distances(change, stream, branch, unedited, distance),
            plain=plain,
            trial=lambda: _try_distances(stream.device, dtypes, size, width, name, centred),
        )

    def _has_fused_form(self, distance: Distance) -> bool:
        norm = self.output_norm
        return (
            distance.name in fused.DISTANCES
            and not distance.normalised
            and self.branch_norm is None
            and (norm is None or (norm.scaled and norm.gain.dim() == 1))  # one gain for all rows
        )

    def _plain_distances(
        self, change: Tensor, stream: Tensor, branch: Tensor, unedited: Tensor, distance: Distance
    ) -> Tensor:
        outputs = self.outputs(stream, branch + change)
        return distance.between(distance.prepare(outputs), distance.prepare(unedited))

    def _fused_distances(
        self, change: Tensor, stream: Tensor, branch: Tensor, unedited: Tensor, distance: Distance
    ) -> Tensor:
        norm = self.output_norm
        if norm is not None:
            form = fused.OutputNorm(
                gain=norm.gain, shift=norm.shift, epsilon=norm.epsilon, centred=norm.centred
            )
        ones = _ones(int(stream.shape[-1]), stream.dtype, stream.device)
        return fused.distances(
            change,
            stream,
            branch,
            unedited,
            distance=distance.name,
            residual_scale=self.residual.residual_scale,
            branch_scale=self.residual.scale_branch(ones),
            norm=None if norm is None else form,
        )


def end_of_layer(layer: Layer, mlp: Mlp, like: Tensor) -> Ending:
    """Return the end of a layer after a known MLP. Norms are converted to the dtype and device of
    `like`.
    """
    structure = layer.structure.feed_forward
    assert structure is not None

    def norm(path: str | None) -> LinearisedNorm | None:
        return None if path is None else norm_of(layer.submodule(path), like)

    return Ending(
        residual=structure, branch_norm=norm(mlp.after), output_norm=norm(structure.output_norm)
    )


def _try_distances(
    device: torch.device,
    dtypes: tuple[torch.dtype, ...],
    targets: int,
    width: int,
    distance: str,
    centred: bool | None,
) -> Trial:
    """Run the fused and the plain implementation on small data.

    The random data has the same dtypes (of change, stream, branch and output) and width as the real
    call. `centred` tells whether the output norm subtracts the mean; it is None without a norm.
    """
    sampler, name = Sampler(device), Distance(distance)
    change, stream = (sampler.normal(2, targets, width, dtype=dtype) for dtype in dtypes[:2])
    branch, unedited = (sampler.normal(targets, width, dtype=dtype) for dtype in dtypes[2:])
    residual = ResidualSum(residual_scale=0.75, branch_scale=sampler.uniform(width))
    norm = None
    if centred is not None:
        gain, shift = sampler.uniform(width), sampler.normal(width)
        norm = LinearisedNorm(gain, shift, centred=centred, scaled=True, epsilon=1e-5)
    ending = Ending(residual=residual, branch_norm=None, output_norm=norm)
    computed = ending._fused_distances(change, stream, branch, unedited, name)
    wide = [part.double() for part in (change, stream, branch, unedited)]
    exact = replace(ending, output_norm=None if norm is None else norm.to(wide[0]))
    expected = exact._plain_distances(wide[0], wide[1], wide[2], wide[3], name)
    return Trial(computed, expected, 1e-5)


@functools.lru_cache(maxsize=64)
def _ones(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(width, dtype=dtype, device=device)
