"""Comparisons in which a large number does not hide others, and random checks of products."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import Lens
from mixlens.kernels import differences
from mixlens.kernels.differences import (
    ROUNDING,
    difference,
    product_errors,
    rounding,
    same_bar,
    sum_errors,
    weighted_sum_errors,
)
from mixlens.model.placement import is_out_of_memory
from tests.measures import models


def _rows(seed: int = 0) -> Tensor:
    return torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(seed))


def test_an_outlier_token_does_not_hide_the_others() -> None:
    expected = _rows()
    expected[0, 0, 3] = 1e6
    actual = expected.clone()
    actual[0, 4, 2] += 0.5
    assert difference(actual, expected) > 0.1
    assert difference(expected, expected) == 0


def test_rounding_of_a_row_that_cancels_is_no_difference() -> None:
    expected = _rows()
    expected[0, 2] = 0
    actual = expected.clone()
    actual[0, 2] = 1e-8
    assert difference(actual, expected) < 1e-4
    assert difference(actual, torch.zeros_like(expected)) > 1


def test_products_read_a_matrix_in_memory_order() -> None:
    """The other order reads a large matrix several times as slowly."""
    directions, matrix = torch.randn(2, 8), _rows()
    for given, in_order in ((matrix, True), (matrix.mT.contiguous().mT, False)):
        made = differences._along(directions, given)
        assert torch.allclose(made, directions @ matrix.mT, atol=1e-5)
        assert made.mT.is_contiguous() is in_order


def test_mirrored_errors_and_mirrored_channels_in_products() -> None:
    generator = torch.Generator().manual_seed(1)
    left, half = (torch.randn(s, generator=generator).double() for s in ((5, 4), (4, 3)))
    right = torch.cat([half, -half], -1)  # the channels of a compiled program
    product = left @ right
    assert product_errors(product[None], left[None], right[None]) < 1e-12
    for channel in range(5):  # random signs miss one that agrees with its neighbour
        wrong = product.clone()
        wrong[3, channel] += 0.1
        wrong[3, channel + 1] -= 0.1
        assert product_errors(wrong[None], left[None], right[None]) > 1e-4


def test_a_product_row_is_measured_by_its_own_size() -> None:
    left, right = _rows()[0].double(), _rows(1)[0].T.double()
    left[0] *= 1e6
    product = left @ right
    product[4] *= 1.1
    assert product_errors(product[None], left[None], right[None]) > 1e-3


def test_stacked_products_and_sums_are_measured_one_by_one() -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = (3, 2, 5, 4), (3, 4, 6), (3, 6)
    left, right, shift = (torch.randn(s, generator=generator).double() for s in shapes)
    product = left @ right[:, None] + shift[:, None, None]
    wrong = product.clone()
    wrong[1, 1, 2] *= 1.01
    assert (product_errors(product, left, right, shift) < 1e-12).all()
    off = product_errors(wrong, left, right, shift)
    assert (off > 1e-4).tolist() == [False, True, False]
    assert product_errors(wrong[1:2], left[1:2], right[1:2], shift[1:2])[0] == off[1]
    assert (sum_errors(product, wrong, product) > 1e-4).tolist() == [False, True, False]
    assert sum_errors(product, product, product).tolist() == [0, 0, 0]
    assert sum_errors(product, product[:, :1], product).tolist() == [torch.inf] * 3


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_an_outlier_activation_does_not_change_the_structure(size: float) -> None:
    model = models.randomised(hf.LlamaModel(hf.LlamaConfig(**models._CAUSAL))).float()
    ids = torch.randint(0, 50, (1, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.embed_tokens.weight[ids[0, 0], 3] = size
    recording = Lens(model).record({"input_ids": ids})
    assert {layer.structure.style for layer in recording.layers()} == {"pre"}


def test_products_with_fewer_digits_have_a_wider_bar() -> None:
    like = torch.ones(2)
    narrow = same_bar(like)
    torch.set_float32_matmul_precision("medium")
    try:
        assert rounding(like) == ROUNDING[torch.bfloat16]
        assert same_bar(like) == ROUNDING[torch.bfloat16] / 4 > narrow
    finally:
        torch.set_float32_matmul_precision("highest")


def test_other_shapes_differ_and_nothing_does_not() -> None:
    assert difference(torch.ones(2, 3), torch.ones(3, 2)) == float("inf")
    assert difference(torch.ones(0, 3), torch.ones(0, 3)) == 0


def test_errors_that_speak_of_memory() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not is_out_of_memory(RuntimeError("a wrong shape"))


def test_weighted_sums_without_a_look_at_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "may_look_at", lambda numbers: False)
    generator = torch.Generator().manual_seed(3)
    shapes = (2, 3, 4, 6), (2, 3, 3, 5)
    scores, half = (torch.randn(s, generator=generator).double() for s in shapes)
    weights, vectors = scores.softmax(-1), torch.cat([half, -half], 2)
    weights[0, 0, 1] = 1 / 6  # opposite vectors: what is left of their sum is rounding
    product = weights @ vectors
    assert product[0, 0, 1].abs().max() < 1e-15
    given = [tensor[None] for tensor in (product, weights, vectors)]
    assert weighted_sum_errors(*given) < 1e-9
    np.testing.assert_allclose(weighted_sum_errors(*given), product_errors(*given))
    wrong = product.clone()
    wrong[1, 2, 3, 0] *= 1.01
    assert weighted_sum_errors(wrong[None], *given[1:]) > 1e-4
    weights[1, 1, 2] *= -1  # its row alone is measured by less
    given = [tensor[None] for tensor in (weights @ vectors, weights, vectors)]
    assert weighted_sum_errors(*given) < 1e-12
