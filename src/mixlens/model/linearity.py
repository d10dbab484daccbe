"""Check that modules that replace a linear layer are linear in their inputs.

Some libraries quantise activations: before each matrix product they round the input to a few bits,
with a scale that depends on its largest channel (compressed-tensors W8A8, FP8 dynamic). Such a
module is not linear. In half precision its error is about as large as the model's own rounding
errors, so a comparison with the model's activations does not detect it.

The check is f(x + y) = f(x) + f(y) - f(0), for x and y whose sum is exact. Some x have large
channels, for which a shared scale loses the digits of the other channels. Libraries that process
large channels separately fail for the x without large channels. f(2 x) = 2 f(x) would reveal
nothing, because the scale doubles too. The error is compared with the rounding error of an ordinary
matrix product in the same dtype.

Before a backward pass through the model, gradients of modules with packed weights are checked too.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from mixlens.errors import UnsupportedModel
from mixlens.model.distributed import is_spread
from mixlens.model.module_walk import as_written, tensors_of
from mixlens.model.placement import device_of_calls, raise_if_out_of_memory
from mixlens.model.readable_weights import awaits_first_run, has_packed_weights, linear_sizes
from mixlens.model.session import once_per_state

_ROUNDING = 3.0  # times the error of a plain product in the same dtype
_OF_OUTPUTS = 0.2  # times eps: the rounding of outputs alone, if sums of few products are exact
_PAIRS = 8  # of vectors without large channels, and as many with them
_APART, _LARGE = 32, 32.0  # every group of channels with its own scale has a large channel
_GRID = {torch.bfloat16: 2.0**-4, torch.float16: 2.0**-7}  # sums of vectors are exact
_FINE = 2.0**-16
_WRONG_GRADIENT = 0.1  # relative; half precision explains about 0.01
_COLUMNS = 256  # of the plain product, whose error does not depend on their number


@once_per_state
@torch.no_grad()
def require_linear_modules(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if a module that replaces a linear layer is not linear.

    Only modules that override `forward` or have packed weights are tested, once for each state of
    the model. Call this function while a session is open.
    """
    dtypes = _dtypes(model)
    for path, part in model.named_modules():
        if _computes_its_own_way(part):
            _check(path, part, dtypes)


def _computes_its_own_way(part: nn.Module) -> bool:
    if linear_sizes(part) is None:
        return False
    if any(map(is_spread, part._parameters.values())):
        return False  # a part of a plain product
    runs = type(part).forward
    if (as_written(runs) or runs) not in (nn.Linear.forward, Conv1D.forward):
        return True
    return has_packed_weights(part)


def _dtypes(model: nn.Module) -> list[torch.dtype]:
    """Return the dtypes of the model's weights. The dtype of the first weight, the embedding, comes
    first.
    """
    weights = (each for each in model.parameters() if each.is_floating_point())
    return list(dict.fromkeys(each.dtype for each in weights if each.element_size() > 1))


def _check(path: str, part: nn.Module, dtypes: list[torch.dtype]) -> None:
    applied = next(filter(None, (_apply_to_vectors(part, dtype) for dtype in dtypes)), None)
    if applied is None:  # it takes other arguments, so it is not a linear layer
        _require_weight(path, part)
        return
    vectors, outputs = applied
    errors, rounding = _errors(outputs), _errors(_plain_outputs(vectors))
    rounding = rounding.clamp_min(_OF_OUTPUTS * torch.finfo(vectors.dtype).eps)
    if bool((errors <= _ROUNDING * rounding).all()):
        return
    worst = int((errors / rounding).argmax())
    raise UnsupportedModel(
        f"`{path}` ({type(part).__name__}) is not linear: its output for the sum of two inputs is "
        f"off by {float(errors[worst]):.1e}, but rounding explains only "
        f"{float(rounding[worst]):.1e} ({str(vectors.dtype).removeprefix('torch.')}). "
        f"{_reason(vectors, errors)}"
    )


def _reason(vectors: Tensor, errors: Tensor) -> str:
    """Return the likely reason why a module is not linear, and advice."""
    halved = _errors(_plain_outputs(vectors.bfloat16()))
    if vectors.element_size() > 2 and bool((errors <= _ROUNDING * halved).all()):
        return "It computes in bfloat16, as bitsandbytes does on a CPU. Load the model in bfloat16"
    return (
        "It quantises activations, so no score of this model can be verified. Quantise only the "
        "weights, or measure the original model"
    )


@once_per_state
def require_gradients(model: nn.Module) -> None:
    """Raise `UnsupportedModel` if autograd cannot differentiate a module with packed weights.

    The kernels of some libraries have no derivative, and autograd then returns a wrong gradient
    without an error. Call this function before a backward pass through the model itself.
    """
    dtypes = _dtypes(model)
    for path, part in model.named_modules():
        if _computes_its_own_way(part) and has_packed_weights(part):
            vectors = next(filter(None, (_apply_to_vectors(part, dtype) for dtype in dtypes)))[0]
            if not _passes_gradient(part, vectors[0]):
                raise UnsupportedModel(
                    f"gradients cannot pass through `{path}` ({type(part).__name__}): the kernel of"
                    " its library has no derivative. Choose decompx, blank_out or a layer measure,"
                    " or measure the original model"
                )


def _passes_gradient(part: nn.Module, vectors: Tensor) -> bool:
    """Return whether autograd's gradient of u . f(x) is correct for a linear f and a random u."""
    with torch.enable_grad():
        leaf = vectors[:1].detach().clone().requires_grad_()
        outputs = part(leaf)
        direction = torch.randn(outputs.shape, generator=torch.Generator().manual_seed(2))
        if not outputs.requires_grad:
            return False
        slope = torch.autograd.grad(outputs, leaf, direction.to(outputs), allow_unused=True)[0]
    if slope is None:
        return False
    with torch.no_grad():
        changes = part(vectors) - part(torch.zeros_like(vectors[:1]))
    expected = changes.double() @ direction[0].to(changes).double()
    error = vectors.double() @ slope[0].double() - expected
    return bool(error.norm() <= _WRONG_GRADIENT * expected.norm())


def _require_weight(path: str, part: nn.Module) -> None:
    """Raise `UnsupportedModel` if a linear module cannot run because it has no usable weight."""
    if awaits_first_run(part):
        raise UnsupportedModel(
            f"`{path}` ({type(part).__name__}) cannot run on its own, because its weight is still "
            "compressed after a run of the model. Load the model with dequantize=True in its "
            "quantization config"
        )


def _apply_to_vectors(part: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor] | None:
    """Return test vectors and the module's outputs for these vectors, or None if the module does
    not accept them as input.
    """
    sizes = linear_sizes(part)
    assert sizes is not None
    device = device_of_calls(part) or next((each.device for each in tensors_of(part)), None)
    vectors = _vectors(sizes[0], dtype).to(device)
    try:
        outputs = part(vectors)
    except Exception as error:
        raise_if_out_of_memory(error)
        return None
    expected = (*vectors.shape[:-1], sizes[1])
    return (vectors, outputs) if getattr(outputs, "shape", None) == expected else None


@functools.lru_cache(maxsize=4)
def _vectors(width: int, dtype: torch.dtype) -> Tensor:
    """Return x, y, x + y and 0 as [4, 2 * pairs, width]. In the second half, x has large
    channels.
    """
    step = _GRID.get(dtype, _FINE)
    noise = torch.randn(2, 2 * _PAIRS, width, generator=torch.Generator().manual_seed(0))
    x, y = ((noise / step).round() * step).clamp(-4, 4)
    x[_PAIRS:, ::_APART] *= _LARGE
    y[_PAIRS:, ::_APART] = 0.0
    return torch.stack([x, y, x + y, torch.zeros_like(x)]).to(dtype)


def _plain_outputs(vectors: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(_COLUMNS, vectors.shape[-1], generator=generator, dtype=torch.float64)
    return nn.functional.linear(vectors, weight.to(vectors))


def _errors(outputs: Tensor) -> Tensor:
    """Return the relative errors of f(x + y) = f(x) + f(y) - f(0), without and with large
    channels.
    """
    x, y, both, zero = outputs.double()
    size = outputs.double().square().sum((0, -1))
    errors: Tensor = (both - x - y + zero).square().sum(-1) / size
    return errors.reshape(2, _PAIRS).mean(-1).sqrt()
