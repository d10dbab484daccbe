"""Gradients of an explained output with respect to every attention weight, from one backward pass.

A weight acts only through the head's output, o_i = sum_j A_ij v_j. Therefore dy/dA_ij = dy/do_i .
v_j, and dy/do is the gradient at the input of the output projection, times the gate if there is
one: a hook adds a zero to that input, and the gradient is taken with respect to the zero. The
model's own code runs, with any attention implementation.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.bare_products import BareProducts
from mixlens.capture.hook_points import HookPoint
from mixlens.capture.layer_calls import hooks_removed
from mixlens.errors import UnsupportedModel
from mixlens.replay.intervention import model_output

if TYPE_CHECKING:
    from mixlens.contracts import AttentionKind
    from mixlens.recording.attention import Attention
    from mixlens.recording.recording import Recording
    from mixlens.replay.explained_output import Explained


def projection_gradients(
    recording: Recording, site: str, kind: AttentionKind, output: Explained
) -> list[Float[Tensor, "batch target head d_head"]]:
    """Return the gradient at the input of every output projection of an attention, each text's
    output with respect to its own tokens.
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
    with torch.enable_grad(), hooks_removed(handles), BareProducts(recording.model):
        handles += [module.register_forward_pre_hook(enter) for module in dict.fromkeys(modules)]
        narrow = output.only_what_is_read(recording.model)
        explained = output(model_output(recording, rows, narrow), rows).sum()
    calls = {module: iter(zeros) for module, zeros in added.items()}
    if any(len(added[module]) != modules.count(module) for module in set(modules)):
        raise UnsupportedModel(
            f"the output projections of {site} are not called once per layer, so their "
            "gradients cannot be distinguished"
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
        if given.numel() != shape[0] * shape[1] * shape[2] * shape[3]:
            raise UnsupportedModel(f"`{layer.structure.path}`: its heads are not arranged by token")
        layout = layer.structure.layout
        if layout is not None:
            entered = HookPoint(structure.output_projection, "in")
            given = layout.inside(given, entered, *shape[:2])
        by_layer.append(given.reshape(shape).to(layer.input.dtype))
    return by_layer


def weight_gradients(
    site: Attention, gradient: Float[Tensor, "batch target head d_head"]
) -> Float[Tensor, "batch head target source"]:
    """Return dy/dA of one attention, from the gradient at the input of its output projection."""
    if site.gate is not None:
        gradient = gradient * site.gate.to(gradient)
    by_head = [gradient[:, :, h] @ site.head_values(h).mT for h in range(gradient.shape[2])]
    return torch.stack(by_head, 1)
