"""Hooks that somebody put on the layers of a model, for instance to steer it.

A hook changes what a part returns, and no weight shows it. A layer whose hooks change something is
left out, and what was found out about a model holds while its hooks stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from mixlens.errors import UnsupportedModel
from mixlens.parts import parts_of
from mixlens.recording.calls import LayerCall, changed
from mixlens.recording.differences import difference, same_bar
from mixlens.recording.rerun import run_layer

_LIBRARIES = ("mixlens", "transformers", "accelerate")  # their hooks change no numbers
_KINDS = ("_forward_hooks", "_forward_pre_hooks")
_LISTS = (nn.ModuleList, nn.Sequential)


def hook_numbers(model: nn.Module) -> tuple[int, ...]:
    """Of the hooks inside layers. torch gives each a number that no other ever gets."""
    parts = parts_of(model)
    hooked = [part for part in parts if part._forward_hooks or part._forward_pre_hooks]
    numbers = {id(part): [number for number, _ in _hooks(part)] for part in hooked}
    if not any(numbers.values()):
        return ()
    inside = {id(part) for each in parts if isinstance(each, _LISTS) for part in parts_of(each)}
    return tuple(number for part, own in numbers.items() if part in inside for number in own)


def require_unchanged_by_hooks(call: LayerCall, backend: str) -> None:
    """A layer must compute the same without its hooks, on what it was given."""
    names = hooks_inside(call.module, call.path)
    if not names:
        return

    def run() -> Tensor:
        batch = int(call.hidden_in.shape[0])
        args, kwargs = changed((call.args, call.kwargs), Tensor.clone)  # a hook may write into them
        return run_layer(call.module, backend, args, kwargs, batch=batch)

    hooked = run()
    with _taken_off(call.module):
        plain = run()
    if not difference(hooked, plain) <= same_bar(plain):
        raise UnsupportedModel(
            f"layer `{call.path}`: hooks change what it computes ({', '.join(names)}). Take them"
            " off (handle.remove()), or change the weights instead"
        )


def hooks_inside(module: nn.Module, path: str) -> list[str]:
    """The hooks on a module and inside it, with their places."""
    return [
        f"`{_name(hook)}` on `{'.'.join(filter(None, (path, inner)))}`"
        for inner, part in module.named_modules()
        for _, hook in _hooks(part)
    ]


@contextlib.contextmanager
def _taken_off(module: nn.Module) -> Iterator[None]:
    """Without hooks; they come back in their order, even after an exception."""
    tables = [getattr(part, kind) for part in module.modules() for kind in _KINDS]
    before = [dict(table) for table in tables]
    try:
        for table in tables:
            for number in [n for n, hook in table.items() if _is_of_others(hook)]:
                del table[number]
        yield
    finally:
        for table, items in zip(tables, before, strict=True):
            table.clear()
            table.update(items)


def _hooks(part: nn.Module) -> list[tuple[int, Any]]:
    hooks = [item for kind in _KINDS for item in getattr(part, kind).items()]
    return [(number, hook) for number, hook in hooks if _is_of_others(hook)]


def _is_of_others(hook: Any) -> bool:
    hook = getattr(hook, "func", hook)  # of a partial
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return str(module).partition(".")[0] not in _LIBRARIES


def _name(hook: Any) -> str:
    hook = getattr(hook, "func", hook)
    return str(getattr(hook, "__qualname__", type(hook).__name__))
