"""Finds out how a whole model is put together, on a probe like the user's own input.

Each layer gets a verdict of its own. A layer that is proved is measured. One that is not (a
recurrent layer of a hybrid, a tower with window attention) is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.recording.calls import (
    Heard,
    Inputs,
    LayerCall,
    batch_size,
    heard_layers,
    layer_calls,
)
from mixlens.recording.capture import BACKENDS, plain_experts
from mixlens.recording.differences import attention_error, difference, rounding
from mixlens.recording.discovery import structure_of
from mixlens.recording.events import trace_layer
from mixlens.recording.model_structure import ModelStructure, assembled
from mixlens.recording.probe import (
    Probe,
    is_plain_text,
    likeness,
    probes,
    whole_probe,
)
from mixlens.recording.remembered import Remembered
from mixlens.recording.rerun import batch_axes
from mixlens.recording.structure import LayerStructure
from mixlens.recording.untouched import restored

_SILENT = (
    "it shows no softmax attention that could be overheard (recurrent, convolutional and some"
    " window and sparse layers have none), so what mixes tokens there is unknown"
)


_Choice = TypeVar("_Choice")


class NoAttention(UnsupportedModel):
    """No layer with softmax attention was found."""


class OnWholeInput(UnsupportedModel):
    """What stops it on the whole input is the reason; a cut one may just not be an input."""


class _NothingNew(UnsupportedModel):
    """A further back end hears no layer that is not known."""


def discovered(model: nn.Module, inputs: Inputs) -> ModelStructure:
    """The model's structure, from a probe like `inputs`; raises `UnsupportedModel` if no probe
    shows it.
    """
    with restored(model) as turned:
        chosen = probes(inputs, model)
        plain = is_plain_text(inputs)
        try:
            structure = _best(chosen, lambda probe: _on_probe(model, probe), plain)
        except (NoAttention, OnWholeInput) as error:
            raise UnsupportedModel(str(error)) from error
    if turned:
        raise UnsupportedModel(
            f"{type(model).__name__} changes itself on a short text (`{turned[0]}`), so"
            " what is measured there is not what it computes elsewhere. It was put back. Load it"
            " with the setting that it changes to (BigBird: attention_type='original_full')."
        )
    return structure


def _on_probe(model: nn.Module, probe: Probe) -> ModelStructure:
    known: set[str] = set()
    try:
        return _best(BACKENDS, lambda backend: _attempted(model, probe, backend, known), False)
    except NoAttention:
        raise
    except UnsupportedModel as error:
        raise (OnWholeInput if probe.whole else UnsupportedModel)(str(error)) from error


def _best(
    choices: Iterable[_Choice], attempt: Callable[[_Choice], ModelStructure], in_part: bool
) -> ModelStructure:
    """The first structure that leaves out nothing (`in_part`: or something), else the one that
    leaves out least; if there is none, the reason that is worth most: of the whole input, or of the
    first way that heard attention.
    """
    best: ModelStructure | None = None
    reason: UnsupportedModel | None = None
    for choice in choices:
        try:
            found = attempt(choice)
        except UnsupportedModel as error:
            if reason is None or isinstance(reason, NoAttention) or isinstance(error, OnWholeInput):
                reason = error
            continue
        if best is None or len(found.left_out) < len(best.left_out):
            best = found
        if in_part or not best.left_out:
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _attempted(model: nn.Module, probe: Probe, backend: str, known: set[str]) -> ModelStructure:
    try:
        with torch.no_grad():
            return _with_backend(model, probe, backend, known)
    except UnsupportedModel:
        raise
    except Exception as error:  # whatever a model raises by itself: it is told, not guessed at
        said = " ".join(str(error).split())[:200]
        raise UnsupportedModel(
            f"{type(model).__name__} raises {type(error).__name__} ({said}) when it runs on"
            f" {_named(probe)}, so its layers cannot be taken apart."
        ) from error


def _named(probe: Probe) -> str:
    if probe.whole:
        return "this input, once and twice in a batch"
    return "a few tokens of this input, with one row padded if the input has an attention_mask"


def _with_backend(model: nn.Module, probe: Probe, backend: str, known: set[str]) -> ModelStructure:
    heard = heard_layers(model, probe.fewer, backend)
    if not heard.layers:
        raise NoAttention(
            f"{type(model).__name__}: no softmax attention inside a list of layers was found, so"
            " there is no mixing by attention to measure here (recurrent, Fourier and"
            " convolutional models have none; some window and n-gram attentions hide theirs)."
        )
    if known and set(heard.layers) <= known:
        raise _NothingNew(f"{type(model).__name__}: nothing more is heard through {backend}")
    known |= set(heard.layers)
    paths = set(heard.layers)
    calls, more = (
        layer_calls(model, inputs, paths, backend, on_layer=_without_attention)[0]
        for inputs in (probe.fewer, probe.more)
    )
    native = native_calls(model, probe.fewer, paths)
    if not len(list(heard.numbers())) == len(calls) == len(more) == len(native):
        raise UnsupportedModel(
            f"{type(model).__name__} does not call the same layers each time it runs"
        )
    structures, left_out = _verdicts(heard, calls, more, native, probe, backend)
    if not structures:
        raise UnsupportedModel(f"{type(model).__name__}, {next(iter(left_out.values()))}")
    left_out |= dict.fromkeys(heard.silent, _SILENT)
    return assembled(backend, structures, left_out, probe.whole)


def _without_attention(call: LayerCall, seen: object) -> None:
    """Weights of all layers at once may not fit: each layer is run again when it is its turn."""
    call.attention = []
    call.output = call.hidden_out


def _verdicts(
    heard: Heard,
    calls: list[LayerCall],
    more: list[LayerCall],
    native: list[LayerCall],
    probe: Probe,
    backend: str,
) -> tuple[list[LayerStructure], dict[str, str]]:
    """The layers that are proved, and the others with the reason. A module that runs several times
    is measured only if all its runs are proved.
    """
    found: list[LayerStructure] = []
    left_out: dict[str, str] = {}
    numbers = [number for _, number in heard.numbers()]
    rows = batch_size(probe.fewer), batch_size(probe.more)
    for number, ours, other, theirs in zip(numbers, calls, more, native, strict=True):
        if ours.path in left_out:
            continue
        try:
            _require_native(ours, theirs, probe.fewer)
            found.append(_layer_structure(ours, other, number, backend, rows))
        except UnsupportedModel as error:
            left_out[ours.path] = str(error)
        except Exception as error:  # what a layer raises when it runs on its own
            said = " ".join(str(error).split())[:200]
            left_out[ours.path] = (
                f"layer `{ours.path}`: it raises {type(error).__name__} ({said}) when it runs again"
                " on what it was given"
            )
    return [layer for layer in found if layer.path not in left_out], left_out


def _require_native(ours: LayerCall, theirs: LayerCall, inputs: Inputs) -> None:
    error, _ = native_error([ours.hidden_out], [theirs], inputs)
    if not error <= rounding(ours.hidden_out):
        raise UnsupportedModel(
            f"layer `{ours.path}`: with its attention overheard it computes something else than on"
            f" its own (off by {error:.1e}, relative). Load the model with"
            " attn_implementation='eager', or fix its random state if it draws at random even in"
            " eval mode (as ViT-MAE does)."
        )


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


def _layer_structure(
    call: LayerCall, more: LayerCall, number: int, backend: str, rows: tuple[int, int]
) -> LayerStructure:
    hidden, fewer_rows, more_rows = call.hidden_in, call.hidden_in.shape[0], more.hidden_in.shape[0]
    if hidden.dim() != 3 or fewer_rows * rows[1] != more_rows * rows[0]:
        raise UnsupportedModel(
            f"layer `{call.path}`: hidden states have shape {tuple(hidden.shape)} for {rows[0]}"
            " rows; mixlens needs [batch, tokens, d_model]"
        )
    axes = (
        batch_axes(call.args, more.args, fewer_rows, more_rows),
        batch_axes(call.kwargs, more.kwargs, fewer_rows, more_rows),
    )
    trace = trace_layer(call, axes, backend)
    if not trace.cores:
        raise UnsupportedModel(f"layer `{call.path}`: {_SILENT}")
    for attention in (core.call for core in trace.cores):
        weights, values = attention.weights, attention.values
        whole = weights.dim() == 4 and weights.shape[:3:2] == trace.hidden.shape[:2]
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
    return replace(structure_of(call.path, trace, axes), number=number)


_structures: Remembered[ModelStructure] = Remembered()


def model_structure(model: nn.Module, inputs: Inputs, *, whole: bool = False) -> ModelStructure:
    """`discovered`, remembered until a weight, the dtype or the device of the model changes, for
    inputs of the same likeness. `whole`: on the whole input, even if a short probe showed
    something.
    """
    implementations = tuple(
        getattr(getattr(part, "config", None), "_attn_implementation_internal", None)
        for part in (model, *model.children())
    )
    return _structures.of(
        model,
        (likeness(inputs), whole),
        lambda: _on_probe(model, whole_probe(inputs)) if whole else discovered(model, inputs),
        state=(type(model).forward, implementations),
    )
