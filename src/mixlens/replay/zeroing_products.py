"""Value Zeroing through an MLP by matrix products.

The first product is linear in c_ij, so W_1 c_ij = sum_h A^h_ij (W_1 f^h_j) costs heads x d_ff
operations for each pair instead of d_model x d_ff. All products act on what changed, W_2 (h_ij -
h_i): the outputs are compared with the unedited ones, and the rounding of a product is then as
small as the change.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.kernels.chunks import product_bytes
from mixlens.kernels.distances import Rows
from mixlens.recording.attention import Attention
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.mlp import Mlp
from mixlens.replay.zeroed_sources import Sources
from mixlens.structure.layer_structure import FeedForwardStructure


class ByProducts:
    """Rows through a perceptron, as matrices.

    With t_ij = u_i - s c_ij, u the unedited sum before the norm, and z = gain * centred(t) /
    sigma(t) + shift, z W_1 + b_1 = (centred(u_i) gain W_1 - s sum_h A^h_ij centred(f^h_j) gain W_1)
    / sigma_ij + (shift W_1 + b_1). `folded` says whether the first product is taken so, before the
    rows are formed: it pays for many pairs.
    """

    mixes = False

    def __init__(
        self,
        layer_rest: LayerRest,
        mlp: Mlp,
        positions: Int[Tensor, "batch target"],
        *,
        folded: bool,
    ) -> None:
        site, norm = layer_rest.site, mlp.norm
        structure, feed_forward = site.structure, layer_rest.layer.structure.feed_forward
        assert feed_forward is not None
        self.layer_rest = layer_rest
        self.mlp = mlp
        self.feed_forward: FeedForwardStructure = feed_forward
        self.folded = folded
        texts = torch.arange(len(positions), device=positions.device)[:, None]
        self.sums = structure.total(
            site.residual[texts, positions], site.projected[texts, positions]
        )
        self.output_weight = structure.scaled(site.output_weight)
        self._kept: list[Tensor] = []
        self._kept_for: tuple[int, int, int] | None = None
        self.needs_normed: bool = structure.output_norm is not None or not folded
        self.normed, inverse = mlp.normed(self.sums, needed=self.needs_normed)
        if folded:
            linear = norm.linear(self.output_weight)
            self.first = [linear @ matrix for matrix, _ in mlp.first]  # [head, d_head, d_ff]
            self.first_sums = [
                norm.linear(self.sums) @ matrix for matrix, _ in mlp.first
            ]  # [batch, target, d_ff]
            self.constants = [norm.shift @ matrix + bias for matrix, bias in mlp.first]
            products = [
                torch.addcmul(c, sums, inverse)
                for c, sums in zip(self.constants, self.first_sums, strict=True)
            ]
        else:
            products = self.first_sums = [
                torch.nn.functional.linear(self.normed, matrix.T, bias)
                for matrix, bias in mlp.first
            ]
        self.hidden = mlp.hidden(products)  # of the unedited rows
        self.branch = torch.nn.functional.linear(self.hidden, mlp.second[0].T, mlp.second[1])

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        outputs = self.outputs(sources)
        return outputs.flatten(0, 1) if bool(sources.linked.all()) else outputs[sources.linked]

    def outputs(self, sources: Sources) -> Float[Tensor, "source target d_model"]:
        """Of all pairs, linked or not."""
        at = (sources.text, sources.targets)
        moved = self._moved(sources)
        normed, inverse = self.mlp.normed(moved, needed=self.needs_normed)
        if sources.columns is None:
            branch = self.branch[at].repeat(len(moved), 1, 1)
        else:
            change = self._hidden(sources, normed, inverse).sub_(self.hidden[at])
            branch = torch.nn.functional.linear(change, self.mlp.second[0].T).add_(self.branch[at])
        return self._summed(
            moved if self.layer_rest.site.structure.output_norm is None else normed, branch
        )

    def _moved(self, sources: Sources) -> Float[Tensor, "source target d_model"]:
        """t: the sum before the norm, without what the source wrote."""
        vectors = torch.einsum("khe,hed->khd", sources.values, self.output_weight[sources.heads])
        sums = self.sums[sources.text, sources.targets].expand(len(vectors), -1, -1)
        return torch.baddbmm(sums, sources.weights, vectors, alpha=-1)

    def _hidden(
        self,
        sources: Sources,
        normed: Float[Tensor, "source target d_model"],
        inverse: Float[Tensor, "source target 1"],
    ) -> Float[Tensor, "source target d_ff"]:
        """What goes into the second product."""
        at = (sources.text, sources.targets)
        if not self.folded:
            change = normed - self.normed[at]
            products = [change @ matrix for matrix, _ in self.mlp.first]
            return self.mlp.hidden(
                [
                    product.add_(sums[at])
                    for product, sums in zip(products, self.first_sums, strict=True)
                ]
            )
        # One more row holds the constant, so that a single product makes both.
        weights = torch.cat([sources.weights * -inverse, torch.ones_like(inverse)], -1)
        products = []
        for number, (sums, constant) in enumerate(
            zip(self.first_sums, self.constants, strict=True)
        ):
            rows = self._first_product(number, sources)
            rows = torch.cat([rows, constant.expand(len(rows), 1, -1)], 1)
            products.append(torch.bmm(weights, rows).addcmul_(sums[at], inverse))
        return self.mlp.hidden(products)

    def _first_product(self, number: int, sources: Sources) -> Float[Tensor, "source head d_ff"]:
        """W_1 f^h_j.

        For all sources of a text at once while that is small: a few at a time, reading the matrix
        is what costs.
        """
        site, first = self.layer_rest.site, self.first[number][sources.heads]
        size = site.values.shape[2] * first.shape[0] * first.shape[2] * first.element_size()
        assert sources.columns is not None  # if nothing is zeroed there is no product
        if size > product_bytes(first.device):
            return torch.einsum("khe,hef->khf", sources.values, first)
        key = (sources.text, sources.heads.start, sources.heads.stop)
        if self._kept_for != key:
            values = site.values[sources.text, sources.heads]
            self._kept = [
                torch.einsum("hke,hef->khf", values, matrix[sources.heads]) for matrix in self.first
            ]
            self._kept_for = key
        return self._kept[number][sources.columns]

    def _summed(self, stream: Tensor, branch: Tensor) -> Tensor:
        structure, module = self.feed_forward, self.layer_rest.module
        if self.mlp.after is not None:
            branch = module.get_submodule(self.mlp.after)(branch)
        total = structure.total(stream, branch)
        return (
            total
            if structure.output_norm is None
            else module.get_submodule(structure.output_norm)(total)
        )


def folding_is_faster(
    site: Attention, real: Bool[Tensor, "batch target source"], *, per_head: bool
) -> bool:
    """Are there so many pairs that the first product costs less before they are formed?"""
    d_model, heads, pairs = int(site.projected.shape[-1]), site.structure.heads, int(real.sum())
    at_once, pairs = (1, pairs * heads) if per_head else (heads, pairs)
    return pairs * (d_model - at_once) >= 1.2 * d_model * (d_model + real.shape[0] * real.shape[2])
