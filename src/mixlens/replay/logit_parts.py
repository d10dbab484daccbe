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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.differences import difference
from mixlens.replay.explained_output import Explained, logits_of
from mixlens.replay.head_chain import head_chain
from mixlens.replay.head_steps import Head

if TYPE_CHECKING:
    from mixlens.contracts import Request
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
    """One logit (or the difference of two) of each text, as a sum over layers and sources."""

    layers: list[Layer]
    request: Request
    head: Head
    output: Explained
    reach: tuple[float, ...]  # by what the output of each layer is multiplied on its way up

    @classmethod
    def of(cls, name: str, recording: Recording, request: Request, output: Explained) -> LogitParts:
        """The parts of what a recorded model says; `name` of the measure, for refusals."""
        if output.of != "logit":
            raise InvalidInput(f"a probability is not a sum of parts: {name} explains of='logit'")
        layers = recording.layers(request.site)
        _require_one_stream(name, layers, recording.structure.left_out)
        lengths = recording.lengths[recording.structure.stacks[0].name]
        head = head_chain(recording, logits_of(recording.output), output.positions, lengths)
        reach = [1.0]
        for layer in reversed(layers[1:]):
            site, after = layer.structure.sites[0], _scale_after(layer.structure)
            reach.insert(0, reach[0] * site.residual_scale * after)
        return cls(layers, request, head, output, tuple(reach))

    @property
    def places(self) -> tuple[int, ...]:
        """The token of each text that its logit is read off."""
        return self.head.places

    def read(self, text: int, vectors: Float[Tensor, "vector d_model"]) -> Float[Tensor, " vector"]:
        """What vectors add to the explained logit, if they are summands of the final state."""
        state = self.layers[-1].output[text, self.places[text]]
        chosen = self.output.chosen[text : text + 1]
        if self.output.foils is not None:
            chosen = torch.cat([chosen, self.output.foils[text : text + 1]])
        made = self.head.written(vectors.to(state.device), state, chosen.to(state.device))
        made = made.to(vectors.device)  # the layers may be on several
        return made[:, 0] if self.output.foils is None else made[:, 0] - made[:, 1]

    def initial(self) -> Float[Tensor, " batch"]:
        """What the embedding of the explained token adds."""
        first, site = self.layers[0], self.layers[0].structure.sites[0]
        factor = self.reach[0] * site.residual_scale * _scale_after(first.structure)
        return self._of_states(factor * first.input)

    def updates(self, number: int, site: Attention) -> Float[Tensor, "batch source"]:
        """What each source adds in one layer."""
        parts = site.parts()
        factor = self.reach[number] * _scale_after(self.layers[number].structure)
        matrix, values = parts.vectors.matrix, parts.vectors.values
        by_layer = []
        for text, place in enumerate(self.places):
            read = self.read(text, matrix.flatten(0, 1)).view(matrix.shape[:2])
            if parts.vectors.gate is not None:
                read = read * parts.vectors.gate[text, place]
            heads = values[text].repeat_interleave(len(matrix) // values.shape[1], 0)
            weights = site.weights[text, :, place] * (factor * parts.scale[text, place])
            by_layer.append((weights * (heads @ read[..., None])[..., 0]).sum(0))
        return torch.stack(by_layer)

    def unattributed(
        self, number: int, updates: Float[Tensor, "batch source"]
    ) -> Float[Tensor, " batch"]:
        """What a layer adds that belongs to no source: biases and the feed-forward part."""
        layer = self.layers[number]
        kept = layer.structure.sites[0].residual_scale * _scale_after(layer.structure)
        added = self._of_states(self.reach[number] * (layer.output - kept * layer.input))
        return added - updates.sum(-1)

    def _of_states(self, states: Float[Tensor, "batch token d_model"]) -> Float[Tensor, " batch"]:
        rows = [
            self.read(text, states[text, place][None]) for text, place in enumerate(self.places)
        ]
        return torch.cat(rows)


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
