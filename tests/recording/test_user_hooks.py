"""A layer that a user's hook changes is left out, with a warning that names the hook."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mixlens import Lens, UnsupportedModel

TEXT = "The keys to the old cabinet"
LEFT = (0, 2, 3, 4, 5)


def steer(module: nn.Module, given: Any, output: Any) -> Any:
    return output + 1.0


def louder(module: nn.Module, given: Any) -> Any:
    return (2 * given[0], *given[1:])


def louder_in_place(module: nn.Module, given: Any) -> None:
    given[0].mul_(2)


def watch(seen: list[Any], module: nn.Module, given: Any, output: Any) -> None:
    seen.append(output)


def layer_of(lens: Lens) -> nn.Module:
    return lens.model.get_submodule("model.layers.1")


PUT: dict[str, Callable[[nn.Module], Any]] = {
    "steer": lambda layer: layer.register_forward_hook(steer),
    "louder": lambda layer: layer.register_forward_pre_hook(louder),
    "louder_in_place": lambda layer: layer.register_forward_pre_hook(louder_in_place),
    "mlp": lambda layer: layer.get_submodule("mlp").register_forward_hook(steer),
    "projection": lambda layer: layer.get_submodule("self_attn.o_proj").register_forward_hook(
        steer
    ),
}


@pytest.mark.parametrize("hook", PUT)
@pytest.mark.parametrize("known", [False, True])
def test_a_hook_that_changes_a_layer_is_named(hook: str, known: bool) -> None:
    """`known`: the model was taken apart before the hook was there."""
    lens = Lens.bundled("causal")
    plain = lens.measure("value_zeroing", TEXT).scores if known else None
    handle = PUT[hook](layer_of(lens))
    name = hook if hook.startswith("louder") else "steer"
    for targets in (None, [-1]):
        with pytest.warns(UserWarning, match=rf"hooks change its output \(`{name}` on"):
            assert lens.measure("value_zeroing", TEXT, targets=targets).layers == LEFT
    handle.remove()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = lens.measure("value_zeroing", TEXT)
    assert after.layers == tuple(range(6))
    if plain is not None:
        np.testing.assert_array_equal(after.scores, plain)


@pytest.mark.filterwarnings("ignore:not measured")
def test_nothing_goes_through_a_layer_that_is_left_out() -> None:
    lens = Lens.bundled("causal")
    layer_of(lens).register_forward_hook(steer)
    ways: dict[str, Callable[[], object]] = {
        name: functools.partial(lens.measure, name, TEXT)
        for name in ("decompx", "decompx_logit", "alti_logit", "hidden_token_attribution")
    }
    ways["routes"] = functools.partial(lens.routes, TEXT)
    ways["rollout"] = functools.partial(lens.rollout, "alti", TEXT, [-1])
    for name, way in ways.items():
        with pytest.raises(UnsupportedModel, match=r"only layers 0, 2|are unsupported"):
            print(name, way())
    assert lens.measure("decompx", TEXT, local=True).layers == LEFT


def test_a_hook_that_looks_changes_nothing() -> None:
    lens, seen = Lens.bundled("causal"), list[Any]()
    expected = lens.measure("alti", TEXT)
    layer_of(lens).register_forward_hook(functools.partial(watch, seen))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lens.measure("alti", TEXT) == expected
    assert seen
    assert len(layer_of(lens)._forward_hooks) == 1
    assert torch.is_tensor(seen[0])
