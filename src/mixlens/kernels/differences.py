"""Measure the difference between two tensors, token by token, and the largest difference that
rounding can cause.

Each vector is compared relative to its own size. A language model's first token may be ten thousand
times as large as the others, so a comparison relative to the largest number in the tensor would
hide errors in all other tokens. If a vector is a sum and is much smaller than the summed terms, it
may consist only of rounding errors. Its difference is therefore divided by a fraction of the size
of the terms. If the terms are unknown, the median vector size is used instead.
"""

from __future__ import annotations

import functools

import torch
from jaxtyping import Float
from torch import Tensor

# Largest difference, relative to a vector's size, that rounding explains in each precision.
ROUNDING = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def rounding(like: Tensor, dtype: torch.dtype | None = None) -> float:
    """Return the largest relative difference that rounding can cause for a tensor's dtype and
    device.

    The limit is larger if float32 products run in TF32 or bf16, which have fewer significant
    digits.
    """
    dtype = like.dtype if dtype is None else dtype
    if dtype == torch.float32:
        setting = torch.get_float32_matmul_precision()
        if setting != "highest" and like.device.type == "cuda":  # torch uses TF32 for both there
            dtype = torch.float16
        elif setting == "medium":
            dtype = torch.bfloat16
    return ROUNDING[dtype]


def same_bar(like: Tensor) -> float:
    """Return the largest relative difference to expect between two computations of the same values
    in the same precision.
    """
    if rounding(like) > ROUNDING[like.dtype]:  # products in TF32 or bf16
        return rounding(like) / 4
    return 1e-9 if like.dtype == torch.float64 else 2e-5


def row_sizes(tensor: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows"]:
    """Return the largest absolute value of each vector."""
    return tensor.detach().abs().amax(-1)


def difference(
    actual: Tensor,
    expected: Tensor,
    summands: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> float:
    """Return the result of `largest_difference` as a Python float."""
    return float(largest_difference(actual, expected, summands, dtype))


def largest_difference(
    actual: Tensor,
    expected: Tensor,
    summands: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, ""]:
    """Return the largest difference between two vectors along the last axis, relative to the size
    of the expected vector.

    `summands` is the size of the terms that were summed to get each vector. `dtype` is the
    precision of the sum, if it differs from the dtype of `expected`.
    """
    if actual.shape != expected.shape:
        return torch.tensor(torch.inf)
    if actual.numel() == 0:
        return torch.tensor(0.0)
    share = _floor(expected.dtype if dtype is None else dtype)
    actual, expected = actual.detach(), expected.detach().to(actual.dtype)
    sizes = row_sizes(expected)
    if summands is None:  # as large as the usual non-zero vector
        summands = torch.where(sizes > 0, sizes, torch.nan).nanmedian().nan_to_num(0.0)
    sizes = torch.maximum(sizes, share * summands.to(sizes))
    return _relative((actual - expected).abs().amax(-1), sizes).max()


def sum_errors(
    total: Float[Tensor, "entry *rows d"],
    expected: Float[Tensor, "entry *expected_rows d"],
    *summands: Float[Tensor, "entry *rows d"],
) -> Float[Tensor, " entry"]:
    """Return, for each entry of the first axis, the largest relative difference between `total` and
    `expected`.

    `summands` are the terms of the sum. `expected` must have the precision in which the sum was
    computed.
    """
    if total.shape != expected.shape:
        return total.new_full((len(total),), torch.inf)
    floor, expected = _floor(expected.dtype), expected.to(total)
    gaps, sizes = row_sizes(total - expected), row_sizes(expected)
    errors = _errors_of_rounding(gaps, sizes)
    if errors is not None:
        return errors
    size = functools.reduce(torch.maximum, map(row_sizes, summands))
    return _relative(gaps, torch.maximum(sizes, floor * size)).flatten(1).amax(1)


def _errors_of_rounding(gaps: Tensor, sizes: Tensor) -> Tensor | None:
    """Return the errors relative to the vectors' own sizes if all of them are within rounding.

    Otherwise, or if checking this would force a GPU synchronization, return None. The sizes of the
    summed terms must then be computed as well.
    """
    if not may_look_at(gaps):
        return None
    errors = _relative(gaps, sizes).flatten(1).amax(1)
    return errors if bool((errors <= ROUNDING[gaps.dtype]).all()) else None


def _floor(dtype: torch.dtype) -> float:
    """Return the size of a vector, as a fraction of the size of its summed terms, below which the
    vector may consist only of rounding errors.
    """
    return max(1e-3, torch.finfo(dtype).eps / ROUNDING[dtype])


def _relative(gaps: Tensor, sizes: Tensor) -> Tensor:
    return gaps / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)


def attention_product(
    weights: Float[Tensor, "batch head target source"],
    values: Float[Tensor, "batch head source d_head"],
    output: Float[Tensor, "batch target head d_head"],
    dtype: torch.dtype | None = None,
) -> tuple[Float[Tensor, "batch target head d_head"], Float[Tensor, ""]]:
    """Return the product of weights and values, and its relative difference from the attention's
    `output`.
    """
    product = (weights @ values).transpose(1, 2)
    none_is_negative = may_look_at(weights) and bool(weights.amin() >= 0)
    parts = weights if none_is_negative else weights.abs()
    summands = (parts @ row_sizes(values)[..., None])[..., 0].transpose(1, 2)
    return product, largest_difference(product, output, summands, dtype)


def product_errors(
    product: Float[Tensor, "entry *rows d"],
    left: Float[Tensor, "entry *rows inner"],
    right: Float[Tensor, "entry *texts inner d"],
    shift: Float[Tensor, "entry d"] | None = None,
) -> Float[Tensor, " entry"]:
    """Return the error of `product` compared with `left @ right + shift`, for each entry of the
    first axis.

    The full matrix product is not computed. Instead, both sides are projected onto two random
    directions, and each vector is compared relative to its own size. This is Freivalds' check,
    which costs about as much as two columns of the product. The directions are Gaussian, because
    random signs would miss an error (e, -e) in two channels whose signs agree.

    The sizes of the summed terms are only computed if the difference, relative to the vector's own
    size, is larger than rounding.
    """
    if right.dim() < left.dim():  # one matrix for all texts of an entry
        right = right[:, None]
    directions = _directions(product.shape[-1], product.dtype, product.device)
    expected = _along(directions, right) @ left.mT
    if shift is not None:
        expected = expected + (directions @ shift[..., None])[:, None]
    gaps = (expected - directions @ product.mT).abs().amax(-2)
    sizes = torch.linalg.vector_norm(product, dim=-1)
    errors = _errors_of_rounding(gaps, sizes)
    if errors is not None:
        return errors
    lengths = torch.linalg.vector_norm(right, dim=-1)[..., None, :]
    summands = (lengths @ left.abs().mT)[..., 0, :]
    if shift is not None:
        summands = summands + torch.linalg.vector_norm(shift, dim=-1)[:, None, None]
    sizes = torch.maximum(sizes, _floor(product.dtype) * summands)
    return _relative(gaps, sizes).flatten(1).amax(1)


def _along(
    directions: Float[Tensor, "two d"], matrix: Float[Tensor, "*entries inner d"]
) -> Float[Tensor, "*entries two inner"]:
    """Return `directions @ matrix.mT`.

    If the rows of the matrix are contiguous, the transposed product is computed instead. It reads
    the matrix in memory order, which is several times as fast.
    """
    if matrix.stride(-1) == 1:
        return (matrix @ directions.mT).mT
    return directions @ matrix.mT


def weighted_sum_errors(
    product: Float[Tensor, "entry *rows d"],
    weights: Float[Tensor, "entry *rows inner"],
    vectors: Float[Tensor, "entry *texts inner d"],
) -> Float[Tensor, " entry"]:
    """Return `product_errors` for weights that are hardly ever negative.

    On a GPU, one matrix product computes both the random projections and the sizes of the summed
    terms, so the weights are read only once. Negative weights make these sizes smaller, and
    therefore the check stricter.
    """
    if may_look_at(weights):
        return product_errors(product, weights, vectors)
    directions = _directions(product.shape[-1], product.dtype, product.device)
    lengths = torch.linalg.vector_norm(vectors, dim=-1)[..., None, :]
    sums = torch.cat([_along(directions, vectors), lengths], -2) @ weights.mT
    gaps = (sums[..., :-1, :] - directions @ product.mT).abs().amax(-2)
    sizes = torch.linalg.vector_norm(product, dim=-1)
    sizes = torch.maximum(sizes, _floor(product.dtype) * sums[..., -1, :])
    return _relative(gaps, sizes).flatten(1).amax(1)


def may_look_at(numbers: Tensor) -> bool:
    """Return whether reading a value is cheap. On a GPU, reading would force a synchronization."""
    return numbers.device.type == "cpu"


@functools.lru_cache(maxsize=64)
def _directions(width: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "two width"]:
    generator = torch.Generator().manual_seed(width)
    return torch.randn(2, width, generator=generator, dtype=torch.float64).to(device, dtype)
