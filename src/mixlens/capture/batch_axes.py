"""Find the batch axis of a recorded argument, and copy one text along it.

The shape of one tensor does not show its batch axis (ALiBi biases have the shape [batch * head, 1,
n], rotary cosines [1, n, d]). mixlens therefore runs the model with two batch sizes and compares
the shapes. The boundaries and block masks of packed texts grow in other ways, so they are handled
separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class BatchAxis:
    """The batch axis of a tensor, and the number of entries per text."""

    axis: int
    per_row: int

    def copies(self, argument: Tensor, text: int, count: int) -> Tensor:
        """Return a tensor that contains `count` copies of one text of the batch."""
        text_slice = argument.narrow(self.axis, text * self.per_row, self.per_row)
        repeats = [1] * argument.dim()
        repeats[self.axis] = count
        return text_slice.repeat(repeats)


@dataclass(frozen=True)
class Bounds:
    """A tensor of cumulative lengths that separates packed texts.

    If a text is copied, the boundaries of each copy start where the previous copy ends.
    """

    @classmethod
    def find(cls, one: Tensor, twice: Tensor) -> Bounds | None:
        """Return `Bounds` if the second tensor holds the boundaries of two copies, else None."""
        is_count = one.dim() == 1 and len(one) > 1 and not one.is_floating_point()
        return cls() if is_count and torch.equal(cls().copies(one, 0, 2), twice) else None

    def copies(self, argument: Tensor, text: int, count: int) -> Tensor:
        """Return the boundaries of `count` consecutive copies."""
        later = [argument[1:] + argument[-1] * copy for copy in range(1, count)]
        return torch.cat([argument, *later])


@dataclass(frozen=True)
class Blocks:
    """A block-diagonal mask [..., target, source] of packed texts, with one block per copy."""

    between: float

    @classmethod
    def find(cls, one: Tensor, twice: Tensor) -> Blocks | None:
        """Return `Blocks` if the second tensor holds two copies as diagonal blocks, else None."""
        sizes = [*one.shape[:-2], *(2 * size for size in one.shape[-2:])]
        if one.dim() < 2 or one.shape[-1] != one.shape[-2] or list(twice.shape) != sizes:
            return None
        blocks = cls(float(twice[..., 0, -1].flatten()[0]))
        return blocks if torch.equal(blocks.copies(one, 0, 2), twice) else None

    def copies(self, argument: Tensor, text: int, count: int) -> Tensor:
        """Return the block mask for copies of a text."""
        size = int(argument.shape[-1])
        blocks = argument.new_full((*argument.shape[:-2], count * size, count * size), self.between)
        for copy in range(count):
            block = slice(copy * size, (copy + 1) * size)
            blocks[..., block, block] = argument
        return blocks


def batch_axes(one: Any, other: Any, texts: int, other_texts: int) -> Any:
    """Return the batch axis of every tensor in a nested argument, or None for a tensor without one.

    `one` and `other` are the argument in calls with `texts` and `other_texts` texts.
    """
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _batch_axis(one, other, texts, other_texts) if one.dim() == other.dim() else None
    if isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        return tuple(batch_axes(a, b, texts, other_texts) for a, b in zip(one, other, strict=False))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {name: batch_axes(one[name], other.get(name), texts, other_texts) for name in one}
    return None


def _batch_axis(
    one: Tensor, other: Tensor, texts: int, other_texts: int
) -> BatchAxis | Bounds | Blocks | None:
    packed = None
    if (texts, other_texts) == (1, 2):
        packed = Bounds.find(one, other) or Blocks.find(one, other)
    if packed is not None:
        return packed
    for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)):
        if a != b and a % texts == 0 and b == a // texts * other_texts:
            return BatchAxis(axis, a // texts)
    return None


def copy_text(argument: Any, axes: Any, text: int, copies: int, texts: int) -> Any:
    """Return a nested argument in which every tensor with a batch axis holds copies of one text."""
    if isinstance(argument, Tensor):
        return _tensor_copies(argument, axes, text, copies, texts)
    if isinstance(argument, (tuple, list)):
        inner = (
            axes
            if isinstance(axes, tuple) and len(axes) == len(argument)
            else (None,) * len(argument)
        )
        items = [
            copy_text(value, axis, text, copies, texts)
            for value, axis in zip(argument, inner, strict=True)
        ]
        return type(argument)(items) if type(argument) in (tuple, list) else tuple(items)
    if isinstance(argument, Mapping):
        inner_axes = axes if isinstance(axes, Mapping) else {}
        return {
            name: copy_text(value, inner_axes.get(name), text, copies, texts)
            for name, value in argument.items()
        }
    return argument


def _tensor_copies(argument: Tensor, axes: Any, text: int, copies: int, texts: int) -> Tensor:
    if isinstance(axes, (Bounds, Blocks)):
        return axes.copies(argument, text, copies)
    if not isinstance(axes, BatchAxis):  # a mask that the probe did not have
        batch_first = argument.dim() > 2 and texts > 1 and argument.shape[0] == texts
        return BatchAxis(0, 1).copies(argument, text, copies) if batch_first else argument
    if argument.shape[axes.axis] == 1 < texts:  # without a padded text, masks are broadcast
        return argument
    return axes.copies(argument, text, copies)
