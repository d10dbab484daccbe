"""The contribution of each source to a logit in each layer, for `alti_logit` and `logit_update`.

Ferrando et al. 2023, Explaining How Transformers Use Context to Build Predictions (ACL): in a
pre-norm model the state that a logit is read off is a sum, of the embedding and of what every
attention and feed-forward block adds. With the sigma of the final norm held, each summand's part of
the logit is a product. What an attention block adds is split by head and source, exactly. Biases of
the output projection, the feed-forward part, the final norm's shift and the head's bias belong to
no source.

Beyond the authors' models: RMS norms, grouped heads, parallel blocks, norms on the attention branch
(their sigma is held), scaled branches, logits that are multiplied by a number, and soft-caps of the
logits, which are taken by their chord from zero: the parts still add up to the logit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
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
    """Why the state that logits are read off is not a sum over layers of this structure."""
    use = ": use decompx_logit or attention_gradient instead"
    if layer.has_other_parts:
        return (
            "more than one part of it adds to the stream next to its attention, so what passes"
            " on of a source is not known; use gradient_x_input or blank_out instead"
        )
    if len(layer.sites) > 1:
        return (
            "part of its logits comes from the encoder, through cross-attention: use"
            " attention_gradient instead"
        )
    feed_forward = layer.feed_forward
    if site.output_norm is not None or site.residual_from is not None:
        return (
            f"a norm is applied to the stream itself ({layer.style}-norm), so a logit is not a"
            f" sum over layers{use}"
        )
    if feed_forward is not None and feed_forward.output_norm is not None:
        return f"a norm follows its feed-forward part, so a logit is not a sum over layers{use}"
    return None


@dataclass(frozen=True)
class LogitParts:
    """The explained logits of each text (one, the difference of two, or a weighted sum over an
    answer) as a sum over layers and sources.
    """

    layers: list[Layer]
    targets: Targets  # the tokens of each text whose logits are read
    directions: Float[Tensor, "batch place d_model"]  # in which they are read off final states
    reach: tuple[float, ...]  # by what the output of each layer is multiplied on its way up

    @classmethod
    def of(cls, name: str, recording: Recording, request: Request, output: Explained) -> LogitParts:
        """The parts of a recorded output; `name` of the measure, for errors."""
        if output.of != "logit":
            raise InvalidInput(
                f"a {output.of.replace('_', '-')} is not a sum of parts: {name} explains of='logit'"
            )
        layers = recording.layers(request.site)
        _require_one_stream(name, layers, recording.structure.left_out)
        lengths = recording.lengths[recording.structure.stacks[0].name]
        head = head_chain(recording, logits_of(recording.output), output.places_read, lengths)
        last, terms = layers[-1].output, zip(*output.terms, strict=True)
        directions = [
            head.directions(last[text, list(places)], *own)
            for text, (places, own) in enumerate(zip(head.places, terms, strict=True))
        ]
        reach = [1.0]
        for layer in reversed(layers[1:]):
            site, after = layer.structure.sites[0], _scale_after(layer.structure)
            reach.insert(0, reach[0] * site.residual_scale * after)
        targets = replace(request, targets=head.places).chosen(recording)
        return cls(layers, targets, torch.stack(directions), tuple(reach))

    @property
    def places(self) -> Int[Tensor, "batch place"]:
        """The tokens of each text whose logits are read."""
        return torch.tensor(self.targets.positions, device=self.directions.device)

    def initial(self) -> Float[Tensor, "batch place"]:
        """What the embeddings of these tokens add."""
        first, site = self.layers[0], self.layers[0].structure.sites[0]
        factor = self.reach[0] * site.residual_scale * _scale_after(first.structure)
        return self._read(factor * self.targets.take(first.input, 1))

    def updates(self, number: int, site: Attention) -> Float[Tensor, "batch source"]:
        """What each source adds in one layer: sum_i,h A_hij v_hj . (W_O^h g_i). The products with
        the directions come first, so that no vector of a source is formed.
        """
        parts, take = site.parts(), self.targets.take
        factor = self.reach[number] * _scale_after(self.layers[number].structure)
        weights = take(site.weights, 2) * (factor * take(parts.scale, 1))[:, None, :, None]
        vectors = parts.vectors.for_targets(take)
        added = weights.new_zeros(weights.shape[0], weights.shape[-1])
        for head in range(weights.shape[1]):
            own = vectors.head(head)
            read = self.directions.to(weights) @ own.matrix[0].to(weights).T
            if own.gate is not None:
                read = read * own.gate[:, :, 0].to(weights)
            added += (weights[:, head] * (read @ own.values[:, 0].to(weights).mT)).sum(1)
        return added

    def unattributed(
        self, number: int, updates: Float[Tensor, "batch source"]
    ) -> Float[Tensor, " batch"]:
        """What a layer adds that belongs to no source: biases and the MLP."""
        layer, take = self.layers[number], self.targets.take
        kept = layer.structure.sites[0].residual_scale * _scale_after(layer.structure)
        added = self.reach[number] * (take(layer.output, 1) - kept * take(layer.input, 1))
        return self._read(added).sum(-1) - updates.sum(-1)

    def _read(self, states: Float[Tensor, "batch place d_model"]) -> Float[Tensor, "batch place"]:
        return (states * self.directions.to(states)).sum(-1)


def _scale_after(layer: LayerStructure) -> float:
    """By what the attention block's output is multiplied on its way to the layer's."""
    feed_forward = layer.feed_forward
    if feed_forward is None or layer.sites[0].parallel:
        return 1.0
    return feed_forward.residual_scale


def _require_one_stream(name: str, layers: list[Layer], left_out: object) -> None:
    """Nothing may happen to the stream between the layers."""
    use = "so a logit is not a sum over the layers: use gradient_x_input or blank_out instead"
    if left_out:
        raise UnsupportedModel(f"{name}: some layers of this model are not measured, {use}")
    for below, above in itertools.pairwise(layers):
        if difference(above.input.to(below.output.device), below.output) > below.rounding:
            raise UnsupportedModel(
                f"{name}: the stream is changed between `{below.structure.path}` and"
                f" `{above.structure.path}`, {use}"
            )
