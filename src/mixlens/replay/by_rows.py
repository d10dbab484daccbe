"""Value Zeroing by the layer's own code: the rest of a layer on rows, or whole sequences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import RowsUnavailable
from mixlens.kernels.chunks import chunked, wide
from mixlens.kernels.distances import Rows
from mixlens.replay.tail import Tail
from mixlens.replay.zeroed_sources import Sources, is_massive


class ByRows:
    """Rows through the layer's own code.

    If a norm follows the attention module, or a value is massive, o_i - c_ij is taken in float64.
    A source may carry nearly all of o_i (the first token of a causal model all of its own), and the
    norm makes what is left, rounding included, as large as the whole was.
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
        outputs = [
            self.tail(text, place, part.to(site.projected.dtype))
            for text, place, part in zip(
                *(chunked(t, self.tail.rows) for t in (texts, places, left)), strict=True
            )
        ]
        return torch.cat(outputs)


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
            for part in chunked(edited, max(1, tail.rows // edited.shape[1]))
        ]
        return torch.cat(outputs)[:, self.positions[text, sources.targets]][sources.linked]
