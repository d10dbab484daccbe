"""A copy of a module has its weights, but not the objects that its hooks belong to."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mixlens import Lens
from mixlens.model.module_walk import copy_module
from tests.conformance.zoo import built, inputs


class _Owner:
    """Of a hook. It may be as large as a model, so it is never copied."""

    calls = 0

    def count(self, *given: object) -> None:
        self.calls += 1

    def __deepcopy__(self, memo: Any) -> Any:
        raise AssertionError("copied")


def test_hooks_are_shared_and_weights_are_not() -> None:
    part, owner = nn.Linear(2, 2), _Owner()
    part.register_forward_hook(owner.count)
    made = copy_module(part)
    made(torch.ones(1, 2))
    assert owner.calls == 1
    assert isinstance(made.weight, nn.Parameter)
    assert made.weight is not part.weight
    part.weight.data.zero_()
    assert made.weight.abs().sum() > 0


def test_a_replaced_object_is_taken_as_it_is() -> None:
    part = nn.Linear(2, 2)
    weight = nn.Parameter(torch.ones(2, 2))
    assert copy_module(part, {id(part.weight): weight}).weight is weight


def test_layers_in_half_precision_are_copied_without_what_is_hooked_to_them() -> None:
    model, owner = built("llama").to(torch.bfloat16), _Owner()
    for part in model.modules():
        part.register_forward_hook(owner.count)
    assert Lens(model).measure("value_zeroing", inputs("llama"), targets=[-1])
    assert owner.calls
