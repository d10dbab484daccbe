"""One forward pass, seen layer by layer: what each transformer layer was called with, what it
returned, and its attention calls.

Layers are found by what happens, not by their names: a layer is the outermost item of a
`ModuleList` inside which attention was overheard. They are told apart by the order of their calls,
because ALBERT calls one module many times.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.recording.capture import overheard
from mixlens.recording.listener import AttentionCall, Listener, listening

Inputs = Mapping[str, Any]


@dataclass
class LayerCall:
    """One call of one transformer layer."""

    path: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None
    attention: list[AttentionCall] = field(default_factory=list)

    @property
    def hidden_in(self) -> Tensor:
        """The hidden states that entered."""
        return hidden_argument(self.args, self.kwargs)

    @property
    def hidden_out(self) -> Tensor:
        """The hidden states that came out."""
        return first_tensor(self.output)


def first_tensor(output: Any) -> Tensor:
    """The hidden states in whatever a layer returns: a tensor, or the first thing in a tuple."""
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if isinstance(output, Tensor):
        return output
    if isinstance(output, Mapping):
        for value in output.values():
            if isinstance(value, Tensor) and value.is_floating_point():
                return value
    raise TypeError(f"no tensor in {type(output).__name__}")


def hidden_argument(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor:
    """The hidden states among a layer's arguments: the first floating-point tensor."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return value
    raise TypeError("the layer was called without hidden states")


def with_hidden_argument(
    args: tuple[Any, ...], kwargs: dict[str, Any], hidden: Tensor
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same call with other hidden states."""
    old = hidden_argument(args, kwargs)
    for position, value in enumerate(args):
        if value is old:
            return (*args[:position], hidden, *args[position + 1 :]), kwargs
    name = next(name for name, value in kwargs.items() if value is old)
    return args, {**kwargs, name: hidden}


def batch_size(inputs: Inputs) -> int:
    """Rows of the input: of its token ids if it has any, because images may be packed."""
    named = [name for name in inputs if name.endswith("input_ids")]
    tensors = [inputs[name] for name in (*named, *inputs) if isinstance(inputs[name], Tensor)]
    return next(int(value.shape[0]) for value in tensors if value.dim() > 0)


def forward(model: nn.Module, inputs: Inputs) -> Any:
    """The model's output, without a cache: a recorded cache would grow with every re-run."""
    named = (
        {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
    )
    with _cache_unused(model):
        return model(**{**inputs, **named})


@contextlib.contextmanager
def _cache_unused(model: nn.Module) -> Iterator[None]:
    """Turns the cache off in every config: a model may not take the option, or not pass it on."""
    configs: dict[int, Any] = {
        id(config): config
        for config in (getattr(part, "config", None) for part in model.modules())
        if getattr(config, "use_cache", None) is True
    }
    try:
        for config in configs.values():
            config.use_cache = False
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


def _without_cache(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    from transformers.cache_utils import Cache

    return {name: None if isinstance(value, Cache) else value for name, value in kwargs.items()}


@contextlib.contextmanager
def hooks_removed(handles: list[Any]) -> Iterator[None]:
    """Takes the hooks off at the end, also after an exception."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def layer_calls(
    model: nn.Module,
    inputs: Inputs,
    paths: set[str],
    backend: str | None,
    on_layer: Callable[[LayerCall, dict[Any, Tensor]], None] | None = None,
    on_enter: Callable[[int, LayerCall], Tensor | None] | None = None,
    watch: Callable[[nn.Module, str, Callable[[], dict[Any, Tensor]]], list[Any]] | None = None,
    stop_after: int | None = None,
) -> tuple[list[LayerCall], Any]:
    """Runs the model once. Returns every layer call in order and the model's output.

    After `stop_after` calls the model is left, and its output is None: what follows the layers (a
    head as wide as the vocabulary) is often a third of the work.

    With `backend=None` the model runs natively and attention is not overheard. `on_layer` sees each
    finished call and may drop what need not be kept; `on_enter` may replace the hidden states that
    a layer is given; `watch` hooks submodules of a layer and stores what it sees in the dict of the
    running call. What `on_layer` runs of the model by itself is not seen.
    """
    done: list[LayerCall] = []
    open_calls: list[LayerCall] = []
    seen_by: list[dict[Any, Tensor]] = [{}]  # the first is for what runs outside of any call
    count = 0
    busy = False

    def entered(path: str) -> Callable[..., Any]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            nonlocal count
            if busy:
                return None
            call = LayerCall(path, module, args, _without_cache(kwargs))
            listener.batch = int(call.hidden_in.shape[0])
            open_calls.append(call)
            seen_by.append({})
            count += 1
            replacement = None if on_enter is None else on_enter(count - 1, call)
            return None if replacement is None else with_hidden_argument(args, kwargs, replacement)

        return hook

    def left(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        nonlocal busy
        if busy:
            return
        call = open_calls.pop()
        call.output = output
        seen = seen_by.pop()
        if on_layer is not None:
            busy = True
            on_layer(call, seen)
            busy = False
        done.append(call)
        if len(done) == stop_after:
            raise _EnoughLayers

    def on_call(call: AttentionCall) -> None:
        if open_calls:
            open_calls[-1].attention.append(call)

    listener = Listener(on_call=on_call)
    handles: list[Any] = []
    with hooks_removed(handles), contextlib.ExitStack() as stack:
        for path, module in model.named_modules():
            if path in paths:
                handles.append(module.register_forward_pre_hook(entered(path), with_kwargs=True))
                handles.append(module.register_forward_hook(left, with_kwargs=True))
                if watch is not None:
                    handles += watch(module, path, lambda: seen_by[-1])
        if backend is not None:
            stack.enter_context(listening(listener))
            stack.enter_context(overheard(model, backend))
        try:
            output = forward(model, inputs)
        except _EnoughLayers:
            output = None
    return done, output


class _EnoughLayers(Exception):
    """Leaves the model after the last layer that was asked for."""


@dataclass(frozen=True)
class Heard:
    """Which layers ran, and in which of them attention was overheard."""

    layers: tuple[str, ...]  # paths of layers with attention, in the order of their first calls
    order: tuple[str, ...]  # paths of all items of lists, in the order of all calls
    silent: tuple[str, ...]  # layers that ran next to them, or name attention, and were not heard

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Each call of a layer with its number in its list, silent ones counted."""
        counts: dict[str, int] = {}
        for path in self.order:
            parent = path.rpartition(".")[0]
            counts[parent] = counts.get(parent, -1) + 1
            if path in self.layers:
                yield path, counts[parent]


def heard_layers(model: nn.Module, inputs: Inputs, backend: str) -> Heard:
    """Runs the model once and finds its layers."""
    seen: list[
        list[tuple[str, int]]
    ] = []  # for each attention call: the list items around it, outermost first
    around: list[tuple[str, int]] = []
    order: list[str] = []
    items = _list_items(model)

    def entered(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...]) -> None:
            order.append(path)
            around.append((path, len(order)))

        return hook

    def left(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        around.pop()

    handles: list[Any] = []
    listener = Listener(on_call=lambda call: seen.append(list(around)))
    with hooks_removed(handles), torch.no_grad(), listening(listener), overheard(model, backend):
        for path, module in items.items():
            handles.append(module.register_forward_pre_hook(entered(path)))
            handles.append(module.register_forward_hook(left))
        forward(model, inputs)
    chosen = dict.fromkeys(_layer_of(chain, seen, items) for chain in seen if chain)
    layers = tuple(dict.fromkeys(path for path, _ in chosen))
    called = {path: items[path] for path in order}
    return Heard(layers, tuple(order), _silent(layers, called) if layers else ())


def _list_items(model: nn.Module) -> dict[str, nn.Module]:
    """Items of every `ModuleList`; of a `Sequential` too if no list is around or inside it."""
    lists = {
        path: parent
        for path, parent in model.named_modules()
        if isinstance(parent, (nn.ModuleList, nn.Sequential))
    }
    plain = [path for path, parent in lists.items() if isinstance(parent, nn.ModuleList)]
    return {
        f"{path}.{name}" if path else name: child
        for path, parent in lists.items()
        for name, child in parent.named_children()
        if path in plain or not any(_within(path, other) or _within(other, path) for other in plain)
    }


def _layer_of(
    chain: list[tuple[str, int]], seen: list[list[tuple[str, int]]], items: Mapping[str, nn.Module]
) -> tuple[str, int]:
    """The outermost item, or the one below it where an item is a group of like layers (ALBERT's
    groups).
    """
    for depth, item in enumerate(chain):
        below = {other[depth + 1] for other in seen if item in other and len(other) > depth + 1}
        kinds = {type(items[path]) for path, _ in below}
        if len(below) < 2 or len(kinds) > 1:
            return item
    return chain[-1]


def _silent(layers: tuple[str, ...], called: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """Layers that ran without attention that could be overheard: what mixes tokens there is
    unknown.
    """
    parents = {path.rpartition(".")[0] for path in layers}
    silent = [path for path in called if path.rpartition(".")[0] in parents and path not in layers]
    silent += [
        path
        for path, module in called.items()
        if not any(_within(path, other) or _within(other, path) for other in (*layers, *silent))
        and any("attention" in type(part).__name__.lower() for part in module.modules())
    ]
    return tuple(silent)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer + ".")
