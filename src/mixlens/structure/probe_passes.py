"""Run the model on a probe: with captured attention, with another batch size, and natively.

"Natively" means with the model's original attention implementation. A short probe has two texts.
The pass with another batch size uses only one of them. `layer_trace` also runs each layer on two
texts. In total, this costs as much as seven forward passes of one short text, or nine if layers
have a parallel MLP, because verifying it takes one more run.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.attention_capture import BACKENDS
from mixlens.capture.layer_calls import Inputs, LayerCall, layer_calls, with_hidden_argument
from mixlens.capture.rerun import run_layer
from mixlens.errors import UnsupportedModel, in_short
from mixlens.kernels.differences import difference, rounding
from mixlens.model.placement import is_out_of_memory
from mixlens.model.restore_model import plain_experts
from mixlens.structure.find_layers import CapturedLayers, capture_layers
from mixlens.structure.layouts import Layout
from mixlens.structure.model_structure import ModelStructure
from mixlens.structure.probe import Probe


class NoAttention(UnsupportedModel):
    """Raised if no layer with softmax attention was found."""


class FailsOnProbe(UnsupportedModel):
    """Raised if the model itself raises an error on a probe."""


@dataclass(frozen=True)
class Passes:
    """Stores the layer calls of a model on a probe, in three passes: with captured attention, with
    a different batch size, and natively.
    """

    captured: CapturedLayers
    resized: list[LayerCall]
    native: list[LayerCall]

    @property
    def calls(self) -> tuple[Sequence[LayerCall], ...]:
        """Return the layer calls of the three passes: captured, with a different batch size, and
        native.
        """
        return self.captured.calls, self.resized, self.native

    @property
    def unsteady(self) -> list[str]:
        """Return the layers that are not called equally often in each pass, for example because a
        model caches their output.
        """
        counts = [Counter(call.path for call in calls) for calls in self.calls]
        return [path for path in self.captured.layers if len({count[path] for count in counts}) > 1]


def passes_on(model: nn.Module, probe: Probe) -> Iterator[Passes]:
    """Yield the passes for each capture backend.

    All backends are tried in one pass. If capturing changes the model's output (Falcon with ALiBi
    has two attention implementations), the model is re-run with a single backend.
    """
    captured = _capture(model, probe)
    if not captured:
        raise NoAttention(
            f"{type(model).__name__}: no softmax attention was found inside a list of layers, "
            "so there is no mixing by attention to measure (recurrent, Fourier and "
            "convolutional models have none; some window and n-gram attentions are not "
            "visible)."
        )
    native = _native(model, probe, captured)
    yield from (compared := _compare_backends(model, probe, captured, native))
    if any(_differ(passes, probe) for passes in compared):
        with _own_words(model, probe):
            captured = capture_layers(model, probe.inputs, "trace")
        yield from _compare_backends(model, probe, captured, _native(model, probe, captured))


def _native(model: nn.Module, probe: Probe, captured: list[CapturedLayers]) -> list[LayerCall]:
    with _own_words(model, probe), torch.no_grad():
        return native_calls(model, probe.inputs, _paths(captured))


def _paths(captured: list[CapturedLayers]) -> set[str]:
    return {path for way in captured for path in way.layers}


def _compare_backends(
    model: nn.Module, probe: Probe, captured: list[CapturedLayers], native: list[LayerCall]
) -> list[Passes]:
    if not captured:
        return []
    paths, backend = _paths(captured), captured[-1].backend
    with _own_words(model, probe), torch.no_grad():
        resized = layer_calls(model, probe.resized, paths, backend, on_layer=_without_attention)[0]
    return [
        Passes(
            way,
            [call for call in resized if call.path in way.layers],
            [call for call in native if call.path in way.layers],
        )
        for way in captured
    ]


def _differ(passes: Passes, probe: Probe) -> bool:
    """Return whether capturing attention changes the output of any layer."""
    captured_calls, _, native = passes.calls
    if [call.path for call in captured_calls] != [call.path for call in native]:
        return False
    with contextlib.suppress(Exception):  # layers without hidden states are judged separately
        error, _ = native_error([call.hidden_out for call in captured_calls], native, probe.inputs)
        return not error <= rounding(native[0].hidden_out)
    return False


def _capture(model: nn.Module, probe: Probe) -> list[CapturedLayers]:
    """Capture attention with all backends at once, or with fewer if the model does not run with all
    of them.
    """
    *ways, last = reversed(BACKENDS)
    for way in ways:
        with contextlib.suppress(Exception):
            return capture_layers(model, probe.inputs, way)
    with _own_words(model, probe):
        return capture_layers(model, probe.inputs, last)


@contextlib.contextmanager
def _own_words(model: nn.Module, probe: Probe) -> Iterator[None]:
    """Context that raises errors of the model as `UnsupportedModel`."""
    try:
        yield
    except UnsupportedModel:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise FailsOnProbe(
            f"{type(model).__name__} raises {in_short(error)} on {_describe_probe(probe)}, so its "
            "layers cannot be analysed. Configure the model to accept a batch of two texts (many "
            "classifiers need pad_token_id in their configuration), or check the input."
        ) from error


def _describe_probe(probe: Probe) -> str:
    if probe.whole:
        return "this input, once and twice in a batch"
    return "a few tokens of this input, with one text padded if the input has an attention_mask"


def _without_attention(call: LayerCall, _tensors: object) -> None:
    """Drop the attention weights of a call, because the weights of all layers may not fit in
    memory.

    They are recomputed when the layer is re-run on its own.
    """
    call.attention = []
    call.output = call.hidden_out


def native_calls(
    model: nn.Module,
    inputs: Inputs,
    paths: set[str],
    layouts: Mapping[str, Layout] | None = None,
) -> list[LayerCall]:
    """Return the layer calls of the model with its original attention implementation.

    If the run fails, retry with plain expert products, because grouped products do not support
    float64.
    """
    try:
        return layer_calls(model, inputs, paths, None, layouts=layouts)[0]
    except RuntimeError:
        with plain_experts(model):
            return layer_calls(model, inputs, paths, None, layouts=layouts)[0]


def native_error(
    outputs: Sequence[Tensor], native: Sequence[LayerCall], inputs: Inputs
) -> tuple[float, str]:
    """Return the largest relative difference between the captured and the native layer outputs, and
    the layer in which it occurs.

    Padding is ignored.
    """
    worst, where = 0.0, native[0].path
    for captured, native_call in zip(outputs, native, strict=True):
        error = _real_difference(captured, native_call.hidden_out, inputs)
        if not error <= worst:
            worst, where = error, native_call.path
    return worst, where


def layer_error(
    captured_call: LayerCall, native_call: LayerCall, backend: str, inputs: Inputs
) -> float:
    """Return the relative difference between the outputs of a captured and a native layer call.

    If the inputs differ only by rounding but the outputs differ by more, the captured layer is
    re-run on the native input, because a layer with large attention scores (CLIPSeg's decoder)
    amplifies rounding errors a hundredfold. The masks of the captured call are kept, because a
    native run may have none and rely on the module's `is_causal`.
    """
    captured, bar = captured_call.hidden_out, rounding(captured_call.hidden_out)
    error = _real_difference(captured, native_call.hidden_out, inputs)
    if (
        error <= bar
        or not _real_difference(captured_call.hidden_in, native_call.hidden_in, inputs) <= bar
    ):
        return error
    args = tuple(map(_native_states, captured_call.args, native_call.args))
    kwargs = {
        name: _native_states(value, native_call.kwargs.get(name))
        for name, value in captured_call.kwargs.items()
    }
    args, kwargs = with_hidden_argument(args, kwargs, native_call.hidden_in)
    again = run_layer(
        captured_call.module, backend, args, kwargs, batch=int(native_call.hidden_in.shape[0])
    )
    return _real_difference(again, native_call.hidden_out, inputs)


def _native_states(ours: Any, theirs: Any) -> Any:
    """Replace the input of the captured layer by the native one if it is [batch, tokens, width]."""
    states = isinstance(theirs, Tensor) and theirs.dim() == 3 and theirs.is_floating_point()
    return theirs if states and isinstance(ours, Tensor) and ours.shape == theirs.shape else ours


def _real_difference(ours: Tensor, theirs: Tensor, inputs: Inputs) -> float:
    a, b = ours.float(), theirs.float()
    mask = inputs.get("attention_mask")
    if isinstance(mask, Tensor) and mask.shape == a.shape[:2]:
        real = mask.to(a.device).bool()
        a, b = a[real], b[real]
    return difference(a, b, dtype=ours.dtype)


def require_same_unpadded(
    model: nn.Module, probe: Probe, structure: ModelStructure, padded: Sequence[LayerCall]
) -> None:
    """Raise an error if padding changes a causal layer's output for the first text.

    Only causal layers with a submodule whose `is_causal` is False are checked, because sdpa may
    drop their causal mask if there is no padding. `padded` is the native run on the padded probe.
    """
    paths = {
        layer.path
        for stack in structure.stacks
        for layer in stack.layers
        if layer.sites[0].causal and _denies_it(model.get_submodule(layer.path))
    }
    mask = probe.inputs.get("attention_mask")
    if not paths or not isinstance(mask, Tensor) or (probe.whole and bool(mask.all())):
        return
    unpadded = {
        name: value[:1] if isinstance(value, Tensor) and value.dim() else value
        for name, value in probe.inputs.items()
    }
    unpadded["attention_mask"] = torch.ones_like(mask[:1])
    with torch.no_grad():
        native = native_calls(model, unpadded, paths)
    in_batch = [call.hidden_out[:1] for call in padded if call.path in paths]
    error, where = native_error(in_batch, native, unpadded)
    if not error <= rounding(native[0].hidden_out):
        raise UnsupportedModel(
            f"layer `{where}`: without padding the output of {type(model).__name__} differs "
            f"from a padded batch (relative error {error:.1e}), because sdpa drops its causal "
            "mask. Load it with attn_implementation='eager'."
        )


def _denies_it(layer: nn.Module) -> bool:
    return any(getattr(part, "is_causal", None) is False for part in layer.modules())
