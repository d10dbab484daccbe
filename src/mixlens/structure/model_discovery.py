"""Infer the structure of a whole model on a short probe made from the user's input.

Each layer gets a verdict of its own. A layer that is proved is measured. One that is not (a
recurrent layer of a hybrid, a tower with window attention) is left out, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Size, Tensor, nn

from mixlens.capture.attention_call import AttentionCall
from mixlens.capture.batch_axes import batch_axes
from mixlens.capture.layer_calls import Inputs, LayerCall, batch_size
from mixlens.capture.restore_model import require_own_switches, restored
from mixlens.errors import UnsupportedModel, in_short
from mixlens.kernels.differences import rounding
from mixlens.model.free_memory import is_out_of_memory
from mixlens.model.model_cache import Remembered, state_of
from mixlens.structure.attention_reading import TurnedProjection
from mixlens.structure.layer_discovery import structure_of
from mixlens.structure.layer_structure import LayerStructure
from mixlens.structure.layer_trace import trace_layer
from mixlens.structure.layouts import (
    ArrangedLayer,
    Layout,
    possible_layouts,
    turned_part,
    why_unknown,
)
from mixlens.structure.model_structure import ModelStructure, assembled
from mixlens.structure.probe import Probe, is_plain_text, likeness, probes, whole_probe
from mixlens.structure.probe_passes import NoAttention, Passes, layer_error, passes_on
from mixlens.structure.unpadded_runs import require_same_unpadded
from mixlens.structure.user_hooks import hook_numbers, require_unchanged_by_hooks

_SILENT = (
    "it shows no softmax attention that could be overheard (recurrent, convolutional and some"
    " window and sparse layers have none), so what mixes tokens there is unknown"
)


_Choice = TypeVar("_Choice")


class InPieces(UnsupportedModel):
    """Attention does not lead from every token to every source."""


class OnWholeInput(UnsupportedModel):
    """What stops it on the whole input is the reason; a cut one may just not be an input."""


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
    require_own_switches(model, inputs, turned)
    return structure


def _on_probe(model: nn.Module, probe: Probe) -> ModelStructure:
    try:
        return _best(
            passes_on(model, probe), lambda passes: _assembled(model, probe, passes), in_part=False
        )
    except NoAttention:
        raise
    except UnsupportedModel as error:
        raise (OnWholeInput if probe.whole else UnsupportedModel)(str(error)) from error


def _best(
    choices: Iterable[_Choice], attempt: Callable[[_Choice], ModelStructure], in_part: bool
) -> ModelStructure:
    """The first structure that reads every layer (`in_part`: or some), else the one that reads
    most; if there is none, the reason that is worth most: of the whole input, or of the first way
    that heard attention.
    """
    best: ModelStructure | None = None
    reason: UnsupportedModel | None = None
    for choice in choices:
        try:
            structure = attempt(choice)
        except UnsupportedModel as error:
            if reason is None or isinstance(reason, NoAttention) or isinstance(error, OnWholeInput):
                reason = error
            continue
        if best is None or structure.unread < best.unread:
            best = structure
        else:  # what was heard in this way and not in the other has a better reason
            best = replace(best, left_out={**best.left_out, **_shared(structure, best)})
        if in_part or best.unread == (0, 0):
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _shared(structure: ModelStructure, other: ModelStructure) -> dict[str, str]:
    """Reasons of layers that two structures leave out."""
    return {path: why for path, why in structure.left_out.items() if path in other.left_out}


def _assembled(model: nn.Module, probe: Probe, passes: Passes) -> ModelStructure:
    captured = passes.captured
    with torch.no_grad():
        structures, left_out = _verdicts(passes, probe)
    if not structures:
        raise UnsupportedModel(f"{type(model).__name__}, {next(iter(left_out.values()))}")
    left_out |= dict.fromkeys(captured.silent, _SILENT)
    structure = assembled(captured.backend, structures, left_out, probe.whole)
    require_same_unpadded(model, probe, structure, passes.native)
    return structure


def _verdicts(passes: Passes, probe: Probe) -> tuple[list[LayerStructure], dict[str, str]]:
    """The layers that are proved, and the others with the reason. A module that runs several times
    is measured only if all its runs are proved.
    """
    structures: list[LayerStructure] = []
    left_out = {
        path: f"layer `{path}`: it is not called each time the model runs"
        for path in passes.unsteady
    }
    numbers = [number for path, number in passes.captured.numbers() if path not in left_out]
    steady = ([call for call in calls if call.path not in left_out] for calls in passes.calls)
    rows = batch_size(probe.inputs), batch_size(probe.resized)
    for number, ours, other, theirs in zip(numbers, *steady, strict=True):
        if ours.path in left_out:
            continue
        try:
            require_unchanged_by_hooks(ours, passes.captured.backend)
            _require_native(ours, theirs, passes.captured.backend, probe.inputs)
            layouts = possible_layouts(ours, other, rows)
            if ours.path in passes.captured.spread:
                layouts.insert(0, passes.captured.spread[ours.path])
            if not layouts:
                why = why_unknown(ours, other, rows)
                raise UnsupportedModel(f"layer `{ours.path}`: {why}")
            structures.append(
                _layer_structure(ours, other, number, passes.captured.backend, layouts)
            )
        except UnsupportedModel as error:
            left_out[ours.path] = str(error)
        except Exception as error:  # what a layer raises when it runs on its own
            if is_out_of_memory(error):
                raise
            left_out[ours.path] = (
                f"layer `{ours.path}`: it raises {in_short(error)} when it runs again on what it"
                " was given"
            )
    left_out |= _open_among_read(structures)
    return [layer for layer in structures if layer.path not in left_out], left_out


def _open_among_read(structures: Sequence[LayerStructure]) -> dict[str, str]:
    """Open layers of lists in which others are read: most measures would be lost for all."""
    read = {_list_of(layer) for layer in structures if layer.open is None}
    return {
        layer.path: f"layer `{layer.path}`: {layer.open}"
        for layer in structures
        if layer.open is not None and _list_of(layer) in read
    }


def _list_of(layer: LayerStructure) -> str:
    return layer.path.rpartition(".")[0]


def _require_native(ours: LayerCall, theirs: LayerCall, backend: str, inputs: Inputs) -> None:
    error = layer_error(ours, theirs, backend, inputs)
    if not error <= rounding(ours.hidden_out):
        half = ours.hidden_out.element_size() < 4
        # T5 does not scale its logits: in bfloat16 those of 30 are rounded by 0.1, and eager and
        # sdpa attention of one model differ by more than a tenth.
        wider = " in float32 (half precision rounds large logits by a tenth), or" if half else ""
        raise UnsupportedModel(
            f"layer `{ours.path}`: with its attention overheard it computes something else than on"
            f" its own (off by {error:.1e}, relative). Load the model{wider} with"
            " attn_implementation='eager', or fix its random state if it draws at random even in"
            " eval mode (as ViT-MAE does)."
        )


def _layer_structure(
    call: LayerCall, resized: LayerCall, number: int, backend: str, layouts: list[Layout | None]
) -> LayerStructure:
    """In the first of the forms that it may have in which it can be read, or else be left open."""
    if call.hidden_in.shape != call.hidden_out.shape:
        raise UnsupportedModel(
            f"layer `{call.path}`: hidden states enter with shape {tuple(call.hidden_in.shape)} and"
            f" leave with {tuple(call.hidden_out.shape)}, so there is no stream to which it adds"
        )
    reasons: list[Exception] = []
    left_open: LayerStructure | None = None
    for layout in layouts:
        try:
            structure = replace(_in_rows(call, resized, backend, layout), number=number)
            if structure.open is None:
                return structure
            left_open = left_open or structure
        except TurnedProjection as error:
            layouts.append(turned_part(error.path))
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reasons.append(error)
    if left_open is not None:
        return left_open
    # A form in which attention does not lead from token to token is not that of the layer, and the
    # later ones are for layers with more than one stream.
    read = [r for r in reasons if isinstance(r, UnsupportedModel) and not isinstance(r, InPieces)]
    raise read[-1] if read else reasons[0]


def _in_rows(
    call: LayerCall, resized: LayerCall, backend: str, layout: Layout | None
) -> LayerStructure:
    shape = tuple(call.hidden_in.shape)
    if layout is not None:
        call, resized = layout.call(call), layout.call(resized)
    counts = int(call.hidden_in.shape[0]), int(resized.hidden_in.shape[0])
    if layout is not None and layout.packed:
        counts = 1, 2
    axes = (
        batch_axes(call.args, resized.args, *counts),
        batch_axes(call.kwargs, resized.kwargs, *counts),
    )
    trace = trace_layer(call, axes, backend)
    if not trace.cores:
        raise UnsupportedModel(f"layer `{call.path}`: {_SILENT}")
    for attention in (core.call for core in trace.cores):
        _require_whole_sequence(call, attention, trace.hidden, shape)
    structure = structure_of(call.path, trace, axes)
    _require_one_of_each_kind(structure)
    batch, tokens = call.hidden_in.shape[:2]
    return replace(structure, shape=(int(batch), int(tokens)), layout=layout)


def _require_whole_sequence(
    call: LayerCall, attention: AttentionCall, hidden: Tensor, shape: tuple[int, ...]
) -> None:
    """Attention must lead from every token to every source. `shape`: of the hidden states in their
    own form.
    """
    path, weights, values = call.path, attention.weights, attention.values
    whole = weights.dim() == 4 and weights.shape[:3:2] == hidden.shape[:2]
    if whole and values.shape[2] == weights.shape[3]:
        return
    if isinstance(call.module, ArrangedLayer) and call.module.shape == (weights.shape[2],) * 2:
        raise UnsupportedModel(
            f"layer `{path}`: its two streams have {weights.shape[2]} tokens each, and only their"
            " numbers of tokens say which of them attends to which: give one of them another token"
        )
    if weights.dim() == 4 and _is_taken_too(call, weights.shape[:3:2]):
        raise UnsupportedModel(
            f"layer `{path}`: it attends from a second stream of {weights.shape[2]} tokens too"
            f" (weights {tuple(weights.shape)} for hidden states {shape}), and a map of tokens"
            " shows one"
        )
    raise InPieces(
        f"layer `{path}`: attention works on pieces of the sequence (weights"
        f" {tuple(weights.shape)} for hidden states {shape}), as window, block and sparse"
        " attention do. These are not supported."
    )


def _is_taken_too(call: LayerCall, size: Size) -> bool:
    """Does a layer take states of this [batch, tokens] that are not its own?"""
    given = (value for value in (*call.args, *call.kwargs.values()) if isinstance(value, Tensor))
    states = (tensor for tensor in given if tensor.is_floating_point() and tensor.dim() == 3)
    return any(tensor.shape[:2] == size for tensor in states)


def _require_one_of_each_kind(layer: LayerStructure) -> None:
    kinds = Counter(kind for site in layer.sites for kind in site.kinds)
    for kind, count in kinds.items():
        if count > 1:
            raise UnsupportedModel(
                f"layer `{layer.path}`: it has {count} {kind}-attentions one after the other, and"
                " the map of a layer shows one. Nothing is reported rather than half of it."
            )


_structures: Remembered[ModelStructure] = Remembered()


def model_structure(model: nn.Module, inputs: Inputs, *, whole: bool = False) -> ModelStructure:
    """`discovered`, remembered until a weight, a part, a setting or a hook of a model changes, for
    inputs of the same likeness. `whole`: on the whole input, even if a short probe showed
    something.
    """
    state = state_of(model)
    return _structures.of(
        model,
        (likeness(inputs), whole),
        lambda: _on_probe(model, whole_probe(inputs)) if whole else discovered(model, inputs),
        state=(state.settings, hook_numbers(model) if state.hooks else ()),
    )
