"""Walk over all submodules of a model, and copy a submodule.

`Module.modules` and `Module.parameters` name and compare what they give. That takes five times as
long, and each call of a measure goes through a model several times.
"""

from __future__ import annotations

import copy
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

_modules, _parameters, _buffers = map(operator.attrgetter, ("_modules", "_parameters", "_buffers"))
_values = operator.methodcaller("values")
_is_there = functools.partial(operator.is_not, None)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def parts_of(module: nn.Module) -> list[nn.Module]:
    """A module and all modules inside; one that is shared comes once for each place."""
    parts, level = [module], [module]
    while level:
        level = _held(_modules, level)
        parts += level
    return parts


def tensors_of(module: nn.Module, *, buffers: bool = True) -> list[Tensor]:
    """Parameters, and buffers, of a module and of all modules inside."""
    return tensors_in(parts_of(module), buffers=buffers)


def tensors_in(parts: Sequence[nn.Module], *, buffers: bool = True) -> list[Tensor]:
    """Parameters, and buffers, that these modules hold themselves."""
    return _held(_parameters, parts) + (_held(_buffers, parts) if buffers else [])


def configs_of(module: nn.Module) -> list[Any]:
    """Every config that a module or one inside holds, each once."""
    attributes = map(vars, parts_of(module))
    return list(
        {id(own["config"]): own["config"] for own in attributes if "config" in own}.values()
    )


def _held(named: Callable[[nn.Module], Any], parts: Sequence[nn.Module]) -> list[Any]:
    """What these modules hold by name."""
    each = map(_values, filter(None, map(named, parts)))
    return list(filter(_is_there, itertools.chain.from_iterable(each)))


def copied(module: nn.Module, replaced: Mapping[int, Any] | None = None) -> nn.Module:
    """A copy of a module, in which some objects (by their ids) are replaced by others.

    Hooks are shared: one that is a bound method would take all that it belongs to with it, which
    may be a recording and its model.
    """
    hooks = {
        id(hook): hook
        for part in parts_of(module)
        for name in _HOOKS
        for hook in getattr(part, name).values()
    }
    return copy.deepcopy(module, {**hooks, **(replaced or {})})
