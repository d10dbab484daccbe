"""Find the layers of a model in one forward pass that captures all attention calls.

Layers are identified by their activations, not by their names. A layer is the outermost item of a
`ModuleList` in which attention was captured and whose output has the shape of its input.

Some layers are spread over several module lists. XLM has a list of attention modules, two lists of
norms and one list of MLPs, and the model's forward method adds up their outputs. mixlens finds
these sums in the same pass: the input of each list item is the sum of earlier tensors. A layer that
is assembled from these items is equivalent to the code in the model, and is analysed and verified
like any other layer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.attention_call import Listener, listening
from mixlens.capture.attention_capture import attention_captured
from mixlens.capture.layer_calls import (
    Inputs,
    LayerCall,
    first_tensor,
    forward,
    hidden_argument,
    hooks_removed,
)
from mixlens.kernels.differences import difference, same_bar
from mixlens.structure.layouts import Layout, same

_Chain = tuple[tuple[str, int], ...]  # list items around an attention call, outermost first


@dataclass(frozen=True)
class CapturedLayers:
    """Stores the layers that ran, and the layers in which one backend captured attention."""

    backend: str
    calls: tuple[LayerCall, ...]  # calls of the layers with attention
    layers: tuple[str, ...]  # their paths, in the order of their first calls
    order: tuple[str, ...]  # paths of all list items, in the order in which their calls end
    silent: tuple[
        str, ...
    ]  # layers next to them, or named like attention, without captured attention
    spread: Mapping[str, Spread]  # layers that may continue in other lists

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yield the path of each layer in which attention was captured, and the layer's index in
        its list.

        The index also counts layers of the list that have no attention.
        """
        counts: dict[str, int] = {}
        for path in self.order:
            parent = path.rpartition(".")[0]
            counts[parent] = counts.get(parent, -1) + 1
            if path in self.layers:
                yield path, counts[parent]


def capture_layers(model: nn.Module, inputs: Inputs, backends: str) -> list[CapturedLayers]:
    """Run the model once, and capture attention with `backends`.

    The result usually has one entry: the layers whose attention was captured through the attention
    interface of transformers. If all backends together captured more layers, a second entry
    contains these layers.
    """
    chains: list[tuple[str, _Chain]] = []
    around: list[tuple[str, int]] = []
    calls: list[LayerCall] = []
    completed_calls: list[LayerCall] = []
    items = _list_items(model)

    def on_entry(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            around.append((path, len(calls)))
            calls.append(LayerCall.begun(path, module, args, kwargs))

        return hook

    def on_exit(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        completed_calls.append(calls[around.pop()[1]])
        completed_calls[-1].output = output

    handles: list[Any] = []
    listener = Listener(on_call=lambda call: chains.append((call.backend, tuple(around))))
    with (
        hooks_removed(handles),
        torch.no_grad(),
        listening(listener),
        attention_captured(model, backends),
    ):
        for path, module in items.items():
            handles.append(module.register_forward_pre_hook(on_entry(path), with_kwargs=True))
            handles.append(module.register_forward_hook(on_exit))
        forward(model, inputs)
    called = [(name, chain) for name, chain in chains if chain]
    through = "+".join(sorted({name for name, _ in called}))
    every = _group_calls(through, [chain for _, chain in called], completed_calls, items)
    plain = _group_calls(
        "interface", [c for name, c in called if name == "interface"], completed_calls, items
    )
    if not plain.layers:
        return [every] if every.layers else []
    return [plain] if set(plain.layers) == set(every.layers) else [plain, every]


def _group_calls(
    backend: str, chains: list[_Chain], calls: list[LayerCall], items: Mapping[str, nn.Module]
) -> CapturedLayers:
    changing = {call.path for call in calls if not _hands_on(call)}
    chains = [_within_a_stream(chain, changing) for chain in chains]
    layer_calls = dict.fromkeys(_layer_of(chain, chains, items) for chain in chains)
    layers = tuple(dict.fromkeys(path for path, _ in layer_calls))
    called = {call.path: items[call.path] for call in calls}
    return CapturedLayers(
        backend,
        tuple(call for call in calls if call.path in layers),
        layers,
        tuple(call.path for call in calls),
        _silent(layers, called) if layers else (),
        _spread(layers, calls),
    )


def _spread(layers: tuple[str, ...], calls: list[LayerCall]) -> dict[str, Spread]:
    """Return the layout of each layer that may include items of other module lists.

    Only items that run before the next layer are considered.
    """
    inside = tuple(f"{path}." for path in layers)
    outside = [call for call in calls if not call.path.startswith(inside)]
    starts = [number for number, call in enumerate(outside) if call.path in layers]
    layouts: dict[str, Spread] = {}
    for start, end in itertools.pairwise([*starts, len(outside)]):
        items = list(itertools.takewhile(_hands_on, outside[start:end]))
        following = outside[end] if end < len(outside) else None
        layout = Spread.of(items, following) if len(items) > 1 else None
        if layout is not None:
            layouts[items[0].path] = layout
    return layouts


def _list_items(model: nn.Module) -> dict[str, nn.Module]:
    """Return the items of every `ModuleList`.

    Items of a `Sequential` count too, if it neither contains a `ModuleList` nor is inside one.
    """
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


def _hands_on(call: LayerCall) -> bool:
    """Return whether the hidden states keep their shape in this call."""
    try:
        return call.hidden_in.shape == call.hidden_out.shape
    except TypeError:
        return False


def _within_a_stream(chain: _Chain, changing: set[str]) -> _Chain:
    """Drop outer items that change the shape of their input (a stage that ends with pooling), if an
    inner item preserves the shape.
    """
    start = next((i for i, (path, _) in enumerate(chain) if path not in changing), 0)
    return chain[start:]


def _layer_of(
    chain: _Chain, chains: list[_Chain], items: Mapping[str, nn.Module]
) -> tuple[str, int]:
    """Return the outermost item around an attention call.

    If this item is a group of identical layers (as in ALBERT), return the layer inside it instead.
    """
    for depth, item in enumerate(chain):
        below = {other[depth + 1] for other in chains if item in other and len(other) > depth + 1}
        kinds = {type(items[path]) for path, _ in below}
        if len(below) < 2 or len(kinds) > 1:
            return item
    return chain[-1]


def _silent(layers: tuple[str, ...], called: Mapping[str, nn.Module]) -> tuple[str, ...]:
    """Return the layers without captured attention. mixlens cannot tell how they mix tokens."""
    parents = {path.rpartition(".")[0] for path in layers}
    silent = [
        path
        for path in called
        if path.rpartition(".")[0] in parents and not any(_within(one, path) for one in layers)
    ]
    silent += [
        path
        for path, module in called.items()
        if not any(_within(path, other) or _within(other, path) for other in (*layers, *silent))
        and any("attention" in type(part).__name__.lower() for part in module.modules())
    ]
    return tuple(silent)


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer + ".")


@dataclass(frozen=True)
class SpreadStep:
    """Describes a module of a spread layer by its path and the indices of the tensors that add up
    to its input.

    Index 0 is the layer's input, index 1 the output of the layer's first module, and so on.
    """

    name: str
    module: nn.Module
    summands: tuple[int, ...]


@dataclass(frozen=True)
class Spread(Layout):
    """Describes the layout of a layer that begins with the module at its path and continues with
    items of other module lists.
    """

    name: str = ""
    steps: tuple[SpreadStep, ...] = ()

    @classmethod
    def of(cls, items: Sequence[LayerCall], following: LayerCall | None) -> Spread | None:
        """Return the layout if the items form one layer, or None.

        The inputs of the later items must be sums of earlier tensors, one of these sums must
        include the layer's input, and the last item's output must enter the next layer of the first
        list.
        """
        first, *later = items
        tensors: list[Tensor] = [first.hidden_in, first.hidden_out]
        steps: list[SpreadStep] = []
        for call in later:
            summands = _summands(call.hidden_in, tensors)
            if summands is None:
                break
            steps.append(SpreadStep(_name(call), call.module, summands))
            tensors.append(call.hidden_out)
        names = [_name(first), *(step.name for step in steps)]
        if not any(step.summands == (0, 1) for step in steps) or len(set(names)) < len(names):
            return None
        if following is not None and _list_of(following) == _list_of(first):
            if _summands(following.hidden_in, tensors[-1:]) is None:
                return None
        return cls(same, same, name=names[0], steps=tuple(steps))

    def call(self, call: LayerCall) -> LayerCall:
        """Convert a call of the first item to a call of the whole layer."""
        return LayerCall(call.path, self.whole(call.module), call.args, call.kwargs)

    def whole(self, module: nn.Module) -> SpreadLayer:
        """Return a module that runs all items of the layer."""
        return SpreadLayer(self.name, module, self.steps)

    def last(self, module: nn.Module) -> nn.Module:
        """Return the last item of the layer."""
        return self.steps[-1].module

    def leave(self, output: Any, batch: int) -> Tensor:
        """Return a copy of the last item's output, because XLM sets padding to zero in place."""
        return first_tensor(output).clone()


def _list_of(call: LayerCall) -> str:
    return call.path.rpartition(".")[0]


def _name(call: LayerCall) -> str:
    return _list_of(call).rpartition(".")[2]


def _summands(total: Tensor, candidates: Sequence[Tensor]) -> tuple[int, ...] | None:
    """Return the indices of the known tensors (one or two) whose sum is `total`, or None."""
    numbers = [i for i, tensor in enumerate(candidates) if tensor.device == total.device]
    for indices in (*((i,) for i in numbers), *itertools.combinations(numbers, 2)):
        if difference(_total([candidates[i] for i in indices]), total) <= same_bar(total):
            return indices
    return None


def _total(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


class SpreadLayer(nn.Module):
    """Runs the items of several module lists, one after the other."""

    def __init__(self, name: str, first: nn.Module, steps: Sequence[SpreadStep]) -> None:
        super().__init__()
        self.names = (name, *(step.name for step in steps))
        self.summands = tuple(step.summands for step in steps)
        for item_name, module in zip(self.names, (first, *(s.module for s in steps)), strict=True):
            self.add_module(item_name, module)
        self.training = first.training

    def forward(self, *args: Any, **kwargs: Any) -> Float[Tensor, "batch target d_model"]:
        """Return the output of the last item."""
        first, *later = (self.get_submodule(name) for name in self.names)
        states = [hidden_argument(args, kwargs), first_tensor(first(*args, **kwargs))]
        for module, summands in zip(later, self.summands, strict=True):
            states.append(module(_total([states[i] for i in summands])))
        return states[-1]
