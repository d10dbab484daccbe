"""The output projection as a matrix, whatever module holds it (Linear, Conv1D, an adapter, a
quantised layer).
"""

from __future__ import annotations

import functools
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mixlens.kernels.matrices import Matrices, Matrix
from mixlens.recording.memory import raise_if_out_of_memory
from mixlens.recording.side_by_side import SideBySide, stacked

Affine = tuple[Matrix, Float[Tensor, "*layer_and_one d_out"]]
"""[d_in, d_out] and what is added. Of layers side by side: a matrix and a row for each."""


def affine_map(module: nn.Module, d_in: int, like: Tensor) -> Affine | None:
    """Weight and bias of `module` seen as x -> x W + b, or None if it is not affine (or only the
    identity).
    """
    if isinstance(module, SideBySide):
        return _side_by_side(module, d_in, like)
    matrix = plain_matrix(module)
    if matrix is None:
        return _probed(module, d_in, like)
    if matrix.shape[0] != d_in:
        return None
    return matrix.to(like), _bias(module, int(matrix.shape[1]), like)


def _bias(module: nn.Module, width: int, like: Tensor) -> Float[Tensor, " d_out"]:
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    return _zeros(width, like.dtype, like.device) if bias is None else bias.detach().to(like)


def _side_by_side(modules: SideBySide, d_in: int, like: Tensor) -> Affine | None:
    """Of the same module of several layers, all of them plain. No matrix is copied."""
    matrix = plain_matrix(modules)
    if matrix is None or matrix.shape[0] != d_in:
        return None
    width = int(matrix.shape[1])
    if not may_add_bias(modules):
        return matrix.to(like), _zeros(width, like.dtype, like.device)
    return matrix.to(like), stacked([_bias(module, width, like) for module in modules])


def plain_matrix(module: nn.Module) -> Matrix | None:
    """The weight itself, if the module does nothing but multiply by it and add a bias."""
    if isinstance(module, SideBySide):
        each = tuple(matrix for part in module if (matrix := plain_matrix(part)) is not None)
        alike = len(each) == len(module.each) and len({matrix.shape for matrix in each}) == 1
        return cast(Tensor, Matrices(each, each[0].dtype)) if alike else None
    if not _is_plain(module):
        return None
    weight: Tensor = module.weight.detach()  # type: ignore[operator]
    return weight.T if type(module).forward is nn.Linear.forward else weight


def may_add_bias(module: nn.Module) -> bool:
    """False if the module is known to do nothing but multiply."""
    if isinstance(module, SideBySide):
        return any(map(may_add_bias, module))
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
    except Exception as error:  # what takes no tensor of this width is not a projection
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
