"""Compare the tensors in the trace of one layer.

A structure is accepted only if its residual sum is correct up to rounding in every element. A
comparison of whole tensors would not suffice, because a large channel of one token could hide
errors in all other tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from mixlens.kernels.differences import difference, row_sizes
from mixlens.structure.layer_trace import Event, LayerTrace
from mixlens.structure.norms import LinearisedNorm, linearised

_NEGLIGIBLE = 1e-3  # smaller coefficients are noise, not a part of the sum


def outermost_first(events: Iterable[Event]) -> list[Event]:
    """Sort modules so that each comes before its submodules. At the same depth, modules that end
    later come first.
    """
    return sorted(events, key=lambda event: (event.path.count("."), -event.end))


class Evidence:
    """Wraps the trace of one layer, with methods that compare its tensors up to rounding."""

    def __init__(self, path: str, trace: LayerTrace) -> None:
        self.path = path
        self.trace = trace
        self.hidden: Tensor = trace.hidden
        self.output: Tensor = trace.output
        self.d_model: int = int(self.hidden.shape[-1])
        self.tolerance: float = 1e-9 if self.hidden.dtype == torch.float64 else 2e-5
        self._norms: dict[int, LinearisedNorm | None] = {}

    def after(self, end: int) -> Iterator[tuple[Tensor, Event | None, int]]:
        """Yield tensors of the stream's shape that enter modules after a tick, and finally the
        layer's output.

        Each tensor is yielded with the module and the tensor's position among the module's inputs.
        """
        for event in self.trace.events:
            for position, tensor in enumerate(event.inputs):
                if event.start > end and tensor.shape == self.hidden.shape:
                    yield tensor, event, position
        yield self.output, None, 0

    def same(self, a: Tensor | None, b: Tensor | None) -> bool:
        """Return whether two tensors are equal up to rounding, token by token."""
        if a is None or b is None or a.shape != b.shape:
            return False
        return difference(b, a) <= self.tolerance

    def negligible(self, branch: Tensor, stream: Tensor) -> bool:
        """Return whether the branch is negligible (within rounding) relative to the residual
        stream, at every token.
        """
        return bool((row_sizes(branch) <= self.tolerance * row_sizes(stream)).all())

    def exact(self, total: Tensor, parts: list[Tensor]) -> bool:
        """Return whether the total is the sum of the parts, up to rounding in every element.

        A large channel of one token must not hide errors in other tokens. The tolerance covers the
        rounding error of the sum, which is proportional to its terms, and of a preceding norm,
        which is proportional to the largest element of each vector.
        """
        summands = torch.stack([part.abs() for part in parts]).sum(0)
        error = (torch.stack(parts).sum(0) - total).abs()
        digit = torch.finfo(self.hidden.dtype).eps / self.tolerance
        slack = max(1e-3, digit) * row_sizes(total)[:, None]
        return bool((error <= self.tolerance * (summands + slack)).all())

    def fitted(self, total: Tensor, parts: list[Tensor]) -> list[float] | None:
        """Fit the coefficients c_k of total = sum_k c_k part_k, and return them.

        Return None if no such sum is exact, or if a part has no effect.
        """
        target, *rows = (x.reshape(-1, x.shape[-1]).double() for x in (total, *parts))
        size = row_sizes(torch.stack([target, *rows])).amax(0)[:, None]
        size = torch.where(size > 0, size, 1.0)  # every token has the same weight
        matrix = torch.stack([(row / size).reshape(-1) for row in rows], 1)
        solution = torch.linalg.lstsq(matrix, (target / size).reshape(-1, 1)).solution[:, 0]
        snapped = torch.where((solution - 1).abs() < 1e-4, torch.ones_like(solution), solution)
        for coefficients in (snapped, solution):
            scaled = [c * row for c, row in zip(coefficients, rows, strict=True)]
            if self.exact(target, scaled):
                numbers = [float(c) for c in coefficients]
                return numbers if min(abs(c) for c in numbers) > _NEGLIGIBLE else None
        return None

    def fitted_by_channel(self, total: Tensor, residual: Tensor, branch: Tensor) -> Tensor | None:
        """Return the per-channel factor of the branch, or None if there is none.

        Some models (BEiT) store such layer scales as parameters outside any submodule.
        """
        t, r, b = (x.reshape(-1, self.d_model).double() for x in (total, residual, branch))
        if len(t) < 3:
            return None
        size = row_sizes(torch.stack([t, r, b])).amax(0)[:, None]
        weighted = b / torch.where(size > 0, size, 1.0).square()
        scale = ((t - r) * weighted).sum(0) / (b * weighted).sum(0).clamp_min(1e-30)
        if not self.exact(t, [r, scale * b]) or scale.abs().max() < _NEGLIGIBLE:
            return None
        return scale.to(total.dtype)

    def norm(self, event: Event) -> LinearisedNorm | None:
        """Return the linear form of a module if it is a norm or a scale that changes its input, or
        None.
        """
        if event.output is None or not event.inputs or event.output.shape != self.hidden.shape:
            return None
        if event.inputs[0].shape != self.hidden.shape or self.same(event.inputs[0], event.output):
            return None
        key = id(event.module)
        if key not in self._norms:
            self._norms[key] = linearised(event.module, self.d_model, self.hidden)
        return self._norms[key]
