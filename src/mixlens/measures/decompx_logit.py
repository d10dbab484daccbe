"""DecompX for one logit: each input token's signed contribution to the model's output.

Modarressi et al. 2023, DecompX: Explaining Transformers Decisions by Propagating Token
Decomposition, equations 14-15: the vectors of `decompx` at the position of the output are
propagated through the head. As in the layers, each activation function is replaced by a line
through the origin. The contributions add up to the logit if biases are divided among the tokens or
kept in a column. As in the authors' code, the bias of the last linear layer is divided according to
each source's part of *all* logits, which requires a [source, output] matrix. Linear bias rules need
only one backward pass instead of this matrix. The authors' code supports classifiers. mixlens also
supports masked and causal language models, for one position.

The backward pass works as follows. With fixed attention weights, sigmas and slopes, a logit is an
affine function of the input tokens. The contribution of a token is its gradient times the token.
Each bias also contributes its gradient times the bias. This amount is dropped, kept separately,
assigned to the first token, or divided equally among the tokens that its target can see (`none`,
`column`, `cls`, `equal`). The other rules divide a bias by the direction or norm of each part, so
they need all parts of every layer.

`VectorLayer` computes the affine function, with the whole residual stream as its only source.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.measures.decompx import chosen_rules
from mixlens.recording.layer import Layer
from mixlens.replay.explained_output import Explained, logits_of
from mixlens.replay.head_chain import head_chain
from mixlens.replay.head_steps import Head
from mixlens.replay.mlp_scopes import no_mlp
from mixlens.replay.vector_parts import PartRules, VectorLayer, follow_parts, require_followed

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


SPEC = Spec(
    summary="each input token's signed part of one logit, propagated as vectors through the model",
    citation=(
        "Modarressi et al. (2023), DecompX: Explaining Transformers Decisions by Propagating Token"
        " Decomposition, ACL, eq. 14-15"
    ),
    use_when="for signed parts of one logit that add up to it, without a baseline text",
    cost="about 0.8 n forward passes; 4 if bias is none, equal, cls or column",
    facts=Facts(signed=True),
    splits="block",
    sites=(AttentionKind.SELF,),
    one_stack=True,
    explains_output=True,
    explains_by_default="logit",
    gives="row",
    limitations=(
        "propagates vectors with attention weights, norms and activation slopes held fixed, so a"
        " token that only changes the attention weights gets a score of zero"
    ),
    memory=lambda sizes: (
        sizes.heads * sizes.targets * sizes.d_model
        + 2 * sizes.matrix
        + sizes.chunk
        + (
            sizes.layers
            * sizes.targets
            * (12 * sizes.d_model + 3 * sizes.d_ff + 3 * sizes.heads * sizes.targets)
            if sizes.options["bias"] in ("none", "column", "cls", "equal")
            else 5 * sizes.targets**2 * sizes.d_model
        )
    ),
    rounding=3e-5,
    half_precision=None,
)

refusal = no_mlp
require_layer = require_followed


@torch.no_grad()
def score_model(
    recording: Recording,
    request: Request,
    output: Explained,
    *,
    bias: str = "absdot",
    variant: str = "paper",
    feed_forward: bool = True,
) -> Scores:
    """Return the contributions to the logit.

    `bias` is "absdot", "abssim", "norm", "equal", "cls", "none" or "column"; `variant` is "paper"
    or "released". `feed_forward=False` omits the MLP.
    """
    rules = chosen_rules(bias, variant, feed_forward)
    layers = recording.layers(request.site)
    if output.of != "logit":
        raise InvalidInput(
            f"A {output.of.replace('_', '-')} cannot be decomposed additively. Pass of='logit' to "
            "decompx_logit."
        )
    if request.layers_named and request.layers != (len(layers) - 1,):
        raise InvalidInput("decompx_logit uses all layers. Drop `layers`.")
    recording.structure.stacks[0].require_every_layer("decompx_logit")
    lengths = recording.lengths[recording.structure.stack_of(request.site).name]
    logits = logits_of(recording.output)
    head = head_chain(recording, logits, output.places_read, lengths)
    values = layers[0].input.new_zeros(recording.batch, layers[0].input.shape[1])
    column = values.new_zeros(recording.batch)
    for text, (length, *terms) in enumerate(zip(lengths, *output.terms, strict=True)):
        own_terms = terms[0], terms[1]
        contributions, remainder = _parts(
            layers, text, length, head, own_terms, rules, recording.memory_budget
        )
        values[text, :length], column[text] = contributions, remainder
    extras = {"bias": column[None]} if bias == "column" else {}
    return Scores(
        values[None, :, None],
        extras,
        dict.fromkeys(extras, ()),
        layers=(len(layers) - 1,),
        target_labels=output.names,
    )


def _parts(
    layers: Sequence[Layer],
    text: int,
    length: int,
    head: Head,
    terms: Terms,
    rules: PartRules,
    budget: int,
) -> tuple[Tensor, Tensor]:
    """Return each token's contribution to a weighted sum of logits, and the contribution of the
    biases.
    """
    if rules.bias in LINEAR:
        return logit_parts(layers, text, length, head, terms, rules)
    places = head.places[text]
    ((targets, parts),) = deque(follow_parts(layers, text, length, rules, budget, places), maxlen=1)
    order, contributions = targets.tolist(), parts.new_zeros(parts.shape[1])
    for place, outputs, weights in zip(places, *terms, strict=True):
        state = layers[-1].output[text, place]
        split = head.logit_parts(parts[order.index(place)].clone(), state, rules)
        contributions += split[:, outputs.to(split.device)] @ weights.to(split)
    return contributions, contributions.new_zeros(())


LINEAR = ("none", "column", "cls", "equal")

Seen = Bool[Tensor, "target source"]
Terms = tuple[Int[Tensor, "place term"], Float[Tensor, "place term"]]


@dataclass(frozen=True)
class _Bias:
    """A bias that is added to each target, and the sources that the target can see at this step."""

    added: Float[Tensor, "target width"]
    reached: Seen
    own: bool  # inside the vectors: it belongs to its token under every rule


@dataclass(frozen=True)
class _WholeStream(PartRules):
    """Propagation rules that add each bias to the residual stream as a whole, and store it.

    The backward pass needs the stored biases. `reached` has one iterator per layer, which yields
    the visible sources of each bias in the order in which the layer adds them.
    """

    one_source: ClassVar[bool] = True
    constants: list[_Bias] = field(default_factory=list)
    reached: list[Iterator[Seen]] = field(default_factory=list)

    def share(self, parts: Tensor, constant: Tensor) -> Tensor:
        """Return the parts [target, 1, width] ([target, width] in the head) with the bias added."""
        added = constant.expand(len(parts), -1).clone().requires_grad_()
        self.constants.append(_Bias(added, next(self.reached[-1]), own=False))
        return parts + (added if parts.dim() == 2 else added[:, None])

    def with_own(self, values: Tensor, bias: Tensor) -> Tensor:
        """Return the values [token, 1, channel] with the bias added to each."""
        added = bias.expand(len(values), -1).clone().requires_grad_()
        identity = torch.eye(len(values), dtype=torch.bool, device=values.device)
        self.constants.append(_Bias(added, identity, own=True))
        return values + added[:, None]


def logit_parts(
    layers: Sequence[Layer],
    text: int,
    length: int,
    head: Head,
    terms: Terms,
    rules: PartRules,
) -> tuple[Float[Tensor, " source"], Float[Tensor, ""]]:
    """Return each token's contribution to a weighted sum of logits, and the total of the biases.

    `terms` contains the indices and weights of the logits in this sum. The bias of the value
    vectors counts as part of its token, not as a bias.
    """
    places, device = list(head.places[text]), layers[0].input.device
    whole = _WholeStream(rules.bias, rules.released, rules.feed_forward)
    with torch.enable_grad():
        stream = layers[0].input[text, :length].detach().requires_grad_()
        parts, reached = stream[:, None], torch.eye(length, dtype=torch.bool, device=device)
        targets = torch.arange(length, device=device)
        for layer in layers:
            device = layer.input.device
            parts, reached, targets = (tensor.to(device) for tensor in (parts, reached, targets))
            targets = torch.tensor(places, device=device) if layer is layers[-1] else targets
            step = VectorLayer(layer, layer.site(AttentionKind.SELF), text, length, whole)
            order, reached = _seen_by(step, reached, targets)
            whole.reached.append(order)
            parts = step.of(parts, targets, first=layer is layers[0], block=length)
        whole.reached.append(itertools.repeat(reached))
        states = layers[-1].output[text, places]
        few, columns = torch.unique(terms[0].to(states.device), return_inverse=True)
        logit_sum = head.project(parts[:, 0], states, few, whole).gather(1, columns)
        logit_sum = (logit_sum * terms[1].to(logit_sum)).sum()
        added = [constant.added for constant in whole.constants]
        slopes = torch.autograd.grad(logit_sum, [stream, *added], allow_unused=True)
    contributions = (slopes[0] * stream.detach()).sum(-1)
    return _with_constants(contributions, whole.constants, slopes[1:], rules)


def _seen_by(step: VectorLayer, before: Seen, targets: Tensor) -> tuple[Iterator[Seen], Seen]:
    """Return the visible sources for each bias of a layer, and for the layer's output.

    Each bias is divided among its visible sources. The iterator follows the order in which the
    layer adds the biases.
    """
    reads = (step.weights != 0).any(0)[targets]
    mixed = (reads.to(step.weights) @ before.to(step.weights)) > 0
    behind = mixed | before[targets]
    first = [before] if step.input_norm is not None else []
    attention = behind if step.rules.released else mixed
    return itertools.chain(first, [attention], itertools.repeat(behind)), behind


def _with_constants(
    contributions: Tensor,
    constants: Sequence[_Bias],
    slopes: Sequence[Tensor | None],
    rules: PartRules,
) -> tuple[Tensor, Tensor]:
    total = contributions.new_zeros(())
    for constant, slope in zip(constants, slopes, strict=True):
        if slope is None:
            continue
        amounts = (slope * constant.added.detach()).sum(-1).reshape(-1)  # [target]
        if constant.own or rules.bias == "equal":
            count = constant.reached.sum(1) + (0.0 if constant.own else rules.shift)
            contributions = contributions + (amounts / count).to(
                contributions.device
            ) @ constant.reached.to(contributions)
        total = total + (0.0 if constant.own else amounts.sum().to(contributions.device))
    if rules.bias == "cls":
        contributions[0] += total / (1 + rules.shift)
    return contributions, total
