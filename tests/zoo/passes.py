"""How many row-passes of the probe discovery takes on each plain-text class of the zoo.

python -m tests.zoo.passes                 classes that need more than nine, and how many others
python -m tests.zoo.passes Bert Xlnet      only classes whose name contains one of these, all shown

A row-pass is one row of a batch that goes through a layer. What is counted is the layer with most.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from mixlens.capture.layer_calls import hidden_argument, hooks_removed
from mixlens.errors import MixlensError
from mixlens.structure.layouts import TokensFirst
from mixlens.structure.model_discovery import model_structure
from mixlens.text.input_checks import is_plain_text
from tests.zoo.models import Entry, entries

MOST = 9


@contextlib.contextmanager
def watched(
    modules: Iterable[nn.Module], call: Callable[[nn.Module, Any, Any], None]
) -> Iterator[None]:
    """While open, `call` gets every call of these modules. A hook of their own would be a reason to
    run them once more: does it change something?
    """
    known = set(modules)

    def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if module in known:
            call(module, args, kwargs)

    with hooks_removed([register_module_forward_hook(hook, with_kwargs=True)]):
        yield


def items_of_lists(model: nn.Module) -> dict[nn.Module, str]:
    """Modules that have a number in a list, with their paths."""
    paths = {module: path for path, module in model.named_modules()}
    return {module: path for module, path in paths.items() if path.rpartition(".")[2].isdigit()}


def row_passes(entry: Entry) -> int:
    """Of the layer that most rows go through while the structure of the model is found."""
    model, shapes = entry.build(), dict[str, list[torch.Size]]()
    items = items_of_lists(model)

    def count(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            shapes.setdefault(items[module], []).append(hidden_argument(args, kwargs).shape)
        except TypeError:  # it takes no hidden states: not a layer
            return

    with watched(items, count):
        structure = model_structure(model, entry.given())
    layers = [layer for stack in structure.stacks for layer in stack.layers]
    return max(
        sum(shape[isinstance(layer.layout, TokensFirst)] for shape in shapes[layer.path])
        for layer in layers
    )


def main(names: list[str]) -> None:
    """Prints what was counted."""
    counts: dict[str, int] = {}
    for entry in entries():
        if not is_plain_text(entry.given()):
            continue
        if names and not any(name.lower() in entry.key.lower() for name in names):
            continue
        try:
            counts[entry.key] = row_passes(entry)
        except MixlensError:
            continue
        if names or counts[entry.key] > MOST:
            print(entry.key, counts[entry.key], flush=True)
    few = sum(count <= MOST for count in counts.values())
    print(f"{few} of {len(counts)} plain-text classes take at most {MOST} row-passes")


if __name__ == "__main__":
    main(sys.argv[1:])
