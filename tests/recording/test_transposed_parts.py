"""Submodules whose tensors have the tokens before the batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mixlens.capture.layer_calls import HookPoint, LayerCall
from mixlens.structure.layouts import find_swapped_sides, swap_parts


class Turning(nn.Module):
    """Takes the tokens first and returns the rows first."""

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden.transpose(0, 1) * 2


class Turned(nn.Module):
    """A layer with the tokens first."""

    def __init__(self) -> None:
        super().__init__()
        self.turning = Turning()
        self.plain = nn.Linear(3, 3)

    def forward(self, hidden: Tensor) -> Tensor:
        made: Tensor = self.plain(self.turning(hidden).transpose(0, 1))
        return made


@pytest.mark.parametrize(("tokens", "rows"), [(4, 4), (5, 4)])
def test_a_part_may_take_the_tokens_first_and_return_the_rows_first(tokens: int, rows: int) -> None:
    layer = Turned()
    sides = find_swapped_sides(LayerCall("", layer, (torch.randn(5, 2, 3),), {}))
    assert sides == {
        HookPoint("turning", "in"),
        HookPoint("plain", "in"),
        HookPoint("plain", "out"),
    }
    given = torch.randn(tokens, rows, 3, generator=torch.manual_seed(0))
    expected, seen = layer(given), dict[str, Tensor]()

    def look(path: str, part: nn.Module) -> None:
        part.register_forward_pre_hook(lambda _, args: seen.update({f"{path} in": args[0]}))
        part.register_forward_hook(lambda _, args, output: seen.update({f"{path} out": output}))

    for path, part in layer.named_children():
        look(path, part)
    with swap_parts(layer, rows, tokens, sides):
        torch.testing.assert_close(layer(given), expected)
    turned = given.transpose(0, 1)
    torch.testing.assert_close(seen["turning in"], turned)
    torch.testing.assert_close(seen["turning out"], turned * 2)
    torch.testing.assert_close(seen["plain in"], turned * 2)
    torch.testing.assert_close(seen["plain out"], expected.transpose(0, 1))
