"""Parts of a layer that have the tokens before the rows, [tokens, batch, channel].

While such a layer runs, each of these parts is turned for whoever looks at it: two hooks around all
others give them rows first and turn back what they hand on. So nothing else has to know of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from mixlens.recording.calls import hooks_removed


def turned(value: Any, first: int, second: int) -> Any:
    """Every tensor [first, second, channel] in a value with its first two axes exchanged."""
    if isinstance(value, Tensor):
        fits = value.dim() == 3 and tuple(value.shape[:2]) == (first, second)
        return value.transpose(0, 1) if fits else value
    if type(value) in (tuple, list):
        return type(value)(turned(item, first, second) for item in value)
    if isinstance(value, Mapping):
        return {name: turned(item, first, second) for name, item in value.items()}
    return value


@contextlib.contextmanager
def turned_parts(
    layer: nn.Module, batch: int, tokens: int, paths: frozenset[str] | None
) -> Iterator[None]:
    """While open, hooks that are already there see the named parts (None: all) with rows first."""

    def rows_first(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return turned(args, tokens, batch), turned(kwargs, tokens, batch)

    def as_it_was(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return turned(args, batch, tokens), turned(kwargs, batch, tokens)

    def output_rows_first(module: nn.Module, args: Any, output: Any) -> Any:
        return turned(output, tokens, batch)

    def output_as_it_was(module: nn.Module, args: Any, output: Any) -> Any:
        return turned(output, batch, tokens)

    handles: list[Any] = []
    with hooks_removed(handles):
        for path, part in layer.named_modules():
            if path and (paths is None or path in paths):
                before, after = part.register_forward_pre_hook, part.register_forward_hook
                handles.append(before(rows_first, with_kwargs=True, prepend=True))
                handles.append(before(as_it_was, with_kwargs=True))
                handles.append(after(output_rows_first, prepend=True))
                handles.append(after(output_as_it_was))
        yield
