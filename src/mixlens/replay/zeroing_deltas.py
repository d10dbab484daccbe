"""Value Zeroing on a GPU: distances from products on the changes.

For a perceptron after a norm, with t_ij = u_i - s c_ij the sum without source j and z = norm(t):

    change of the hidden layer   h_ij - h_i, from z_ij W_1 = z_i W_1 + (z_ij - z_i) W_1
    change of the output         (h_ij - h_i) W_2

Only changes are multiplied, so that a product in half precision loses digits of the change and not
of the whole. The weights of a half-precision model are used as they are: no float32 copy of a layer
is made. For many pairs the first product is folded, W_1 c_ij = sum_h A^h_ij (W_1 f^h_j), as in
`zeroing`. `zeroing_steps` has the steps between the products.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import Mlp
from mixlens.replay.zeroed_sources import Sources
from mixlens.replay.zeroing_steps import distances, hidden_change
from mixlens.structure.layer_structure import AttentionStructure, FeedForwardStructure
from mixlens.structure.norms import LinearisedNorm, norm_of

_FEW = 32  # targets for which every pair's heads are summed inside one product


def _times(rows: Float[Tensor, "*rows d_in"], matrix: Float[Tensor, "d_in d_out"]) -> Tensor:
    """A product in the precision of the matrix, returned in that of the rows."""
    return (rows.to(matrix.dtype) @ matrix).to(rows.dtype)


@dataclass(frozen=True)
class _UneditedRows:
    """One row for each target, texts after each other."""

    sums: Float[Tensor, "row d_model"]
    normed: Float[Tensor, "row d_model"]
    first: list[Tensor]  # what the products of changes are added to
    hidden: Float[Tensor, "row d_ff"]
    branch: Float[Tensor, "row d_model"]
    outputs: Float[Tensor, "row d_model"]

    def part(self, start: int, stop: int) -> _UneditedRows:
        """Some of the rows."""
        if stop - start == self.sums.shape[0]:
            return self
        rows = slice(start, stop)
        return _UneditedRows(
            sums=self.sums[rows],
            normed=self.normed[rows],
            first=[part[rows] for part in self.first],
            hidden=self.hidden[rows],
            branch=self.branch[rows],
            outputs=self.outputs[rows],
        )


class ByChanges:
    """Distances of a few sources' pairs, in the order of `linked.nonzero()`."""

    mixes = False

    def __init__(
        self,
        layer_rest: LayerRest,
        mlp: Mlp,
        places: Int[Tensor, "batch target"] | None,
        *,
        distance: str,
        folded: bool,
    ) -> None:
        """`places`: where the targets are in the site's tensors; None: they are all there is."""
        self.layer_rest = layer_rest
        self.mlp = mlp
        self.distance = distance
        self.folded = folded
        site = layer_rest.site
        feed_forward = layer_rest.layer.structure.feed_forward
        assert feed_forward is not None
        self.feed_forward: FeedForwardStructure = feed_forward
        self.structure: AttentionStructure = site.structure
        self.output_norm: LinearisedNorm | None = None
        if feed_forward.output_norm is not None:
            norm = layer_rest.layer.submodule(feed_forward.output_norm)
            self.output_norm = norm_of(norm, site.projected)
        if folded:
            linear = mlp.norm.linear(self._output_weight)
            self.first = [linear @ matrix for matrix, _ in mlp.first]  # [head, d_head, d_ff]
            self.constants = [mlp.norm.shift @ matrix + bias for matrix, bias in mlp.first]
        self.count: int = int((site.projected if places is None else places).shape[1])
        self.unedited: _UneditedRows = self._unedited_rows(places)

    @functools.cached_property
    def _output_weight(self) -> Float[Tensor, "head d_head d_model"]:
        """The output projection as it enters the sum."""
        return self.structure.scaled(self.layer_rest.site.output_weight)

    @functools.cached_property
    def _native_weight(self) -> Float[Tensor, "head d_head d_model"]:
        """The same in the precision of the products."""
        return self._output_weight.to(self.mlp.second[0].dtype)

    def _unedited_rows(self, places: Int[Tensor, "batch target"] | None) -> _UneditedRows:
        site, mlp = self.layer_rest.site, self.mlp
        residual, projected = site.residual, site.projected
        if places is not None:
            texts = torch.arange(len(places), device=places.device)[:, None]
            residual, projected = residual[texts, places], projected[texts, places]
        if places is None and site.output_norm is None:
            sums = site.block_output
        else:
            sums = self.structure.total(residual, projected)
        sums = sums.flatten(0, 1)
        normed, inverse = self._normed(sums)
        if self.folded:
            assert inverse is not None
            first = [_times(mlp.norm.linear(sums), matrix) for matrix, _ in mlp.first]
            pairs = zip(first, self.constants, strict=True)
            products = [torch.addcmul(shift, part, inverse) for part, shift in pairs]
        else:
            entering = normed.to(mlp.first[0][0].dtype)
            products = first = [
                self._biased((entering @ matrix).to(normed.dtype), bias)
                for matrix, bias in mlp.first
            ]
        hidden = mlp.hidden(products)
        branch = self._biased(_times(hidden, mlp.second[0]), mlp.second[1])
        stream = sums if self.structure.output_norm is None else normed
        return _UneditedRows(sums, normed, first, hidden, branch, self._finished(stream, branch))

    def _biased(self, product: Tensor, bias: Tensor) -> Tensor:
        return product + bias if self.mlp.biased else product

    def __call__(self, sources: Sources, /) -> Float[Tensor, " row"]:
        """How far each linked target moves if the source's value is zero."""
        apart = self.block(sources)
        return apart.flatten() if bool(sources.linked.all()) else apart[sources.linked]

    def block(self, sources: Sources) -> Float[Tensor, "source target"]:
        """The same for all pairs, linked or not."""
        first, targets = sources.text * self.count, sources.targets
        rows = self.unedited.part(first + targets.start, first + targets.stop)
        return self._apart(self._moved(sources, rows), rows, sources)

    def pairs(
        self, texts: slice, part: slice, head: int | None
    ) -> Float[Tensor, "text target source"]:
        """The same for some sources of some texts and all targets of a recording of rows, of
        one head or of all.
        """
        vectors, weights = self.layer_rest.site.vectors, self.layer_rest.site.weights
        if head is not None:
            vectors, weights = vectors.head(head), weights[:, head : head + 1]
        if weights.shape[0] > 1:
            vectors, weights = vectors.of_texts(texts), weights[texts]
        first, number = texts.start * self.count, weights.shape[0]
        written = [
            self.structure.scaled(vectors.written(weights[:, :, target, part], part, target))
            for target in range(self.count)
        ]
        if number * self.count == 1:
            by_row = written[0].view(-1, 1, vectors.width)
        else:
            by_row = torch.stack(written, 1).flatten(0, 1).transpose(0, 1)
        rows = self.unedited.part(first, first + number * self.count)
        apart = self._apart((rows.sums - by_row).contiguous(), rows)
        return apart.T.view(number, self.count, -1)

    def _apart(
        self,
        moved: Float[Tensor, "source row d_model"],
        rows: _UneditedRows,
        sources: Sources | None = None,
    ) -> Float[Tensor, "source row"]:
        """Of sums before the norm without what a source wrote; `sources` for a folded product."""
        normed, inverse = self._normed(moved)
        change = self._hidden_change(rows, normed, inverse, sources)
        change = _times(change, self.mlp.second[0])
        stream = moved if self.structure.output_norm is None else normed
        return self._distances(change, stream, rows)

    # ---------------------------------------------------------------------------------------- steps

    def _moved(self, sources: Sources, rows: _UneditedRows) -> Float[Tensor, "source row d_model"]:
        """t: the sum before the norm, without what the source wrote."""
        sums = rows.sums
        if sources.weights.shape[1] > _FEW:
            vectors = torch.einsum(
                "khe,hed->khd", sources.values, self._output_weight[sources.heads]
            )
            sums = sums.expand(len(vectors), -1, -1)
            return torch.baddbmm(sums, sources.weights, vectors, alpha=-1)
        matrix = self._native_weight[sources.heads].flatten(0, 1)
        parts = [
            _times((weights[..., None] * sources.values).flatten(1), matrix)
            for weights in sources.weights.unbind(1)
        ]
        return sums - torch.stack(parts, 1)

    def _normed(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """z, and 1 / sigma if the first product is folded."""
        return self.mlp.normed(rows) if self.folded else (self.mlp.norm(rows), None)

    def _hidden_change(
        self,
        rows: _UneditedRows,
        normed: Tensor,
        inverse: Tensor | None,
        sources: Sources | None,
    ) -> Float[Tensor, "source row d_ff"]:
        if self.folded:
            assert sources is not None
            values = sources.values
            products = [
                torch.bmm(sources.weights, torch.einsum("khe,hef->khf", values, m[sources.heads]))
                for m in self.first
            ]
            sign, scale = -1.0, inverse
        else:
            # contiguous: with odd strides torch takes a product for each source
            change = normed.new_empty(normed.shape, dtype=self.mlp.first[0][0].dtype)
            torch.sub(normed, rows.normed, out=change)  # rounded as it is written
            products = [change @ matrix for matrix, _ in self.mlp.first]
            sign, scale = 1.0, None
        return hidden_change(
            products,
            rows.first,
            rows.hidden,
            activation=self.mlp.activation_name,
            sign=sign,
            inverse=None if scale is None else scale[..., 0],
            constants=self.constants if self.folded else (),
            dtype=self.mlp.second[0].dtype,
        )

    def _distances(
        self, change: Tensor, stream: Tensor, rows: _UneditedRows
    ) -> Float[Tensor, "source row"]:
        return distances(
            change,
            stream,
            rows.branch,
            rows.outputs,
            distance=self.distance,
            residual=self.feed_forward,
            norm=self.output_norm,
        )

    def _finished(self, stream: Tensor, branch: Tensor) -> Tensor:
        total = self.feed_forward.total(stream, branch)
        return total if self.output_norm is None else self.output_norm(total)
