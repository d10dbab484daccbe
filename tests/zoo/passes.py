"""How many row-passes of the probe discovery takes on each plain-text class of the zoo.

python -m tests.zoo.passes                 classes that need more than nine, and how many others
python -m tests.zoo.passes Bert Xlnet      only classes whose name contains one of these, all shown

A row-pass is one row of a batch that goes through a layer. What is counted is the layer with most.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn

from mixlens.errors import MixlensError
from mixlens.recording.calls import hidden_argument, hooks_removed
from mixlens.recording.layouts import TokensFirst
from mixlens.recording.model_discovery import model_structure
from mixlens.recording.probe import is_plain_text
from tests.zoo.models import Entry, entries

MOST = 9


def row_passes(entry: Entry) -> int:
    """Of the layer that most rows go through while the structure of the model is found."""
    model, shapes = entry.build(), dict[str, list[torch.Size]]()

    def counted(path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            try:
                shapes.setdefault(path, []).append(hidden_argument(args, kwargs).shape)
            except TypeError:  # it takes no hidden states: not a layer
                return

        return hook

    handles: list[Any] = []
    with hooks_removed(handles):
        for path, module in model.named_modules():
            if path.rpartition(".")[2].isdigit():
                handles.append(module.register_forward_pre_hook(counted(path), with_kwargs=True))
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
