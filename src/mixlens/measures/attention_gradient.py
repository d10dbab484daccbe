"""Attention weights times their gradients: how much each attention link supports one output.

Chefer, Gur, Wolf 2021, Generic Attention-model Explainability for Interpreting Bi-Modal and
Encoder-Decoder Transformers (ICCV), equation 5: the mean over heads of (dy/dA * A)+, an
element-wise product whose negative values are set to zero in each head. y is the raw logit of the
explained output. The relevance of the paper is the rollout R_l = R_(l-1) + A_l R_(l-1) of these
maps without normalisation, which `rollout()` computes. `mixlens.maps.relevance` implements the
paper's rules for encoder and decoder. The authors' older variant, which uses layer-wise relevance
propagation instead of A, is not included. In the last layer only the explained token has a
gradient.

A weight affects the output only through the head's output o_i = sum_j A_ij v_j. Therefore dy/dA_ij
= dy/do_i . v_j, where dy/do is the gradient at the input of the output projection, times the gate
if there is one. The model runs unchanged, with its own attention backend. For a few targets, this
pass also keeps queries and keys, from which their weights are computed. Otherwise, the weights of
all pairs come from a pass of their own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.contracts import Facts, Request, Scores, Spec, by_layer
from mixlens.errors import UnsupportedModel
from mixlens.kernels.chunks import upcast_tensor
from mixlens.model.distributed import gather_tensor
from mixlens.model.placement import entry_device
from mixlens.recording.projection_inputs import ProjectionInputs
from mixlens.replay.intervention import model_output as output_of

if TYPE_CHECKING:
    from mixlens.contracts import Targets
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained

SPEC = Spec(
    summary="attention weights times the gradient of one output with respect to them, if positive",
    citation=(
        "Chefer et al. (2021), Generic Attention-model Explainability for Interpreting Bi-Modal and"
        " Encoder-Decoder Transformers, ICCV, eq. 5"
    ),
    use_when=(
        "for maps of one prediction: which attention links support it, layer by layer and rolled"
        " out"
    ),
    cost="one forward and one backward pass",
    facts=Facts(),
    follows_gradient=True,
    splits="projection",
    per_head=True,
    explains_output=True,
    explains_embedding=True,
    explains_by_default="logit",
    rollout_normalised=False,
    rollout_adds_identity=True,
    limitations=(
        "follows attention links only, weighted by the effect of each weight on the output. Links"
        " with a negative product are dropped, and the residual stream counts as a full identity."
        " An MLP lookup has the same slope for all its inputs, decisive or not. If content is"
        " copied through several tokens, the intermediate tokens rank above the original source"
    ),
    # linear modules with frozen weights keep no inputs for the graph
    memory=lambda sizes: max(0.75 * sizes.graph, 2 * sizes.heads * sizes.targets * sizes.sources),
    rounding=3e-5,
    half_precision=None,
)


def score_model(recording: Recording, request: Request, output: Explained) -> Scores:
    """Return the product of weights and gradients for each head, or its mean over heads."""
    gradients = projection_gradients(recording, request, output)
    scores_by_layer: dict[int, Tensor] = {}

    def score(index: int, layer: Layer, targets: Targets) -> None:
        site = layer.site(request.kind)
        links = weight_gradients(site, gradients[index], targets)
        links = (links * targets.take(site.weights, 2)).clamp_min(0)
        scores_by_layer[index] = links if request.per_head else links.mean(1)

    recording.visit(request, score)
    return Scores(by_layer([scores_by_layer[index] for index in request.layers]))


def projection_gradients(
    recording: Recording, request: Request, output: Explained
) -> list[Float[Tensor, "batch target head d_head"]]:
    """Return the gradient at the input of the output projection of each attention.

    The gradient of each text's output is taken with respect to the tokens of the same text. It uses
    the autograd graph of the recorded pass, or runs the model again if no graph was kept.
    """
    stack = recording.structure.stack_of(request.site)
    layers = [stack.layers[position] for position in stack.positions(request.kind)]
    structures = [next(s for s in layer.sites if request.kind in s.kinds) for layer in layers]
    texts = torch.arange(recording.batch, device=entry_device(recording.model))
    inputs, model_output = recording.projected, recording.output
    if inputs is None:
        inputs = ProjectionInputs(
            [
                layer.hookable(structure.output_projection)
                for layer, structure in zip(recording.layers(request.site), structures, strict=True)
            ]
        )
        with inputs.collect(recording.model):
            narrow = output.only_what_is_read(recording.model)
            model_output = output_of(recording, texts, narrow)
    with torch.enable_grad():
        number = output(model_output, texts).sum()
    tokens = recording.tokens_of(stack) if recording.is_kept else recording.width
    by_layer = []
    for layer, structure, gradient in zip(
        layers, structures, inputs.gradients(number, request.site), strict=True
    ):
        shape = (recording.batch, tokens, structure.heads, structure.d_head)
        gradient = gather_tensor(gradient, -1, shape[2] * shape[3])
        if gradient.numel() != math.prod(shape):
            raise UnsupportedModel(
                f"the output projection of `{layer.path}` reads a tensor that cannot be split by "
                "head. Choose another measure."
            )
        if layer.layout is not None:
            hook_point = HookPoint(structure.output_projection, "in")
            gradient = layer.layout.inside(gradient, hook_point, *shape[:2])
        by_layer.append(upcast_tensor(gradient.reshape(shape)))
    return by_layer


def weight_gradients(
    site: Attention, gradient: Float[Tensor, "batch _ head d_head"], request_targets: Targets
) -> Float[Tensor, "batch head target source"]:
    """Return dy/dA for some targets of one attention, from the gradient at the input of the output
    projection.
    """
    batch, tokens = gradient.shape[:2]
    places = request_targets.at(batch, tokens, gradient.device)
    gradient = gradient[torch.arange(batch, device=gradient.device)[:, None], places]
    if site.gate is not None:
        gradient = gradient * request_targets.take(site.gate, 1).to(gradient)
    batch, targets, heads, d_head = gradient.shape
    groups, sources = site.values.shape[1:3]
    by_group = gradient.reshape(batch, targets, groups, heads // groups, d_head)
    by_group = by_group.permute(0, 2, 3, 1, 4)
    by_head = by_group.flatten(2, 3) @ site.values.to(gradient).mT
    return by_head.view(batch, heads, targets, sources)
