"""Compute sums and norms over channels if vectors are sharded across several processes.

Each process stores only a slice of the channels. For a sum or norm over all channels, the partial
results of all processes are gathered and combined in a fixed order, so every process gets a bitwise
identical result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class ChannelSlice:
    """Describes the slice of a vector's channels that this process stores.

    By default, this is the whole vector.
    """

    start: int = 0
    stop: int | None = None
    # Takes a result of this process and returns those of all, [process, ...]. None: it has all
    # channels.
    gather: Callable[[Tensor], Tensor] | None = None

    def of(self, vectors: Float[Tensor, "*rows d_model"]) -> Float[Tensor, "*rows channel"]:
        """Return the channels of `vectors` that this process stores."""
        return vectors if self.gather is None else vectors[..., self.start : self.stop]

    def joined(self, part: Float[Tensor, "*rows channel"]) -> Float[Tensor, "*rows d_model"]:
        """Gather the channels of all processes and return the full vectors."""
        return part if self.gather is None else torch.cat(list(self.gather(part)), -1)

    def sum(self, part: Tensor) -> Tensor:
        """Return the sum over all channels, given the sum over the channels of this process."""
        return part if self.gather is None else self.gather(part).sum(0)

    def norm(self, part: Tensor) -> Tensor:
        """Return the norm over all channels, given the norm over the channels of this process."""
        if self.gather is None:
            return part
        norm: Tensor = torch.linalg.vector_norm(self.gather(part), dim=0)
        return norm


ALL_CHANNELS = ChannelSlice()
