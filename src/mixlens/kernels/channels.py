"""The channels of a vector that this process holds, if the processes of a model share them.

A norm or a sum over all channels combines the results of all processes in a fixed order, so that
every process gets the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class ChannelSlice:
    """Some of the channels of a vector, or all of them."""

    start: int = 0
    stop: int | None = None
    # Takes a result of this process and returns those of all, [process, ...]. None: it has all
    # channels.
    gather: Callable[[Tensor], Tensor] | None = None

    def of(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows channel"]:
        """Return these channels of vectors."""
        return vectors if self.gather is None else vectors[..., self.start : self.stop]

    def joined(self, part: Float[Tensor, "*rows channel"]) -> Float[Tensor, "*rows d_model"]:
        """Return vectors with all channels from those with these channels."""
        return part if self.gather is None else torch.cat(list(self.gather(part)), -1)

    def sum(self, part: Tensor) -> Tensor:
        """Return a sum over all channels from the sum over these channels."""
        return part if self.gather is None else self.gather(part).sum(0)

    def norm(self, part: Tensor) -> Tensor:
        """Return a norm over all channels from the norm over these channels."""
        if self.gather is None:
            return part
        norm: Tensor = torch.linalg.vector_norm(self.gather(part), dim=0)
        return norm


ALL_CHANNELS = ChannelSlice()
