"""Value Zeroing with the layer's own code: slow, but correct for every layer that can be recorded.

With v_j = 0, the attention output o_i of target i loses c_ij = sum_h A^h_ij f^h_j, and nothing else
changes before the rest of the layer. Therefore, the rest of the layer runs on o_i - c_ij, for many
pairs (i, j) at once. If the rest of the layer does not work on single tokens (`layer_rest`), whole
sequences are run with o_i - c_ij for every target. If the output projection is unknown, whole
sequences are run with zeroed values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.errors import TargetsUnavailable, UnsupportedModel
from mixlens.kernels.chunks import in_float64, split_chunks
from mixlens.kernels.decomposition import Vectors
from mixlens.kernels.differences import difference, row_sizes, same_bar
from mixlens.kernels.distances import Distance
from mixlens.recording.attention import Attention
from mixlens.replay.layer_rest import LayerRest

_OUTLIER = 1e3  # times the usual value


@dataclass(frozen=True)
class ZeroedBlock:
    """A block of sources (or segments) to zero one at a time, and of targets whose output is
    compared.
    """

    texts: slice
    targets: slice  # among the wanted ones
    columns: slice  # tokens, or segments
    head: int | None = None  # None: all heads
    segments: Sequence[Int[Tensor, " _"]] | None = None  # the positions in each segment

    def write(
        self, vectors: Vectors, weights: Float[Tensor, "batch head target source"]
    ) -> Float[Tensor, "column row d"]:
        """Return the contribution of each column (a source or segment) to each target. The "row"
        axis enumerates the targets of all texts.
        """
        vectors = vectors.of_texts(self.texts) if weights.shape[0] > 1 else vectors
        if vectors.gate is not None:
            vectors = replace(vectors, gate=vectors.gate[:, self.targets])
        target_weights = weights[self.texts, :, self.targets]
        if self.head is not None:
            vectors, target_weights = (
                vectors.head(self.head),
                target_weights[:, self.head : self.head + 1],
            )
        precision = torch.promote_types(weights.dtype, vectors.values.dtype)
        if self.segments is not None:
            return vectors.write_segments(target_weights.to(precision), self.segments[self.columns])
        return vectors.write_pairs(target_weights[..., self.columns].to(precision), self.columns)


class LiteralZeroing:
    """Computes Value Zeroing scores of the requested targets with the layer's own code.

    o_i - c_ij is computed in float64 if a norm follows the attention module (or may follow it), or
    if a value is an outlier. A single source may contribute nearly all of o_i (the first token of a
    causal model attends only to itself), and the norm then magnifies the rounding error of the
    small remainder.
    """

    def __init__(
        self,
        layer_rest: LayerRest,
        weights: Float[Tensor, "batch head target source"],
        places: Int[Tensor, "batch target"],
        distance: Distance,
    ) -> None:
        """Prepare the computation for the requested targets.

        `weights` contains the attention weights of these targets, and `places` contains the
        positions of the targets in the layer's tensors.
        """
        self.layer_rest, self.places, self.distance = layer_rest, places, distance
        self.weights, site = weights, layer_rest.site
        self.runs_sequences: bool = layer_rest.mode == "sequences"
        edited = places
        if self.runs_sequences:
            if layer_rest.layer.whole is not layer_rest.layer:
                raise TargetsUnavailable(
                    f"Layer `{layer_rest.layer.path}`: after its attention, the layer still mixes"
                    " tokens, so a few targets cannot be measured alone"
                )
            self.weights = site.weights
            every = torch.arange(site.weights.shape[2], device=places.device)
            edited = every.expand(len(places), -1)
        if site.projection is not None:
            self.vectors, self.whole = _split_output(site, self.weights, edited)
        # Whether a target may change with a source that it does not read.
        self.mixes: bool = self.runs_sequences and self._changes_others()
        everywhere = torch.ones_like(places[0], dtype=torch.bool)[None]
        self.unedited: Float[Tensor, "batch target d_model"] = torch.stack(
            [distance.prepare(self._outputs(text, None, everywhere)) for text in range(len(places))]
        )

    def distances(
        self, block: ZeroedBlock, linked: Bool[Tensor, "text target column"]
    ) -> Float[Tensor, "text target column"]:
        """Return the distance by which each target's output changes if a source is zeroed. The
        distance is zero for pairs that are not in `linked`.
        """
        by_column = self.unedited.new_zeros(linked.shape)
        for number, text in enumerate(range(len(self.places))[block.texts]):
            one = replace(block, texts=slice(text, text + 1))
            column, target = linked[number].T.nonzero().unbind(1)
            if not len(column):
                continue
            outputs = self.distance.prepare(self._outputs(text, one, linked[number].T))
            before = self.unedited[text, block.targets][target]
            by_column[number, target, column] = self.distance.between(outputs, before)
        return by_column

    def _outputs(
        self, text: int, block: ZeroedBlock | None, linked: Bool[Tensor, "column target"]
    ) -> Float[Tensor, "pair d_model"]:
        """Return the layer's output for the pairs of source and target in `linked`. If `block` is
        None, nothing is zeroed.
        """
        column, target = linked.nonzero().unbind(1)
        places = self.places[text, slice(None) if block is None else block.targets][target]
        if self.runs_sequences:
            return self._run_sequences(text, block)[column, places]
        without_source = self.whole[text][slice(None) if block is None else block.targets][target]
        if block is not None:
            without_source = (
                without_source - block.write(self.vectors, self.weights)[column, target]
            )
        without_source = without_source.to(self.layer_rest.site.projected.dtype)
        parts = (split_chunks(t, self.layer_rest.rows) for t in (places, without_source))
        return torch.cat(
            [
                self.layer_rest(torch.full_like(place, text), place, part)
                for place, part in zip(*parts, strict=True)
            ]
        )

    def _run_sequences(
        self, text: int, block: ZeroedBlock | None
    ) -> Float[Tensor, "column target d_model"]:
        site, layer, kind = self.layer_rest.site, self.layer_rest.layer, self.layer_rest.kind
        at_once = max(1, self.layer_rest.rows // layer.width)
        if site.projection is None:
            values = split_chunks(self._zeroed_values(text, block), at_once)
            return torch.cat([layer.rerun(text, values=part, kind=kind) for part in values])
        edited = self.whole[text][None]
        if block is not None:
            every = replace(block, targets=slice(None))
            edited = edited - every.write(self.vectors, self.weights)
        parts = split_chunks(edited.to(site.projected.dtype), at_once)
        return torch.cat([layer.rerun(text, attention_output=part, kind=kind) for part in parts])

    def _zeroed_values(
        self, text: int, block: ZeroedBlock | None
    ) -> Float[Tensor, "column head source d_head"]:
        site = self.layer_rest.site
        values = site.values[text][None]
        if block is None:
            return values
        if block.head is not None and site.structure.kv_heads < site.structure.heads:
            raise UnsupportedModel(
                f"Layer `{self.layer_rest.layer.path}`: its heads share their values, and its"
                " output projection is unknown. Measure without `per_head`."
            )
        members: Sequence[int | Tensor] = range(values.shape[2])[block.columns]
        if block.segments is not None:
            members = block.segments[block.columns]
        edited = values.repeat(len(members), 1, 1, 1)
        for copy, sources in enumerate(members):
            edited[copy, slice(None) if block.head is None else block.head, sources] = 0
        return edited

    def _changes_others(self) -> bool:
        """Return whether zeroing a source changes targets that do not attend to this source."""
        layer_rest, site = self.layer_rest, self.layer_rest.site
        reads = site.weights[0].any(0)
        few = sorted({0, reads.shape[1] // 2, reads.shape[1] - 1})
        edited = site.values[0].repeat(1 + len(few), 1, 1, 1)
        for copy, source in enumerate(few, 1):
            edited[copy, :, source] = 0
        parts = split_chunks(edited, max(1, layer_rest.rows // layer_rest.layer.width))
        runs = [layer_rest.layer.rerun(0, values=part, kind=layer_rest.kind) for part in parts]
        whole, *outputs_without = torch.cat(runs)
        unrelated = [~reads[:, source] for source in few]
        gaps = [difference(m[o], whole[o]) for m, o in zip(outputs_without, unrelated, strict=True)]
        return not max(gaps) <= same_bar(whole)


def _split_output(
    site: Attention, weights: Tensor, places: Int[Tensor, "batch target"]
) -> tuple[Vectors, Float[Tensor, "batch target d_model"]]:
    """Return the vectors of the sources, and the output of the projection at the positions
    `places`.

    Both are in float64 if a norm or an outlier would magnify rounding errors.
    """
    texts = torch.arange(len(places), device=places.device)[:, None]
    gate = None if site.gate is None else site.gate[texts, places]
    structure = site.structure
    if not (structure.branch_norm or structure.open or bool(find_outliers(site))):
        values, projected = site.values.to(weights), site.projected[texts, places]
        return Vectors(values, site.head_maps, gate), projected
    gate = None if gate is None else in_float64(gate)
    whole = in_float64(site.output_bias).repeat(*places.shape, 1)
    for head, matrix in enumerate(site.head_maps):  # upcast weights of all heads would be too large
        mixed = in_float64(weights[:, head]) @ in_float64(site.head_values(head))
        if gate is not None:
            mixed = mixed * gate[:, :, head]
        whole += mixed @ in_float64(matrix)
    if site.beside is not None:
        whole += site.beside[texts, places]
    return Vectors(in_float64(site.values), in_float64(site.head_maps), gate), whole


def find_outliers(site: Attention) -> Bool[Tensor, ""]:
    """Return whether some value vector is so much larger than the median that subtracting its
    contribution from o_i leaves mostly rounding error.
    """
    sizes = row_sizes(site.values)
    return (sizes.amax(-1) > _OUTLIER * sizes.median(-1).values).any()
