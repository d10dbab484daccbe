"""The contribution of each input token to one logit by one backward pass, for linear rules.

With fixed attention weights, sigmas and slopes, a logit is an affine function of the input tokens.
The contribution of a token is its gradient times the token. Each bias adds its gradient times the
bias, which is dropped, kept separately, given to the first token, or divided equally among the
tokens that its target sees (`none`, `column`, `cls`, `equal`). The other rules weigh a bias by each
part's own direction or norm, and need all parts, layer by layer.

The affine function is that of `VectorLayer`, with the whole stream as its only source.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.contracts import AttentionKind
from mixlens.recording.layer import Layer
from mixlens.replay.head_steps import Head
from mixlens.replay.vector_parts import PartRules, VectorLayer

LINEAR = ("none", "column", "cls", "equal")

Seen = Bool[Tensor, "target source"]
Terms = tuple[Int[Tensor, "place term"], Float[Tensor, "place term"]]


@dataclass(frozen=True)
class _Bias:
    """A bias, and the sources that its targets see there."""

    added: Float[Tensor, "target width"]
    seen: Seen
    own: bool  # inside the vectors: it belongs to its token under every rule


@dataclass(frozen=True)
class _WholeStream(PartRules):
    """Add every constant completely, and store it. `seen` has the sources for one after the
    other.
    """

    one_source: ClassVar[bool] = True
    constants: list[_Bias] = field(default_factory=list)
    seen: list[Iterator[Seen]] = field(default_factory=list)

    def shared(self, parts: Tensor, constant: Tensor) -> Tensor:
        """Return parts [target, 1, width], or [target, width] in the head, with the constant
        added.
        """
        added = constant.expand(len(parts), -1).clone().requires_grad_()
        self.constants.append(_Bias(added, next(self.seen[-1]), own=False))
        return parts + (added if parts.dim() == 2 else added[:, None])

    def with_own(self, values: Tensor, bias: Tensor) -> Tensor:
        """Return values [token, 1, channel] with the bias of each."""
        added = bias.expand(len(values), -1).clone().requires_grad_()
        own = torch.eye(len(values), dtype=torch.bool, device=values.device)
        self.constants.append(_Bias(added, own, own=True))
        return values + added[:, None]


def logit_parts(
    layers: Sequence[Layer],
    text: int,
    length: int,
    head: Head,
    terms: Terms,
    rules: PartRules,
) -> tuple[Float[Tensor, " source"], Float[Tensor, ""]]:
    """Return each token's contribution to a weighted sum of logits (`Explained.terms` of the text),
    and that of all biases outside the vectors.
    """
    places, device = list(head.places[text]), layers[0].input.device
    whole = _WholeStream(rules.bias, rules.released, rules.feed_forward)
    with torch.enable_grad():
        stream = layers[0].input[text, :length].detach().requires_grad_()
        parts, seen = stream[:, None], torch.eye(length, dtype=torch.bool, device=device)
        targets = torch.arange(length, device=device)
        for layer in layers:
            device = layer.input.device
            parts, seen, targets = (tensor.to(device) for tensor in (parts, seen, targets))
            targets = torch.tensor(places, device=device) if layer is layers[-1] else targets
            step = VectorLayer(layer, layer.site(AttentionKind.SELF), text, length, whole)
            order, seen = _seen_by(step, seen, targets)
            whole.seen.append(order)
            parts = step.of(parts, targets, first=layer is layers[0], block=length)
        whole.seen.append(itertools.repeat(seen))
        states = layers[-1].output[text, places]
        few, columns = torch.unique(terms[0].to(states.device), return_inverse=True)
        made = head.written(parts[:, 0], states, few, whole).gather(1, columns)
        made = (made * terms[1].to(made)).sum()
        added = [constant.added for constant in whole.constants]
        slopes = torch.autograd.grad(made, [stream, *added], allow_unused=True)
    own = (slopes[0] * stream.detach()).sum(-1)
    return _with_constants(own, whole.constants, slopes[1:], rules)


def _seen_by(step: VectorLayer, before: Seen, targets: Tensor) -> tuple[Iterator[Seen], Seen]:
    """Return the sources among which a layer's constants are divided, in the order of addition, and
    those of its output.
    """
    reads = (step.weights != 0).any(0)[targets]
    mixed = (reads.to(step.weights) @ before.to(step.weights)) > 0
    behind = mixed | before[targets]
    first = [before] if step.input_norm is not None else []
    attention = behind if step.rules.released else mixed
    return itertools.chain(first, [attention], itertools.repeat(behind)), behind


def _with_constants(
    own: Tensor, constants: Sequence[_Bias], slopes: Sequence[Tensor | None], rules: PartRules
) -> tuple[Tensor, Tensor]:
    total = own.new_zeros(())
    for constant, slope in zip(constants, slopes, strict=True):
        if slope is None:
            continue
        amounts = (slope * constant.added.detach()).sum(-1).reshape(-1)  # [target]
        if constant.own or rules.bias == "equal":
            count = constant.seen.sum(1) + (0.0 if constant.own else rules.shift)
            own = own + (amounts / count).to(own.device) @ constant.seen.to(own)
        total = total + (0.0 if constant.own else amounts.sum().to(own.device))
    if rules.bias == "cls":
        own[0] += total / (1 + rules.shift)
    return own, total
