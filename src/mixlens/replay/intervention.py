"""Run a layer, or the model from one layer on, as a function of its input.

The model itself is not modified. Either a layer is called directly with other tensors, or a
temporary hook replaces its input during a forward pass.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import (
    LayerCall,
    first_tensor,
    float_tensors,
    forward,
    hooks_removed,
    layer_calls,
    with_hidden_argument,
)
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.kernels.chunks import computing_dtype
from mixlens.kernels.differences import difference
from mixlens.model.linearity import require_gradients
from mixlens.model.placement import is_out_of_memory
from mixlens.model.readable_weights import make_readable
from mixlens.model.restore_model import plain_experts
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.structure.model_structure import StackStructure
from mixlens.structure.norms import LinearisedNorm, norm_of

_STATES = "encoder_hidden_states"


class LayerFunction:
    """One recorded layer as a function of one text's hidden states and, with `of_states`, of the
    encoder's states.

    The arguments are batches of copies of the text. The layer runs in float32 or better, with
    attention that supports forward-mode differentiation.
    """

    def __init__(self, layer: Layer, text: int, *, of_states: bool = False) -> None:
        self.layer = layer
        self.row = text
        self.module = layer.module
        self.point: Float[Tensor, "target d_model"] = layer.input[text]
        self.states: Float[Tensor, "source d_states"] | None = None
        if of_states:
            states = layer.argument(_STATES)
            if states is None:
                raise UnsupportedModel(
                    f"layer `{layer.structure.path}` does not take the encoder's output as"
                    f" `{_STATES}`"
                )
            self.states = states[text].to(self.point.dtype)

    def __call__(
        self,
        hidden: Float[Tensor, "copies target d_model"],
        states: Float[Tensor, "copies source d_states"] | None = None,
    ) -> Float[Tensor, "copies target d_model"]:
        """Return the layer's output, which can be differentiated in forward and reverse mode."""
        copies = int(hidden.shape[0])
        if copies > 1 and not self.layer.has_independent_copies():
            states_of_copies = [None] * copies if states is None else states[:, None]
            return torch.cat(
                [self(*one) for one in zip(hidden[:, None], states_of_copies, strict=True)]
            )
        args, kwargs = self.layer.arguments(self.row, copies)
        args, kwargs = with_hidden_argument(args, kwargs, hidden)
        if states is not None:
            args, kwargs = _with_argument(self.module, args, kwargs, _STATES, states)
        return self.layer.run(args, kwargs, copies, grad=torch.is_grad_enabled())


def _with_argument(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], name: str, value: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if name in kwargs:
        return args, {**kwargs, name: value}
    position = list(inspect.signature(module.forward).parameters).index(name)
    return (*args[:position], value, *args[position + 1 :]), kwargs


class ModelFrom:
    """The whole model as a function of the hidden states at the input of one layer.

    `site` selects the attention whose stack contains the layer.
    """

    def __init__(self, recording: Recording, site: str | None = None) -> None:
        self.recording = recording
        self.site = site
        self.stack: StackStructure = recording.structure.stack_of(site)
        self.layers: Sequence[Layer] = recording.stack_layers[self.stack.name]

    def hidden(self, layer: int) -> Float[Tensor, "batch target d_model"]:
        """Return the layer's input, in the model's own precision."""
        return self.layers[layer].native_input

    def __call__(
        self,
        layer: int,
        hidden: Float[Tensor, "copies target d_model"],
        texts: Int[Tensor, " copies"],
        edits: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the model with `hidden` as the input of a layer, and return the model's output.

        `texts` contains, for each copy, the index of its text in the batch. `edits` replaces inputs
        of the model by name.
        """
        calls, layouts = self.recording.structure.calls, self.recording.structure.layouts
        call_index = _call_number(self.recording, self.site, layer)

        def on_enter(number: int, call: LayerCall) -> Tensor | None:
            return hidden.to(call.hidden_in.dtype) if number == call_index else None

        inputs = {**inputs_of_texts(self.recording, texts), **(edits or {})}
        model, paths = self.recording.model, {stack.layers[index].path for stack, index in calls}
        return on_copies(
            model,
            lambda: layer_calls(model, inputs, paths, None, on_enter=on_enter, layouts=layouts)[1],
        )


def model_output(
    recording: Recording, texts: Int[Tensor, " copies"], edits: Mapping[str, Any]
) -> Any:
    """Run the model on copies of the texts with edited inputs. `texts` contains, for each copy, the
    index of its text in the batch.
    """
    inputs = {**inputs_of_texts(recording, texts), **edits}
    return on_copies(recording.model, lambda: forward(recording.model, inputs))


def on_copies(model: nn.Module, run: Callable[[], Any]) -> Any:
    """Call `run`, which runs the model on copies of texts.

    If it fails, retry with plain expert products, because grouped expert products do not support
    float64.
    """
    if torch.is_grad_enabled():
        require_gradients(model)
    try:
        return run()
    except (RuntimeError, ValueError, IndexError) as first:
        if is_out_of_memory(first):
            raise
        with plain_experts(model):
            try:
                return run()
            except (RuntimeError, ValueError, IndexError) as error:
                if is_out_of_memory(error):
                    raise
                message = " ".join(str(error).split())[:200]
                raise UnsupportedModel(
                    f"{type(model).__name__} cannot run edited copies of the text as one batch "
                    f"({message}). Choose a layer measure, such as value_zeroing"
                ) from error


def layer_input(
    recording: Recording, site: str, layer: int, edits: Mapping[str, Any]
) -> Float[Tensor, "batch target d_model"]:
    """Run the model with edited inputs up to a layer, and return the input of this layer."""
    calls, call_index = recording.structure.calls, _call_number(recording, site, layer)
    captured: list[Tensor] = []

    def on_enter(number: int, call: LayerCall) -> None:
        if number == call_index:
            captured.append(call.hidden_in.detach())
            raise _Reached

    paths = {stack.layers[index].path for stack, index in calls}
    inputs, layouts = {**recording.inputs, **edits}, recording.structure.layouts
    with torch.no_grad(), contextlib.suppress(_Reached):
        layer_calls(recording.model, inputs, paths, None, on_enter=on_enter, layouts=layouts)
    return captured[0]


def _call_number(recording: Recording, site: str | None, layer: int) -> int:
    """Return the index of a layer's call among all layer calls."""
    stack, calls = recording.structure.stack_of(site), recording.structure.calls
    return next(i for i, call in enumerate(calls) if call[0] is stack and call[1] == layer)


class _Reached(Exception):
    """Raised to stop a forward pass once the requested tensor is known."""


def inputs_of_texts(recording: Recording, texts: Int[Tensor, " copies"]) -> dict[str, Any]:
    """Return the recorded model inputs for a batch of copies. `texts` contains, for each copy, the
    index of its text.
    """
    batch = recording.batch
    return {
        name: (
            value[texts.to(value.device)]
            if isinstance(value, Tensor) and value.dim() > 0 and value.shape[0] == batch
            else value
        )
        for name, value in recording.inputs.items()
    }


def find_ids_read(recording: Recording) -> dict[str, str | None]:
    """Return the name of the token ids that each stack reads, or None, if shapes do not show it.

    In a model with several inputs, such as CLIP, an image may have as many patches as the text has
    tokens. The first layer of a stack then shows whether the stack reads the text.
    """
    inputs, structure = recording.inputs, recording.structure
    tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
    if not any(each.is_floating_point() and each.dim() > 2 for each in tensors.values()):
        return {}
    first = {name: layers[0] for name, layers in recording.stack_layers.items()}
    fits = {
        stack.name: [
            name
            for name in ("decoder_input_ids", "input_ids")
            if name in tensors and tensors[name].shape == first[stack.name].native_input.shape[:2]
        ]
        for stack in structure.stacks
    }
    claims = [name for names in fits.values() for name in names]
    if len(claims) == len({*claims}):
        return {}
    sites = {site.stack.name: name for name, site in structure.sites.items()}

    def is_read(stack: str, name: str) -> bool:
        edits = {name: _permute_ids(tensors[name])}
        try:
            hidden = layer_input(recording, sites[stack], 0, edits)
        except (RuntimeError, ValueError, IndexError) as error:
            raise UnsupportedModel(
                f"Several inputs of {type(recording.model).__name__} have "
                f"{tensors[name].shape[1]} positions, so the input of {stack} is unknown. Add a "
                "token to the text"
            ) from error
        same = difference(hidden, first[stack].native_input) <= first[stack].rounding
        return not same

    return {
        stack: next((name for name in names if is_read(stack, name)), None)
        for stack, names in fits.items()
        if names
    }


def _permute_ids(ids: Tensor) -> Tensor:
    """Return other token ids, if possible the same ones in a different order."""
    moved = ids.roll(1, -1)
    return moved if not torch.equal(moved, ids) else torch.where(ids > 0, ids - 1, ids + 1)


def token_input(recording: Recording, site: str | None) -> tuple[str, Tensor]:
    """Return the name and the token ids of the model input that the stack of an attention reads."""
    stack = recording.structure.stack_of(site)
    width = recording.tokens_of(stack)
    names: list[str | None] = (
        ["decoder_input_ids", "input_ids"]
        if stack.has_cross or len(recording.structure.stacks) == 1
        else ["input_ids"]
    )
    if stack.name in recording.ids_read:
        names = [recording.ids_read[stack.name]]
    for name in filter(None, names):
        ids = recording.inputs.get(name)
        if isinstance(ids, Tensor) and ids.shape[1] == width:
            return name, ids
    raise InvalidInput(
        f"The inputs of {stack.name} are not token ids, so no token can be replaced. Pass token "
        "ids."
    )


def embedding_norm(
    recording: Recording, site: str | None
) -> tuple[LinearisedNorm, Float[Tensor, "batch target d_model"]]:
    """Return the norm between the embeddings and the first layer, and the norm's input.

    The norm's input is the sum of all embeddings (of tokens, positions and so on).
    """
    stack = recording.structure.stack_of(site)
    first = recording.stack_layers[stack.name][0]
    expected, norms = first.native_input, []
    tolerance = first.rounding
    handles: list[Any] = []

    def keep_output(
        module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], output: Any
    ) -> None:
        inputs = list(float_tensors((*args, *kwargs.values())))
        try:
            tensor = first_tensor(output)
        except TypeError:
            return
        if (
            inputs
            and inputs[0].shape == expected.shape == tensor.shape
            and difference(tensor, expected) <= tolerance
        ):
            norms.append((module, inputs[0].detach()))

    with torch.no_grad(), hooks_removed(handles):
        for path, module in recording.model.named_modules():
            if not path.startswith(stack.path):
                handles.append(module.register_forward_hook(keep_output, with_kwargs=True))
        forward(recording.model, recording.inputs)
    for module, embedding in norms:
        wide = embedding.to(computing_dtype(embedding.dtype))
        form = norm_of(make_readable(module, embedding.dtype), wide)
        if form is not None and form.scaled and difference(form(wide), first.input) <= tolerance:
            return form, wide
    raise UnsupportedModel(
        f"there is no norm between the embeddings and the first layer of {stack.name}, so "
        "there is no embedding sum before a norm. Use wrt='embedding'"
    )
