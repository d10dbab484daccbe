"""Value Zeroing in its literal form: the whole layer on a sequence in which one value is zero.

For layers in which no output projection is known, so that what a source writes is not known either.
It needs nothing but the attention call.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.errors import UnsupportedModel
from mixlens.kernels.chunks import chunked
from mixlens.kernels.differences import difference, same_bar
from mixlens.kernels.distances import Rows
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroed_sources import Sources


class ByValues:
    """Whole sequences through the layer, each with other values."""

    def __init__(self, layer_rest: LayerRest, positions: Int[Tensor, "batch target"]) -> None:
        self.layer_rest = layer_rest
        self.positions = positions
        self.mixes = self._moves_others()

    def __call__(self, sources: Sources, /) -> Rows:
        """The rows of every linked pair."""
        site, text, heads = self.layer_rest.site, sources.text, sources.heads
        edited = site.values[text].repeat(len(sources.linked), 1, 1, 1)
        if sources.columns is not None:
            if site.structure.kv_heads < site.structure.heads > heads.stop - heads.start:
                raise UnsupportedModel(
                    f"layer `{self.layer_rest.layer.structure.path}`: its heads share their values,"
                    " and what a single head writes is not known: measure whole layers"
                )
            places = torch.arange(edited.shape[2], device=edited.device)[sources.columns]
            edited[torch.arange(len(places)), heads, places] = 0
        return self._outputs(text, edited)[:, self.positions[text, sources.targets]][sources.linked]

    def _outputs(
        self, text: int, values: Float[Tensor, "copies head source d_head"]
    ) -> Float[Tensor, "copies target d_model"]:
        layer, at_once = (
            self.layer_rest.layer,
            max(1, self.layer_rest.rows // self.layer_rest.layer.width),
        )
        parts = chunked(values, at_once)
        return torch.cat(
            [layer.rerun(text, values=part, kind=self.layer_rest.kind) for part in parts]
        )

    def _moves_others(self) -> bool:
        """Does a target change with the value of a source that it does not read?"""
        site = self.layer_rest.site
        reads = site.weights[0].any(0)
        few = sorted({0, reads.shape[1] // 2, reads.shape[1] - 1})
        edited = site.values[0].repeat(1 + len(few), 1, 1, 1)
        for copy, source in enumerate(few, 1):
            edited[copy, :, source] = 0
        whole, *moved = self._outputs(0, edited)
        others = [~reads[:, source] for source in few]
        gaps = [difference(m[o], whole[o]) for m, o in zip(moved, others, strict=True)]
        return not max(gaps) <= same_bar(whole)
