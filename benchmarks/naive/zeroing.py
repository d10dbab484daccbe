"""Value Zeroing by running the whole layer once for every zeroed token, as the program of Mohebbi et al. (2023) does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.naive.layer import RecordedLayer


@torch.no_grad()
def value_zeroing(layer: RecordedLayer, targets: Sequence[int] | None = None) -> Tensor:
    """[target, source]: cosine distances. A single target costs as many layer runs as all of them."""
    chosen = list(range(len(layer.hidden))) if targets is None else list(targets)
    original = layer.output(layer.hidden)[chosen].double()
    columns = []
    for source in range(len(layer.hidden)):

        def zeroed(module: nn.Module, inputs: object, output: Tensor, source: int = source) -> Tensor:
            output[:, source] = 0
            return output

        handle = layer.module.attention.self.value.register_forward_hook(zeroed)
        try:
            changed = layer.output(layer.hidden)[chosen].double()
        finally:
            handle.remove()
        columns.append(1 - functional.cosine_similarity(changed, original, dim=-1))
    return torch.stack(columns, -1)
