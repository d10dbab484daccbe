"""Run compiled modules as they are written while a model is measured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from types import MethodType
from typing import Any

from torch import nn

from mixlens.errors import UnsupportedModel
from mixlens.model.model_lock import turn
from mixlens.model.module_walk import parts_of


@contextlib.contextmanager
def uncompiled(model: nn.Module) -> Iterator[None]:
    """Run compiled parts uncompiled while the context is open: hooks inside compiled code would
    trigger a recompilation, and a compiled copy hides the original part.
    """
    compiled = False
    if "torch._dynamo" in sys.modules:  # otherwise nothing is compiled
        with turn(model):  # a different thread may have removed the code
            compiled = _any_compiled(parts_of(model))
    if not compiled:
        yield
        return
    with turn(model), contextlib.ExitStack() as put_back:
        _uncover(model, put_back)
        yield


def _any_compiled(parts: Sequence[nn.Module]) -> bool:
    """Return whether something is compiled: in place, by the `forward` of a part or its class, or
    as a copy. Every call runs this, and few parts have their own code.
    """
    for kind in set(map(type, parts)):
        if kind.__name__ == "OptimizedModule" or as_written(getattr(kind, "forward", None)):
            return True
    return any(
        own.get("_compiled_call_impl") is not None
        or any(as_written(own.get(name)) for name in _FORWARDS)
        for own in map(vars, parts)
        if not _OWN_CODE.isdisjoint(own)
    )


_FORWARDS = ("forward", "_old_forward")  # the second is called inside accelerate's own
_OWN_CODE = frozenset({*_FORWARDS, "_compiled_call_impl"})


def as_written(called: Any) -> Any:
    """Return the original of a compiled object, or None. Attributes of a compiled function may have
    been copied to a wrapper.
    """
    written = getattr(called, "_torchdynamo_orig_callable", None)
    return written if getattr(called, "__wrapped__", None) is written else None


def _uncover(part: nn.Module, put_back: contextlib.ExitStack) -> None:
    """Remove compiled code from a part and all its submodules."""
    own = vars(part)
    if own.get("_compiled_call_impl") is not None:
        _replace(own, "_compiled_call_impl", None, put_back)
    for name in _FORWARDS:
        written = as_written(getattr(part, name, None))
        if written is not None:  # of a class, if the part has none of its own
            _replace(own, name, written if name in own else MethodType(written, part), put_back)
    for name, inner in list(part._modules.items()):
        if inner is None:
            continue
        if type(inner).__name__ == "OptimizedModule":
            if inner._forward_hooks or inner._forward_pre_hooks:
                raise UnsupportedModel(
                    f"the compiled part `{name}` of {type(part).__name__} has its own hooks, "
                    "which the original part does not run. Register them on `._orig_mod`"
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
