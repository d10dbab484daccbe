"""Products with bare parameters are seen as linear modules: XLNet, in float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import mixlens
from mixlens.model.module_walk import BareProducts, named_parts, part_at
from mixlens.replay.value_map import value_map
from tests.zoo.models import entries


@pytest.fixture(scope="module")
def model() -> Any:
    return next(e for e in entries() if e.name == "XLNetLMHeadModel").build().double()


IDS = {"input_ids": torch.tensor([[5, 9, 3, 20, 7], [8, 2, 30, 4, 11]])}


class Owner(nn.Module):
    def __init__(self, equation: str) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(4, 2, 3, generator=torch.manual_seed(0)))
        self.equation = equation

    def forward(self, given: Tensor) -> Tensor:
        made: Tensor = torch.einsum(self.equation, given, self.matrix)
        return made


@pytest.mark.parametrize(
    ("equation", "sizes", "channels"),
    [
        ("ibh,hnd->ibnd", (5, 6, 4), (4, 6)),
        ("ibnd,hnd->ibh", (5, 6, 2, 3), (6, 4)),
        ("idn, hnd -> ih", (5, 3, 2), (6, 4)),
        ("ibn,hnd->ibdh", (5, 6, 2), (2, 12)),
        ("inb,hnd->ibhd", (5, 2, 6), None),  # rows are not in front
        ("ibnd,hnd->ibnh", (5, 6, 2, 3), None),  # one matrix for each n
        ("ibn,hnd->bihd", (5, 6, 2), None),
    ],
)
def test_a_product_is_a_module_if_it_is_linear(
    equation: str, sizes: tuple[int, ...], channels: tuple[int, int] | None
) -> None:
    owner, given = Owner(equation), torch.randn(sizes, generator=torch.manual_seed(1))
    expected = owner(given)
    with BareProducts(owner):
        made = owner(given)
    torch.testing.assert_close(made, expected)
    path = f"matrix[{equation.replace(' ', '')}]"
    products = [part for name, part in named_parts(owner) if name == path]
    assert len(products) == (channels is not None)
    if channels is not None:
        (product,) = products
        assert part_at(owner, path) is product
        assert isinstance(product.weight, Tensor)
        assert product.weight.T.shape == channels
        handle = product.register_forward_hook(lambda module, args, output: output * 2)
        with BareProducts(owner):
            torch.testing.assert_close(owner(given), expected * 2)
        handle.remove()


class Weights(TorchFunctionMode):
    """Keeps every softmax and goes on with a leaf in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.leaves: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func is torch.nn.functional.softmax:
            made = made.detach().requires_grad_()
            self.leaves.append(made)
        return made


def test_the_gradient_is_that_of_the_weights(model: Any) -> None:
    recording = mixlens.Lens(model).record(IDS)
    maps = mixlens.measure("attention_gradient", recording, word=3, position=2)
    scores = torch.stack([torch.tensor(m.scores[-1]) for m in maps])
    with Weights() as kept:
        logits = model(**IDS).logits
    weights = kept.leaves[-1]
    slope = torch.autograd.grad(logits[:, 2, 3].sum(), weights)[0]
    torch.testing.assert_close(scores.double(), (slope * weights).clamp_min(0).mean(1))


def test_values_are_followed_to_the_parameter(model: Any) -> None:
    layer = mixlens.Lens(model).record(IDS).layers()[1]
    weight, bias = value_map(layer, layer.site())
    torch.testing.assert_close(weight, model.transformer.layer[1].rel_attn.v.transpose(0, 1))
    assert not bias.any()
