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
if there is one. A hook adds a zero tensor to that input, and the gradient is taken with respect to
this tensor. The model runs unchanged, with its own attention backend.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.layer_calls import HookPoint, hooks_removed
from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec, by_layer
from mixlens.errors import UnsupportedModel
from mixlens.model.distributed import gathered
from mixlens.model.module_walk import BareProducts
from mixlens.replay.intervention import model_output

if TYPE_CHECKING:
    from mixlens.contracts import Targets
    from mixlens.recording.attention import Attention
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
    splits="projection",
    per_head=True,
    explains_output=True,
    explains_embedding=True,
    explains_by_default="logit",
    rollout_normalised=False,
    rollout_adds_identity=True,
    blind_spots=(
        "follows attention links only, weighted by the effect of each weight on the output. Links"
        " with a negative product are dropped, and the residual stream counts as a full identity."
        " An MLP lookup has the same slope for all its inputs, decisive or not. If content is"
        " copied through several tokens, the intermediate tokens rank above the original source"
    ),
    memory=lambda sizes: max(sizes.graph, 2 * sizes.heads * sizes.targets**2),
    rounding=3e-5,
    half_precision=None,
)


def score_model(recording: Recording, request: Request, output: Explained) -> Scores:
    """Return the product of weights and gradients for each head, or its mean over heads."""
    gradients = projection_gradients(recording, request.site, request.kind, output)
    layers, wanted = [], request.chosen(recording)
    for index, (_, site) in zip(request.layers, request.sites(recording), strict=True):
        links = weight_gradients(site, gradients[index], wanted)
        links = (links * wanted.take(site.weights, 2)).clamp_min(0)
        layers.append(links if request.per_head else links.mean(1))
    return Scores(by_layer(layers))


def projection_gradients(
    recording: Recording, site: str, kind: AttentionKind, output: Explained
) -> list[Float[Tensor, "batch target head d_head"]]:
    """Return the gradient at the input of the output projection of each attention.

    The gradient of each text's output is taken with respect to the tokens of the same text.
    """
    layers = recording.layers(site)
    structures = [layer.structure.sites[layer.position(kind)] for layer in layers]
    modules = [
        layer.hookable(structure.output_projection)
        for layer, structure in zip(layers, structures, strict=True)
    ]
    added: dict[nn.Module, list[Tensor]] = defaultdict(list)  # shared layers: in call order

    def enter(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        zero = torch.zeros_like(args[0], requires_grad=True)
        added[module].append(zero)
        return (args[0] + zero, *args[1:])

    handles: list[Any] = []
    rows = torch.arange(recording.batch, device=layers[0].input.device)
    model = recording.model
    with (
        torch.enable_grad(),
        hooks_removed(handles),
        BareProducts(model),
    ):
        handles += [module.register_forward_pre_hook(enter) for module in dict.fromkeys(modules)]
        narrow = output.only_what_is_read(recording.model)
        explained = output(model_output(recording, rows, narrow), rows).sum()
    calls = {module: iter(zeros) for module, zeros in added.items()}
    if any(len(added[module]) != modules.count(module) for module in set(modules)):
        raise UnsupportedModel(
            f"the output projections of {site} are not called once per layer, so their gradients "
            "cannot be assigned to layers"
        )
    zeros = [next(calls[module]) for module in modules]
    gradients = (
        torch.autograd.grad(explained, zeros, allow_unused=True)
        if explained.requires_grad
        else [None] * len(zeros)
    )
    by_layer = []
    for layer, structure, zero, gradient in zip(layers, structures, zeros, gradients, strict=True):
        shape = (*layer.input.shape[:2], structure.heads, structure.d_head)
        given = torch.zeros_like(zero) if gradient is None else gradient
        given = gathered(given, -1, shape[2] * shape[3])
        if given.numel() != shape[0] * shape[1] * shape[2] * shape[3]:
            raise UnsupportedModel(
                f"the output projection of `{layer.structure.path}` reads a tensor that cannot be "
                "split by head"
            )
        layout = layer.structure.layout
        if layout is not None:
            entered = HookPoint(structure.output_projection, "in")
            given = layout.inside(given, entered, *shape[:2])
        by_layer.append(given.reshape(shape).to(layer.input.dtype))
    return by_layer


def weight_gradients(
    site: Attention, gradient: Float[Tensor, "batch _ head d_head"], wanted: Targets
) -> Float[Tensor, "batch head target source"]:
    """Return dy/dA for some targets of one attention, from the gradient at the input of the output
    projection.
    """
    gradient = wanted.take(gradient, 1)
    if site.gate is not None:
        gradient = gradient * wanted.take(site.gate, 1).to(gradient)
    batch, targets, heads, d_head = gradient.shape
    groups, sources = site.values.shape[1:3]
    by_group = gradient.reshape(batch, targets, groups, heads // groups, d_head)
    by_group = by_group.permute(0, 2, 3, 1, 4)
    made = by_group.flatten(2, 3) @ site.values.to(gradient).mT
    return made.view(batch, heads, targets, sources)
