"""The contribution of each source to a logit in each layer, for `alti_logit` and `logit_update`.

Ferrando et al. 2023, Explaining How Transformers Use Context to Build Predictions (ACL): in a
pre-norm model, the final state from which a logit is computed is the sum of the embedding and the
outputs of all attention and MLP blocks. If the sigma of the final norm is fixed, the contribution
of each term to the logit is a dot product. The output of an attention block is split exactly by
head and source. The biases of the output projection, the MLP, the shift of the final norm and the
bias of the head do not belong to any source.

mixlens also supports cases that the paper does not cover: RMS norms, grouped heads, parallel
blocks, norms on the attention branch (with fixed sigma), scaled branches, logits that are
multiplied by a number, and soft-capped logits. Soft-caps are replaced by their chord from zero, so
that the parts still add up to the logit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.differences import difference
from mixlens.replay.explained_output import Explained, logits_of
from mixlens.replay.head_chain import head_chain

if TYPE_CHECKING:
    from mixlens.contracts import Request, Targets
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.structure.layer_structure import AttentionStructure, LayerStructure


def not_a_sum(layer: LayerStructure, site: AttentionStructure) -> str | None:
    """Return the reason why the final state is not a sum over the layers if they have this
    structure, or None.
    """
    use = ". Use attention_gradient instead"
    if layer.has_other_parts:
        return (
            "more than one part adds to the stream next to its attention, so the path of a "
            "source is unknown. Use gradient_x_input or blank_out instead"
        )
    if len(layer.sites) > 1:
        return f"part of its logits comes from the encoder, through cross-attention{use}"
    feed_forward = layer.feed_forward
    if site.output_norm is not None or site.residual_from is not None:
        return (
            f"a norm is applied to the stream itself ({layer.style}-norm), so a logit is not a"
            f" sum over layers{use}"
        )
    if feed_forward is not None and feed_forward.output_norm is not None:
        return f"a norm follows its MLP, so a logit is not a sum over layers{use}"
    return None


@dataclass(frozen=True)
class LogitParts:
    """The explained logits of each text, as a sum over layers and sources.

    The explained number of a text is one logit, the difference of two logits, or a weighted sum
    over an answer. The methods expect a layer, which may be restricted to some targets, and the
    `targets` that select the tokens at `places` in this layer.
    """

    places: tuple[tuple[int, ...], ...]  # the tokens of each text whose logits are read
    directions: Float[
        Tensor, "batch place d_model"
    ]  # directions that read logits from final states
    reach: tuple[float, ...]  # factor of each layer's output on its way up

    @classmethod
    def of(cls, name: str, recording: Recording, request: Request, output: Explained) -> LogitParts:
        """Create the decomposition of a recorded output. `name` is the name of the measure, for
        error messages.
        """
        if output.of != "logit":
            raise InvalidInput(
                f"A {output.of.replace('_', '-')} cannot be decomposed additively. Pass of='logit' "
                f"to {name}."
            )
        stack = recording.structure.stack_of(request.site)
        if recording.structure.left_out:
            raise UnsupportedModel(f"{name}: some layers of this model are unsupported, {_NO_SUM}")
        lengths = recording.lengths[stack.name]
        head = head_chain(recording, logits_of(recording.output), output.places_read, lengths)
        directions = [
            head.directions(*states_and_terms)
            for states_and_terms in zip(head.states, *output.terms, strict=True)
        ]
        reach = [1.0]
        for layer in reversed(stack.layers[1:]):
            reach.insert(0, reach[0] * layer.sites[0].residual_scale * _scale_after(layer))
        return cls(head.places, torch.stack(directions), tuple(reach))

    def initial(self, first: Layer, targets: Targets) -> Float[Tensor, "batch place"]:
        """Return the contribution of the embeddings of these targets to the logits."""
        scale = first.structure.sites[0].residual_scale * _scale_after(first.structure)
        return self._read(self.reach[0] * scale * targets.take(first.input, 1))

    def updates(
        self, layer: Layer, site: Attention, targets: Targets
    ) -> Float[Tensor, "batch source"]:
        """Return the contribution of each source j to the logits in one layer: sum_i,h A_hij v_hj .
        (W_O^h g_i).

        The directions g_i are multiplied by the output projection first, which avoids computing a
        vector of size d_model for every source.
        """
        parts, take = site.parts(), targets.take
        factor = self.reach[layer.index] * _scale_after(layer.structure)
        weights = take(site.weights, 2) * (factor * take(parts.scale, 1))[:, None, :, None]
        vectors = parts.vectors.for_targets(take)
        added = weights.new_zeros(weights.shape[0], weights.shape[-1])
        for head in range(weights.shape[1]):
            head_vectors = vectors.head(head)
            directions = self.directions.to(weights) @ head_vectors.matrix[0].to(weights).T
            if head_vectors.gate is not None:
                directions = directions * head_vectors.gate[:, :, 0].to(weights)
            added += (
                weights[:, head] * (directions @ head_vectors.values[:, 0].to(weights).mT)
            ).sum(1)
        return added

    def sum_unattributed(
        self, layer: Layer, updates: Float[Tensor, "batch source"], targets: Targets
    ) -> Float[Tensor, " batch"]:
        """Return the part of a layer's contribution that does not belong to any source: biases and
        the MLP.
        """
        residual_scale = layer.structure.sites[0].residual_scale * _scale_after(layer.structure)
        added = targets.take(layer.output, 1) - residual_scale * targets.take(layer.input, 1)
        return self._read(self.reach[layer.index] * added).sum(-1) - updates.sum(-1)

    def _read(self, states: Float[Tensor, "batch place d_model"]) -> Float[Tensor, "batch place"]:
        return (states * self.directions.to(states)).sum(-1)


class StreamCheck:
    """Checks that the residual stream does not change between adjacent layers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: _Ends | None = None

    def add(self, layer: Layer, targets: Targets) -> None:
        """Compare the input of the upper layer with the output of the lower layer, at these
        targets.

        The two layers are this one and the layer of the previous call. Add layers in ascending or
        descending order.
        """
        take = targets.take
        ends = _Ends(layer.structure.path, layer.index, take(layer.input, 1), take(layer.output, 1))
        last, self._last = self._last, ends
        if last is None:
            return
        below, above = (last, ends) if last.number < ends.number else (ends, last)
        if difference(above.before.to(below.after.device), below.after) > layer.rounding:
            raise UnsupportedModel(
                f"{self._name}: the model changes the residual stream between `{below.path}` and "
                f"`{above.path}`, {_NO_SUM}"
            )


class _Ends(NamedTuple):
    path: str
    number: int
    before: Tensor
    after: Tensor


_NO_SUM = "so a logit is not a sum over the layers. Use blank_out instead"


def _scale_after(layer: LayerStructure) -> float:
    """Return the factor of the attention block's output in the sum with the MLP."""
    feed_forward = layer.feed_forward
    if feed_forward is None or layer.sites[0].parallel:
        return 1.0
    return feed_forward.residual_scale
