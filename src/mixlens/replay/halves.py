"""Split a layer into its attention and the rest as a function of the attention output."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.bare_products import part_at
from mixlens.capture.layer_calls import first_tensor, hooks_removed
from mixlens.recording.attention import Attention
from mixlens.recording.layer import Layer
from mixlens.replay.intervention import LayerFunction
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.shortcuts import Shortcut, answered_run


class _Enough(Exception):
    """Stops the run of a layer whose rest is not needed."""


def attention_outputs(step: LayerFunction) -> Callable[..., tuple[Tensor, ...]]:
    """Return the outputs of the attention projections. The layer stops after the last of them."""
    paths = [site.output_projection for site in step.layer.structure.sites]

    def single(*primals: Tensor) -> tuple[Tensor, ...]:
        outputs: list[Tensor] = []

        def left(submodule: nn.Module, inputs: Any, output: Any) -> None:
            outputs.append(first_tensor(output).reshape(primals[0].shape))
            if len(outputs) == len(paths):
                raise _Enough

        handles: list[Any] = []
        with hooks_removed(handles), contextlib.suppress(_Enough):
            handles += [part_at(step.module, path).register_forward_hook(left) for path in paths]
            step(*(primal[None] for primal in primals))
        return tuple(outputs)

    return single


class AfterAttention:
    """The output of a layer as a function of its input tokens and of the outputs of all its
    attentions.
    """

    def __init__(self, step: LayerFunction) -> None:
        self.step = step
        self.layer: Layer = step.layer
        layer_rest = LayerRest(step.layer, step.layer.structure.sites[-1].kind)
        self.sites: list[Attention] = layer_rest.sites
        self.shortcuts: tuple[Shortcut, ...] = (
            layer_rest.shortcuts if layer_rest.mode == "shortcut" else ()
        )

    def __call__(self, hidden: Tensor, *outputs: Tensor) -> Tensor:
        """Return the layer's output, from input tokens and the output of each attention's
        projection.
        """
        layer, module, structures = self.layer, self.step.module, self.layer.structure.sites
        if not self.shortcuts:  # the attention is ignored: its projections return these
            replaced = {
                site.output_projection: output[None]
                for site, output in zip(structures, outputs, strict=True)
            }
            args, kwargs = layer.arguments(self.step.row)
            return layer.run(args, kwargs, hidden=hidden[None], replace_output=replaced)[0]
        given, stream = {}, hidden
        for site, shortcut, output in zip(structures, self.shortcuts, outputs, strict=True):
            known = site.levels(module, site.residual(module, stream), output)
            given[shortcut.path] = shortcut.packed(known[shortcut.level][None])
            stream = known["block"]
        return answered_run(layer, self.step.row, given, hidden[None])


def pushed(
    function: Callable[..., tuple[Tensor, ...]],
    primals: tuple[Tensor, ...],
    tangents: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Return tangents [tangent, ...] of a function's output, from those of its arguments."""

    def one(*tangent: Tensor) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = torch.func.jvp(function, primals, tangent)[1]
        return result

    with torch.no_grad():
        pushed: tuple[Tensor, ...] = torch.func.vmap(one)(*tangents)
    return pushed
