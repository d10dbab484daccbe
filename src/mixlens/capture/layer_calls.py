"""Capture one forward pass layer by layer: inputs, outputs and attention calls of each layer.

Layers are distinguished by the order of their calls, because ALBERT calls one module many times.

Hook points capture intermediate tensors of a running layer, which mixlens uses to verify a
recording.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall, Listener, listening
from mixlens.capture.attention_capture import attention_captured
from mixlens.model.distributed import require_same
from mixlens.model.module_walk import configs_of, part_at
from mixlens.model.placement import device_of_calls
from mixlens.model.readable_weights import has_plain_weights, has_spread_weights, make_readable
from mixlens.model.session import once_per_state

if TYPE_CHECKING:
    from mixlens.structure.layouts import Layout


Inputs = Mapping[str, Any]

_has_plain_weights = once_per_state(has_plain_weights)


@dataclass
class LayerCall:
    """One call of one transformer layer."""

    path: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    attention: list[AttentionCall] = field(default_factory=list)

    @classmethod
    def begun(
        cls, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LayerCall:
        """Return the call of a layer that has just started, in a form that can be re-run.

        The cache is dropped. The inputs are moved to the device of the layer, because accelerate
        moves them only inside the layer.
        """
        kwargs, device = without_cache(kwargs), device_of_calls(module)
        if device is not None and hidden_argument(args, kwargs).device != device:
            args, kwargs = map_tensors((args, kwargs), lambda tensor: tensor.to(device))
        return cls(path, module, args, kwargs)

    @functools.cached_property
    def is_readable(self) -> bool:
        """Return whether the weights of the layer are available as plain tensors."""
        return _has_plain_weights(self.module)

    @property
    def readable(self) -> nn.Module:
        """Return the layer itself if its weights are readable, otherwise a copy with readable
        weights.
        """
        return self.module if self.is_readable else make_readable(self.module, self.hidden_in.dtype)

    @functools.cached_property
    def whole(self) -> nn.Module:
        """Return the layer with all of its heads.

        This is the layer itself, or a copy if its heads are distributed over several processes.
        """
        return self.readable if has_spread_weights(self.module) else self.module

    @property
    def hidden_in(self) -> Tensor:
        """Return the input hidden states."""
        return hidden_argument(self.args, self.kwargs)

    @property
    def hidden_out(self) -> Tensor:
        """Return the output hidden states."""
        return first_tensor(self.output)


def first_tensor(output: Any) -> Tensor:
    """Return the hidden states in the output of a layer: a tensor, or the first item of a tuple."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        for value in output.values():
            if isinstance(value, Tensor) and value.is_floating_point():
                return value
    raise TypeError(f"{type(output).__name__} contains no tensor")


def hidden_argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """Return the hidden states among a layer's arguments: the first floating-point tensor."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    raise TypeError("the layer was called without hidden states")


def with_hidden_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], hidden: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a layer with other hidden states.

    The hidden states may be passed several times: Funnel passes the same tensor as queries, keys
    and values. All occurrences are replaced.
    """
    old = hidden_argument(args, kwargs)
    replaced = {name: hidden if value is old else value for name, value in kwargs.items()}
    return tuple(hidden if value is old else value for value in args), replaced


def batch_size(inputs: Inputs) -> int:
    """Return the batch size of the input.

    Token ids take precedence over other tensors, because the first axis of packed images is not the
    batch.
    """
    id_inputs = [name for name in inputs if name.endswith("input_ids")]
    tensors = [inputs[name] for name in (*id_inputs, *inputs) if isinstance(inputs[name], Tensor)]
    return next(int(value.shape[0]) for value in tensors if value.dim() > 0)


def forward(model: nn.Module, inputs: Inputs) -> Any:
    """Run the model without a key–value cache, which would grow with every re-run."""
    options = (
        {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    )
    require_same(inputs=inputs)
    with _cache_unused(model):
        return model(**{**inputs, **options})


@contextlib.contextmanager
def _cache_unused(model: nn.Module) -> Iterator[None]:
    """Turn the cache off in every config. Some models ignore the argument `use_cache` or do not
    pass it on.
    """
    configs = [each for each in configs_of(model) if getattr(each, "use_cache", None) is True]
    try:
        for config in configs:
            config.use_cache = False
        yield
    finally:
        for config in configs:
            config.use_cache = True


def without_cache(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments of a layer with the key–value cache set to None, for re-runs."""
    from transformers.cache_utils import Cache

    return {name: None if isinstance(value, Cache) else value for name, value in kwargs.items()}


def map_tensors(argument: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """Apply a function to every tensor of a nested argument."""
    if isinstance(argument, Tensor):
        return change(argument)
    if isinstance(argument, (tuple, list)):
        items = [map_tensors(value, change) for value in argument]
        return type(argument)(items) if type(argument) in (tuple, list) else tuple(items)
    if isinstance(argument, Mapping):
        return {name: map_tensors(value, change) for name, value in argument.items()}
    return argument


@contextlib.contextmanager
def hooks_removed(handles: list[Any]) -> Iterator[None]:
    """Remove the hooks at the end, even after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


OnLayer = Callable[[LayerCall, dict[Any, Tensor]], None]
OnEnter = Callable[[int, LayerCall], Tensor | None]
Keep = Callable[[Any, Tensor], None]
Watch = Callable[[nn.Module, str, Keep], list[Any]]


def layer_calls(
    model: nn.Module,
    inputs: Inputs,
    paths: set[str],
    backend: str | None,
    on_layer: OnLayer | None = None,
    on_enter: OnEnter | None = None,
    watch: Watch | None = None,
    stop_after: int | None = None,
    stop_inside: Sequence[Any] = (),
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[list[LayerCall], Any]:
    """Run the model once. Return every layer call in order and the model's output.

    With `stop_after`, the forward pass stops after this number of layer calls, and the returned
    output is None. This skips the rest of the model: a language-model head alone is often a third
    of the work. With `stop_inside` (names of hook points), the last layer call stops once the
    tensors at all of these hook points have been captured, and its output is None, too.

    With `backend=None` the model runs natively and attention is not captured. `on_layer` receives
    each finished call and may drop tensors. `on_enter` may replace the input hidden states of a
    layer. `watch` hooks submodules of a layer and reports captured tensors by name. Layer calls
    inside `on_layer` are not recorded. Calls of layers listed in `layouts` are converted to [batch,
    tokens, d_model].
    """
    run = _Pass(on_layer, on_enter, stop_after, stop_inside, layouts or {})
    handles: list[Any] = []
    with hooks_removed(handles), contextlib.ExitStack() as stack:
        for path in paths:
            module, layout = part_at(model, path), run.layouts.get(path)
            whole = module if layout is None else layout.whole(module)
            last = module if layout is None else layout.last(module)
            on_entry = functools.partial(run.enter_layer, path)
            handles.append(module.register_forward_pre_hook(on_entry, with_kwargs=True))
            if watch is not None:
                handles += watch(whole, path, run.saw)
            handles.append(last.register_forward_hook(run.leave_layer, with_kwargs=True))
        if backend is not None:
            stack.enter_context(listening(run.listener))
            stack.enter_context(attention_captured(model, backend))
        try:
            output = forward(model, inputs)
        except _EnoughLayers:
            output = None
    return run.finished_calls, output


class _Pass:
    """The hooks of one forward pass, and the layer calls that they have collected so far."""

    def __init__(
        self,
        on_layer: OnLayer | None,
        on_enter: OnEnter | None,
        stop_after: int | None,
        stop_inside: Sequence[Any],
        layouts: Mapping[str, Layout],
    ) -> None:
        self.on_layer, self.on_enter, self.layouts = on_layer, on_enter, layouts
        self.stop_after, self.stop_inside = stop_after, stop_inside
        self.finished_calls: list[LayerCall] = []
        self.open: list[LayerCall] = []
        # not a method: a reference cycle would keep all calls until the next collection
        self.listener = Listener(on_call=functools.partial(_add_call, self.open))
        self.replaced: list[Tensor | None] = []  # for open calls whose layer ends elsewhere
        # the first is for code outside of any call
        self.seen_by: list[dict[Any, Tensor]] = [{}]
        self.count = 0  # of the started calls
        self.busy = False  # with `on_layer`, or with a layer that runs again

    def enter_layer(
        self, path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Handle the start of a layer. Return new arguments if its hidden states are replaced."""
        if self.busy:
            return None
        call = LayerCall.begun(path, module, args, kwargs)
        layout = self.layouts.get(path)
        call = call if layout is None else layout.call(call)
        self.listener.batch = int(call.hidden_in.shape[0])
        self.open.append(call)
        self.seen_by.append({})
        self.count += 1
        replacement = None if self.on_enter is None else self.on_enter(self.count - 1, call)
        elsewhere = layout is not None and layout.last(module) is not module
        self.replaced.append(replacement if elsewhere else None)
        if replacement is None or elsewhere:
            return None
        if layout is None:
            return with_hidden_argument(args, kwargs, replacement)
        (args, kwargs), shape = layout.enter(args, kwargs)
        return layout.entering(*with_hidden_argument(args, kwargs, replacement), shape)

    def leave_layer(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> Any:
        """Handle the end of a layer. Return a new output if its hidden states were replaced."""
        if self.busy:
            return None
        call, tensors, replacement = self.open.pop(), self.seen_by.pop(), self.replaced.pop()
        if replacement is not None:
            self.busy = True
            args, kwargs = with_hidden_argument(call.args, call.kwargs, replacement)
            output = call.module(*args, **kwargs)
            self.busy = False
        call.output = output
        layout = self.layouts.get(call.path)
        if layout is not None:
            tensors = _in_rows(layout, call, tensors)
        self._finish(call, tensors)
        return None if replacement is None else output

    def saw(self, name: Any, tensor: Tensor) -> None:
        """Store a tensor of the running call, and stop the pass if it was the last one needed."""
        tensors = self.seen_by[-1]
        tensors[name] = tensor
        if self.count == self.stop_after and not self.busy and name in self.stop_inside[-1:]:
            if all(map(tensors.__contains__, self.stop_inside)):
                self._finish(self.open.pop(), tensors)

    def _finish(self, call: LayerCall, tensors: dict[Any, Tensor]) -> None:
        if self.on_layer is not None:
            self.busy = True
            self.on_layer(call, tensors)
            self.busy = False
        self.finished_calls.append(call)
        if len(self.finished_calls) == self.stop_after:
            raise _EnoughLayers


def _add_call(running: list[LayerCall], call: AttentionCall) -> None:
    """Add an attention call to the running layer."""
    if running:
        running[-1].attention.append(call)


def _in_rows(layout: Layout, call: LayerCall, tensors: dict[Any, Tensor]) -> dict[Any, Tensor]:
    """Convert a finished call and its `tensors` to [batch, tokens, d_model]. Return the tensors."""
    batch, tokens = call.hidden_in.shape[:2]
    call.output = layout.leave(call.output, batch)
    layout.attention(call)
    return {
        hook_point: layout.inside(tensor, hook_point, batch, tokens)
        for hook_point, tensor in tensors.items()
    }


class _EnoughLayers(Exception):
    """Raised to stop the forward pass after the last requested layer."""


class HookPoint(NamedTuple):
    """A tensor of the running layer: an input or the output of a submodule."""

    path: str
    side: str  # "in" or "out"
    position: int = 0  # index among the floating-point inputs


def float_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield every floating-point tensor among `values`, including those inside tuples and lists."""
    for value in values:
        if isinstance(value, Tensor):
            if value.is_floating_point():
                yield value
        elif isinstance(value, (tuple, list)):
            yield from float_tensors(value)


@contextlib.contextmanager
def watching(
    layer: nn.Module, hook_points: frozenset[HookPoint]
) -> Iterator[dict[HookPoint, Tensor]]:
    """Collect copies of the tensors at `hook_points` while the layer runs.

    The tensors are copied because some layers modify them in place.
    """
    tensors: dict[HookPoint, Tensor] = {}
    handles: list[Any] = []
    with hooks_removed(handles):
        handles += [watch(layer, hook_point, tensors.__setitem__) for hook_point in hook_points]
        yield tensors


def watch(
    layer: nn.Module,
    hook_point: HookPoint,
    keep: Callable[[HookPoint, Tensor], None],
    copy: Callable[[Tensor], Tensor] = Tensor.clone,
) -> Any:
    """Add a hook that passes a copy of one tensor to `keep`. Return the handle of the hook.

    `copy` is the function that copies the tensor.
    """

    def keep_input(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        tensor = list(float_tensors((*args, *kwargs.values())))[hook_point.position]
        keep(hook_point, copy(tensor))

    def keep_output(module: nn.Module, args: Any, output: Any) -> None:
        keep(hook_point, copy(first_tensor(output)))

    module = part_at(layer, hook_point.path)
    if hook_point.side == "in":
        return module.register_forward_pre_hook(keep_input, with_kwargs=True)
    return module.register_forward_hook(keep_output)
