"""Trace one layer: record the inputs and the output of each submodule while it runs, and compare
them.

A structure is accepted only if its residual sum is correct up to rounding in every element. A
comparison of whole tensors would not suffice, because a large channel of one token could hide
errors in all other tokens.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall, ValueEdit
from mixlens.capture.layer_calls import (
    LayerCall,
    first_tensor,
    float_tensors,
    hidden_argument,
    hooks_removed,
)
from mixlens.capture.rerun import cast_call, repeat_arguments, run_layer
from mixlens.kernels.differences import difference, row_sizes, same_bar
from mixlens.model.module_walk import copy_module, named_parts
from mixlens.structure.norms import LinearisedNorm, linearise_norm

HERE = object()  # marks the hidden states in the output of a submodule


@dataclass(frozen=True, kw_only=True)
class Event:
    """Stores one call of a submodule. `start` and `end` are ticks of a clock that counts calls."""

    path: str
    module: nn.Module
    start: int
    end: int
    inputs: tuple[Tensor, ...]
    output: Tensor | None
    dims: int  # axes of the returned output
    packing: Any  # its output, with `HERE` for the hidden states and without other tensors


@dataclass(frozen=True)
class Core:
    """Stores one attention call, the tick at which it ran, and the submodules that contain it."""

    call: AttentionCall
    tick: int
    inside: frozenset[str]


@dataclass(frozen=True)
class Run:
    """Stores one run of a layer: the calls of its submodules, in the order in which they start, and
    its attention calls.
    """

    output: Tensor
    events: tuple[Event, ...]
    cores: tuple[Core, ...]

    def at(self, path: str) -> Event | None:
        """Return the first call of the submodule at a path, or None."""
        return next((event for event in self.events if event.path == path), None)


@dataclass(frozen=True)
class LayerTrace(Run):
    """Stores the trace of a layer on its recorded input.

    The layer can be re-run with other inputs.
    """

    module: nn.Module
    hidden: Tensor
    own_sources: tuple[
        tuple[bool, ...], ...
    ]  # for each attention call: which values depend on the input
    rerun: Callable[..., Tensor]

    def again(self, **edits: Any) -> Run:
        """Re-run the layer with edits. You can replace module outputs (`replaced={path: tensor}`),
        attention values (`edit_values`) or hidden states (`new_hidden`).
        """
        return observe_run(self.module, self.hidden, lambda on_call: self.rerun(on_call, **edits))


def _rows_like(tensor: Tensor, hidden: Tensor) -> Tensor:
    """Reshape [batch * n, d] to [batch, n, d], because some layers flatten the batch for the
    MLP.
    """
    if (
        tensor.shape != hidden.shape
        and tensor.shape[:2] != hidden.shape[1::-1]  # tokens before batch: a different order
        and tensor.numel() == hidden.numel()
        and tensor.shape[-1] == hidden.shape[-1]
    ):
        return tensor.reshape(hidden.shape)
    return tensor


def _packing(output: Any) -> Any:
    if isinstance(output, Tensor):
        return HERE
    if isinstance(output, (tuple, list)):  # other tensors, such as weights, are not needed later
        return tuple(
            _packing(item) if i == 0 else None if isinstance(item, Tensor) else item
            for i, item in enumerate(output)
        )
    return output


def observe_run(
    module: nn.Module, hidden: Tensor, run: Callable[[Callable[[AttentionCall], None]], Tensor]
) -> Run:
    """Record the inputs and output of every submodule while `run(on_call)` runs the layer."""
    events: list[Event] = []
    cores: list[Core] = []
    running: list[tuple[str, int, tuple[Tensor, ...]]] = []
    clock = itertools.count(1)

    def on_entry(path: str) -> Callable[..., None]:
        def hook(submodule: nn.Module, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
            tensors = float_tensors((*inputs, *kwargs.values()))
            inputs_in_batch = tuple(_rows_like(tensor.clone(), hidden) for tensor in tensors)
            running.append((path, next(clock), inputs_in_batch))

        return hook

    def on_exit(submodule: nn.Module, inputs: Any, kwargs: Any, output: Any) -> None:
        path, start, tensors = running.pop()
        try:
            returned = first_tensor(output)
        except TypeError:
            result, dims = None, 0
        else:
            result, dims = _rows_like(returned.clone(), hidden), returned.dim()
        end, packing = next(clock), _packing(output)
        events.append(
            Event(
                path=path,
                module=submodule,
                start=start,
                end=end,
                inputs=tensors,
                output=result,
                dims=dims,
                packing=packing,
            )
        )

    def on_call(attention: AttentionCall) -> None:
        cores.append(Core(attention, next(clock), frozenset(path for path, _, _ in running)))

    handles: list[Any] = []
    with hooks_removed(handles):
        for path, submodule in named_parts(module):
            if path and not isinstance(submodule, nn.ModuleList):
                handles.append(
                    submodule.register_forward_pre_hook(on_entry(path), with_kwargs=True)
                )
                handles.append(submodule.register_forward_hook(on_exit, with_kwargs=True))
        output = run(on_call)
    events.sort(key=lambda event: event.start)
    return Run(output, tuple(events), tuple(cores))


def trace_layer(call: LayerCall, axes: Any, backend: str) -> LayerTrace:
    """Run a recorded layer on two copies of its first text, in float32 or better, and return the
    trace.

    The second copy gets a different input.
    """
    module, (args, kwargs) = call.readable, repeat_arguments(call, axes, 0, 2)
    if call.hidden_in.dtype in (torch.float16, torch.bfloat16):
        # Structures can be distinguished only with enough digits; one layer at a time fits any
        # memory.
        module = copy_module(module).float()
        args, kwargs = cast_call(call, args, kwargs, torch.float32)
    hidden = _telling(hidden_argument(args, kwargs))
    hidden = torch.stack([hidden[0], hidden[1].flip(-1)])

    def run(
        on_call: Callable[[AttentionCall], None] | None = None,
        replaced: Mapping[str, Tensor] | None = None,
        edit_values: ValueEdit | None = None,
        new_hidden: Tensor | None = None,
    ) -> Tensor:
        return run_layer(
            module,
            backend,
            args,
            kwargs,
            batch=2,
            hidden=hidden if new_hidden is None else new_hidden,
            on_call=on_call,
            replace_output=replaced,
            edit_values=edit_values,
        )

    observed = observe_run(module, hidden, run)
    own_sources = tuple(_own_sources(core.call) for core in observed.cores)
    return LayerTrace(
        observed.output, observed.events, observed.cores, module, hidden, own_sources, run
    )


def _telling(hidden: Tensor) -> Tensor:
    """Replace hidden states that are all zero by noise.

    DETR's decoder starts with zeros, from which no sum can be inferred.
    """
    if bool(hidden.any()):
        return hidden
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(hidden.shape[1:], generator=generator, dtype=torch.float64)
    return noise.to(hidden).expand_as(hidden)


def _own_sources(call: AttentionCall) -> tuple[bool, ...]:
    """Return, for each source, whether its value depends on the layer's input.

    The second copy has a different input, so its values differ from those of the first copy. If the
    values are equal at every position, they also count as dependent: the cause is then a value
    projection whose weights are zero, not a different source sequence.
    """
    values, square = call.values, call.weights.shape[-1] == call.weights.shape[-2]
    if square and bool((values == values[:1, :, :1]).all()):
        return (True,) * int(values.shape[2])
    has_moved = row_sizes(values[0] - values[1]) > same_bar(values) * row_sizes(values).amax(0)
    return tuple(has_moved.any(0).tolist())


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

    def fit(self, total: Tensor, parts: list[Tensor]) -> list[float] | None:
        """Fit the coefficients c_k of total = sum_k c_k part_k, and return them.

        Return None if no such sum is exact, or if a part has no effect.
        """
        target, *vectors = (x.reshape(-1, x.shape[-1]).double() for x in (total, *parts))
        size = row_sizes(torch.stack([target, *vectors])).amax(0)[:, None]
        size = torch.where(size > 0, size, 1.0)  # every token has the same weight
        matrix = torch.stack([(vector / size).reshape(-1) for vector in vectors], 1)
        solution = torch.linalg.lstsq(matrix, (target / size).reshape(-1, 1)).solution[:, 0]
        snapped = torch.where((solution - 1).abs() < 1e-4, torch.ones_like(solution), solution)
        for coefficients in (snapped, solution):
            scaled = [c * vector for c, vector in zip(coefficients, vectors, strict=True)]
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
            self._norms[key] = linearise_norm(event.module, self.d_model, self.hidden)
        return self._norms[key]
