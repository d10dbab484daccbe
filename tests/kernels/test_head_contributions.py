from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mixlens.kernels.decomposition import Decomposition, Vectors
from mixlens.replay import route_shares as kernel
from mixlens.replay.route_shares import head_contributions


def _decomposition(width: int, size: float, heads: int = 4, groups: int = 2) -> Decomposition:
    generator = torch.Generator().manual_seed(width)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = size * torch.softmax(3 * random(2, heads, 5, 6), -1)
    weights[:, :, 0, 3:] = 0
    y = random(2, 5, width)
    y[:, :, 2] = 0  # a channel without a sign
    return Decomposition(
        weights=weights,
        vectors=Vectors(random(2, groups, 6, 3), random(heads, 3, width)),
        scale=random(2, 5).abs(),
        own=random(2, 5, width),
        own_is_source=True,
        constant=None,
        total=y,
        positions=torch.arange(5).expand(2, 5),
    )


@pytest.mark.parametrize("shift", [0.0, 1e-6])
@pytest.mark.parametrize("size", [0.01, 1.0, 30.0])  # no channel is overshot, some, nearly all
@pytest.mark.parametrize("width", [6, 20, 200])
@pytest.mark.parametrize("few", [0, 2**23])
def test_agrees_with_every_channel_of_every_pair(
    few: int, width: int, size: float, shift: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "FEW", few)
    parts = _decomposition(width, size)
    formed, y = parts.vectors.of(), parts.total
    expected = torch.empty_like(parts.weights)
    for batch, head, target, source in torch.ones_like(expected).nonzero().tolist():
        weight = parts.weights[batch, head, target, source] * parts.scale[batch, target]
        left = weight * formed[batch, head, source] - y[batch, target] + shift
        expected[batch, head, target, source] = (y[batch, target].abs() - left.abs()).sum()
    for limit in (2**20, 2000):
        made = head_contributions(parts, y, limit, shift)
        torch.testing.assert_close(made, expected, atol=1e-11, rtol=1e-11)
        assert shift or not made[:, :, 0, 3:].any()  # unseen: not even a rounding error
