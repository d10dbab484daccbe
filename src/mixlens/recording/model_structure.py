"""How a whole model is put together: its stacks of layers, the sites they offer, and the back end
that overhears them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.recording.calls import Inputs, LayerCall, batch_size, layer_calls, layer_paths
from mixlens.recording.capture import BACKENDS, plain_experts
from mixlens.recording.differences import attention_error, difference, rounding
from mixlens.recording.discovery import structure_of
from mixlens.recording.events import trace_layer
from mixlens.recording.remembered import Remembered
from mixlens.recording.rerun import batch_axes
from mixlens.recording.structure import LayerStructure

_PROBE_TOKENS = 12


@dataclass(frozen=True)
class StackStructure:
    """A stack of layers, such as an encoder."""

    name: str
    path: str
    layers: tuple[LayerStructure, ...]

    @property
    def has_cross(self) -> bool:
        """Do its layers read a different stack?"""
        return any(site.kind is AttentionKind.CROSS for site in self.layers[0].sites)


@dataclass(frozen=True)
class AttentionSite:
    """Where attention is measured: in which stack, and over its own tokens or those of another."""

    name: str
    stack: StackStructure
    kind: AttentionKind


@dataclass(frozen=True)
class ModelStructure:
    """The stacks of a model, and the order in which their layers are called."""

    backend: str
    stacks: tuple[StackStructure, ...]
    calls: tuple[
        tuple[StackStructure, int], ...
    ]  # stack and layer number, in the order of their calls
    sites: Mapping[str, AttentionSite]  # by name

    def site(self, name: str | None) -> AttentionSite:
        """The named site; without a name, the first."""
        if name is None:
            name = next(iter(self.sites))
        if name not in self.sites:
            raise UnsupportedModel(
                f"this model has no site {name!r}; it has: {', '.join(self.sites)}"
            )
        return self.sites[name]

    def stack_of(self, site: str | None) -> StackStructure:
        """The stack whose tokens are the targets of a site."""
        return self.site(site).stack


def probe_inputs(inputs: Inputs) -> dict[str, Any]:
    """A small batch of two rows like the user's own input: structure shows in a dozen tokens, and a
    padded row shows the masks.
    """
    probe: dict[str, Any] = {}
    tokens = {
        name: value
        for name, value in inputs.items()
        if name.endswith("input_ids") and isinstance(value, Tensor)
    }
    for name, ids in tokens.items():
        row = ids[0, :_PROBE_TOKENS]
        row = row.repeat(-(-_PROBE_TOKENS // max(1, len(row))))[:_PROBE_TOKENS]
        probe[name] = torch.stack([row, row.roll(1)])
        mask = torch.ones_like(probe[name])
        if name == "input_ids":
            mask[1, -2:] = 0
        mask_name = name.replace("input_ids", "attention_mask")
        if mask_name in inputs:
            probe[mask_name] = mask
        types = name.replace("input_ids", "token_type_ids")
        if types in inputs:
            probe[types] = torch.zeros_like(probe[name])
    sized = {
        "position_ids",
        "decoder_position_ids",
        "token_type_ids",
        "attention_mask",
        "decoder_attention_mask",
    }
    for name, value in inputs.items():
        if name in probe or (tokens and name in sized):
            continue
        if isinstance(value, Tensor) and value.dim() > 0:
            row = value[:1]
            other = row.roll(1, -1) if value.is_floating_point() else row
            probe[name] = torch.cat([row, other])
        else:
            probe[name] = value
    return probe


def _one_row_more(inputs: Inputs) -> dict[str, Any]:
    return {
        name: (
            torch.cat([value, value[:1]])
            if isinstance(value, Tensor) and value.dim() > 0
            else value
        )
        for name, value in inputs.items()
    }


def discovered(model: nn.Module, inputs: Inputs) -> ModelStructure:
    """The model's structure, from a probe like `inputs`; raises `UnsupportedModel` where no back
    end explains it.
    """
    probe = probe_inputs(inputs)
    reason: UnsupportedModel | None = None
    for backend in BACKENDS:
        try:
            with torch.no_grad():
                return _with_backend(model, probe, backend)
        except UnsupportedModel as error:  # the reason that got furthest is the one worth telling
            if reason is None or isinstance(reason, _NoAttention):
                reason = error
        except Exception as error:  # whatever a model raises by itself: it is told, not guessed at
            said = (str(error).splitlines() or [""])[0]
            if reason is None or isinstance(reason, _NoAttention):
                reason = UnsupportedModel(
                    f"{type(model).__name__} raises {type(error).__name__} ({said}) when it runs on"
                    " a few tokens of this input, with one row padded where the input has an"
                    " attention_mask, so its layers cannot be taken apart."
                )
    assert reason is not None
    raise UnsupportedModel(str(reason)) from reason


class _NoAttention(UnsupportedModel):
    pass


def _with_backend(model: nn.Module, probe: Inputs, backend: str) -> ModelStructure:
    paths = layer_paths(model, probe, backend)
    if not paths:
        raise _NoAttention(
            f"{type(model).__name__}: no softmax attention inside a list of layers was found, so"
            " there is no mixing by attention to measure here (recurrent, Fourier and"
            " convolutional models have none; some window and n-gram attentions hide theirs)."
        )
    unique = set(paths)
    calls, _ = layer_calls(model, probe, unique, backend)
    more, _ = layer_calls(model, _one_row_more(probe), unique, backend)
    native = native_calls(model, probe, unique)
    if not len(calls) == len(more) == len(native):
        raise UnsupportedModel(
            f"{type(model).__name__} does not call the same layers each time it runs"
        )
    error, where = native_error([call.hidden_out for call in calls], native, probe)
    if not error <= rounding(calls[0].hidden_out):
        raise UnsupportedModel(
            f"{type(model).__name__}: with its attention overheard the model computes something"
            f" else than on its own (layer `{where}` is off by {error:.1e}, relative). Load it with"
            " attn_implementation='eager', or fix its random state if it draws at random even in"
            " eval mode (as ViT-MAE does)."
        )
    structures = [
        _layer_structure(call, other, backend, batch_size(probe))
        for call, other in zip(calls, more, strict=True)
    ]
    return _assembled(backend, structures)


def native_calls(model: nn.Module, inputs: Inputs, paths: set[str]) -> list[LayerCall]:
    """The layer calls of the model as the user loaded it.

    Grouped expert products cannot run in float64: then plain ones.
    """
    try:
        return layer_calls(model, inputs, paths, None)[0]
    except RuntimeError:
        with plain_experts(model):
            return layer_calls(model, inputs, paths, None)[0]


def native_error(
    outputs: Sequence[Tensor], native: Sequence[LayerCall], inputs: Inputs
) -> tuple[float, str]:
    """Largest relative difference of a layer's output between the overheard and the native run, on
    real tokens.
    """
    worst, where = 0.0, native[0].path
    for ours, theirs in zip(outputs, native, strict=True):
        a, b = ours.float(), theirs.hidden_out.float()
        mask = inputs.get("attention_mask")
        if isinstance(mask, Tensor) and mask.shape == a.shape[:2]:
            a, b = a[mask.bool()], b[mask.bool()]
        error = difference(a, b, dtype=ours.dtype)
        if not error <= worst:
            worst, where = error, theirs.path
    return worst, where


def _layer_structure(call: LayerCall, more: LayerCall, backend: str, rows: int) -> LayerStructure:
    hidden = call.hidden_in
    if hidden.dim() != 3 or hidden.shape[0] != rows or not call.attention:
        raise UnsupportedModel(
            f"layer `{call.path}`: hidden states have shape {tuple(hidden.shape)} for {rows} rows;"
            " mixlens needs [batch, tokens, d_model]"
        )
    for attention in call.attention:
        weights, values = attention.weights, attention.values
        whole = (
            weights.dim() == 4 and weights.shape[0] == rows and weights.shape[2] == hidden.shape[1]
        )
        if not whole or values.shape[2] != weights.shape[3]:
            raise UnsupportedModel(
                f"layer `{call.path}`: attention works on pieces of the sequence (weights"
                f" {tuple(attention.weights.shape)} for hidden states {tuple(hidden.shape)}), as"
                " window, block and sparse attention do. These are not supported."
            )
        repeated = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
        error = attention_error(weights, repeated, attention.output)
        if not error <= rounding(hidden):
            raise UnsupportedModel(
                f"layer `{call.path}`: its output is not the product of one attention matrix and"
                f" the values (off by {error:.1e}, relative), as in low-rank and kernel"
                " approximations of attention. Nothing is reported rather than a wrong number."
            )
    axes = (batch_axes(call.args, more.args, rows), batch_axes(call.kwargs, more.kwargs, rows))
    return structure_of(call.path, trace_layer(call, axes, backend), axes)


def _assembled(backend: str, layers: list[LayerStructure]) -> ModelStructure:
    """Groups layers into stacks and names their sites."""
    grouped: dict[str, list[LayerStructure]] = {}
    order: list[tuple[str, int]] = []
    for layer in layers:
        parent = layer.path.rpartition(".")[0]
        grouped.setdefault(parent, []).append(layer)
        order.append((parent, len(grouped[parent]) - 1))
    names = _stack_names(grouped)
    stacks = {
        path: StackStructure(names[path], path, tuple(group)) for path, group in grouped.items()
    }
    sites = {site.name: site for site in _sites(list(stacks.values()))}
    return ModelStructure(
        backend, tuple(stacks.values()), tuple((stacks[path], i) for path, i in order), sites
    )


def _sites(stacks: Sequence[StackStructure]) -> Iterator[AttentionSite]:
    """Self-attention has its stack's name; cross-attention is "cross", with the stack's name if
    several stacks have it.
    """
    crossing = sum(stack.has_cross for stack in stacks)
    for stack in stacks:
        if any(site.kind is AttentionKind.SELF for site in stack.layers[0].sites):
            yield AttentionSite(stack.name, stack, AttentionKind.SELF)
        if stack.has_cross:
            name = "cross" if crossing == 1 else f"{stack.name}.cross"
            yield AttentionSite(name, stack, AttentionKind.CROSS)


def _stack_names(grouped: Mapping[str, list[LayerStructure]]) -> dict[str, str]:
    """encoder and decoder where that is what they are, else the part of the path that tells the
    towers apart.
    """
    crossed = [
        path
        for path, group in grouped.items()
        if any(site.kind is AttentionKind.CROSS for site in group[0].sites)
    ]
    if len(grouped) == 1 or (len(grouped) == 2 and len(crossed) == 1):
        return {
            path: "decoder" if path in crossed or group[0].sites[0].causal else "encoder"
            for path, group in grouped.items()
        }
    parts = {path: path.split(".") for path in grouped}
    shared = 0
    while len({tuple(p[: shared + 1]) for p in parts.values()}) == 1:
        shared += 1
    return {
        path: p[shared] if len({q[shared] for q in parts.values()}) == len(parts) else path
        for path, p in parts.items()
    }


_structures: Remembered[ModelStructure] = Remembered()


def model_structure(model: nn.Module, inputs: Inputs) -> ModelStructure:
    """`discovered`, remembered until a weight, the dtype or the device of the model changes, for
    each set of input names.
    """
    implementations = tuple(
        getattr(getattr(part, "config", None), "_attn_implementation_internal", None)
        for part in (model, *model.children())
    )
    return _structures.of(
        model,
        frozenset(inputs),
        lambda: discovered(model, inputs),
        state=(type(model).forward, implementations),
    )
