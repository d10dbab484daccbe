"""Infer the structure of a whole model from a short probe made from the user's input.

Each layer is verified separately, and only verified layers are measured. Other layers (a recurrent
layer of a hybrid model, a tower with window attention) are excluded, and the reason is recorded.
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
from mixlens.capture.layer_calls import Inputs, LayerCall, batch_size, forward
from mixlens.errors import UnsupportedModel, in_short
from mixlens.kernels.differences import rounding
from mixlens.model.module_walk import configs_of
from mixlens.model.placement import is_out_of_memory
from mixlens.model.restore_model import restore_on_exit
from mixlens.model.session import ModuleCache, state_of
from mixlens.structure.attention_reading import TurnedProjection
from mixlens.structure.layer_discovery import structure_of
from mixlens.structure.layer_structure import LayerStructure
from mixlens.structure.layer_trace import trace_layer
from mixlens.structure.layouts import (
    ArrangedLayer,
    Layout,
    possible_layouts,
    swap_part,
    why_unknown,
)
from mixlens.structure.model_structure import ModelStructure, assemble_structure
from mixlens.structure.probe import Probe, may_be_whole, probes, too_long_to_probe, whole_probe
from mixlens.structure.probe_passes import (
    FailsOnProbe,
    NoAttention,
    Passes,
    layer_error,
    passes_on,
    require_same_unpadded,
)
from mixlens.structure.user_hooks import hook_numbers, require_unchanged_by_hooks
from mixlens.text.input_checks import is_plain_text

_SILENT = (
    "mixlens cannot capture softmax attention in it (recurrent, convolutional and some "
    "window and sparse layers have none), so its token mixing is unknown"
)


_Choice = TypeVar("_Choice")


class InPieces(UnsupportedModel):
    """Raised if attention is computed on pieces of the sequence."""


class OnWholeInput(UnsupportedModel):
    """Raised if the whole input cannot be analysed. This error takes precedence over an error for a
    shortened input.
    """


def discover_structure(model: nn.Module, inputs: Inputs) -> ModelStructure:
    """Infer the model's structure from probes similar to `inputs`.

    Raise `UnsupportedModel` if no probe works.
    """
    _require_layers(model)
    with restore_on_exit(model) as settings:
        candidates = probes(inputs, model)
        plain = is_plain_text(inputs)
        try:
            structure = _best(candidates, lambda probe: _on_probe(model, probe), plain)
        except (NoAttention, OnWholeInput) as error:
            raise UnsupportedModel(str(error)) from error
        except FailsOnProbe as error:
            too_long = not plain and not may_be_whole(inputs)
            raise too_long_to_probe(inputs) if too_long else UnsupportedModel(str(error)) from error
    _require_own_switches(model, inputs, settings)
    return structure


_LAYER_COUNTS = (
    "num_layers",
    "num_decoder_layers",
    "encoder_layers",
    "decoder_layers",
    "num_hidden_layers",
)


def _require_layers(model: nn.Module) -> None:
    """Raise an error if the encoder or the decoder of an encoder–decoder model has no layers.

    Otherwise only the other stack would be measured. In other models, no attention is found.
    """
    if not getattr(model.config, "is_encoder_decoder", False):
        return
    for config in configs_of(model):
        for name in _LAYER_COUNTS:
            count = getattr(config, name, None)
            if isinstance(count, int) and count < 1:
                raise UnsupportedModel(
                    f"config.{name} is {count}, so a part of {type(model).__name__} has no layers. "
                    "Load the model with the number of layers in its checkpoint"
                )


def _require_own_switches(model: nn.Module, inputs: Inputs, settings: list[str]) -> None:
    """Raise an error unless this input changes the same settings of the model as the probe did.

    For example, SeamlessM4T stores whether its input is text or audio. Replaced submodules always
    raise an error, because re-running a layer would then run a different module.
    """
    if not settings:
        return
    with restore_on_exit(model) as changed_settings, torch.no_grad():
        forward(model, inputs)
    strange = [
        name for name in settings if name not in changed_settings or name.endswith("modules")
    ]
    if strange:
        raise UnsupportedModel(
            f"{type(model).__name__} changes its settings for a short text (`{strange[0]}`), so "
            "its scores would differ from those for other texts. mixlens restored the settings. "
            "Load the model with the setting that it uses for short texts (BigBird: "
            "attention_type='original_full')."
        )


def _on_probe(model: nn.Module, probe: Probe) -> ModelStructure:
    try:
        return _best(
            passes_on(model, probe), lambda passes: _assemble(model, probe, passes), in_part=False
        )
    except NoAttention:
        raise
    except UnsupportedModel as error:
        if isinstance(error, FailsOnProbe) and not probe.whole:
            raise
        raise (OnWholeInput if probe.whole else UnsupportedModel)(str(error)) from error


def _best(
    choices: Iterable[_Choice], attempt: Callable[[_Choice], ModelStructure], in_part: bool
) -> ModelStructure:
    """Return the first structure that explains every layer, or otherwise the structure that
    explains the most layers. With `in_part`, a structure that explains only some layers is returned
    at once. If no attempt succeeds, the most informative error is raised: the error for the whole
    input if there is one, or the error for the first backend that captured attention.
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
        else:  # layers captured only by this backend have a better reason
            best = replace(
                best, left_out={**best.left_out, **_find_shared_exclusions(structure, best)}
            )
        if in_part or best.unread == (0, 0):
            break
    if best is None:
        assert reason is not None
        raise reason
    return best


def _find_shared_exclusions(structure: ModelStructure, other: ModelStructure) -> dict[str, str]:
    """Return the layers that both structures exclude, with the reasons from the first structure."""
    return {path: why for path, why in structure.left_out.items() if path in other.left_out}


def _assemble(model: nn.Module, probe: Probe, passes: Passes) -> ModelStructure:
    captured = passes.captured
    with torch.no_grad():
        structures, left_out = _verdicts(passes, probe)
    if not structures:
        raise UnsupportedModel(f"{type(model).__name__}, {next(iter(left_out.values()))}")
    left_out |= dict.fromkeys(captured.silent, _SILENT)
    structure = assemble_structure(captured.backend, structures, left_out, probe.whole)
    require_same_unpadded(model, probe, structure, passes.native)
    return structure


def _verdicts(passes: Passes, probe: Probe) -> tuple[list[LayerStructure], dict[str, str]]:
    """Return the verified layers, and the reason for each layer that is excluded.

    A module that runs several times is measured only if all of its runs are verified.
    """
    structures: list[LayerStructure] = []
    left_out = {
        path: f"layer `{path}`: it is not called each time the model runs"
        for path in passes.unsteady
    }
    numbers = [number for path, number in passes.captured.numbers() if path not in left_out]
    steady = ([call for call in calls if call.path not in left_out] for calls in passes.calls)
    batch_sizes = batch_size(probe.inputs), batch_size(probe.resized)
    for number, captured_call, other, native_call in zip(numbers, *steady, strict=True):
        if captured_call.path in left_out:
            continue
        try:
            require_unchanged_by_hooks(captured_call, passes.captured.backend)
            _require_native(captured_call, native_call, passes.captured.backend, probe.inputs)
            layouts = possible_layouts(captured_call, other, batch_sizes)
            if captured_call.path in passes.captured.spread:
                layouts.insert(0, passes.captured.spread[captured_call.path])
            if not layouts:
                why = why_unknown(captured_call, other, batch_sizes)
                raise UnsupportedModel(f"layer `{captured_call.path}`: {why}")
            structures.append(
                _layer_structure(captured_call, other, number, passes.captured.backend, layouts)
            )
        except UnsupportedModel as error:
            left_out[captured_call.path] = str(error)
        except Exception as error:  # errors of a layer that runs alone
            if is_out_of_memory(error):
                raise
            left_out[captured_call.path] = (
                f"layer `{captured_call.path}`: it raises {in_short(error)} when it runs again "
                "on its input"
            )
    left_out |= _open_among_read(structures)
    return [layer for layer in structures if layer.path not in left_out], left_out


def _open_among_read(structures: Sequence[LayerStructure]) -> dict[str, str]:
    """Return the open layers of module lists that also contain explained layers, with the reasons.

    They are excluded, because a single open layer would make most measures unavailable for the
    whole list.
    """
    explained_lists = {_list_of(layer) for layer in structures if layer.open is None}
    return {
        layer.path: f"layer `{layer.path}`: {layer.open}"
        for layer in structures
        if layer.open is not None and _list_of(layer) in explained_lists
    }


def _list_of(layer: LayerStructure) -> str:
    return layer.path.rpartition(".")[0]


def _require_native(
    captured_call: LayerCall, native_call: LayerCall, backend: str, inputs: Inputs
) -> None:
    error = layer_error(captured_call, native_call, backend, inputs)
    if not error <= rounding(captured_call.hidden_out):
        half = captured_call.hidden_out.element_size() < 4
        # T5 does not scale its logits: in bfloat16, logits of 30 are rounded by 0.1, and eager and
        # sdpa attention of one model differ by more than a tenth.
        wider = " in float32 (half precision rounds large logits by a tenth), or" if half else ""
        raise UnsupportedModel(
            f"layer `{captured_call.path}`: with captured attention its output differs from the "
            f"native one (relative error {error:.1e}). Load the model{wider} with "
            "attn_implementation='eager', or fix its random state if it draws at random even "
            "in eval mode (as ViT-MAE does)."
        )


def _layer_structure(
    call: LayerCall, resized: LayerCall, number: int, backend: str, layouts: list[Layout | None]
) -> LayerStructure:
    """Return the layer's structure in the first layout that explains the layer, or an open
    structure if no layout does.
    """
    if call.hidden_in.shape != call.hidden_out.shape:
        raise UnsupportedModel(
            f"layer `{call.path}`: hidden states enter with shape "
            f"{tuple(call.hidden_in.shape)} and leave with {tuple(call.hidden_out.shape)}, so "
            "it has no residual stream"
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
            layouts.append(swap_part(error.path))
        except Exception as error:
            if is_out_of_memory(error):
                raise
            reasons.append(error)
    if left_open is not None:
        return left_open
    # If attention does not lead from token to token, the form is wrong. The later forms are for
    # layers with more than one stream.
    not_in_pieces = [
        r for r in reasons if isinstance(r, UnsupportedModel) and not isinstance(r, InPieces)
    ]
    raise not_in_pieces[-1] if not_in_pieces else reasons[0]


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
    """Raise an error unless the attention weights cover all tokens and all sources.

    `shape` is the shape of the hidden states in their original layout.
    """
    path, weights, values = call.path, attention.weights, attention.values
    whole = weights.dim() == 4 and weights.shape[:3:2] == hidden.shape[:2]
    if whole and values.shape[2] == weights.shape[3]:
        return
    if isinstance(call.module, ArrangedLayer) and call.module.shape == (weights.shape[2],) * 2:
        raise UnsupportedModel(
            f"layer `{path}`: both streams have {weights.shape[2]} tokens, so mixlens cannot tell "
            "which one attends to which. Add a token to one of them"
        )
    if weights.dim() == 4 and _is_taken_too(call, weights.shape[:3:2]):
        raise UnsupportedModel(
            f"layer `{path}`: it also attends from a second stream of {weights.shape[2]} "
            f"tokens (weights {tuple(weights.shape)} for hidden states {shape}), but a map "
            "shows one stream"
        )
    raise InPieces(
        f"layer `{path}`: attention works on pieces of the sequence (weights "
        f"{tuple(weights.shape)} for hidden states {shape}), as window, block and sparse "
        "attention do. These are not supported."
    )


def _is_taken_too(call: LayerCall, size: Size) -> bool:
    """Return whether the layer also receives a tensor of hidden states of this size, [batch,
    tokens].
    """
    tensors = (value for value in (*call.args, *call.kwargs.values()) if isinstance(value, Tensor))
    states = (tensor for tensor in tensors if tensor.is_floating_point() and tensor.dim() == 3)
    return any(tensor.shape[:2] == size for tensor in states)


def _require_one_of_each_kind(layer: LayerStructure) -> None:
    kinds = Counter(kind for site in layer.sites for kind in site.kinds)
    for kind, count in kinds.items():
        if count > 1:
            raise UnsupportedModel(
                f"layer `{layer.path}`: it has {count} {kind}-attentions in sequence, but the "
                "map of a layer shows one. mixlens reports nothing rather than half of it."
            )


_structures: ModuleCache[ModelStructure] = ModuleCache()


def model_structure(model: nn.Module, inputs: Inputs, *, whole: bool = False) -> ModelStructure:
    """Return the structure of the model, cached for similar inputs.

    The cache is valid until a weight, submodule, setting or hook of the model changes. With
    `whole`, the whole input is used as the probe, even if a short probe would work.
    """
    state = state_of(model)
    return _structures.of(
        model,
        (likeness(inputs), whole),
        lambda: (
            _on_probe(model, whole_probe(inputs)) if whole else discover_structure(model, inputs)
        ),
        state=(state.settings, hook_numbers(model) if state.hooks else ()),
    )


def likeness(inputs: Inputs) -> object:
    """Return a key that is equal for inputs for which the model has the same structure.

    For plain text, these are the argument names. For other inputs, they are the shapes of all
    tensors and the values of small integer tensors (such as the sizes of packed images).
    """
    if is_plain_text(inputs):
        return frozenset(inputs)
    return frozenset(
        (
            name,
            tuple(value.shape),
            tuple(value.flatten().tolist())
            if not value.is_floating_point() and value.numel() <= 64 and "ids" not in name
            else None,
        )
        if isinstance(value, Tensor)
        else (name, repr(value))
        for name, value in inputs.items()
    )
