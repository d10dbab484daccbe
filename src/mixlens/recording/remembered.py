"""What was found out about a module, remembered until its numbers, its parts, their code or their
settings change.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import itertools
import operator
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from mixlens.parts import configs_of, parts_of, tensors_in

Found = TypeVar("Found")


_looked_at: contextvars.ContextVar[dict[int, Hashable] | None] = contextvars.ContextVar(
    "mixlens_looked_at", default=None
)


_since: weakref.WeakKeyDictionary[nn.Module, tuple[Hashable, dict[int, Hashable]]] = (
    weakref.WeakKeyDictionary()
)


@contextlib.contextmanager
def weights_unchanged(model: nn.Module) -> Iterator[None]:
    """While open nobody changes a model: it is looked at once, not for every layer, and its parts
    only if the whole model has changed since the last time.
    """
    looked_at = _looked_at.get()
    if looked_at is not None and id(model) in looked_at:
        yield
        return
    numbers = _numbers(model)
    before, known = _since.get(model, (None, {}))
    away = 0 in numbers[2]  # offloaded: their numbers say nothing
    if before != numbers or away:
        known = {id(model): numbers}
        _since[model] = (numbers, known)
    token = _looked_at.set(known)
    try:
        yield
    finally:
        _looked_at.reset(token)


def numbers_of(module: nn.Module) -> Hashable:
    """Changes when a parameter or a buffer is written to, replaced or moved, when a part or its
    code is replaced, and when a word, a number, a truth value or a function that a part holds is.
    What is written through `.data` or numpy is noticed in vectors (gains, biases) alone.
    """
    known = _looked_at.get()
    if known is not None and id(module) in known:
        return known[id(module)]
    numbers = _numbers(module)
    if known is not None:
        known[id(module)] = numbers
    return numbers


def settings_of(model: nn.Module) -> Hashable:
    """Words, numbers and truth values that the configs of a model hold. Idefics puts its config
    into a tuple.
    """
    return tuple(_plain(getattr(config, "__dict__", {}).values()) for config in configs_of(model))


_version, _pointer = operator.attrgetter("_version"), operator.methodcaller("data_ptr")
_values, _forward = operator.methodcaller("values"), operator.attrgetter("forward")
_PLAIN = frozenset({bool, int, float, str})
_FUNCTIONS = frozenset(
    {types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial}
)
_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
}


def _plain(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([value for value in values if type(value) in _PLAIN])


def _numbers(module: nn.Module) -> tuple[tuple[Any, ...], ...]:
    """By ids and weak references, where an object would keep its module alive. The id of something
    that is gone may be given to something new.
    """
    parts = parts_of(module)
    tensors, kinds = tensors_in(parts), tuple(map(type, parts))
    held = list(itertools.chain.from_iterable(map(_values, map(vars, parts))))
    return (
        tuple(map(id, tensors)),
        tuple(map(_version, tensors)),
        tuple(map(_pointer, tensors)),
        tuple(map(weakref.ref, parts)),
        kinds,
        tuple(map(_forward, dict.fromkeys(kinds))),
        tuple([weakref.ref(value) for value in held if type(value) in _FUNCTIONS]),
        _plain(held),
        contents([tensor for tensor in tensors if tensor.dim() == 1]),
    )


@torch.no_grad()
def contents(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """A number of the bits of all that these tensors hold, for each device and precision. Tensors
    that are away, or of a kind of their own, are left out.
    """
    groups: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    for tensor in tensors:
        plain = type(tensor) in (Tensor, nn.Parameter) and tensor.dtype in _BITS
        if plain and not tensor.is_meta:
            group = groups.setdefault((tensor.device, tensor.dtype), [])
            group.append(tensor if tensor.dim() == 1 else tensor.reshape(-1))
    sums = []
    for (device, dtype), group in groups.items():
        bits = torch.cat(group).view(_BITS[dtype]).long()
        odd = torch.arange(1, 2 * len(bits), 2, device=device)
        sums.append(int((bits * odd).sum()))
    return tuple(sums)


class Remembered(Generic[Found]):
    """One store for each kind of finding; it holds no module alive."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[
            nn.Module, tuple[Hashable, dict[Hashable, Found]]
        ] = weakref.WeakKeyDictionary()

    def of(
        self, module: nn.Module, key: Hashable, find: Callable[[], Found], state: Hashable = None
    ) -> Found:
        """What `find` gives for `key`; `state` adds to the module's numbers what else must stay as
        it is.
        """
        now = (numbers_of(module), state)
        before, known = self._known.get(module, (None, {}))
        if before != now:
            known = {}
            self._known[module] = (now, known)
        if key not in known:
            known[key] = find()
        return known[key]
