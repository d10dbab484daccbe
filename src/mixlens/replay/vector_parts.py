"""The residual stream as a sum of vectors, one for each input token, layer by layer.

Modarressi et al. 2023, DecompX: Explaining Transformers Decisions by Propagating Token
Decomposition (ACL), equations 3-13. Attention weights, the sigma of each norm and the slope of each
activation (output over input) are fixed at their recorded values. Every constant (bias, shift) is
divided among the sources of its target (`mixlens.kernels.shares`).

`variant="paper"` follows the equations. `"released"` follows the authors' code: the value bias of
the first layer stays part of the tokens' own vectors, the attention bias is divided among the sums
of attention and residual, and 1e-12 is added to denominators.

mixlens also supports cases that the paper does not cover: norms before a block, RMS norms, grouped
heads, any activation g with g(0) = 0, causal models (a constant is divided among the sources that a
target sees), and gated MLPs act(z W_g) * (z W_u). In a gated MLP, z W_u is split, and the gate
act(z W_g) is fixed like attention weights, because both are factors that multiply the vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.kernels.chords import chord
from mixlens.kernels.chunks import rows_at_once, split_chunks
from mixlens.kernels.differences import difference, row_sizes
from mixlens.kernels.shares import SHIFT, share
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.mlp import Mlp, find_mlp
from mixlens.replay.value_map import value_map
from mixlens.structure.layer_structure import FeedForwardStructure
from mixlens.structure.norms import LinearisedNorm, norm_of

Parts = Float[Tensor, "_ source d_model"]


@dataclass(frozen=True)
class PartRules:
    """Rules for dividing constants (biases and shifts) among the sources."""

    bias: str = "absdot"
    released: bool = False
    feed_forward: bool = True
    one_source: ClassVar[bool] = False  # True: the whole stream, with all constants

    @property
    def shift(self) -> float:
        """Return the constant that is added to denominators."""
        return SHIFT if self.released else 0.0

    def share(self, parts: Tensor, constant: Tensor) -> Tensor:
        """Divide a constant among the parts, in place, and return the parts."""
        return share(parts, constant, self.bias, self.shift)

    def with_own(self, values: Tensor, bias: Tensor) -> Tensor:
        """Add the bias to each token's own part of the values [token, source, channel], and return
        the values.
        """
        diagonal = torch.arange(len(values), device=values.device)
        values[diagonal, diagonal] += bias
        return values


def require_followed(layer: Layer) -> None:
    """Raise `UnsupportedModel` if parts of the residual stream cannot be propagated through a
    layer.
    """
    value_map(layer, layer.site(AttentionKind.SELF))
    _require_mlp(layer)


def _require_mlp(layer: Layer) -> Mlp:
    mlp = find_mlp(layer, normed=False)
    if mlp is None or mlp.after is not None:
        raise UnsupportedModel(
            f"`{layer.structure.path}`: its MLP is a mixture of experts, computes gate and values "
            "in one product, or has its own norm. The split is only defined for one activation "
            "or gate between two products. Use alti or value_zeroing instead"
        )
    return mlp


class VectorLayer:
    """One layer as a map from the parts of its input to the parts of its output, for one text."""

    def __init__(
        self, layer: Layer, site: Attention, text: int, length: int, rules: PartRules
    ) -> None:
        feed_forward = layer.structure.feed_forward
        assert feed_forward is not None  # `refusal` excludes this
        self.rules, self.rounding = rules, layer.rounding
        self.site = site
        self.feed_forward: FeedForwardStructure = feed_forward
        self.stream = layer.input[text, :length]
        self.weights = site.weights[text, :, :length, :length]
        self.matrices, self.biases = value_map(layer, site)
        self.block = site.block_output[text, :length]
        self.projected = site.projected[text, :length]
        self.input_norm: LinearisedNorm | None = _norm(layer, site.structure.input_norm)
        self.output_norm: LinearisedNorm | None = site.output_norm
        self._require_values_of_the_stream(layer, text)
        self.mlp: Mlp = _require_mlp(layer)
        self.last_norm: LinearisedNorm | None = _norm(layer, feed_forward.output_norm)
        self.entering_last: Tensor | None = None
        if feed_forward.output_norm is not None:
            norm_input = layer.read_hook(HookPoint(feed_forward.output_norm, "in"))
            self.entering_last = norm_input[text, :length]

    def _require_values_of_the_stream(self, layer: Layer, text: int) -> None:
        """Raise an error unless the value projection reads the residual stream (after the norm, if
        there is one).
        """
        value_input = self.stream if self.input_norm is None else self.input_norm(self.stream)
        width, heads = int(value_input.shape[-1]), len(self.biases)
        if width == self.matrices.shape[1]:
            computed = value_input @ self.matrices + self.biases[:, None]
            values = [
                self.site.head_values(head)[text, : len(value_input)] for head in range(heads)
            ]
            recorded = torch.stack(values)
            if difference(computed, recorded) <= layer.rounding:
                return
            summands = row_sizes(
                value_input.abs() @ self.matrices.abs()
            )  # cancellation leaves rounding
            if difference(computed, recorded, summands) <= layer.rounding:
                return
        raise UnsupportedModel(
            f"The attention values of layer `{layer.structure.path}` are not an affine function of "
            "the residual stream, so this measure cannot decompose them. Use alti or value_zeroing"
        )

    def of(
        self, parts: Parts, targets: Int[Tensor, " wanted"], *, first: bool, block: int
    ) -> Parts:
        """Return the parts of the layer's output at the given targets.

        Set `first` for the first layer, where the only source of each token is the token itself.
        """
        normed = parts
        if self.input_norm is not None:
            normed = self._normalise(parts, self.input_norm, self.stream)
        values = normed @ self.matrices.transpose(0, 1).flatten(1)
        inside = first and self.rules.released
        if inside:
            values = self.rules.with_own(values, self.biases.flatten())
        heads, d_head = self.biases.shape
        by_head = values.view(*values.shape[:2], heads, d_head).permute(2, 0, 1, 3).flatten(2)
        blocks = [
            self._rows(parts, by_head, block_targets, inside=inside)
            for block_targets in split_chunks(targets, block)
        ]
        return torch.cat(blocks)

    def _rows(
        self,
        parts: Parts,
        values: Float[Tensor, "head token channel"],
        targets: Tensor,
        *,
        inside: bool,
    ) -> Parts:
        rules, structure, sources = self.rules, self.site.structure, parts.shape[1]
        mixed = self.weights[:, targets] @ values
        mixed = mixed.view(*mixed.shape[:2], sources, -1)
        parts_out = mixed.permute(1, 2, 0, 3).flatten(2) @ self.site.output_weight.flatten(0, 1)
        constant = self.site.output_bias.expand(len(targets), -1)
        if not inside:
            bias_output = torch.einsum("he,hed->hd", self.biases, self.site.output_weight)
            constant = constant + self.weights[:, targets].sum(-1).T @ bias_output
        residual = structure.scale_residual(parts[targets])
        if rules.released:
            parts_out = rules.share(
                structure.scale_branch(parts_out) + residual, structure.scale_branch(constant)
            )
        else:
            parts_out = structure.scale_branch(rules.share(parts_out, constant)) + residual
        whole = structure.total(self.stream, self.projected)[targets]
        if self.output_norm is not None:
            parts_out = self._normalise(parts_out, self.output_norm, whole)
        return self._behind(parts_out, targets)

    def _behind(self, parts: Parts, targets: Tensor) -> Parts:
        """Return the parts after the MLP and the last norm."""
        total = parts
        if self.rules.feed_forward:
            entering, whole = parts, self.block[targets]
            if self.output_norm is None:  # the norm before the MLP
                entering = self._normalise(parts, self.mlp.norm, whole)
                whole = self.mlp.norm(whole)
            (first, bias), (second, shift) = self.mlp.first[-1], self.mlp.second
            hidden = self.rules.share(entering @ first, bias.expand(len(parts), -1))
            hidden = hidden.mul_(self._slope(entering, hidden, whole)[:, None])
            branch = self.rules.share(hidden @ second, shift.expand(len(parts), -1))
            total = self.feed_forward.total(parts, branch)
        if self.last_norm is None:
            return total
        assert self.entering_last is not None
        return self._normalise(total, self.last_norm, self.entering_last[targets])

    def _slope(self, entering: Parts, hidden: Tensor, whole: Tensor) -> Tensor:
        """Return the factor by which the hidden layer multiplies all parts: the chord of its
        activation, or the gate.

        `hidden` contains the parts of the pre-activation, and `whole` is the recorded input of the
        MLP.
        """
        gated, (matrix, bias) = len(self.mlp.first) > 1, self.mlp.first[0]
        has_one_source = self.rules.one_source and not gated
        if has_one_source and difference(entering[:, 0].detach(), whole) <= self.rounding:
            before = hidden[:, 0].detach()  # the same product
        else:
            before = whole @ matrix + bias
        if gated:
            return self.mlp.activation(before)
        if self.rules.released:
            return self.mlp.activation(before) / (before + SHIFT)
        return chord(self.mlp.activation, torch.zeros_like(before), before)

    def _normalise(self, parts: Parts, norm: LinearisedNorm, whole: Tensor) -> Parts:
        inverse = norm.inverse_sigma(whole)
        normed_parts = norm.linear(parts).mul_(inverse[:, None, None])
        return self.rules.share(normed_parts, norm.shift.expand(len(parts), -1))


def _norm(layer: Layer, path: str | None) -> LinearisedNorm | None:
    if path is None:
        return None
    form = norm_of(layer.module.get_submodule(path), layer.input)
    if form is None:
        raise UnsupportedModel(f"`{layer.structure.path}`: `{path}` is not a norm")
    return form


def own_parts(stream: Float[Tensor, "token d_model"], *, column: bool) -> Parts:
    """Return the parts of the first layer's input, where the only source of each token is the token
    itself.

    With `column`, append an empty part as an additional source, to which biases will be added.
    """
    count = len(stream)
    parts = stream.new_zeros(count, count + column, stream.shape[-1])
    places = torch.arange(count, device=stream.device)
    parts[places, places] = stream
    return parts


def follow_parts(
    layers: Sequence[Layer],
    text: int,
    length: int,
    rules: PartRules,
    budget: int,
    last_targets: Sequence[int] | None = None,
) -> Iterator[tuple[Int[Tensor, " wanted"], Parts]]:
    """After each layer, yield the targets and the parts of the layer's output at these targets.

    If `last_targets` is set, only these targets are yielded after the last layer.
    """
    parts = own_parts(layers[0].input[text, :length], column=rules.bias == "column")
    targets = torch.arange(length, device=parts.device)
    for layer in layers:
        if last_targets is not None and layer is layers[-1]:
            targets = torch.tensor(sorted(set(last_targets)), device=parts.device)
        parts = through(layer, parts, targets, text, rules, budget, first=layer is layers[0])
        yield targets, parts


def through(
    layer: Layer,
    parts: Parts,
    targets: Tensor,
    text: int,
    rules: PartRules,
    budget: int,
    *,
    first: bool,
) -> Parts:
    """Return the parts of a layer's output, given the parts of its input, on the device of the
    layer.

    Targets are processed in blocks that fit the memory budget.
    """
    parts, targets = parts.to(layer.input.device), targets.to(layer.input.device)
    step = VectorLayer(layer, layer.site(AttentionKind.SELF), text, len(parts), rules)
    width = parts.shape[1] * int(step.mlp.first[0][0].shape[1])
    block = rows_at_once(4 * width * parts.element_size(), budget)
    return step.of(parts, targets, first=first, block=block)
