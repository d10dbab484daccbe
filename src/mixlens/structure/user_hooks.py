"""Detect hooks that the user registered on layers, for example to steer a model.

A hook changes the output of a module without changing any weight. A layer is excluded if its hooks
change its output. The cached structure of a layer stays valid as long as its hooks stay the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from mixlens.capture.layer_calls import LayerCall, map_tensors
from mixlens.capture.rerun import run_layer
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import difference, same_bar
from mixlens.model.fingerprint import hooks_of_others, is_of_others
from mixlens.model.module_walk import parts_of

_KINDS = ("_forward_hooks", "_forward_pre_hooks")
_LISTS = (nn.ModuleList, nn.Sequential)


def hook_numbers(model: nn.Module) -> tuple[int, ...]:
    """Return the ids of the hooks inside layers."""
    parts = parts_of(model)
    numbers = [(id(part), number) for part, number, _ in hooks_of_others(parts, _KINDS)]
    if not numbers:
        return ()
    inside = {id(part) for each in parts if isinstance(each, _LISTS) for part in parts_of(each)}
    return tuple(dict.fromkeys(number for part, number in numbers if part in inside))


def require_unchanged_by_hooks(call: LayerCall, backend: str) -> None:
    """Raise an error if the layer's hooks change its output for the recorded input."""
    names = hooks_inside(call.module, call.path)
    if not names:
        return

    def run() -> Tensor:
        batch = int(call.hidden_in.shape[0])
        args, kwargs = map_tensors(
            (call.args, call.kwargs), Tensor.clone
        )  # a hook may write into them
        return run_layer(call.module, backend, args, kwargs, batch=batch)

    hooked = run()
    with _take_hooks_off(call.module):
        plain = run()
    if not difference(hooked, plain) <= same_bar(plain):
        raise UnsupportedModel(
            f"layer `{call.path}`: hooks change its output ({', '.join(names)}). Remove them "
            "(handle.remove()), or change the weights instead"
        )


def hooks_inside(module: nn.Module, path: str) -> list[str]:
    """Describe each hook on a module and on its submodules by name and path."""
    return [
        f"`{_name(hook)}` on `{'.'.join(filter(None, (path, inner)))}`"
        for inner, part in module.named_modules()
        for _, _, hook in hooks_of_others([part], _KINDS)
    ]


@contextlib.contextmanager
def _take_hooks_off(module: nn.Module) -> Iterator[None]:
    """Remove the hooks in this context, and restore them in the same order, even after an
    exception.
    """
    tables = [getattr(part, kind) for part in module.modules() for kind in _KINDS]
    before = [dict(table) for table in tables]
    try:
        for table in tables:
            for number in [n for n, hook in table.items() if is_of_others(hook)]:
                del table[number]
        yield
    finally:
        for table, items in zip(tables, before, strict=True):
            table.clear()
            table.update(items)


def _name(hook: Any) -> str:
    hook = getattr(hook, "func", hook)
    return str(getattr(hook, "__qualname__", type(hook).__name__))
