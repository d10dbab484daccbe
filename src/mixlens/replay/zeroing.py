"""What happens to every target when one source's value is set to zero: exact, without running whole
sequences again.

With v_j = 0 the attention output of target i loses c_ij = sum_h A^h_ij f^h_j and nothing else
changes before the rest of the layer, which works on rows. So the layer's output for every pair (i,
j) is the rest of the layer on the rows o_i - c_ij. Pairs with no attention between them (the
future, padding, outside a window) are left out: their distance is exactly zero. Pairs are taken a
few sources at a time, so that target x source x d_model numbers never exist at once.

`ByRows` runs the layer's own code, `BySequences` the whole layer if its rest does not work on rows.
`ByProducts` is for feed-forward parts that are perceptrons:
their first product is linear in c_ij, so W_1 c_ij = sum_h A^h_ij (W_1 f^h_j) costs heads x d_ff
operations for each pair instead of d_model x d_ff. Its products act on what changed, W_2 (h_ij -
h_i): the outputs are compared with the unedited ones, and the rounding of a product is then as
small as the change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.errors import RowsUnavailable
from mixlens.kernels.chunks import pieces, product_bytes, wide
from mixlens.kernels.distances import Rows
from mixlens.recording.differences import difference, row_sizes, same_bar
from mixlens.recording.site import Site
from mixlens.replay.perceptron import Perceptron, perceptron
from mixlens.replay.tail import Tail


@dataclass(frozen=True)
class Sources:
    """A few source tokens of one text, and how a range of the wanted targets reads them."""

    text: int
    columns: Int[Tensor, " source"] | None  # None: not a token of the text
    targets: slice  # among the wanted ones
    heads: slice
    weights: Float[Tensor, "source target head"]
    values: Float[Tensor, "source head d_head"]
    linked: Bool[Tensor, "source target"]  # pairs that attention connects


_log = logging.getLogger(__name__)


@runtime_checkable
class Rest(Protocol):
    """The rest of a layer: its output for every linked pair with the source's value set to zero, in
    the order of `linked.nonzero()`.
    """

    mixes: bool  # may a target change with a source that it does not read?

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        ...


def changed(
    rest: Rest,
    site: Site,
    weights: Float[Tensor, "batch head target source"],
    real: Bool[Tensor, "batch target source"],
    compare: Callable[[int, Int[Tensor, " row"], Rows], Float[Tensor, " row"]],
    *,
    per_head: bool,
    rows: int,
) -> Float[Tensor, "batch heads_or_one target source"]:
    """`compare(text, targets, outputs)` for every linked pair, zero elsewhere.

    `weights` are those of the wanted targets.
    """
    batch, heads, count, sources = weights.shape
    scores = weights.new_zeros(batch, heads if per_head else 1, count, sources)
    groups = [slice(h, h + 1) for h in range(heads)] if per_head else [slice(0, heads)]
    for number, group in enumerate(groups):
        for text in range(batch):
            linked = (weights[text, group] != 0).any(0) & real[text]
            if rest.mixes:  # a wanted target may change with one that is not wanted
                linked = (site.weights[text, group] != 0).any(0).any(0) & real[text]
            for columns in pieces(linked.any(0).nonzero()[:, 0], max(1, rows // count)):
                part = sources_of(site, weights, linked, text, columns, group)
                k, target = part.linked.nonzero().unbind(1)
                target = target + part.targets.start
                scores[text, number, target, columns[k]] = compare(text, target, rest(part))
    return scores


def sources_of(
    site: Site, weights: Tensor, linked: Tensor, text: int, columns: Tensor, heads: slice
) -> Sources:
    """The named source columns, with the range of targets that read any of them: for causal
    attention those that come later.
    """
    rows = linked[:, columns].any(1).nonzero()[:, 0]
    targets = slice(int(rows[0]), int(rows[-1]) + 1)
    taken = (
        weights[text, heads, targets][:, :, columns].permute(2, 1, 0).contiguous()
    )  # else each source is a product by itself
    values = site.source_values(text, columns, heads)
    return Sources(text, columns, targets, heads, taken, values, linked[targets][:, columns].T)


def nothing_zeroed(site: Site, text: int, count: int) -> Sources:
    """A source that no target reads: the unedited outputs, rounded as the edited ones are."""
    heads, d_head, like = site.structure.heads, site.values.shape[3], site.projected
    weights, values = like.new_zeros(1, count, heads), like.new_zeros(1, heads, d_head)
    everywhere = torch.ones_like(weights[..., 0], dtype=torch.bool)
    return Sources(text, None, slice(0, count), slice(0, heads), weights, values, everywhere)


def is_massive(site: Site) -> bool:
    """Is some value so much larger than the usual one that o_i - c_ij is rounding without it?"""
    sizes = row_sizes(site.values)
    return bool((sizes.amax(-1) > 1e3 * sizes.median(-1).values).any())


class ByRows:
    """Rows through the layer's own code.

    If a norm follows the attention module, or a value is massive, o_i - c_ij is taken in float64: a
    source may carry
    nearly all of o_i (the first token of a causal model all of its own), and the norm makes what is
    left, rounding included, as large as the whole was.
    """

    mixes = False

    def __init__(
        self,
        tail: Tail,
        weights: Float[Tensor, "batch head target source"],
        positions: Int[Tensor, "batch target"],
    ) -> None:
        self.tail, self.positions = tail, positions
        site, texts = tail.site, torch.arange(len(positions), device=positions.device)[:, None]
        self.cast: Callable[[Tensor], Tensor] = (
            wide if site.structure.branch_norm or is_massive(site) else lambda tensor: tensor
        )
        if self.cast is not wide:
            self.whole = site.projected[texts, positions]
        else:  # head by head: wide weights of all heads would be the largest tensor of all
            self.whole = wide(site.output_bias).repeat(*positions.shape, 1)
            for head, matrix in enumerate(site.output_weight):
                self.whole += wide(weights[:, head]) @ wide(site.head_values(head)) @ wide(matrix)
            if site.beside is not None:
                self.whole += site.beside[texts, positions]

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        site, cast = self.tail.site, self.cast
        vectors = torch.einsum(
            "khe,hed->khd", cast(sources.values), cast(site.output_weight[sources.heads])
        )
        k, target = sources.linked.nonzero().unbind(1)
        left = (
            self.whole[sources.text, sources.targets][target]
            - torch.bmm(cast(sources.weights), vectors)[k, target]
        )
        places = self.positions[sources.text, sources.targets][target]
        texts = torch.full_like(places, sources.text)
        found = [
            self.tail(text, place, part.to(site.projected.dtype))
            for text, place, part in zip(
                *(pieces(t, self.tail.rows) for t in (texts, places, left)), strict=True
            )
        ]
        return torch.cat(found)


class BySequences:
    """Whole sequences through the layer, every target edited: for layers whose rest does not work
    on rows.

    It may then mix tokens, so that a target that does not read a source changes with those that do.
    """

    def __init__(self, tail: Tail, positions: Int[Tensor, "batch target"]) -> None:
        if tail.layer.whole is not tail.layer:
            raise RowsUnavailable(
                f"layer `{tail.layer.structure.path}`: what follows its attention depends on other"
                " tokens, so a few targets cannot be measured alone"
            )
        site = tail.site
        every = torch.arange(site.weights.shape[2], device=positions.device)
        self.every = ByRows(tail, site.weights, every.expand(len(positions), -1))
        self.tail, self.positions, self.mixes = tail, positions, tail.mixes()

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        tail, site, text, cast = self.tail, self.tail.site, sources.text, self.every.cast
        edited = self.every.whole[text].expand(len(sources.linked), -1, -1)
        if sources.columns is not None:
            matrix = cast(site.output_weight[sources.heads])
            vectors = torch.einsum("khe,hed->khd", cast(sources.values), matrix)
            weights = site.weights[text, sources.heads][:, :, sources.columns].permute(2, 1, 0)
            edited = torch.baddbmm(edited, cast(weights), vectors, alpha=-1)
        outputs = [
            tail.layer.rerun(text, attention_output=part.to(site.projected), kind=tail.kind)
            for part in pieces(edited, max(1, tail.rows // edited.shape[1]))
        ]
        return torch.cat(outputs)[:, self.positions[text, sources.targets]][sources.linked]


class ByProducts:
    """Rows through a perceptron, as matrices.

    With t_ij = u_i - s c_ij, u the unedited sum before the norm, and z = gain * centred(t) /
    sigma(t) + shift, z W_1 + b_1 = (centred(u_i) gain W_1 - s sum_h A^h_ij centred(f^h_j) gain W_1)
    / sigma_ij + (shift W_1 + b_1). `folded` says whether the first product is taken so, before the
    rows are formed: it pays for many pairs.
    """

    mixes = False

    def __init__(
        self, tail: Tail, mlp: Perceptron, positions: Int[Tensor, "batch target"], *, folded: bool
    ) -> None:
        site, norm = tail.site, mlp.norm
        structure, feed_forward = site.structure, tail.layer.structure.feed_forward
        assert feed_forward is not None
        self.tail, self.mlp, self.feed_forward, self.folded = tail, mlp, feed_forward, folded
        texts = torch.arange(len(positions), device=positions.device)[:, None]
        self.sums = structure.total(
            site.residual[texts, positions], site.projected[texts, positions]
        )
        self.output_weight = structure.scaled(site.output_weight)
        self._kept: list[Tensor] = []
        self._kept_for: tuple[int, int, int] | None = None
        self.needs_normed = structure.output_norm is not None or not folded
        self.normed, inverse = self._normed(self.sums)
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
        normed, inverse = self._normed(moved)
        if sources.columns is None:
            branch = self.branch[at].repeat(len(moved), 1, 1)
        else:
            change = self._hidden(sources, normed, inverse).sub_(self.hidden[at])
            branch = torch.nn.functional.linear(change, self.mlp.second[0].T).add_(self.branch[at])
        return self._summed(
            moved if self.tail.site.structure.output_norm is None else normed, branch
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
        site, first = self.tail.site, self.first[number][sources.heads]
        size = site.values.shape[2] * first.shape[0] * first.shape[2] * first.element_size()
        assert sources.columns is not None  # where nothing is zeroed there is no product
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

    def _normed(
        self, rows: Float[Tensor, "*rows d_model"]
    ) -> tuple[Float[Tensor, "*rows d_model"], Float[Tensor, "*rows 1"]]:
        """z (for a norm without centring only where it is needed) and 1 / sigma, in few passes:
        there are n^2 rows.
        """
        norm, width = self.mlp.norm, rows.shape[-1]
        if norm.centred:
            normed, _, inverse = torch.native_layer_norm(
                rows, [width], norm.gain, norm.shift, norm.epsilon
            )
            return normed, inverse
        length: Tensor = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
        inverse = torch.rsqrt(length.square() / width + norm.epsilon)
        return (
            (rows * inverse).mul_(norm.gain).add_(norm.shift) if self.needs_normed else rows
        ), inverse

    def _summed(self, stream: Tensor, branch: Tensor) -> Tensor:
        structure, module = self.feed_forward, self.tail.module
        if self.mlp.after is not None:
            branch = module.get_submodule(self.mlp.after)(branch)
        total = structure.total(stream, branch)
        return (
            total
            if structure.output_norm is None
            else module.get_submodule(structure.output_norm)(total)
        )


def folding_is_faster(
    site: Site, real: Bool[Tensor, "batch target source"], *, per_head: bool
) -> bool:
    """Are there so many pairs that the first product costs less before they are formed?"""
    d_model, heads, pairs = int(site.projected.shape[-1]), site.structure.heads, int(real.sum())
    at_once, pairs = (1, pairs * heads) if per_head else (heads, pairs)
    return pairs * (d_model - at_once) >= 1.2 * d_model * (d_model + real.shape[0] * real.shape[2])


def fastest_rest(
    tail: Tail,
    weights: Tensor,
    real: Tensor,
    positions: Int[Tensor, "batch target"],
    *,
    per_head: bool,
) -> Rest:
    """By products where the layer allows it and they prove right; else by rows."""
    if tail.mode == "sequences":
        return BySequences(tail, positions)
    exact = tail.mode == "shortcut" and not is_massive(tail.site)
    by_rows, mlp = ByRows(tail, weights, positions), perceptron(tail.layer) if exact else None
    texts = torch.arange(len(positions), device=positions.device)[:, None].expand_as(positions)
    if mlp is not None:
        folded = folding_is_faster(tail.site, real, per_head=per_head)
        by_products = ByProducts(tail, mlp, positions, folded=folded)
        if _proved(by_products, by_rows, weights, real, tail.layer.output[texts, positions]):
            return by_products
        _log.debug("`%s`: products do not agree with the layer's code", tail.layer.structure.path)
    tail.require_recorded_output(texts.reshape(-1), positions.reshape(-1))
    return BySequences(tail, positions) if tail.mode == "sequences" else by_rows


def _proved(
    by_products: ByProducts, by_rows: ByRows, weights: Tensor, real: Tensor, recorded: Tensor
) -> bool:
    """Whether products give what the layer returned, and for a few pairs of the first text what the
    layer's own code gives.
    """
    tail, asked = by_products.tail, real.any(2)
    unedited = torch.stack(
        [by_products(nothing_zeroed(tail.site, text, real.shape[1])) for text in range(len(real))]
    )
    if not difference(unedited[asked], recorded[asked]) <= tail.layer.rounding:
        return False
    linked = (weights[0] != 0).any(0) & real[0]
    columns = linked.any(0).nonzero()[:, 0]
    columns = columns[torch.linspace(0, len(columns) - 1, 3).long().unique()]  # type: ignore[no-untyped-call]
    few = sources_of(tail.site, weights, linked, 0, columns, slice(0, int(weights.shape[1])))
    return difference(by_products(few), by_rows(few)) <= same_bar(weights)
