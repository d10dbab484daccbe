"""Restore attributes, buffers, submodules and compiled code of a model after it was measured.

Some models change themselves during a forward pass. BigBird switches to full attention permanently
on the first short text, and processes every later text differently. Dynamic NTK keeps the rotary
frequencies of the longest text so far. compressed-tensors unpacks all weights in a hook before the
first run and removes that hook, so mixlens restores the weights and the hook. While a model is
measured, compiled modules run uncompiled. Mixtures of experts use ordinary matrix products where
grouped products are not supported.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import weakref
from collections.abc import Iterator, Sequence
from types import MethodType
from typing import Any

from torch import nn

from mixlens.errors import UnsupportedModel
from mixlens.model.fingerprint import is_of_others
from mixlens.model.module_walk import as_written, configs_of, parts_of

MARKS = frozenset(  # attributes that libraries leave on modules, without effect on numbers
    {"_is_full_backward_hook", "_is_torch_compile", "_output_capturing_hooks_installed"}
    | {"warnings_issued"}
)
# Attributes with the sizes of the last input (Funnel) or a count of calls. Each pass overwrites
# them, so they are not part of the state.
written_by_passes: weakref.WeakKeyDictionary[nn.Module, set[str]] = weakref.WeakKeyDictionary()
_PLAIN = (bool, int, float, str, type(None))
_TABLES = ("_modules", "_parameters", "_buffers")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")
_HOOK_OPTIONS = tuple(f"{name}_with_kwargs" for name in _HOOKS)


@contextlib.contextmanager
def restore_on_exit(model: nn.Module) -> Iterator[list[str]]:
    """When the context closes, restore the attributes, weights, buffers, submodules and hooks of a
    model.

    The yielded list then contains the paths of the strings, booleans and submodules that the model
    had changed. Only plain attributes are restored.
    """
    before = [(part, *_state(part)) for part in parts_of(model)]
    settings: list[str] = []
    try:
        yield settings
    finally:
        changed_states = [state for state in before if not _is_unchanged(*state)]
        switches = [
            (part, name) for part, *state in changed_states for name in _put_back(part, *state)
        ]
        paths = {part: path for path, part in model.named_modules()} if switches else {}
        settings += [f"{paths[part]}.{name}".lstrip(".") for part, name in switches]


def _state(part: nn.Module) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes of a module, and copies of its tables of parameters, submodules and
    hooks.
    """
    attributes = vars(part)
    tables = {name: dict(attributes[name]) for name in _TABLES if name in attributes}
    hooks = {
        name: dict(attributes[name]) for name in (*_HOOKS, *_HOOK_OPTIONS) if attributes.get(name)
    }
    return dict(attributes), tables | hooks


def _is_unchanged(part: nn.Module, attributes: dict[str, Any], tables: dict[str, Any]) -> bool:
    """Return whether a module certainly has the same attributes and tables as before.

    Python compares identical objects without calling `__eq__`, so this is fast for nearly every
    module.
    """
    now = vars(part)
    try:
        return now == attributes and all(now[name] == entries for name, entries in tables.items())
    except (RuntimeError, ValueError, TypeError):  # other tensors or arrays
        return False


def _put_back(part: nn.Module, attributes: dict[str, Any], tables: dict[str, Any]) -> Iterator[str]:
    now = vars(part)
    _put_back_hooks(now, tables)
    for name, entries in tables.items():
        if name in _TABLES and not _identical(now[name], entries):
            now[name].clear()
            now[name].update(entries)
            if name == "_modules":
                yield "modules"
    if _identical(now, attributes):
        return
    written_by_passes.setdefault(part, set()).update(
        name for name, new in now.items() if _is_number(new) and new != attributes.get(name)
    )
    for name, value in attributes.items():
        new = now.setdefault(name, value)  # the handle of a hook may have been deleted
        if isinstance(value, _PLAIN) and (type(new) is not type(value) or new != value):
            now[name] = value
            if isinstance(value, (str, bool)):
                yield name
    for name in [each for each in now if each not in attributes and each not in MARKS]:
        if isinstance(now[name], _PLAIN):  # it may hide an attribute of the class
            if isinstance(now.pop(name), (str, bool)):
                yield name


def _put_back_hooks(now: dict[str, Any], tables: dict[str, Any]) -> None:
    """Put back hooks that removed themselves after they ran. mixlens removes its own hooks."""
    for name, options in zip(_HOOKS, _HOOK_OPTIONS, strict=True):
        before = tables.get(name, {})
        lost = {key for key in before if key not in now[name] and is_of_others(before[key])}
        if lost:
            kept_hooks = {
                key: hook for key, hook in before.items() if key in lost or key in now[name]
            }
            hooks = {**kept_hooks, **now[name]}  # in the order of registration
            now[name].clear()
            now[name].update(hooks)
            flags = tables.get(options, {})
            now[options].update({key: flags[key] for key in lost if key in flags})


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _identical(now: dict[str, Any], before: dict[str, Any]) -> bool:
    """Return whether two dicts contain the same objects under the same names, in the same order."""
    return list(now) == list(before) and all(map(operator.is_, now.values(), before.values()))


@contextlib.contextmanager
def plain_experts(module: nn.Module) -> Iterator[None]:
    """Compute mixtures of experts with ordinary matrix products while the context is open.

    Grouped matrix products support neither float64 nor forward-mode derivatives.
    """
    implementations = [
        (config, getattr(config, "_experts_implementation_internal", None))
        for config in configs_of(module)
    ]
    grouped = [(config, how) for config, how in implementations if how not in (None, "eager")]
    try:
        for config, _ in grouped:
            config._experts_implementation_internal = "batched_mm"
        yield
    finally:
        for config, how in grouped:
            config._experts_implementation_internal = how


# ---------------------------------------------------------------------------------- compiled code


@contextlib.contextmanager
def run_uncompiled(model: nn.Module) -> Iterator[None]:
    """Run compiled modules uncompiled while the context is open.

    Hooks inside compiled code would trigger a recompilation, and a compiled copy hides the original
    module.
    """
    # without dynamo nothing is compiled
    if "torch._dynamo" not in sys.modules or not _any_compiled(parts_of(model)):
        yield
        return
    with contextlib.ExitStack() as put_back:
        _uncover(model, put_back)
        yield


def _any_compiled(parts: Sequence[nn.Module]) -> bool:
    """Return whether any module is compiled: in place, through `forward`, or as a compiled copy.

    This runs in every call, so it must be fast.
    """
    for kind in set(map(type, parts)):
        if kind.__name__ == "OptimizedModule" or as_written(getattr(kind, "forward", None)):
            return True
    return any(
        attributes.get("_compiled_call_impl") is not None
        or any(as_written(attributes.get(name)) for name in _FORWARDS)
        for attributes in map(vars, parts)
        if not _OWN_CODE.isdisjoint(attributes)
    )


_FORWARDS = ("forward", "_old_forward")  # the second is called inside accelerate's own
_OWN_CODE = frozenset({*_FORWARDS, "_compiled_call_impl"})


def _uncover(part: nn.Module, put_back: contextlib.ExitStack) -> None:
    """Remove compiled code from a module and all its submodules."""
    attributes = vars(part)
    if attributes.get("_compiled_call_impl") is not None:
        _replace(attributes, "_compiled_call_impl", None, put_back)
    for name in _FORWARDS:
        original = as_written(getattr(part, name, None))
        if original is not None:  # of a class, if the part has none of its own
            _replace(
                attributes,
                name,
                original if name in attributes else MethodType(original, part),
                put_back,
            )
    for name, inner in list(part._modules.items()):
        if inner is None:
            continue
        if type(inner).__name__ == "OptimizedModule":
            if inner._forward_hooks or inner._forward_pre_hooks:
                raise UnsupportedModel(
                    f"the compiled module `{name}` of {type(part).__name__} has its own hooks, "
                    "which the original module does not run. Register them on `._orig_mod`"
                )
            inner = inner.get_submodule("_orig_mod")
            _replace(part._modules, name, inner, put_back)
        _uncover(inner, put_back)


def _replace(table: dict[str, Any], name: str, value: Any, put_back: contextlib.ExitStack) -> None:
    if name in table:
        put_back.callback(table.__setitem__, name, table[name])
    else:
        put_back.callback(table.pop, name, None)
    table[name] = value
