"""Read the output projection as a matrix from any module (Linear, Conv1D, an adapter, a quantised
layer).
"""

from __future__ import annotations

import functools

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mixlens.model.placement import raise_if_out_of_memory

Affine = tuple[Float[Tensor, "d_in d_out"], Float[Tensor, " d_out"]]


def affine_map(module: nn.Module, d_in: int, like: Tensor) -> Affine | None:
    """Return weight and bias of `module` as x -> x W + b, or None if it is not affine (or the
    identity).
    """
    matrix = plain_matrix(module)
    if matrix is None:
        return _probed(module, d_in, like)
    if matrix.shape[0] != d_in:
        return None
    return matrix.to(like), _bias(module, int(matrix.shape[1]), like)


def _bias(module: nn.Module, width: int, like: Tensor) -> Float[Tensor, " d_out"]:
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    return _zeros(width, like.dtype, like.device) if bias is None else bias.detach().to(like)


def plain_matrix(module: nn.Module) -> Float[Tensor, "d_in d_out"] | None:
    """Return the weight, if the module only multiplies by it and adds a bias."""
    if not _is_plain(module):
        return None
    weight: Tensor = module.weight.detach()  # type: ignore[operator]
    return weight.T if type(module).forward is nn.Linear.forward else weight


def may_add_bias(module: nn.Module) -> bool:
    """Return False if the module is known to only multiply."""
    return not _is_plain(module) or module.bias is not None


def _is_plain(module: nn.Module) -> bool:
    runs = type(module).forward  # an adapter may be called Linear too, and does more
    return runs in (nn.Linear.forward, Conv1D.forward)


@functools.lru_cache(maxsize=64)
def _zeros(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(width, dtype=dtype, device=device)


def _probed(module: nn.Module, d_in: int, like: Tensor) -> Affine | None:
    dtype = next((p.dtype for p in module.parameters() if p.is_floating_point()), None)
    if dtype is None:
        return None
    rows = torch.cat([torch.zeros(1, d_in), torch.eye(d_in), torch.linspace(-1, 1, d_in)[None]])
    try:
        with torch.no_grad():
            answers = module(rows.to(like.device, dtype)[None])
    except Exception as error:  # a module that rejects tensors of this width is not a projection
        raise_if_out_of_memory(error)
        return None
    if not isinstance(answers, Tensor) or answers.dim() != 3 or answers.shape[1] != d_in + 2:
        return None
    answers = answers[0].to(like)
    shift, matrix = answers[0], answers[1:-1] - answers[0]
    check = rows[-1].to(like) @ matrix + shift
    tolerance = 50 * torch.finfo(dtype).eps * answers.abs().max().clamp_min(1e-30) * d_in**0.5
    if (check - answers[-1]).abs().max() > tolerance:
        return None
    return matrix, shift
