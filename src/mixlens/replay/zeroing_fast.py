"""Fast Value Zeroing: propagate only changes through the rest of the layer.

For an MLP after a norm, let t_ij = u_i - s c_ij be the input of the norm without source j, and z =
norm(t). Only the changes of the hidden layer h and of the output are computed:

    change of the hidden layer   h_ij - h_i, from z_ij W_1 = z_i W_1 + (z_ij - z_i) W_1
    change of the output         (h_ij - h_i) W_2

The rounding error of each product is thus small relative to the change. The weights of a
half-precision model can therefore be used without an upcast.

For many pairs, the first product is folded into the values: W_1 c_ij = sum_h A^h_ij (W_1 f^h_j)
costs heads x d_ff operations for each pair instead of d_model x d_ff.

The fast implementation is used for a layer only if it reproduces the layer's output and agrees with
`zeroing_literal` for a few pairs of the same layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mixlens.errors import TargetsUnavailable
from mixlens.kernels.decomposition import Vectors
from mixlens.kernels.differences import rounding
from mixlens.kernels.distances import Distance
from mixlens.model.session import ModuleCache, matmul_precision
from mixlens.recording.deferred_checks import row_errors
from mixlens.recording.layer import Layer
from mixlens.replay.fallbacks import note_fallback
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import Mlp, find_mlp
from mixlens.replay.zeroing_literal import LiteralZeroing, ZeroedBlock, find_outliers
from mixlens.replay.zeroing_steps import Ending, end_of_layer, hidden_change

_PROVED = 12  # targets and sources of a proof
_proofs: ModuleCache[bool] = ModuleCache()
Take = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class _Unedited:
    """Intermediate values of the unedited targets, with axes [batch, target, ...], or [row, ...]
    for a block.
    """

    sums: Tensor  # before the norm
    normed: Tensor
    first: list[Tensor]  # terms to which products of changes are added
    hidden: Tensor
    branch: Tensor  # output of the MLP
    outputs: Tensor

    def part(self, block: ZeroedBlock) -> _Unedited:
        """Return the values for a block, with the targets of all texts of the block along one
        axis.
        """

        def select(tensor: Tensor) -> Tensor:
            return tensor[block.texts, block.targets].flatten(0, 1)

        names = ("sums", "normed", "hidden", "branch", "outputs")
        tensors = {name: select(getattr(self, name)) for name in names}
        return _Unedited(first=[select(tensor) for tensor in self.first], **tensors)


class FastZeroing:
    """Computes Value Zeroing scores of the requested targets by propagating only the changes."""

    mixes = False

    def __init__(
        self,
        layer_rest: LayerRest,
        mlp: Mlp,
        weights: Float[Tensor, "batch head target source"],
        take: Take,
        distance: Distance,
        *,
        folded: bool,
    ) -> None:
        """Prepare the computation for the requested targets.

        `weights` contains the attention weights of these targets, and `take` selects the targets in
        a tensor of the layer.
        """
        self.mlp, self.weights, self.distance, self.folded = mlp, weights, distance, folded
        layer, site = layer_rest.layer, layer_rest.site
        self.structure = site.structure
        self.ending: Ending = end_of_layer(layer, mlp, site.projected)
        matrix = self.structure.scale_branch(site.native_maps)
        self.vectors: Vectors = Vectors(site.values, matrix)
        self.constants: list[Tensor] = []
        if folded:
            linear = mlp.norm.linear(-matrix)
            self.first = [replace(self.vectors, matrix=linear @ m) for m, _ in mlp.first]
            self.constants = [mlp.norm.shift @ m + bias for m, bias in mlp.first]
        self.unedited: _Unedited = self._run_unedited(
            self.structure.total(take(site.residual, 1), take(site.projected, 1))
        )

    def _run_unedited(self, sums: Float[Tensor, "batch target d_model"]) -> _Unedited:
        mlp = self.mlp
        normed, inverse = self._normalise(sums)
        if inverse is not None:
            first = [_times(mlp.norm.linear(sums), matrix) for matrix, _ in mlp.first]
            pairs = zip(self.constants, first, strict=True)
            products = [torch.addcmul(shift, part, inverse) for shift, part in pairs]
        else:
            products = first = [self._add_bias(_times(normed, m), bias) for m, bias in mlp.first]
        hidden = mlp.hidden(products)
        branch = self._add_bias(_times(hidden, mlp.second[0]), mlp.second[1])
        outputs = self.ending.outputs(self._stream(sums, normed), branch)
        return _Unedited(sums, normed, first, hidden, branch, outputs)

    def distances(
        self, block: ZeroedBlock, linked: Bool[Tensor, "text target column"]
    ) -> Float[Tensor, "text target column"]:
        """Return the distance by which each target's output changes if a source is zeroed. The
        distance is zero for pairs that are not in `linked`.
        """
        unedited = self.unedited.part(block)
        sums = (unedited.sums - block.write(self.vectors, self.weights)).contiguous()
        normed, inverse = self._normalise(sums)
        change = _times(self._hidden_change(block, unedited, normed, inverse), self.mlp.second[0])
        stream = self._stream(sums, normed)
        by_column = self.ending.distances(
            change, stream, unedited.branch, unedited.outputs, self.distance
        )
        return by_column.T.reshape(linked.shape) * linked

    def _hidden_change(
        self, block: ZeroedBlock, unedited: _Unedited, normed: Tensor, inverse: Tensor | None
    ) -> Float[Tensor, "column row d_ff"]:
        dtype = self.mlp.second[0].dtype
        if inverse is not None:
            products = [block.write(vectors, self.weights) for vectors in self.first]
        else:
            # contiguous: with odd strides torch computes one product per source
            change = normed.new_empty(normed.shape, dtype=dtype)
            torch.sub(normed, unedited.normed, out=change)  # rounded on writing
            products = [change @ first for first, _ in self.mlp.first]
        return hidden_change(
            products,
            unedited.first,
            unedited.hidden,
            activation=self.mlp.activation_name,
            inverse=None if inverse is None else inverse[..., 0],
            constants=self.constants,
            dtype=dtype,
        )

    def _normalise(self, sums: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the norm's output z. If the first product is folded into the values, return 1 /
        sigma as well.
        """
        if not self.folded:
            return self.mlp.norm(sums), None
        return self.mlp.normalise(sums, needed=self.structure.output_norm is not None)

    def _stream(self, sums: Tensor, normed: Tensor) -> Tensor:
        """Return the residual stream to which the output of the MLP is added."""
        return sums if self.structure.output_norm is None else normed

    def _add_bias(self, product: Tensor, bias: Tensor) -> Tensor:
        return product + bias if self.mlp.biased else product


def _times(rows: Float[Tensor, "*rows d_in"], matrix: Float[Tensor, "d_in d_out"]) -> Tensor:
    """Multiply in the dtype of `matrix`, and convert the product to the dtype of `rows`."""
    return (rows.to(matrix.dtype) @ matrix).to(rows.dtype)


def read_mlp(layer_rest: LayerRest) -> Mlp | None:
    """Return the matrices of the MLP if the layer supports the fast implementation, or None."""
    if layer_rest.mode != "shortcut":
        return None
    site = layer_rest.site
    if site.gate is not None:
        reason = "a gate makes the contribution of a source differ by target"
    elif (mlp := find_mlp(layer_rest.layer, site.values.dtype)) is not None:
        return mlp
    else:
        reason = "the rest of the layer after its attention is not one norm and a plain MLP"
    note_fallback(layer_rest.layer, f"{_OWN_CODE} {reason}")
    return None


def allows_fast(layer_rest: LayerRest) -> bool:
    """Return whether the fast implementation supports the layer and its values."""
    if read_mlp(layer_rest) is None:
        return False
    return not _notes_outliers(layer_rest.layer, find_outliers(layer_rest.site))


def _notes_outliers(layer: Layer, outliers: Bool[Tensor, ""]) -> bool:
    """Return whether there are outliers. If so, note that the layer runs its own code."""
    if not bool(outliers):
        return False
    note_fallback(layer, f"{_OWN_CODE} a value is a thousand times as large as the others")
    return True


def fast_zeroing(
    layer_rest: LayerRest,
    weights: Float[Tensor, "batch head target source"],
    take: Take,
    real: Bool[Tensor, "batch target source"],
    distance: Distance,
    *,
    folded: bool,
) -> FastZeroing | None:
    """Return the fast implementation if the layer supports it and it passes the test, or None.

    If checks are deferred, the comparison with the layer's output is deferred as well.
    """
    mlp, layer = read_mlp(layer_rest), layer_rest.layer
    if mlp is None:
        return None
    outliers = find_outliers(layer_rest.site)
    fast = FastZeroing(layer_rest, mlp, weights, take, distance, folded=folded)
    if _notes_outliers(layer, outliers):  # read late, so that a GPU has work in the meantime
        return None
    outputs, recorded, bar = fast.unedited.outputs, take(layer.native_output, 1), layer.rounding
    if layer.deferred is not None:
        layer.deferred.rows_agree(
            outputs.flatten(0, 1), recorded.flatten(0, 1), bar, _failure(layer.path)
        )
    else:
        has_source = real.any(2)
        errors = row_errors(outputs[has_source][None], recorded[has_source][None])
        if not bool(errors <= bar):
            note_fallback(
                layer, f"{_OWN_CODE} the products of its matrices differ from the layer's output"
            )
            return None
    key = (layer.path, layer_rest.kind, distance, folded, mlp.second[0].dtype, layer.has_one_token)
    if not _proofs.of(layer.model, key, lambda: _prove(layer_rest, distance, folded)):
        note_fallback(layer, f"{_OWN_CODE} the products of its matrices give different distances")
        return None
    return fast


_OWN_CODE = "Value Zeroing runs the layer's own code, because"


def _failure(path: str) -> Callable[[float], Exception]:
    return lambda error: TargetsUnavailable(
        f"layer `{path}`: the products of its matrices differ from its output by {error:.1e}"
    )


@torch.no_grad()
def _prove(layer_rest: LayerRest, distance: Distance, folded: bool) -> bool:
    """Return whether the fast and the literal implementation agree on a few pairs of the first
    text.
    """
    whole = LayerRest(layer_rest.layer.whole, layer_rest.kind, rows=layer_rest.rows)
    native = layer_rest.site.values.dtype
    mlp = find_mlp(whole.layer, native)
    if mlp is None or whole.mode != "shortcut" or whole.site.gate is not None:
        return False
    weights = whole.site.weights[:, :, :_PROVED]
    batch, _, count, sources = weights.shape
    columns = min(_PROVED, sources)
    places = torch.arange(count, device=weights.device).expand(batch, count)
    block = ZeroedBlock(slice(0, 1), slice(0, count), slice(0, columns))
    linked = weights[:1, ..., :columns].any(1)

    def take(tensor: Tensor, dim: int) -> Tensor:
        return tensor.narrow(dim, 0, count)

    whole.site = replace(whole.site, values=whole.site.values.to(native))
    fast = FastZeroing(whole, mlp, weights, take, distance, folded=folded)
    actual = fast.distances(block, linked)
    with matmul_precision("float32"):  # in TF32 whole rows would lose the change that is compared
        expected = LiteralZeroing(whole, weights, places, distance).distances(block, linked)
    bar = 4 * max(rounding(whole.site.projected, native), rounding(whole.site.projected))
    if whole.site.projected.dtype == torch.float64:
        bar = 1e-10  # stricter than rounding: norms of a float64 model may compute in float32
    return bool((actual - expected).abs().max() <= bar * expected.abs().max())
