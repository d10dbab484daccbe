"""Value Zeroing on a GPU: distances straight from products on what changed.

For a perceptron behind a norm, with t_ij = u_i - s c_ij the sum without source j and z = norm(t):

    change of the hidden layer   h_ij - h_i, from z_ij W_1 = z_i W_1 + (z_ij - z_i) W_1
    change of the output         (h_ij - h_i) W_2

Only changes are multiplied, so that a product in half precision loses digits of the change and not
of the whole. The weights of a half-precision model are used as they are: no float32 copy of a layer
is made. For many pairs the first product is folded, W_1 c_ij = sum_h A^h_ij (W_1 f^h_j), as in
`zeroing`. The steps between the products are two fused kernels (`kernels.fused_zeroing`), with
plain torch as their other form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import RowsUnavailable
from mixlens.kernels import fused_zeroing
from mixlens.kernels.distances import prepared_for, separation
from mixlens.recording.differences import rounding
from mixlens.recording.doubts import row_error
from mixlens.recording.norms import LinearisedNorm, norm_of
from mixlens.recording.remembered import Remembered
from mixlens.replay.perceptron import Perceptron, perceptron
from mixlens.replay.tail import Tail
from mixlens.replay.zeroing import (
    ByRows,
    Sources,
    folding_is_faster,
    is_massive,
    nothing_zeroed,
    sources_of,
)

_FEW = 32  # targets for which every pair's heads are summed inside one product


def _times(rows: Float[Tensor, "*rows d_in"], matrix: Float[Tensor, "d_in d_out"]) -> Tensor:
    """A product in the precision of the matrix, returned in that of the rows."""
    return (rows.to(matrix.dtype) @ matrix).to(rows.dtype)


@dataclass(frozen=True)
class _Constant:
    """Of all pairs: the unedited rows, [batch, target, ...]."""

    sums: Tensor
    normed: Tensor
    first: list[Tensor]  # what the products of changes are added to
    hidden: Tensor
    branch: Tensor
    outputs: Tensor


class ByChanges:
    """Distances of a few sources' pairs, in the order of `linked.nonzero()`."""

    mixes = False

    def __init__(
        self,
        tail: Tail,
        mlp: Perceptron,
        places: Int[Tensor, "batch target"],
        *,
        distance: str,
        folded: bool,
    ) -> None:
        self.tail, self.mlp, self.distance, self.folded = tail, mlp, distance, folded
        site = tail.site
        feed_forward = tail.layer.structure.feed_forward
        assert feed_forward is not None
        self.feed_forward, self.structure = feed_forward, site.structure
        self.output_weight = self.structure.scaled(site.output_weight)
        self.native_weight = self.output_weight.to(mlp.second[0].dtype)
        self.output_norm: LinearisedNorm | None = None
        if feed_forward.output_norm is not None:
            norm = tail.layer.submodule(feed_forward.output_norm)
            self.output_norm = norm_of(norm, site.projected)
        if folded:
            linear = mlp.norm.linear(self.output_weight)
            self.first = [linear @ matrix for matrix, _ in mlp.first]  # [head, d_head, d_ff]
            self.constants = [mlp.norm.shift @ matrix + bias for matrix, bias in mlp.first]
        self.constant = self._unedited(places)

    def _unedited(self, places: Int[Tensor, "batch target"]) -> _Constant:
        site, mlp = self.tail.site, self.mlp
        texts = torch.arange(len(places), device=places.device)[:, None]
        sums = self.structure.total(site.residual[texts, places], site.projected[texts, places])
        normed, inverse = self._normed(sums)
        if self.folded:
            first = [_times(mlp.norm.linear(sums), matrix) for matrix, _ in mlp.first]
            pairs = zip(first, self.constants, strict=True)
            products = [torch.addcmul(shift, part, inverse) for part, shift in pairs]
        else:
            first = [_times(normed, matrix) + bias for matrix, bias in mlp.first]
            products = [part.clone() for part in first]
        hidden = mlp.hidden(products)
        branch = _times(hidden, mlp.second[0]) + mlp.second[1]
        stream = sums if self.structure.output_norm is None else normed
        return _Constant(sums, normed, first, hidden, branch, self._finished(stream, branch))

    def __call__(self, sources: Sources, /) -> Float[Tensor, " row"]:
        """How far each linked target moves if the source's value is zero."""
        apart = self.pairs(sources)
        return apart.flatten() if bool(sources.linked.all()) else apart[sources.linked]

    def pairs(self, sources: Sources) -> Float[Tensor, "source target"]:
        """The same for all pairs, linked or not."""
        at = (sources.text, sources.targets)
        moved = self._moved(sources)
        normed, inverse = self._normed(moved)
        change = self._hidden_change(sources, normed, inverse)
        change = _times(change, self.mlp.second[0])
        stream = moved if self.structure.output_norm is None else normed
        return self._distances(change, stream, at)

    # ---------------------------------------------------------------------------------------- steps

    def _moved(self, sources: Sources) -> Float[Tensor, "source target d_model"]:
        """t: the sum before the norm, without what the source wrote."""
        sums = self.constant.sums[sources.text, sources.targets]
        if sources.weights.shape[1] > _FEW:
            vectors = torch.einsum(
                "khe,hed->khd", sources.values, self.output_weight[sources.heads]
            )
            sums = sums.expand(len(vectors), -1, -1)
            return torch.baddbmm(sums, sources.weights, vectors, alpha=-1)
        matrix = self.native_weight[sources.heads].flatten(0, 1)
        parts = [
            _times((weights[..., None] * sources.values).flatten(1), matrix)
            for weights in sources.weights.unbind(1)
        ]
        return sums - torch.stack(parts, 1)

    def _normed(self, rows: Tensor) -> tuple[Tensor, Float[Tensor, "*rows 1"]]:
        norm, width = self.mlp.norm, rows.shape[-1]
        if norm.centred:
            normed, _, inverse = torch.native_layer_norm(
                rows, [width], norm.gain, norm.shift, norm.epsilon
            )
            return normed, inverse
        length: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
        inverse = torch.rsqrt(length.square() / width + norm.epsilon)
        return (rows * inverse).mul_(norm.gain).add_(norm.shift), inverse

    def _hidden_change(
        self, sources: Sources, normed: Tensor, inverse: Tensor
    ) -> Float[Tensor, "source target d_ff"]:
        at = (sources.text, sources.targets)
        sums = [part[at] for part in self.constant.first]
        base = self.constant.hidden[at]
        if self.folded:
            values = sources.values
            products = [
                torch.bmm(sources.weights, torch.einsum("khe,hef->khf", values, m[sources.heads]))
                for m in self.first
            ]
            sign, scale = -1.0, inverse
        else:
            change = (normed - self.constant.normed[at]).to(self.mlp.first[0][0].dtype)
            products = [change @ matrix for matrix, _ in self.mlp.first]
            sign, scale = 1.0, None
        if fused_zeroing.applies(products[0]):
            return fused_zeroing.hidden_change(
                products,
                sums,
                base,
                activation=self.mlp.activation_name,
                sign=sign,
                inverse=None if scale is None else scale[..., 0],
                constants=self.constants if self.folded else (),
                dtype=self.mlp.second[0].dtype,
            )
        entering = [
            part + sign * product.to(part.dtype)
            for part, product in zip(sums, products, strict=True)
        ]
        if scale is not None:
            pairs = zip(self.constants, entering, strict=True)
            entering = [torch.addcmul(shift, part, scale) for shift, part in pairs]
        return self.mlp.hidden(entering).sub_(base)

    def _distances(
        self, change: Tensor, stream: Tensor, at: tuple[int, slice]
    ) -> Float[Tensor, "source target"]:
        constant, norm = self.constant, self.output_norm
        if fused_zeroing.applies(stream):
            ones = torch.ones_like(stream[0, 0])
            return fused_zeroing.distances(
                change,
                stream,
                constant.branch[at],
                constant.outputs[at],
                distance=self.distance,
                residual_scale=self.feed_forward.residual_scale,
                branch_scale=self.feed_forward.scaled(ones),
                norm=None
                if norm is None
                else fused_zeroing.OutputNorm(
                    gain=norm.gain, shift=norm.shift, epsilon=norm.epsilon, centred=norm.centred
                ),
            )
        outputs = self._finished(stream, constant.branch[at] + change)
        prepare = prepared_for(self.distance)
        unedited = prepare(constant.outputs[at]).expand_as(outputs).flatten(0, 1)
        return separation(self.distance, prepare(outputs.flatten(0, 1)), unedited).view(
            outputs.shape[:2]
        )

    def _finished(self, stream: Tensor, branch: Tensor) -> Tensor:
        total = self.feed_forward.total(stream, branch)
        return total if self.output_norm is None else self.output_norm(total)


# --------------------------------------------------------------------------------------- the choice

_proofs: Remembered[bool] = Remembered()


def distances_by_changes(
    tail: Tail,
    weights: Float[Tensor, "batch head target source"],
    real: Tensor,
    places: Int[Tensor, "batch target"],
    *,
    distance: str,
    per_head: bool,
) -> ByChanges | None:
    """The fast form if this layer and device have one and it proves right, else None."""
    layer = tail.layer
    half = tail.site.values.element_size() < 4  # its products are cheap, those of folding are not
    alone = layer.doubts is not None  # few pairs, and `real` is not to be looked at
    folded = not half and not alone and folding_is_faster(tail.site, real, per_head=per_head)
    if tail.mode != "shortcut" or distance not in fused_zeroing.DISTANCES:
        return None
    waits = alone and weights.device.type != "cpu"  # a look at a number stops a GPU
    if not waits and is_massive(tail.site):
        return None
    native = tail.site.values.dtype
    mlp = perceptron(layer, native)
    if mlp is None or mlp.after is not None:
        return None
    changes = ByChanges(tail, mlp, places, distance=distance, folded=folded)
    texts = torch.arange(len(places), device=places.device)[:, None]
    recorded = layer.output[texts, places]
    asked = real.any(2)
    unedited, bar = changes.constant.outputs, layer.rounding
    if layer.doubts is not None:
        layer.doubts.add(row_error(unedited, recorded), bar, _failure(layer.structure.path))
    elif not bool(row_error(unedited[asked], recorded[asked]) <= bar):
        return None
    key = (layer.structure.path, str(tail.kind), distance, folded, native)
    proof = _proofs.of(layer.model, key, lambda: _proved(tail, distance, folded, native))
    return changes if proof else None


def _failure(path: str) -> Callable[[float], Exception]:
    return lambda error: RowsUnavailable(
        f"layer `{path}`: products of rows are off by {error:.1e} from what the layer returned"
    )


def row_distances(
    changes: ByChanges,
    weights: Float[Tensor, "batch head target source"],
    real: Tensor,
    last: Sequence[int],
    *,
    per_head: bool,
    rows: int,
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`changes` for all pairs of a few targets, up to the last source that any of them can see: no
    number is looked at on the way.
    """
    batch, heads, count, sources = weights.shape
    scores = weights.new_zeros(batch, heads if per_head else 1, count, sources)
    groups = [slice(h, h + 1) for h in range(heads)] if per_head else [slice(0, heads)]
    everywhere = slice(0, count)
    for number, group in enumerate(groups):
        for text in range(batch):
            for start in range(0, last[text], max(1, rows // count)):
                part = slice(start, min(start + max(1, rows // count), last[text]))
                seen = weights[text, group, :, part]
                linked = (seen != 0).any(0) & real[text, :, part]
                values = changes.tail.site.source_values(text, part, group)
                taken = seen.permute(2, 1, 0).contiguous()
                some = Sources(text, None, everywhere, group, taken, values, linked.T)
                scores[text, number, :, part] = changes.pairs(some).T * linked
    return scores


@torch.no_grad()
def _proved(tail: Tail, distance: str, folded: bool, native: torch.dtype) -> bool:
    """Whether a few pairs of the whole layer, on a short input, have the distances that the layer's
    own code gives.
    """
    whole = Tail(tail.layer.whole, tail.kind, rows=tail.rows)
    mlp = perceptron(whole.layer, native)
    if mlp is None or whole.mode != "shortcut":
        return False
    weights = whole.site.weights[:1, :, :12]
    places = torch.arange(weights.shape[2], device=weights.device)[None]
    changes = ByChanges(whole, mlp, places, distance=distance, folded=folded)
    rows = ByRows(whole, weights, places)
    linked = (weights[0] != 0).any(0)
    columns = linked.any(0).nonzero()[:, 0][:12]
    few = sources_of(whole.site, weights, linked, 0, columns, slice(0, int(weights.shape[1])))
    base = rows(nothing_zeroed(whole.site, 0, len(places[0])))
    target = few.linked.nonzero()[:, 1] + few.targets.start
    prepare = prepared_for(distance)
    expected = separation(distance, prepare(rows(few)), prepare(base[target]))
    bar = 4 * max(rounding(whole.site.projected, native), rounding(whole.site.projected))
    return bool((changes(few) - expected).abs().max() <= bar * expected.abs().max())
