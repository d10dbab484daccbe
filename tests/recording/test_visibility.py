"""The sources that a target sees, from the mask or, without one, from the weights."""

from __future__ import annotations

import pytest
import torch

from mixlens.capture.attention_call import Visibility, find_visible

LOWER = torch.ones(5, 5).tril().bool()


@pytest.mark.parametrize("low", [-1e4, -1e9, -torch.inf])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_number_that_stands_for_a_mask_hides(low: float, dtype: torch.dtype) -> None:
    value = low if torch.isinf(torch.tensor(low)) else max(low, torch.finfo(dtype).min)
    mask = torch.zeros(5, 5, dtype=dtype).masked_fill(~LOWER, value)
    seen = Visibility(mask[None, None]).visible
    assert seen is not None
    torch.testing.assert_close(seen[0, 0], LOWER)
    assert Visibility(mask[None, None]).hides_later
    assert Visibility(mask[None, None]).ends == [5]
    assert Visibility(mask[None, None, :2]).ends == [2]


def test_biases_hide_nothing() -> None:
    far = -64.0 * (torch.arange(50)[:, None] - torch.arange(50)).abs()
    assert bool(find_visible(far).all())
    assert not Visibility(far[None, None]).hides_later
    assert bool(find_visible(torch.ones(5, 5)).all())


def test_a_row_that_is_masked_throughout_is_uniform_unless_it_is_infinite() -> None:
    lowest = torch.full((1, 4), torch.finfo(torch.float32).min)
    assert bool(find_visible(lowest).all())
    assert not bool(find_visible(torch.full((1, 4), -torch.inf)).any())


def test_heads_that_agree_are_one() -> None:
    same = LOWER.expand(2, 3, 5, 5)
    seen = Visibility(visible=same).visible
    assert seen is not None
    assert seen.shape == (2, 1, 5, 5)
    differing = same.clone()
    differing[0, 2, 4, 0] = False
    seen = Visibility(visible=differing).visible
    assert seen is not None
    assert seen.shape == (2, 3, 5, 5)


def test_without_a_mask_everything_or_what_has_weight_is_seen() -> None:
    assert Visibility().visible is None
    assert Visibility().ends is None
    assert Visibility().blank is None
    weights = torch.softmax(torch.randn(1, 2, 5, 5).masked_fill(~LOWER, -torch.inf), -1)
    assert Visibility.of_weights(weights).hides_later


def test_targets_that_see_nothing_are_found() -> None:
    mask = LOWER.clone()
    mask[3] = False
    blank = Visibility(visible=mask).blank
    assert blank is not None
    assert blank.flatten().tolist() == [False, False, False, True, False]
    assert Visibility(visible=LOWER).blank is None


def test_no_number_is_read_from_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mixlens.kernels.differences.may_look_at", lambda numbers: False)
    blank = Visibility(visible=LOWER).blank
    assert blank is not None
    assert not blank.any()
    with torch.device("meta"):  # a look raises there
        triangle = Visibility(visible=torch.ones(5, 5, dtype=torch.bool).tril(), triangle=True)
    assert triangle.blank is None
    assert triangle.hides_later
