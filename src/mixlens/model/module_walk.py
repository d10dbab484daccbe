"""Walk over all submodules of a model, and copy a submodule.

`Module.modules` and `Module.parameters` compute names and remove duplicates, which takes five times
as long, and each measure walks over the model several times.
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
    """Return a module and all its submodules. A shared module occurs once per place."""
    parts, level = [module], [module]
    while level:
        level = _held(_modules, level)
        parts += level
    return parts


def tensors_of(module: nn.Module, *, buffers: bool = True) -> list[Tensor]:
    """Return parameters, and buffers, of a module and all its submodules."""
    return tensors_in(parts_of(module), buffers=buffers)


def tensors_in(parts: Sequence[nn.Module], *, buffers: bool = True) -> list[Tensor]:
    """Return parameters, and buffers, that these modules hold themselves."""
    return _held(_parameters, parts) + (_held(_buffers, parts) if buffers else [])


def configs_of(module: nn.Module) -> list[Any]:
    """Return every config that a module or a submodule holds, without duplicates."""
    attributes = map(vars, parts_of(module))
    return list(
        {id(own["config"]): own["config"] for own in attributes if "config" in own}.values()
    )


def _held(named: Callable[[nn.Module], Any], parts: Sequence[nn.Module]) -> list[Any]:
    """Return the entries of these modules by name."""
    each = map(_values, filter(None, map(named, parts)))
    return list(filter(_is_there, itertools.chain.from_iterable(each)))


def copied(module: nn.Module, replaced: Mapping[int, Any] | None = None) -> nn.Module:
    """Return a copy of a module, in which some objects (by id) are replaced.

    Hooks are shared: copying a bound method would also copy its object, which may be a recording
    and its model.
    """
    hooks = {
        id(hook): hook
        for part in parts_of(module)
        for name in _HOOKS
        for hook in getattr(part, name).values()
    }
    return copy.deepcopy(module, {**hooks, **(replaced or {})})


def as_written(called: Any) -> Any:
    """Return the original of a compiled object, or None. Attributes of a compiled function may have
    been copied to a wrapper.
    """
    written = getattr(called, "_torchdynamo_orig_callable", None)
    return written if getattr(called, "__wrapped__", None) is written else None
