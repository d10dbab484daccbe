"""Compare every fused kernel with its plain form in Triton's interpreter, on the CPU:
`TRITON_INTERPRET=1 python -m tests.kernels.interpreting`.

These are the comparisons that mixlens makes on a GPU before it uses a kernel, over dtypes, numbers
of targets and sources, heads and options.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch import Tensor

from mixlens.kernels import contributions, gram
from mixlens.kernels.decomposition import Vectors
from mixlens.kernels.fused.checked import Sampler, Trial
from mixlens.kernels.fused.zeroing import ACTIVATIONS, DISTANCES
from mixlens.replay import route_shares, zeroing_steps
from tests.kernels.compiling import HAS_WIDE_PRODUCTS
from tests.kernels.decompositions import in_float32, random_decomposition

CPU = torch.device("cpu")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# heads, d_model, targets, sources, causal
SHAPES = [
    (4, 64, 33, 20, False),
    (12, 80, 17, 17, True),
    (3, 96, 1, 33, False),
    (2, 32, 2, 50, False),
    (2, 32, 16, 48, False),
    (1, 64, 64, 64, True),
    (20, 40, 33, 33, True),
    (2, 32, 200, 33, False),
    (2, 32, 33, 1, False),
]


def require_agreement(name: object, trial: Trial) -> None:
    error = float((trial.fused.double() - trial.plain).abs().max() / trial.plain.abs().max())
    assert error <= trial.tolerance, f"{name}: off by {error:.1e}"


def rows(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


def main() -> None:
    for dtype, (heads, width, targets, sources, causal) in itertools.product(DTYPES, SHAPES):
        name = (dtype, heads, width, targets, sources, causal)
        parts = in_float32(random_decomposition(3, seed=0, heads=heads, d_model=width))
        vectors = Sampler(CPU).vectors(1, heads, sources, width, dtype)
        parts = replace(parts, vectors=vectors, causal=causal)
        if dtype != torch.float32 or HAS_WIDE_PRODUCTS:
            trial = gram._try_fused(parts.weights, vectors, targets, sources, causal)
            require_agreement(("norms", *name), trial)
        if dtype == torch.bfloat16:  # the interpreter computes its products wrongly
            continue
        y = rows(torch.float32, 2, 3, width)
        require_agreement(
            ("contributions", *name), contributions._try_fused(parts, y, targets, sources)
        )
    for dtype, targets, d_head in itertools.product(DTYPES[::2], (1, 2, 16), (16, 24)):
        parts = in_float32(random_decomposition(3, seed=0, d_model=80))
        vectors = Vectors(rows(dtype, 1, 2, 3, d_head), rows(dtype, 4, d_head, 80))
        trial = route_shares._try_fused(
            replace(parts, vectors=vectors), rows(torch.float32, 1, targets, 80), targets
        )
        require_agreement(("head_contributions", dtype, targets, d_head), trial)
    wide = torch.float32
    for dtype, activation, products, scaled in itertools.product(
        DTYPES, ACTIVATIONS, (1, 2), (False, True)
    ):
        dtypes = (dtype, wide, wide, dtype)
        trial = zeroing_steps._try_change(CPU, dtypes, 3, 1030, activation, products, scaled)
        require_agreement(("hidden_change", dtype, activation, products, scaled), trial)
    for dtype, targets in itertools.product(DTYPES, (1, 16, 33)):
        dtypes = (dtype, wide, wide, dtype)
        trial = zeroing_steps._try_change(CPU, dtypes, targets, 1030, "silu", 2, True)
        require_agreement(("hidden_change", dtype, targets), trial)
        dtypes = (dtype, wide, wide, wide)
        trial = zeroing_steps._try_distances(CPU, dtypes, targets, 80, "cosine", True)
        require_agreement(("distances", dtype, targets), trial)
    for dtype, width, distance, centred in itertools.product(
        DTYPES, (64, 80), DISTANCES, (None, False, True)
    ):
        dtypes = (dtype, wide, wide, wide)
        trial = zeroing_steps._try_distances(CPU, dtypes, 5, width, distance, centred)
        require_agreement(("distances", dtype, width, distance, centred), trial)


if __name__ == "__main__":
    main()
