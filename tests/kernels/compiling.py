"""Compile every fused kernel for a Hopper GPU (sm_90), without one: `python -m
tests.kernels.compiling`, with `--all` for every combination (about ten minutes) and with
`--capability 80` for an A100.

The launching code of mixlens runs on tensors without data, and Triton compiles the program that it
would launch. A kernel that does not compile, or needs more shared memory than the GPU has, is
listed.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from mixlens.kernels.fused import contributions, head_contributions, norms, zeroing

# bytes of one program; an H100 or H200 has capability 90, an A100 80
SHARED_MEMORY = {75: 64, 80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
# Before, Triton has no products in float64, and the plain form replaces those of float32 vectors.
HAS_WIDE_PRODUCTS = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 5)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# heads and their size; the last ones have more heads than fit a tile
HEADS = [(1, 64), (8, 32), (12, 64), (16, 80), (8, 96), (32, 128), (8, 256), (64, 128), (128, 128)]
# targets and sources: Triton compiles separate programs for 1 and for multiples of 16
SIZES = [(33, 50), (64, 400), (200, 2000), (50, 50), (400, 400), (1, 50), (33, 1)]
WIDTHS = [80, 1024, 4096, 5120, 16384]
TARGETS = [33, 64, 1]  # of the steps of Value Zeroing
empty = functools.partial(torch.empty, device="meta")
Case = tuple[str, Callable[[], object]]


class Driver:
    """The part of Triton's driver that compiling needs."""

    def __init__(self, capability: int) -> None:
        self.capability = capability

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0


class Compiled:
    """A kernel that is compiled instead of launched."""

    def __init__(self, kernel: Any, capability: int) -> None:
        self.kernel = kernel
        self.bytes = 1024 * SHARED_MEMORY[capability]

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def compile_only(*args: object, **options: object) -> None:
            made = self.kernel.warmup(*args, grid=grid, **options)
            if made.metadata.shared > self.bytes:
                raise RuntimeError(f"{made.metadata.shared} bytes of shared memory")

        return compile_only


def compile_instead(capability: int) -> None:
    """From here on the launching code compiles only."""
    triton.runtime.driver.set_active(Driver(capability))
    gain = [Compiled(kernel, capability) for kernel in contributions._kernels()]
    head = Compiled(head_contributions._kernel(), capability)
    norm = [Compiled(kernel, capability) for kernel in norms._kernels()]
    step = [Compiled(kernel, capability) for kernel in zeroing._kernels()]
    contributions._kernels = lambda: gain  # type: ignore[assignment]
    head_contributions._kernel = lambda: head  # type: ignore[assignment]
    norms._kernels = lambda: norm  # type: ignore[assignment]
    zeroing._kernels = lambda: step  # type: ignore[assignment]


def over_heads(everything: bool) -> Iterator[Case]:
    for dtype, (heads, d_head) in itertools.product(DTYPES, HEADS):
        width = heads * d_head
        usual = [(64, 400)] if heads > 1 else [(33, 50), (400, 400)]
        for targets, sources in SIZES if everything else usual:
            weights = empty(1, heads, targets, sources)
            vectors = empty(heads, 1, sources, width, dtype=dtype).transpose(0, 1)
            gram = empty(1, heads**2, sources, dtype=torch.float64)
            scale, y = empty(1, targets), empty(1, targets, width)
            name = f"{dtype}, {heads} heads of {d_head}, {targets} targets, {sources} sources"
            if dtype != torch.float32 or HAS_WIDE_PRODUCTS:
                yield (f"products: {name}", functools.partial(norms.fill_products, vectors, gram))
            for causal in {False, targets == sources}:
                of = functools.partial(norms.norms_from, weights, gram, causal=causal)
                yield (f"norms: {name}", of)
                of = functools.partial(
                    contributions.l1_contributions,
                    weights,
                    vectors,
                    scale,
                    y,
                    0.0,
                    causal=causal,
                )
                yield (f"contributions: {name}", of)


def over_targets(everything: bool) -> Iterator[Case]:
    for dtype, (heads, d_head) in itertools.product(DTYPES, HEADS):
        for targets, sources in itertools.product((1, 2, 16), (50, 400) if everything else (400,)):
            yield (
                f"head_contributions: {dtype}, {heads} heads of {d_head}, {targets} targets,"
                f" {sources} sources",
                functools.partial(
                    head_contributions.head_contributions,
                    empty(1, heads, targets, sources),
                    empty(1, heads, sources, d_head, dtype=dtype),
                    empty(heads, d_head, heads * d_head, dtype=dtype),
                    empty(1, targets, heads * d_head),
                ),
            )


def over_widths(everything: bool) -> Iterator[Case]:
    forms = itertools.product(
        DTYPES,
        WIDTHS if everything else WIDTHS[::3],
        zeroing.DISTANCES,
        (None, False, True),
        TARGETS if everything else TARGETS[:1],
    )
    for dtype, width, distance, centred, targets in forms:
        one, rows = empty(width), empty(targets, width)
        norm = None
        if centred is not None:
            norm = zeroing.OutputNorm(gain=one, shift=one, epsilon=1e-5, centred=centred)
        yield (
            f"distances: {dtype}, {width}, {distance}, {centred}, {targets} targets",
            functools.partial(
                zeroing.distances,
                empty(2, targets, width, dtype=dtype),
                empty(2, targets, width),
                rows,
                rows,
                distance=distance,
                residual_scale=1.0,
                branch_scale=one,
                norm=norm,
            ),
        )


def over_activations(everything: bool) -> Iterator[Case]:
    dtypes = DTYPES if everything else DTYPES[1:2]
    options = itertools.product(
        dtypes,
        zeroing.ACTIVATIONS,
        (1, 2),
        (False, True),
        TARGETS if everything else TARGETS[1:2],
    )
    for dtype, activation, products, scaled, targets in options:
        rows, one = empty(targets, 1376), empty(1376)
        yield (
            f"hidden_change: {dtype}, {activation}, {products} products, scaled: {scaled},"
            f" {targets} targets",
            functools.partial(
                zeroing.hidden_change,
                [empty(2, targets, 1376, dtype=dtype)] * products,
                [rows] * products,
                rows,
                activation=activation,
                inverse=empty(2, targets) if scaled else None,
                constants=[one] * products if scaled else (),
                dtype=dtype,
            ),
        )


def main(capability: int, everything: bool) -> int:
    """Print each combination that fails, and the number of all."""
    compile_instead(capability)
    cases = [make(everything) for make in (over_heads, over_targets, over_widths, over_activations)]
    count = failed = 0
    for name, case in itertools.chain(*cases):
        count += 1
        try:
            case()
        except Exception as error:
            failed += 1
            print(f"{name}: {type(error).__name__}: {error}")
    print(f"Triton {triton.__version__}, sm_{capability}: {failed} of {count} combinations failed")
    return int(failed > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--capability", type=int, choices=sorted(SHARED_MEMORY), default=90)
    arguments = parser.parse_args()
    sys.exit(main(arguments.capability, arguments.all))
