"""Describe how a model differs from its recorded state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from mixlens.errors import ModelChanged
from mixlens.model.fingerprint import Fingerprint, ModelState, global_hooks, hooks_of_others
from mixlens.model.module_walk import parts_of
from mixlens.model.restore_model import MARKS, written_by_passes

TRAINING = "the model is in training mode, in which dropout makes every run different"


def raise_if_changed(model: nn.Module, recorded: ModelState, now: ModelState) -> None:
    """Raise `ModelChanged` if the current state of a model differs from the recorded one.

    A model that was moved or changed and then restored counts as unchanged.
    """
    change = next(_changes(model, recorded, now), None)
    if change is not None:
        undo = "call model.eval()" if change is TRAINING else "undo the change"
        raise ModelChanged(
            f"{change}. Since the recording was made in a different state, re-run "
            f"layers would give wrong numbers. Record the input again, or {undo}"
        )


def _changes(model: nn.Module, recorded: ModelState, now: ModelState) -> Iterator[str]:
    """Return descriptions of the changes, the most informative first."""
    before, numbers = recorded.numbers, now.numbers
    if any(part.training for part in parts_of(model)):
        yield TRAINING
    if (before.parts, before.kinds) != (numbers.parts, numbers.kinds):
        place = _first_difference(before.parts, numbers.parts)
        path = _paths(model)[place] if place < len(numbers.parts) else type(model).__name__
        yield f"`{path}` is a different module, or has new submodules"
    if recorded.settings != now.settings:
        yield _changed_setting(recorded, now)
    if recorded.hooks != now.hooks:
        yield _changed_hook(model, recorded, now)
    if (before.names, before.attributes) != (numbers.names, numbers.attributes):
        attribute = _changed_attribute(model, before, numbers)
        if attribute is not None:
            yield attribute
    if (before.code, before.functions) != (numbers.code, numbers.functions):
        yield f"functions of modules of {type(model).__name__}, or their code, were replaced"
    yield from _changed_tensors(model, recorded, now)


def _changed_setting(recorded: ModelState, now: ModelState) -> str:
    for old, new in itertools.zip_longest(recorded.settings, now.settings, fillvalue=()):
        for name in sorted({pair[0] for pair in {*old} ^ {*new}}):
            values = [_thaw(dict(side).get(name)) for side in (new, old)]
            public = name.strip("_").removesuffix("_internal")
            return "config.{} is {!r} and was {!r}".format(public, *values)
    return "modules have different configs"


def _changed_hook(model: nn.Module, recorded: ModelState, now: ModelState) -> str:
    paths = {part: path for path, part in model.named_modules()}
    for part, number, hook in (*hooks_of_others(parts_of(model)), *global_hooks()):
        if number not in recorded.hooks:
            name = getattr(hook, "__qualname__", type(hook).__name__)
            place = "all modules" if part is None else f"`{paths[part] or type(model).__name__}`"
            return f"the hook `{name}` was added to {place}"
    count = len({*recorded.hooks} - {*now.hooks})
    return f"{count} hooks were removed" if count != 1 else "a hook was removed"


def _changed_attribute(model: nn.Module, before: Fingerprint, numbers: Fingerprint) -> str | None:
    old, new = _attributes(before), _attributes(numbers)
    written_names = [written_by_passes.get(part, set()) for part in parts_of(model)]
    changed = [key for key in {**new, **old} if old.get(key) != new.get(key)]
    changed = [(place, name) for place, name in changed if name not in written_names[place]]
    if not changed:
        return None
    place, name = changed[0]
    path = f"{_paths(model)[place]}.{name}".lstrip(".")
    return f"`{path}` is {_thaw(new.get(changed[0]))!r} and was {_thaw(old.get(changed[0]))!r}"


def _attributes(numbers: Fingerprint) -> dict[tuple[int, str], Any]:
    """Return the attribute values of all modules, by module index and name."""
    keys = [(place, name) for place, part_names in enumerate(numbers.names) for name in part_names]
    pairs = zip(keys, numbers.attributes, strict=True)
    return {key: value for key, value in pairs if value is not None and key[1] not in MARKS}


def _thaw(value: Any) -> Any:
    """Return a stored attribute value in its original form. Fingerprints store a container as a
    tuple of its class and its items.
    """
    if not isinstance(value, tuple):
        return value
    kind, *inside = value
    if kind is dict:
        return {name: _thaw(each) for name, each in inside}
    return kind(map(_thaw, inside))


def _changed_tensors(model: nn.Module, recorded: ModelState, now: ModelState) -> Iterator[str]:
    before, numbers = recorded.numbers, now.numbers
    if before.layouts != numbers.layouts:
        place = _first_difference(before.layouts, numbers.layouts)
        if len(before.layouts) != len(numbers.layouts):
            yield f"{type(model).__name__} has new parameters or buffers"
        old, new = (_describe_layout(each.layouts[place]) for each in (before, numbers))
        yield f"`{_tensor_names(model)[place]}` is {new} and was {old}"
    tensors_before = [reference() for reference in recorded.weights]
    present = [reference() for reference in now.weights]
    if len(tensors_before) != len(present):
        yield "weights were moved to or from the device on which they are stored"
    for old_weight, weight, old_version, version in zip(
        tensors_before, present, recorded.versions, now.versions, strict=False
    ):
        if old_weight is not weight or old_version != version:
            how = "was replaced" if old_weight is not weight else "was changed"
            yield f"`{_name_of(model, weight)}` {how}"
    if before.contents != numbers.contents or recorded.contents != now.contents:
        yield (
            "numbers of weights or buffers were changed (through `.data`, numpy, or by the "
            "model itself)"
        )


def _describe_layout(layout: tuple[Any, ...]) -> str:
    dtype, device, shape = layout
    return f"{str(dtype).removeprefix('torch.')} {list(shape)} on {device}"


def _first_difference(old: Sequence[Any], new: Sequence[Any]) -> int:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    return sum(1 for _ in same)


def _paths(model: nn.Module) -> list[str]:
    """Return the paths of all modules, in the order of `parts_of`."""
    paths, level = [""], [("", model)]
    while level:
        level = [
            (f"{path}.{name}".lstrip("."), inner)
            for path, part in level
            for name, inner in part._modules.items()
            if inner is not None
        ]
        paths += [path for path, _ in level]
    return paths


def _name_of(model: nn.Module, weight: Tensor | None) -> str:
    names = (name for name, each in model.named_parameters() if each is weight)
    return next(names, "an offloaded weight")


def _tensor_names(model: nn.Module) -> list[str]:
    """Return the names of parameters, then of buffers, in the order of `tensors_in`."""
    places = list(zip(_paths(model), parts_of(model), strict=True))
    return [
        f"{path}.{name}".lstrip(".")
        for kind in ("_parameters", "_buffers")
        for path, part in places
        for name, tensor in getattr(part, kind).items()
        if tensor is not None
    ]
