"""Value Zeroing by the layer's own code, on single tokens or whole sequences."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import TargetsUnavailable
from mixlens.kernels.chunks import chunked, wide
from mixlens.kernels.distances import Rows
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroed_sources import Sources, is_massive


class ByRows:
    """Rows through the layer's own code.

    If a norm follows the attention module (or may follow it), or a value is massive, o_i - c_ij is
    taken in float64. A source may carry nearly all of o_i (the first token of a causal model all of
    its own), and the norm makes what is left, rounding included, as large as the whole was.
    """

    mixes = False

    def __init__(
        self,
        layer_rest: LayerRest,
        weights: Float[Tensor, "batch head target source"],
        positions: Int[Tensor, "batch target"],
    ) -> None:
        self.layer_rest = layer_rest
        self.positions = positions
        site, texts = (
            layer_rest.site,
            torch.arange(len(positions), device=positions.device)[:, None],
        )
        self.cast: Callable[[Tensor], Tensor] = (
            wide
            if site.structure.branch_norm or site.structure.open or is_massive(site)
            else lambda tensor: tensor
        )
        if self.cast is not wide:
            self.whole = site.projected[texts, positions]
        else:  # head by head: wide weights of all heads would be the largest tensor of all
            self.whole = wide(site.output_bias).repeat(*positions.shape, 1)
            for head, matrix in enumerate(site.head_maps):
                mixed = wide(weights[:, head]) @ wide(site.head_values(head))
                if site.gate is not None:
                    mixed = mixed * wide(site.gate[texts, positions, head])
                self.whole += mixed @ wide(matrix)
            if site.beside is not None:
                self.whole += site.beside[texts, positions]

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        site, every = self.layer_rest.site, self.positions[sources.text, sources.targets]
        k, target = sources.linked.nonzero().unbind(1)
        written = self.written(sources, sources.weights, every)
        left = self.whole[sources.text, sources.targets][target] - written[k, target]
        places = every[target]
        texts = torch.full_like(places, sources.text)
        outputs = [
            self.layer_rest(text, place, part.to(site.projected.dtype))
            for text, place, part in zip(
                *(chunked(t, self.layer_rest.rows) for t in (texts, places, left)), strict=True
            )
        ]
        return torch.cat(outputs)

    def written(
        self, sources: Sources, weights: Float[Tensor, "source target head"], places: Tensor
    ) -> Float[Tensor, "source target d_model"]:
        """c_ij: what the sources write into targets at these places."""
        site, cast = self.layer_rest.site, self.cast
        matrix, values = cast(site.head_maps[sources.heads]), cast(sources.values)
        if site.gate is None:
            return torch.bmm(cast(weights), torch.einsum("khe,hed->khd", values, matrix))
        gate = cast(site.gate[sources.text, places][:, sources.heads])
        mixed = cast(weights)[..., None] * gate * values[:, None]
        return mixed.flatten(2) @ matrix.flatten(0, 1)


class BySequences:
    """Whole sequences through the layer, every target edited: for layers whose rest does not work
    on rows.

    It may then mix tokens, so a target that does not read a source changes with those that do.
    """

    def __init__(self, layer_rest: LayerRest, positions: Int[Tensor, "batch target"]) -> None:
        if layer_rest.layer.whole is not layer_rest.layer:
            raise TargetsUnavailable(
                f"layer `{layer_rest.layer.structure.path}`: what follows its attention depends on"
                " other tokens, so a few targets cannot be measured alone"
            )
        site = layer_rest.site
        every = torch.arange(site.weights.shape[2], device=positions.device)
        self.every: ByRows = ByRows(layer_rest, site.weights, every.expand(len(positions), -1))
        self.layer_rest = layer_rest
        self.positions = positions
        self.mixes = layer_rest.mixes()

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        layer_rest, site, text = self.layer_rest, self.layer_rest.site, sources.text
        edited = self.every.whole[text].expand(len(sources.linked), -1, -1)
        if sources.columns is not None:
            weights = site.weights[text, sources.heads][:, :, sources.columns].permute(2, 1, 0)
            every = torch.arange(edited.shape[1], device=edited.device)
            edited = edited - self.every.written(sources, weights, every)
        outputs = [
            layer_rest.layer.rerun(
                text, attention_output=part.to(site.projected), kind=layer_rest.kind
            )
            for part in chunked(edited, max(1, layer_rest.rows // edited.shape[1]))
        ]
        return torch.cat(outputs)[:, self.positions[text, sources.targets]][sources.linked]
