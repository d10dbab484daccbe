"""Value Zeroing by running the whole layer once for every zeroed token, as the code of Mohebbi
et al. (2023) does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.naive.layer import RecordedLayer


@torch.no_grad()
def value_zeroing(layer: RecordedLayer, targets: Sequence[int] | None = None) -> Tensor:
    """[target, source]: cosine distances.

    A single target costs as many layer runs as all of them.
    """
    chosen = list(range(len(layer.hidden))) if targets is None else list(targets)
    original = layer.output(layer.hidden)[chosen].double()
    columns = []
    for source in range(len(layer.hidden)):

        def zeroed(module: Any, inputs: object, output: Tensor, source: int = source) -> Tensor:
            output[:, source] = 0
            return output

        handle = layer.module.attention.self.value.register_forward_hook(zeroed)
        try:
            changed = layer.output(layer.hidden)[chosen].double()
        finally:
            handle.remove()
        columns.append(1 - functional.cosine_similarity(changed, original, dim=-1))
    return torch.stack(columns, -1)


@torch.no_grad()
def second_products(layer: RecordedLayer, rows: int = 2048) -> None:
    """What any exact form must do for all pairs: the second product of the feed-forward part, d_ff
    x d_model on targets x sources rows.

    Its rows differ from pair to pair by a nonlinear function, and each output's length needs all
    its channels, so none of it can be shared or left out. Nothing else is done here: the rows are
    the same few again and again.
    """
    matrix = layer.module.output.dense.weight
    pairs = len(layer.hidden) ** 2
    hidden = torch.randn(
        min(rows, pairs), matrix.shape[1], generator=torch.Generator().manual_seed(0)
    ).to(matrix)
    made = hidden.new_empty(len(hidden), matrix.shape[0])
    for start in range(0, pairs, len(hidden)):
        count = min(len(hidden), pairs - start)
        torch.mm(hidden[:count], matrix.T, out=made[:count])
