"""Reduced precision applies to one call only, on request."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import mixlens
from mixlens.model.session import matmul_precision
from tests.conformance.zoo import built, inputs


def test_the_setting_lasts_for_one_call_also_after_an_exception() -> None:
    before = torch.get_float32_matmul_precision()
    seen = []

    def explode() -> None:
        with matmul_precision("tf32"):
            seen.append(torch.get_float32_matmul_precision())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        explode()
    assert seen == ["high"]
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_every_precision_measures(precision: str) -> None:
    lens, given = mixlens.Lens(built("bert")), inputs("bert", rows=1)
    exact = lens.measure("alti", given)
    maps = lens.measure("alti", given, precision=precision)
    assert np.abs(maps.scores - exact.scores).max() <= (1e-6 if precision == "float32" else 5e-2)
    assert torch.get_float32_matmul_precision() == "highest"


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(mixlens.InvalidInput, match="float32, tf32, bf16"):
        mixlens.Lens(built("bert")).measure("alti", inputs("bert"), precision="half")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_is_off_while_a_model_is_measured(dtype: torch.dtype) -> None:
    lens = mixlens.Lens(built("llama", head=True).to(dtype))
    given: dict[str, torch.Tensor] = {"input_ids": inputs("llama", rows=1)["input_ids"]}
    asked = [
        lambda: lens.measure("alti", given).scores,
        lambda: lens.measure("value_zeroing", given, targets=[-1]).scores,
        lambda: lens.measure("gradient_norm", given).scores,
        lambda: lens.rollout("alti", given, [-1]).scores,
        lambda: mixlens.measure("alti", lens.generate(given, max_new_tokens=2)).scores,
        lambda: lens.identifiability(given).null_share.values,
        lambda: lens.verify(given).native_error,
    ]
    for ask in asked:
        expected = ask()
        with torch.autocast("cpu", torch.bfloat16):
            assert np.array_equal(ask(), expected)
            assert torch.is_autocast_enabled("cpu")
