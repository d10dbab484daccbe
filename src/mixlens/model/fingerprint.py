"""The fingerprint of a model's state: weights, modules, their code, attributes, hooks and config.

It decides whether cached results about a module are still valid, and whether a recording still
belongs to its model. Version counters detect most writes. They do not detect writes through `.data`
or NumPy, so the fingerprint also reads values of the tensors: all values of a vector, and at least
one value from every row and column of a matrix. For recordings of `lens.record` and
`lens.generate`, all values are read (`all_contents`).
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import types
import weakref
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from mixlens.model.module_walk import as_written, configs_of, parts_of, tensors_in
from mixlens.model.placement import offloaded_tensors

_version, _pointer = operator.attrgetter("_version"), operator.methodcaller("data_ptr")
_layout = operator.attrgetter("dtype", "device", "shape")
_values, _forward = operator.methodcaller("values"), operator.attrgetter("forward")
_PLAIN = frozenset({bool, int, float, str})
_HELD = _PLAIN | {list, tuple, dict}
_FUNCTIONS = frozenset(
    {types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial}
)
_ODD = -7046029254386353131  # 2**64 divided by the golden ratio, as a signed integer
_PIECE = 512  # words that are summed
_SMALL = 2**16  # bytes
_LIBRARIES = ("mixlens", "transformers", "accelerate")  # libraries whose hooks change no numbers
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_UNUSED = (
    frozenset(  # config entries without effect on numbers, some of which saving a model changes
        {"_name_or_path", "_commit_hash", "architectures", "dtype", "id2label", "label2id"}
        | {"torch_dtype", "transformers_version"}
    )
)


class Fingerprint(NamedTuple):
    """The fingerprint of a module and all its submodules. It keeps neither modules nor tensors
    alive.
    """

    parts: tuple[weakref.ref[nn.Module], ...]
    kinds: tuple[type, ...]
    code: tuple[Any, ...]  # `forward` of each class
    functions: tuple[Any, ...]  # functions that modules hold
    names: tuple[tuple[str, ...], ...]  # names of the attributes of each module
    attributes: tuple[Hashable, ...]  # attributes of all modules, see `_plain`
    layouts: tuple[tuple[Any, ...], ...]  # dtype, device and shape of each tensor
    contents: tuple[int, ...]
    tensors: tuple[int, ...]  # ids, which may be reused by new objects
    versions: tuple[int, ...]
    pointers: tuple[int, ...]


def fingerprint(module: nn.Module) -> Fingerprint:
    """Return the current fingerprint of a module."""
    parts = parts_of(module)
    tensors, kinds = tensors_in(parts), tuple(map(type, parts))
    values = list(itertools.chain.from_iterable(map(_values, map(vars, parts))))
    return Fingerprint(
        parts=tuple(map(weakref.ref, parts)),
        kinds=kinds,
        code=tuple([as_written(code) or code for code in map(_forward, dict.fromkeys(kinds))]),
        functions=tuple(_functions(values)),
        names=tuple(map(tuple, map(vars, parts))),
        attributes=_attributes(values),
        layouts=tuple(map(_layout, tensors)),
        contents=contents(map(_sample, {id(each): each for each in tensors}.values())),
        tensors=tuple(map(id, tensors)),
        versions=tuple(map(_version, tensors)),
        pointers=tuple(map(_pointer, tensors)),
    )


@dataclass(frozen=True)
class ModelState:
    """The state of a whole model: its fingerprint, its configs and the user's hooks."""

    numbers: Fingerprint
    settings: tuple[tuple[tuple[str, Hashable], ...], ...]  # of each config
    hooks: tuple[int, ...]
    weights: tuple[weakref.ref[Tensor], ...]  # parameters, on any device
    versions: tuple[int, ...]
    # All numbers, if they were read: see `ModelSession.require_state`.
    contents: tuple[int, ...] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, model: nn.Module) -> ModelState:
        """Return the current state of a model."""
        parts = parts_of(model)
        weights = [each for each in tensors_in(parts, buffers=False) if not each.is_meta]
        weights += offloaded_tensors(parts)
        return cls(
            numbers=fingerprint(model),
            settings=settings_of(model),
            hooks=tuple(number for _, number, _ in (*hooks_of_others(parts), *global_hooks())),
            weights=tuple(map(weakref.ref, weights)),
            versions=tuple(map(_version, weights)),
        )


# --------------------------------------------------------------------- attributes, configs and code


def settings_of(model: nn.Module) -> tuple[tuple[tuple[str, Hashable], ...], ...]:
    """Return the names and values of the plain settings in each config of a model."""
    return tuple(
        tuple((name, _plain(value)) for name, value in vars(config).items() if name not in _UNUSED)
        for config in configs_of(model)
        if hasattr(config, "__dict__")  # Idefics stores its config in a tuple
    )


def _attributes(values: Sequence[Any]) -> tuple[Hashable, ...]:
    """Apply `_plain` to each value. Most values are already plain or empty, so they are returned
    without a call.
    """
    return tuple(
        [
            each if type(each) in _PLAIN else _plain(each) if each else None
            for each in [value if type(value) in _HELD else None for value in values]
        ]
    )


def _plain(value: Any) -> Hashable:
    """Return a hashable copy of a plain value or a container of plain values, or None for other
    objects.
    """
    kind = type(value)
    if kind in _PLAIN:
        return cast(Hashable, value)
    if kind in (list, tuple):
        items = tuple([_plain(each) for each in value])
        return (kind, *items) if any(each is not None for each in items) else None
    if kind is dict:
        entries = [(name, _plain(each)) for name, each in value.items() if type(each) in _HELD]
        return (kind, *entries) if any(each is not None for _, each in entries) else None
    return None


def _functions(values: Sequence[Any]) -> Iterator[Hashable]:
    """Yield weak references to the functions among these values. Strong references would keep
    modules alive.

    A bound method may be a new object at each access, so its function and the id of its object are
    used. A module's own `forward` is excluded, because `run_uncompiled` sets it.
    """
    for value in [each for each in values if type(each) in _FUNCTIONS]:
        if type(value) is not types.MethodType:
            yield weakref.ref(value)
            continue
        code = getattr(type(value.__self__), "forward", None)
        if value.__func__ not in (code, as_written(code)):
            yield weakref.ref(value.__func__), id(value.__self__)


# -------------------------------------------------------------------------------------------- hooks


def hooks_of_others(
    parts: Iterable[nn.Module], kinds: Sequence[str] = _HOOKS
) -> Iterator[tuple[nn.Module, int, Any]]:
    """Yield the module, id and function of each hook that was not added by a known library.

    The id is the unique number that torch assigns to the hook.
    """
    tables = operator.attrgetter(*kinds)
    for part in parts:
        for table in filter(None, tables(part)):
            for number, hook in table.items():
                if is_of_others(hook):
                    yield part, number, hook


def global_hooks() -> Iterator[tuple[None, int, Any]]:
    """Yield None, id and function of each global module hook not added by a known library."""
    for kind in _HOOKS:
        for number, hook in getattr(torch.nn.modules.module, f"_global{kind}").items():
            if is_of_others(hook):
                yield None, number, hook


def is_of_others(hook: Any) -> bool:
    """Return whether a hook was added by code other than the known libraries."""
    hook = getattr(hook, "func", hook)  # of a partial
    module = getattr(hook, "__module__", None) or type(hook).__module__
    return str(module).partition(".")[0] not in _LIBRARIES


# ----------------------------------------------------------------------------------------- contents


def _is_readable(tensor: Tensor) -> bool:
    return type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta


def _sample(tensor: Tensor) -> Tensor:
    """Return a sample of a matrix, with at least one value from every row and column.

    Vectors are returned whole.
    """
    if tensor.dim() < 2 or not _is_readable(tensor):
        return tensor
    plain = tensor if tensor.is_contiguous() else tensor.mT.contiguous()
    return plain.as_strided(*_steps(plain.shape))


@functools.cache
def _steps(shape: torch.Size) -> tuple[tuple[int], tuple[int]]:
    """Return the number of sampled values and the step between them.

    The step is shorter than a row and a column, so every row is sampled. It is coprime to the
    length of a row, so every column is sampled too.
    """
    columns, count = shape[-1], math.prod(shape)
    if not count:
        return (0,), (1,)
    largest = max(min(count // columns, columns) - 1, 1)
    step = next(step for step in range(largest, 0, -1) if math.gcd(step, columns) == 1)
    return ((count - 1) // step + 1,), (step,)


@torch.no_grad()
def contents(tensors: Iterable[Tensor]) -> tuple[int, ...]:
    """Return one hash of all bits of these tensors for each device.

    Offloaded tensors and tensor subclasses are skipped.
    """
    small: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
    sums: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        if not _is_readable(tensor) or tensor.layout is not torch.strided or tensor.is_quantized:
            continue
        if tensor.nbytes < _SMALL:
            small.setdefault((tensor.device, tensor.dtype), []).append(_flat(tensor))
        else:
            sums.setdefault(tensor.device, []).extend(_row_sums(tensor))
    for (device, _), group in small.items():  # one copy, also of samples
        sums.setdefault(device, []).append(_words(torch.cat(group)))
    return tuple(map(_number, sums.values()))


def all_contents(model: nn.Module) -> tuple[int, ...]:
    """Return `contents` of all parameters and buffers of a model, including offloaded ones."""
    parts = parts_of(model)
    tensors = [*tensors_in(parts), *offloaded_tensors(parts)]
    return contents({id(each): each for each in tensors}.values())


def _row_sums(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of equal pieces of a large tensor, and the remaining values.

    Each value is read once. Opposite changes can cancel only within a piece. 64-bit numbers are
    read as 32-bit words, so that sign flips do not cancel in a sum.
    """
    words = _words(_flat(tensor))
    if tensor.element_size() >= 8:
        words = words.view(torch.int32)
    end = len(words) // _PIECE * _PIECE
    return words[:end].view(-1, _PIECE).sum(1), words[end:].long()


def _number(sums: list[Tensor]) -> int:
    """Combine sums into one number that depends on their order.

    The shift mixes high bits into low bits. Without the shift, sign flips could cancel.
    """
    words = torch.cat(sums)
    hashed = words * (torch.arange(1, 2 * len(words), 2, device=words.device) * _ODD)
    hashed ^= hashed >> 32
    return int(hashed.sum())


def _flat(tensor: Tensor) -> Tensor:
    return tensor if tensor.dim() == 1 else tensor.reshape(-1)


def _words(flat: Tensor) -> Tensor:
    """Return the bytes of a tensor as 64-bit integers, padded with zeros."""
    flat = flat.contiguous().view(torch.uint8)
    missing = -len(flat) % 8
    if missing or flat.storage_offset() % 8:
        flat = torch.cat([flat, flat.new_zeros(missing)])
    return flat.view(torch.int64)
