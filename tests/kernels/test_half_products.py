"""Products with half-precision factors against float64, on a CPU and on a GPU."""

from __future__ import annotations

import pytest
import torch

from mixlens.kernels.half_products import multiply, multiply_wide

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(
            not torch.cuda.is_available(), reason="NOT RUN: there is no GPU here"
        ),
    ),
]
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sums_are_in_float32(device: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows = torch.randn(3, 40, 64).to(device, dtype)
    columns = torch.randn(3, 500, 64).to(device, dtype).mT
    product = multiply(rows, columns, 0.3)
    assert product.dtype == torch.float32
    assert error(product, 0.3 * (rows.double() @ columns.double())) <= 1e-6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])  # float16 has no numbers near the last
def test_wide_rows_keep_their_digits(device: str, dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    rows = scale * torch.randn(3, 40, 500).softmax(-1).to(device)
    columns = torch.randn(1, 500, 3, 64).to(device, dtype).transpose(1, 2).flatten(0, 1)
    bias = scale * torch.randn(64).to(device)
    exact = rows.double() @ columns.double()
    for product, whole in (
        (multiply_wide(rows, columns), exact),
        (multiply_wide(rows, columns, bias), exact + bias),
    ):
        assert product.dtype == torch.float32
        assert error(product, whole) <= 2e-5


def test_float64_stays_float64() -> None:
    rows = torch.randn(2, 5, 8, dtype=torch.float64)
    columns = torch.randn(2, 8, 6)
    assert torch.equal(multiply_wide(rows, columns), rows @ columns.double())
