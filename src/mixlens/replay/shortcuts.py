"""Skip a layer's attention by making the submodules around it return outputs that are already
known.

Around each attention call, mixlens looks for the outermost submodule whose output is known: the
block's output y, the output of the attention branch, or the output of the projection. While the
layer runs, this submodule's `forward` is replaced on the instance by a function that returns the
edited tokens, so queries, keys, values and attention weights are not computed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from mixlens.kernels.differences import difference, same_bar
from mixlens.recording.layer import Layer
from mixlens.structure.layer_trace import HERE, Event

_LEVELS = ("block", "branch", "projected")


@dataclass(frozen=True)
class Shortcut:
    """A submodule around an attention call whose output is known, and the structure of that output,
    such as the position of the tensor in a tuple.
    """

    path: str
    level: str
    packing: Any
    dims: int

    def pack(self, states: Tensor) -> Any:
        """Return the submodule's output with `states` in place of the original tensor."""
        return _fill(self.packing, states if self.dims == 3 else states[0])


def find_shortcuts(layer: Layer) -> list[Shortcut | None]:
    """Return, for each attention, the outermost submodule around it whose output is known.

    The result contains None for an attention without such a submodule. The layer runs once.
    """
    run, stream = layer.observe(), layer.input[:1]
    ends = [core.tick for core in run.cores[1:]] + [run.events[-1].end + 1]
    shortcuts: list[Shortcut | None] = []
    for structure, core, end in zip(layer.structure.sites, run.cores, ends, strict=True):
        during = [event for event in run.events if event.end > core.tick and event.end < end]
        projected = next(
            event.output for event in during if event.path == structure.output_projection
        )
        assert projected is not None
        residual = structure.residual(layer.module, stream)
        levels = structure.levels(layer.module, residual, projected.reshape(residual.shape))
        around = [event for event in during if event.path in core.inside]
        recognised = (_recognise(event, levels) for event in around)  # the outermost first
        shortcuts.append(next((one for one in recognised if one is not None), None))
        stream = levels["block"]
    return shortcuts


def _recognise(event: Event, levels: dict[str, Tensor]) -> Shortcut | None:
    tensor = event.output
    if tensor is None or event.dims not in (2, 3):
        return None
    for level in _LEVELS:
        if tensor.numel() == levels[level].numel():
            if difference(tensor.reshape(levels[level].shape), levels[level]) <= same_bar(tensor):
                return Shortcut(event.path, level, event.packing, event.dims)
    return None


def _fill(packing: Any, states: Tensor) -> Any:
    if packing is HERE:
        return states
    if isinstance(packing, tuple):
        return tuple(_fill(item, states) if i == 0 else item for i, item in enumerate(packing))
    return packing


def run_with_outputs(
    layer: Layer,
    text: int,
    outputs_by_path: dict[str, Any],
    hidden: Float[Tensor, "one row d_model"],
) -> Float[Tensor, "row d_model"]:
    """Run the layer on tokens while the submodules around its attention return known outputs."""
    args, kwargs = layer.arguments(text)
    with _answering(layer.module, outputs_by_path), _loop_experts(layer.module):
        return layer.run(args, kwargs, hidden=hidden, attends=False)[0]


@contextlib.contextmanager
def _answering(module: nn.Module, outputs: dict[str, Any]) -> Iterator[None]:
    """Make the submodules return the outputs in `outputs`, by path, while the context is open."""
    parts = [module.get_submodule(path) for path in outputs]
    before = [vars(part).get("forward", HERE) for part in parts]

    def returning(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    try:
        for part, value in zip(parts, outputs.values(), strict=True):
            vars(part)["forward"] = returning(value)
        yield
    finally:
        for part, old in zip(parts, before, strict=True):
            if old is HERE:
                vars(part).pop("forward", None)
            else:
                vars(part)["forward"] = old


@contextlib.contextmanager
def _loop_experts(module: nn.Module) -> Iterator[None]:
    """Run the experts of a mixture one after the other while the context is open.

    Other implementations copy the expert weights for every token, which takes too much memory for
    many tokens.
    """
    name = "_experts_implementation_internal"
    configs = {
        id(c): c
        for c in (getattr(part, "config", None) for part in module.modules())
        if getattr(c, name, None) is not None
    }
    before = [(config, getattr(config, name)) for config in configs.values()]
    try:
        for config, _ in before:
            setattr(config, name, "eager")
        yield
    finally:
        for config, implementation in before:
            setattr(config, name, implementation)
