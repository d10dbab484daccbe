"""The cache of a model is cleared whenever the model changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mixlens import Lens
from mixlens.model.fingerprint import ModelState, contents
from mixlens.model.session import ModuleCache, numbers_of, open_session
from tests.conformance.zoo import built, inputs


def _gains_through_data(model: Any) -> None:
    for layer in model.encoder.layer:
        layer.attention.output.LayerNorm.weight.data.mul_(1.03)


def _biases_through_numpy(model: Any) -> None:
    for layer in model.encoder.layer:
        layer.attention.output.LayerNorm.bias.detach().numpy()[:] += 0.05


def _columns_through_data(model: Any) -> None:
    for layer in model.encoder.layer:
        layer.attention.output.dense.weight.data[:, 1:5] = 0


def _a_function(model: Any) -> None:
    for layer in model.encoder.layer:
        layer.intermediate.intermediate_act_fn = F.relu


@pytest.mark.parametrize(
    "change", [_gains_through_data, _biases_through_numpy, _columns_through_data, _a_function]
)
def test_scores_follow_what_no_counter_shows(change: Callable[[Any], None]) -> None:
    model = built("bert")
    for layer in model.encoder.layer:
        del layer.intermediate.intermediate_act_fn  # a module
        layer.intermediate.intermediate_act_fn = F.gelu
    changed, given = copy.deepcopy(model), inputs("bert", tokens=12)
    lens, fresh = Lens(model), Lens(changed)
    measures = ("alti", "effective_attention", "value_zeroing", "attention_norm_ff", "decompx")
    for name in measures:
        lens.measure(name, given)
        lens.measure(name, given, targets=[-1])
    change(model)
    change(changed)
    for name in measures:
        for how in ({}, {"targets": [-1]}):
            ours, theirs = (each.measure(name, given, **how) for each in (lens, fresh))
            assert isinstance(ours, list)
            assert isinstance(theirs, list)
            for one, other in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(one.scores, other.scores, name)


def test_a_deleted_function_is_not_confused_with_a_new_one() -> None:
    """A new function may be given the id of one that is gone."""
    part, seen = nn.Linear(2, 2), ModuleCache[int]()

    def patch(number: int) -> Any:
        made = lambda given: given + number  # noqa: E731
        vars(part)["forward"] = made
        return id(made)

    first = patch(1)
    assert seen.of(part, None, lambda: 1) == 1
    for number in range(2, 2000):
        del vars(part)["forward"]
        if patch(number) == first:
            break
    else:
        pytest.skip("no id was given twice")
    assert seen.of(part, None, lambda: number) == number


def test_a_class_whose_code_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    part = nn.Sequential(nn.ReLU())
    before = numbers_of(part)
    assert numbers_of(part) == before
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, given: given)
    assert numbers_of(part) != before


def test_a_part_in_the_place_of_one_of_its_kind() -> None:
    part = nn.Sequential(nn.ReLU())
    before = numbers_of(part)
    part[0] = nn.ReLU()
    assert numbers_of(part) != before


def test_contents_are_those_of_every_bit() -> None:
    vector = torch.tensor([1.0, -2.0, torch.nan])
    assert contents([vector]) == contents([vector.clone()])
    for other in (-vector, vector.flip(0), vector.nextafter(torch.zeros(3)), vector.half()):
        assert contents([vector]) != contents([other])
    assert contents([torch.empty(3, device="meta")]) == ()


def test_the_fingerprint_is_computed_once_while_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    model, looks, look = nn.Linear(2, 2).eval(), list[nn.Module](), ModelState.of

    def looked_at(module: nn.Module) -> ModelState:
        looks.append(module)
        return look(module)

    monkeypatch.setattr(ModelState, "of", looked_at)
    with open_session(model), open_session(model):
        numbers_of(model)
    assert looks == [model]
