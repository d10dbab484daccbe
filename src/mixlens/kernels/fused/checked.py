"""Check each fused kernel before its first use, and fall back to plain PyTorch if the kernel fails.

Some kernels fail only on a certain GPU, Triton version, dtype or block shape: they do not compile,
need more shared memory than the GPU has, or return wrong numbers. Therefore, `run_checked` first
runs the kernel on small random data that has the dtypes and the block shape of the call, once for
each combination, and compares the result with the plain implementation in float64. If the kernel
raises an error or returns wrong numbers, the plain implementation is used for this combination from
then on, and the reason is logged (`logging`, level info). The same happens if the kernel raises an
error in a later call. Out-of-memory errors are raised, because a smaller batch may fit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from mixlens.kernels.decomposition import Vectors
from mixlens.model.placement import raise_if_out_of_memory

_log = logging.getLogger(__name__)
_works: dict[Combination, bool] = {}


class Combination(NamedTuple):
    """The properties of a call that determine which program Triton compiles."""

    kernel: str
    device: torch.device
    dtypes: tuple[torch.dtype, ...]
    block: tuple[Hashable, ...]  # sizes and options that the program is compiled for


class Trial(NamedTuple):
    """The results of the fused and the plain implementation on the same small data."""

    fused: Tensor
    plain: Tensor  # in float64
    tolerance: float  # of the largest number


def run_checked(
    combination: Combination,
    *,
    fused: Callable[[], Tensor],
    plain: Callable[[], Tensor],
    trial: Callable[[], Trial],
) -> Tensor:
    """Run `fused` if the kernel works for this combination, or `plain` otherwise.

    Parameters
    ----------
    combination:
        Properties of the call. `trial` runs once for each combination.
    fused, plain:
        Functions that compute the scores with the kernel and without it.
    trial:
        Runs both implementations on small data that has the dtypes and the block shape of the call.
    """
    if combination not in _works:
        failure = _find_failure(trial, combination.device)
        _works[combination] = failure is None
        if failure is not None:
            _log_fallback(combination, failure)
    if not _works[combination]:
        return plain()
    try:
        with _current(combination.device):
            return fused()
    except Exception as error:
        raise_if_out_of_memory(error)
        _works[combination] = False
        _log_fallback(combination, _describe(error))
    return plain()


def _find_failure(trial: Callable[[], Trial], device: torch.device) -> str | None:
    """Return the reason why the kernel cannot be used, or None if it works."""
    try:
        with torch.no_grad(), _current(device):
            fused, plain, tolerance = trial()
            size = float(plain.abs().max())
            error = float((fused.to(plain) - plain).abs().max())
    except Exception as raised:
        raise_if_out_of_memory(raised)
        return _describe(raised)
    if error <= tolerance * size:  # False for NaN
        return None
    return f"its results are off by {error:.1e} (the largest value is {size:.1e})"


def _current(device: torch.device) -> AbstractContextManager[object]:
    """Select the GPU of the tensors as the current CUDA device, because Triton launches kernels
    there.
    """
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _describe(error: Exception) -> str:
    """Describe the error in one line.

    Triton prints source code between the location and the reason, or attaches the reason as the
    cause of the exception.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" ^")]
    parts = lines if len(lines) < 2 else [lines[0], lines[-1]]
    if error.__cause__ is not None:
        parts.append(f"{type(error.__cause__).__name__}: {error.__cause__}")
    return f"{type(error).__name__}: {' … '.join(parts)}"


def _log_fallback(combination: Combination, reason: str) -> None:
    _log.info(
        "the fused kernel `%s` is replaced by plain torch (device %s, dtypes %s, block %s): %s",
        combination.kernel,
        combination.device,
        ", ".join(str(dtype).removeprefix("torch.") for dtype in combination.dtypes),
        combination.block,
        reason,
    )


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
        channels = torch.randint(_D_HEAD, (heads, width), generator=self._generator, device="cpu")
        matrix = F.one_hot(channels, _D_HEAD).mT.to(self._device, dtype)
        signs = self.normal(heads, 1, width, dtype=dtype).sign()
        return Vectors(self.normal(batch, heads, sources, _D_HEAD, dtype=dtype), matrix * signs)


def widen(vectors: Vectors) -> Vectors:
    """Convert the factors of vectors to float64."""
    return Vectors(vectors.values.double(), vectors.matrix.double())
