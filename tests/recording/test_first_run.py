"""Models that unpack their weights in the first run are measured, and run on after an error."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mixlens import Lens
from mixlens.errors import UnsupportedModel
from mixlens.model.restore_model import restore_on_exit
from mixlens.model.session import open_session
from tests.conformance.zoo import built, inputs

GIVEN = {"input_ids": inputs("llama")["input_ids"][:1]}


def rounded(x: Tensor) -> Tensor:
    """Quantise activations to int8."""
    step = x.abs().amax(-1, keepdim=True).clamp_min(1e-9) / 127
    return (x / step).round() * step


def packed_until_run(activations: Callable[[Tensor], Tensor] = torch.clone) -> Any:
    """As compressed-tensors packs a model: the first run unpacks it, and the hook removes itself.

    The shape of each packed weight stays a parameter of integers.
    """

    def forward(self: nn.Linear, x: Tensor) -> Tensor:
        return nn.functional.linear(activations(x), self.weight, self.bias)

    model = built("llama", head=True)
    weights = {}
    for path, part in model.named_modules():
        if type(part) is nn.Linear and path != "lm_head":
            weights[part] = part.weight
            del part.weight
            for name in ("weight_packed", "weight_shape"):
                numbers = torch.ones(2, dtype=torch.int32)
                part.register_parameter(name, nn.Parameter(numbers, requires_grad=False))
            vars(part)["forward"] = types.MethodType(forward, part)
            vars(part)["status"] = "compressed"

    def unpack(model: Any, args: object, kwargs: object) -> None:
        for part, weight in weights.items():
            del part.weight_packed
            part.weight = weight
            vars(part)["status"] = "frozen"
        model.handle.remove()
        del model.handle

    model.handle = model.register_forward_pre_hook(unpack, with_kwargs=True)
    return model


ASKED: list[Callable[[Lens], Any]] = [
    lambda lens: lens.measure("attention_norm", GIVEN).scores,
    lambda lens: lens.measure("alti", GIVEN, targets=[-1]).scores,
    lambda lens: lens.measure("alti", lens.record(GIVEN)).scores,
    lambda lens: lens.measure("attention_norm", lens.generate(GIVEN, max_new_tokens=2)).scores,
    lambda lens: len(lens.verify(GIVEN).measures),
]


@pytest.mark.parametrize("ask", ASKED)
def test_unpacked_weights_are_measured(ask: Callable[[Lens], Any]) -> None:
    plain, model = built("llama", head=True), packed_until_run()
    for _ in range(2):
        np.testing.assert_allclose(ask(Lens(model)), ask(Lens(plain)), atol=1e-6)
        assert torch.equal(model(**GIVEN).logits, plain(**GIVEN).logits)
    assert not model._forward_pre_hooks
    assert not hasattr(model, "handle")


@pytest.mark.parametrize("ask", ASKED)
def test_a_refused_model_runs_on(ask: Callable[[Lens], Any]) -> None:
    expected = packed_until_run(rounded)(**GIVEN).logits
    model = packed_until_run(rounded)
    with pytest.raises(UnsupportedModel, match="quantises activations"):
        ask(Lens(model))
    for _ in range(2):
        assert torch.equal(model(**GIVEN).logits, expected)
    assert not model._forward_pre_hooks
    assert not hasattr(model, "handle")


def test_weights_and_hooks_come_back_together() -> None:
    model = packed_until_run()
    part, hooks = model.model.layers[0].mlp.down_proj, dict(model._forward_pre_hooks)
    with open_session(model):
        expected = model(**GIVEN).logits
        assert not model._forward_pre_hooks
    assert not hasattr(part, "weight")
    assert part.status == "compressed"
    assert dict(model._forward_pre_hooks) == hooks
    assert torch.equal(model(**GIVEN).logits, expected)


def test_hooks_keep_their_order_and_options() -> None:
    calls: list[str] = []
    part = nn.Linear(2, 2)

    def once(module: nn.Module, args: object, kwargs: object) -> None:
        calls.append("once")
        handle.remove()

    handle = part.register_forward_pre_hook(once, with_kwargs=True)
    part.register_forward_pre_hook(lambda module, args: calls.append("always"))
    with restore_on_exit(part):
        part(torch.ones(1, 2))
        part(torch.ones(1, 2))
    assert calls == ["once", "always", "always"]
    part(torch.ones(1, 2))
    part(torch.ones(1, 2))
    assert calls[3:] == ["once", "always", "always"]
