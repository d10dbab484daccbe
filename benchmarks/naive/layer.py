"""One recorded BERT layer as the authors' code sees it: attention weights, value vectors, hidden
states and the layer's own modules.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mixlens.recording.recording import Recording


@dataclass(frozen=True)
class RecordedLayer:
    """The layer's parts for one text."""

    module: Any
    hidden: Tensor  # [token, d_model], the layer's input
    attention: Tensor  # [head, target, source]
    values: Tensor  # [head, source, d_head]
    dense: Tensor  # [head, d_head, d_model], the output projection
    before_norm: Tensor  # [token, d_model], what enters the first norm
    block_output: Tensor  # [token, d_model], what leaves it
    before_second_norm: Tensor

    @classmethod
    @torch.no_grad()
    def of(
        cls, recording: Recording, index: int, dtype: torch.dtype | None = None
    ) -> RecordedLayer:
        """From a recording of one text, in its own precision or in `dtype`."""
        layer = recording.layers()[index]
        site = layer.site()
        module: Any = layer.module
        if dtype is not None:
            module = copy.deepcopy(module).to(dtype)
        hidden, attention, values, dense, bias = (
            tensor if dtype is None else tensor.to(dtype)
            for tensor in (
                layer.input[0],
                site.weights[0],
                site.values[0],
                site.output_weight,
                site.output_bias,
            )
        )
        before = torch.einsum("hts,hsv,hvd->td", attention, values, dense) + bias + hidden
        block = module.attention.output.LayerNorm(before)
        second = module.output.dense(module.intermediate(block)) + block
        return cls(module, hidden, attention, values, dense, before, block, second)

    @property
    def norm(self) -> nn.LayerNorm:
        return self.module.attention.output.LayerNorm

    @property
    def second_norm(self) -> nn.LayerNorm:
        return self.module.output.LayerNorm

    def output(self, hidden: Tensor) -> Tensor:
        """The whole layer on one text."""
        returned = self.module(hidden[None])
        return (returned[0] if isinstance(returned, tuple) else returned)[0]


def relative_error(actual: Tensor | np.ndarray, expected: Tensor | np.ndarray) -> float:
    """The largest difference, relative to the largest expected number."""
    a, b = (
        np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x, dtype=np.float64)
        for x in (actual, expected)
    )
    return float(np.abs(a - b).max() / np.abs(b).max())
