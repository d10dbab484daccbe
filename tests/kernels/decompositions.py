"""Random decompositions, and a watch on the size of what is allocated."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mixlens.kernels.decomposition import Decomposition, Vectors


def random_decomposition(
    count: int,
    *,
    seed: int,
    cross: bool = False,
    d_model: int = 6,
    heads: int = 3,
    batch: int = 2,
    causal: bool = False,
) -> Decomposition:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    weights = torch.softmax(normal(batch, heads, count, count), -1)
    weights = weights.tril() if causal else weights
    values, matrix, scale, own, constant = (
        normal(batch, heads, count, 4),
        normal(heads, 4, d_model),
        normal(batch, count),
        normal(batch, count, d_model),
        normal(batch, count, d_model),
    )
    vectors = Vectors(values, matrix)
    total = torch.einsum("bhts,bhsd,bt->btd", weights, vectors.of(), scale) + own + constant
    return Decomposition(
        weights=weights,
        vectors=vectors,
        scale=scale,
        own=own,
        own_is_source=not cross,
        constant=constant,
        total=total,
        positions=torch.arange(count).expand(batch, count),
        causal=causal,
    )


def in_float32(parts: Decomposition) -> Decomposition:
    """The same parts, rounded."""
    vectors = Vectors(parts.vectors.values.float(), parts.vectors.matrix.float())
    rounded = {
        item.name: getattr(parts, item.name).float()
        for item in fields(parts)
        if item.name in ("weights", "scale", "own", "constant", "total")
    }
    return replace(parts, vectors=vectors, **rounded)


class LargestTensor(TorchDispatchMode):
    """The most numbers that any tensor had which was made while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(tensor, Tensor):
                self.numbers = max(
                    self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size()
                )
        return result
