"""Hooks that keep intermediate tensors of a running layer, to verify a recording against them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from mixlens.capture.bare_products import part_at
from mixlens.capture.layer_calls import first_tensor, hooks_removed


class HookPoint(NamedTuple):
    """A tensor of the running layer: an input or the output of a submodule."""

    path: str
    side: str  # "in" or "out"
    position: int = 0  # index among the floating-point inputs


def float_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield every floating-point tensor in values, including tuples and lists."""
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
    """Collect copies of the named tensors while the layer runs.

    They are copies, because some layers add in place.
    """
    seen: dict[HookPoint, Tensor] = {}
    handles: list[Any] = []
    with hooks_removed(handles):
        handles += [watch(layer, hook_point, seen.__setitem__) for hook_point in hook_points]
        yield seen


def watch(
    layer: nn.Module,
    hook_point: HookPoint,
    keep: Callable[[HookPoint, Tensor], None],
    made: Callable[[Tensor], Tensor] = Tensor.clone,
) -> Any:
    """Add a hook that passes a copy of one tensor, or the result of `made`, to `keep`, and return
    its handle.
    """

    def entered(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        tensor = list(float_tensors((*args, *kwargs.values())))[hook_point.position]
        keep(hook_point, made(tensor))

    def left(module: nn.Module, args: Any, output: Any) -> None:
        keep(hook_point, made(first_tensor(output)))

    module = part_at(layer, hook_point.path)
    if hook_point.side == "in":
        return module.register_forward_pre_hook(entered, with_kwargs=True)
    return module.register_forward_hook(left)
