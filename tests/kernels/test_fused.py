"""Fused kernels: they compile, they agree with their plain forms, and a kernel that fails is
replaced by the plain form with a line in the log.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from mixlens.kernels import contributions, gram
from mixlens.kernels.fused import checked
from mixlens.kernels.fused import contributions as fused_contributions
from mixlens.kernels.fused import norms as fused_norms
from mixlens.kernels.fused.checked import (
    Combination,
    Sampler,
    Trial,
    run_checked,
    sample_size,
    widen,
)
from tests.kernels.decompositions import in_float32, random_decomposition

CPU = torch.device("cpu")
HALF = (torch.bfloat16, torch.float16)
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="NOT RUN: Triton is not installed (it comes with torch for CUDA)",
)


def run_program(name: str, **environment: str) -> None:
    kept = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.kernels.{name}"],
        env={**kept, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@needs_triton
def test_every_kernel_compiles_for_hopper() -> None:
    run_program("compiling")


@needs_triton
def test_every_kernel_agrees_with_its_plain_form() -> None:
    run_program("interpreting", TRITON_INTERPRET="1")


@pytest.fixture(autouse=True)
def _nothing_tried(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(checked, "_works", {})
    caplog.set_level(logging.INFO, logger="mixlens")


def combination(block: int = 0) -> Combination:
    return Combination("doubling", CPU, (torch.bfloat16,), (block,))


class Doubling:
    """Two forms of one function. The fused one adds `error`, or raises it."""

    def __init__(self, error: float | Exception = 0.0) -> None:
        self.error = error
        self.trials = 0

    def fused(self, numbers: Tensor) -> Tensor:
        if isinstance(self.error, Exception):
            raise self.error
        return 2 * numbers + self.error

    def trial(self) -> Trial:
        self.trials += 1
        numbers = Sampler(CPU).normal(5)
        return Trial(self.fused(numbers), 2 * numbers.double(), 1e-5)

    def __call__(self, numbers: Tensor, block: int = 0) -> Tensor:
        return run_checked(
            combination(block),
            fused=lambda: self.fused(numbers),
            plain=lambda: numbers + numbers,
            trial=self.trial,
        )


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("PassManager::run failed"), "RuntimeError: PassManager::run failed"),
        (ValueError("at 61:19:\n  quoted source\n    ^\nboth dtypes"), "at 61:19: … both dtypes"),
        (caused(ValueError("at 28:19:\n  source\n   ^"), AssertionError("dtype")), "Error: dtype"),
        (ImportError("No module named 'triton'"), "ImportError: No module named 'triton'"),
        (0.01, "off by 1.0e-02"),
        (float("nan"), "off by nan"),
        (float("inf"), "off by inf"),
    ],
)
def test_a_failing_kernel_is_replaced_and_logged(
    error: float | Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    doubling = Doubling(error)
    for _ in range(3):
        assert doubling(torch.tensor([3.0])).tolist() == [6.0]
    assert doubling.trials == 1
    (line,) = caplog.messages
    assert line.startswith("the fused kernel `doubling` is replaced by plain torch")
    assert "bfloat16" in line
    assert reason in line


def test_a_kernel_that_works_is_tried_once_for_each_block() -> None:
    doubling = Doubling()
    for block in (0, 1, 0, 1):
        assert doubling(torch.tensor([3.0]), block).tolist() == [6.0]
    assert doubling.trials == 2


def test_a_kernel_may_fail_after_its_trial(caplog: pytest.LogCaptureFixture) -> None:
    doubling = Doubling()
    doubling(torch.tensor([3.0]))
    doubling.error = RuntimeError("out of resource: shared memory")
    for _ in range(2):
        assert doubling(torch.tensor([4.0])).tolist() == [8.0]
    (line,) = caplog.messages
    assert "shared memory" in line


@pytest.mark.parametrize(
    "error",
    [MemoryError(), torch.OutOfMemoryError(), RuntimeError("Triton Error [CUDA]: out of memory")],
)
def test_out_of_memory_errors_are_raised_and_not_cached(error: Exception) -> None:
    doubling = Doubling(error)
    with pytest.raises(type(error)):
        doubling(torch.tensor([3.0]))
    doubling.error = 0.0
    doubling(torch.tensor([3.0]))
    doubling.error = error
    with pytest.raises(type(error)):
        doubling(torch.tensor([3.0]))
    doubling.error = 0.0
    assert doubling(torch.tensor([3.0])).tolist() == [6.0]
    assert doubling.trials == 2


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_kernels_that_cannot_run_here_leave_the_scores_as_they_are(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Real kernels on tensors of a CPU: Triton is missing, or it has no device for them."""
    parts = in_float32(random_decomposition(40, seed=1))
    values, matrix = (part.to(dtype) for part in (parts.vectors.values, parts.vectors.matrix))
    parts = replace(parts, vectors=replace(parts.vectors, values=values, matrix=matrix))
    state = torch.get_rng_state()
    before = (
        gram.part_norms(parts, 2**20),
        contributions.l1_contributions(parts, parts.total, 2**20),
    )
    for kernels in (fused_norms, fused_contributions):
        monkeypatch.setattr(kernels, "applies", lambda weights: True)
    after = gram.part_norms(parts, 2**20), contributions.l1_contributions(parts, parts.total, 2**20)
    assert all(map(torch.equal, before, after))
    assert torch.equal(state, torch.get_rng_state())
    assert len(caplog.messages) == 2
    assert all("is replaced by plain torch" in line for line in caplog.messages)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("count", [33, 64])
def test_plain_forms_take_half_precision_vectors(
    dtype: torch.dtype, causal: bool, count: int
) -> None:
    wide = random_decomposition(count, seed=2, causal=causal)
    values, matrix = (part.to(dtype) for part in (wide.vectors.values, wide.vectors.matrix))
    half = replace(in_float32(wide), vectors=replace(wide.vectors, values=values, matrix=matrix))
    wide = replace(wide, vectors=widen(half.vectors))
    assert not half.vectors.few(count)
    pairs = [
        (gram.part_norms(half, 2**20), gram.part_norms(wide, 2**20)),
        (
            contributions.l1_contributions(half, half.total, 2**20, shift=0.1),
            contributions.l1_contributions(wide, wide.total, 2**20, shift=0.1),
        ),
    ]
    for narrow, expected in pairs:
        assert narrow.dtype == torch.float32
        error = (narrow.double() - expected).abs().max()
        assert error <= 2 * torch.finfo(dtype).eps * expected.abs().max()


def test_samples_have_the_programs_of_the_sizes_they_stand_for() -> None:
    for size in (1, 2, 16, 33, 50, 64, 200, 400, 2000):
        sample = sample_size(size)
        assert (sample == 1, sample % 16 == 0) == (size == 1, size % 16 == 0)


@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_sampled_vectors_are_exact_in_every_precision(dtype: torch.dtype) -> None:
    vectors = Sampler(CPU).vectors(2, 3, 5, 40, dtype)
    assert torch.equal(vectors.of().double(), widen(vectors).of())
    assert vectors.of().double().std() > 0.5
