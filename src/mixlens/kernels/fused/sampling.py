"""Generate small random data to compare a fused kernel with its plain implementation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mixlens.kernels.decomposition import Vectors

_D_HEAD = 16  # kernels read the vectors, not the values


def sample_size(size: int) -> int:
    """Return a small size for which Triton compiles the same program as for `size`.

    Triton compiles separate programs for the size 1 and for multiples of 16. All larger sizes take
    more than one tile, and the last tile is only partially filled.
    """
    if size == 1:
        return 1
    return 33 if size % 16 else 48


class Sampler:
    """Generates random numbers that are the same in every trial.

    PyTorch's global random state does not change.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._generator = torch.Generator("cpu").manual_seed(0)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Sample from the standard normal distribution."""
        numbers = torch.randn(
            shape, generator=self._generator, dtype=torch.float32, device=self._generator.device
        )
        return numbers.to(self._device, dtype)

    def uniform(self, *shape: int) -> Tensor:
        """Return random numbers between 0 and 1."""
        return self.normal(*shape).sigmoid()

    def vectors(
        self, batch: int, heads: int, sources: int, width: int, dtype: torch.dtype
    ) -> Vectors:
        """Return random vectors that are exact in any precision.

        Each channel of a vector equals one channel of the values, or its negative, so no rounding
        occurs.
        """
        chosen = torch.randint(_D_HEAD, (heads, width), generator=self._generator, device="cpu")
        matrix = F.one_hot(chosen, _D_HEAD).mT.to(self._device, dtype)
        signs = self.normal(heads, 1, width, dtype=dtype).sign()
        return Vectors(self.normal(batch, heads, sources, _D_HEAD, dtype=dtype), matrix * signs)


def widen(vectors: Vectors) -> Vectors:
    """Convert the factors of vectors to float64."""
    return Vectors(vectors.values.double(), vectors.matrix.double())
