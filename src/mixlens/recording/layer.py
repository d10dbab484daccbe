"""One recorded layer: its attention, and methods to re-run the layer."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.capture.attention_call import AttentionCall, ValueEdit
from mixlens.capture.layer_calls import HookPoint, LayerCall, watching, with_hidden_argument
from mixlens.capture.rerun import (
    UpcastModule,
    cast_call,
    repeat_arguments,
    replacing_values,
    run_layer,
    upcast_module,
)
from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput, TargetsUnavailable
from mixlens.kernels.chunks import computing_dtype, upcast_tensor
from mixlens.kernels.differences import rounding
from mixlens.model.module_walk import part_at
from mixlens.recording.attention import Attention
from mixlens.recording.batch_independence import copies_are_independent
from mixlens.recording.deferred_checks import DeferredChecks
from mixlens.recording.rebuilding import Internals, rebuilt_site
from mixlens.structure.attention_reading import all_ones, gate_of
from mixlens.structure.layer_structure import LayerStructure
from mixlens.structure.layer_trace import Run, observe_run
from mixlens.structure.model_structure import StackStructure


class Layer:
    """One recorded layer of a stack."""

    def __init__(
        self,
        *,
        model: nn.Module,
        backend: str | None,
        stack: StackStructure,
        index: int,
        call: LayerCall,
        internals: Sequence[Internals] | None,
        upcast: list[UpcastModule],
        memory_budget: int,
        whole: Callable[[], Layer] | None = None,
    ) -> None:
        """Create a layer.

        `backend` is None if only the input of the layer was kept. If `call` contains only a few
        targets, `whole` returns the same layer recorded on a short input. All layers of a pass
        share the list `upcast`, a cache for the most recent upcast module.
        """
        self.model = model
        self.backend: str = backend or ""
        self._is_captured = backend is not None
        self.stack = stack
        self.index = index
        self._whole = whole
        self.memory_budget = memory_budget  # bytes, for the measures
        self._is_held = False
        self._internals, self._upcast = internals, upcast
        self.call = call  # the recorded call and its output
        self._sites: tuple[Attention, ...] | None = None
        self._wide_rows: dict[str, Tensor] = {}
        self.structure: LayerStructure = stack.layers[index]  # the structure of the layer
        # The layer's input, in the model's own precision.
        self.native_input: Float[Tensor, "batch target d_model"] = call.hidden_in.detach()

    @property
    def deferred(self) -> DeferredChecks | None:
        """Return the checks that wait for the end of the pass, or None if checks run
        immediately.
        """
        return self._internals[0].deferred if self._internals else None

    @property
    def whole(self) -> Layer:
        """Return a layer that contains all of its targets, for checks.

        If this layer is restricted to a few targets, return the same layer recorded on a short
        input.
        """
        return self if self._whole is None else self._whole()

    @property
    def path(self) -> str:
        """Return the path of the layer's module in the model."""
        return self.structure.path

    @property
    def signature(self) -> Hashable:
        """Return a key that is equal for layers with the same modules and the same structure."""
        return self.structure.signature(self.call.module), self.has_one_token

    @property
    def has_one_token(self) -> bool:
        """Return whether the texts have only one token.

        Checks that pass on such texts may fail on longer texts. For example, a layer may scale each
        token by a factor of its own (Gemma 4), but copies of a single token all have the same
        factor.
        """
        return self._whole is None and self.width == 1

    @property
    def input(self) -> Float[Tensor, "batch target d_model"]:
        """Return the layer's input in float32 or float64."""
        return self._widen("input", self.native_input)

    def _widen(self, name: str, tensor: Tensor) -> Tensor:
        """Convert a tensor to at least float32.

        The result is cached only if the layer is restricted to a few targets, because copies of
        whole texts would take too much memory.
        """
        if self._whole is None:
            return upcast_tensor(tensor)
        if name not in self._wide_rows:
            self._wide_rows[name] = upcast_tensor(tensor)
        return self._wide_rows[name]

    @property
    def output(self) -> Float[Tensor, "batch target d_model"]:
        """Return the layer's output: the residual stream before any final norm of the stack."""
        return self._widen("output", self.native_output)

    @property
    def native_output(self) -> Float[Tensor, "batch target d_model"]:
        """Return the layer's output, in the model's own precision."""
        if self.call.output is None:
            raise InvalidInput(
                "This recording ends with the attention block of the last layer, because "
                "nothing more was requested. Record the text with lens.record(text)."
            )
        return self.call.hidden_out

    @property
    def width(self) -> int:
        """Return the number of tokens of a text, padding included."""
        return int(self.native_input.shape[1])

    @property
    def rounding(self) -> float:
        """Return the largest relative difference that rounding in the model's precision can
        explain.
        """
        return rounding(self.native_input)

    @property
    def keeps_internals(self) -> bool:
        """Return whether attention weights and values are kept. Otherwise they are recomputed on
        demand.
        """
        return self._internals is not None

    @property
    def module(self) -> nn.Module:
        """Return the layer's module in float32 or float64. For half-precision models this is a
        copy.
        """
        return upcast_module(self.call, self._upcast)

    def submodule(self, path: str) -> nn.Module:
        """Return a submodule in the model's own precision, or a copy of it if its weights cannot be
        read directly (for example because they are offloaded).
        """
        return part_at(self.call.readable, path)

    def hookable(self, path: str) -> nn.Module:
        """Return a submodule of the model itself, to add hooks to. Its weights may be offloaded."""
        return part_at(self.call.module, path)

    def argument(self, name: str) -> Tensor | None:
        """Return the tensor that the layer received for an argument, or None."""
        call = self.call
        bound = inspect.signature(call.module.forward).bind(*call.args, **call.kwargs).arguments
        value = bound.get(name, bound.get("kwargs", {}).get(name))
        return value if isinstance(value, Tensor) else None

    def arguments(self, row: int = 0, copies: int = 1) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the layer's arguments for copies of one text, in float32 or float64."""
        self._require_captured()
        args, kwargs = repeat_arguments(self.call, self.structure.axes, row, copies)
        dtype = computing_dtype(self.native_input.dtype)
        if dtype == self.native_input.dtype:
            return args, kwargs
        return cast_call(self.call, args, kwargs, dtype)

    def sites(self) -> list[Attention]:
        """Return the layer's `Attention` objects in call order, verified against the captured
        tensors.

        The result is cached if the recording keeps the attention weights and values of this layer.
        """
        if self._sites is not None:
            return list(self._sites)
        rebuilt = self.rebuild_sites()
        if self._is_held or (self.keeps_internals and not self._is_half):
            self._sites = tuple(rebuilt)  # in half precision twice as large as the kept tensors
        return rebuilt

    def forget_sites(self) -> None:
        """Clear the cached `Attention` objects, so that the next call of `sites` verifies the layer
        again.
        """
        self._sites = None

    def rebuild_sites(self) -> list[Attention]:
        """Rebuild and verify the layer's `Attention` objects, even if they are cached.

        Use this to read `errors`, which cached objects lack if their checks were deferred.
        """
        self._require_captured()
        where = f"layer {self.index} of {self.stack.name} (`{self.structure.path}`)"
        internals = self._internals or self._recompute()
        rebuilt: list[Attention] = []
        entry = self.structure.sites[0].enters
        stream = self.input
        if entry is not None:
            stream = upcast_tensor(internals[0].captured[entry]).reshape(stream.shape)
        for number, parts in enumerate(internals):
            structure, module = self.structure.sites[number], self.call.module
            gate = self._gate(number, parts) if structure.gated and self._whole is None else None
            rebuilt.append(
                rebuilt_site(structure, self.structure, module, stream, parts, where, gate)
            )
            if structure.open is None:
                stream = rebuilt[-1].block_output
        return rebuilt

    @contextlib.contextmanager
    def hold_attention(self) -> Iterator[None]:
        """Cache the layer's `Attention` objects while the context is open, so that several measures
        can use them.
        """
        before, self._is_held = self._sites, True
        try:
            yield
        finally:
            self._is_held = False
            if not self.keeps_internals or self._is_half:
                self._sites = before

    @property
    def _is_half(self) -> bool:
        """Return whether the model uses half precision. The rebuilt attention (float32) then takes
        more memory than the captured tensors.
        """
        return self._whole is None and self.native_input.element_size() < 4

    def position(self, kind: AttentionKind = AttentionKind.SELF) -> int:
        """Return the index of the layer's attention of this kind, in call order."""
        for number, site in enumerate(self.structure.sites):
            if kind in site.kinds:
                return number
        raise InvalidInput(
            f"Layer {self.index} of {self.stack.name} has no {kind}-attention. Choose other "
            "layers or another attention."
        )

    def site(self, kind: AttentionKind = AttentionKind.SELF) -> Attention:
        """Return the layer's attention of one kind."""
        position = self.position(kind)
        return self.sites()[position].reading(AttentionKind(kind))

    def read_hook(self, hook_point: HookPoint) -> Float[Tensor, "batch target d_model"]:
        """Return a captured tensor. If the tensor was not kept, re-run the layer to capture it."""
        captured: Mapping[HookPoint, Tensor] = (
            self._internals[0].captured if self._internals else {}
        )
        if hook_point not in captured:
            self._require_captured()
            self._require_whole()
            with watching(self.call.whole, frozenset({hook_point})) as captured:
                self._run_natively()
        return upcast_tensor(captured[hook_point]).reshape(self.input.shape)

    def _recompute(self) -> list[Internals]:
        calls: list[AttentionCall] = []
        with watching(self.call.whole, self.structure.watched) as captured:
            output = self._run_natively(calls.append)
        return Internals.of_layer(calls, captured, output, self.structure.sites)

    def _gate(self, number: int, parts: Internals) -> Tensor:
        """Return the factors by which a gated attention multiplies A V. The layer is re-run with
        all values set to one to obtain these factors.
        """
        hook_point = HookPoint(self.structure.sites[number].output_projection, "in")
        with watching(self.call.whole, frozenset({hook_point})) as captured:
            self._run_natively(edit_values=all_ones(number))
        return gate_of(upcast_tensor(captured[hook_point]), upcast_tensor(parts.attention.weights))

    def _run_natively(
        self,
        on_call: Callable[[AttentionCall], None] | None = None,
        edit_values: ValueEdit | None = None,
    ) -> Tensor:
        call = self.call
        return run_layer(
            call.whole,
            self.backend,
            call.args,
            call.kwargs,
            batch=int(self.native_input.shape[0]),
            on_call=on_call,
            edit_values=edit_values,
        )

    def run(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        copies: int = 1,
        *,
        hidden: Tensor | None = None,
        edit_values: ValueEdit | None = None,
        replace_output: Mapping[str, Tensor] | None = None,
        on_call: Callable[[AttentionCall], None] | None = None,
        attends: bool = True,
        grad: bool = False,
    ) -> Float[Tensor, "copies target d_model"]:
        """Run the layer with the arguments that `arguments` returns. Set `attends=False` if the
        attention is replaced and thus never called.
        """
        return run_layer(
            self.module,
            self.backend if attends else "",
            args,
            kwargs,
            batch=copies,
            hidden=hidden,
            edit_values=edit_values,
            replace_output=replace_output,
            on_call=on_call,
            grad=grad,
        )

    def observe(self, hidden: Float[Tensor, "1 target d_model"] | None = None) -> Run:
        """Run the layer on the first text of the batch, or on `hidden`, and return a trace of all
        submodule and attention calls.
        """
        self._require_whole()
        args, kwargs = self.arguments(0)
        if hidden is None:
            hidden = self.input[:1]
        else:
            args, kwargs = with_hidden_argument(args, kwargs, hidden)
        return observe_run(
            self.module,
            hidden,
            lambda on_call: self.run(args, kwargs, on_call=on_call),
        )

    def _require_captured(self) -> None:
        """Raise `InvalidInput` if only the input of the layer was kept.

        Such a layer was called with arguments for a fast attention function (for example, no mask),
        which the attention code that mixlens captures would interpret differently.
        """
        if not self._is_captured:
            raise InvalidInput(
                "This recording contains the output of the model, but no attention. Set "
                "reads='attention' in the Spec of a measure that needs attention."
            )

    def _require_whole(self) -> None:
        if self._whole is not None:
            raise TargetsUnavailable(
                f"layer {self.index} of {self.stack.name} must be re-run on the whole sequence"
            )

    def rerun(
        self,
        row: int = 0,
        *,
        hidden: Float[Tensor, "copies target d_model"] | None = None,
        values: Float[Tensor, "copies kv_head source d_head"] | None = None,
        attention_output: Float[Tensor, "copies target d_out"] | None = None,
        kind: AttentionKind = AttentionKind.SELF,
        copies: int | None = None,
        grad: bool = False,
    ) -> Float[Tensor, "copies target d_model"]:
        """Re-run the layer on copies of one text of the batch, each with its own edit.

        `hidden` replaces the layer's input, `values` replaces the value vectors of an attention
        (with fixed attention weights), and `attention_output` replaces the output of its
        projection. If you pass only `copies`, nothing is edited. Copies that would affect each
        other are run one at a time.
        """
        self._require_whole()
        edits = (hidden, values, attention_output)
        copies = next((len(edit) for edit in edits if edit is not None), copies or 1)
        if copies == 1 or self.has_independent_copies():
            return self._rerun(row, copies, *edits, kind=kind, grad=grad)
        single = ([None if edit is None else edit[[i]] for edit in edits] for i in range(copies))
        return torch.cat([self._rerun(row, 1, *one, kind=kind, grad=grad) for one in single])

    def has_independent_copies(self) -> bool:
        """Return whether copies of a text in one batch are independent of each other in this
        layer.
        """

        def run(hidden: Tensor) -> Tensor:
            return self._rerun(0, len(hidden), hidden=hidden)

        return copies_are_independent(self.model, self.signature, run, self.input[0])

    def _rerun(
        self,
        row: int,
        copies: int,
        hidden: Tensor | None = None,
        values: Tensor | None = None,
        attention_output: Tensor | None = None,
        *,
        kind: AttentionKind = AttentionKind.SELF,
        grad: bool = False,
    ) -> Tensor:
        position = self.position(kind)
        site, replaced = self.structure.sites[position], {}
        if attention_output is not None:
            replaced[site.output_projection] = attention_output
        edit = None
        if values is not None:
            edit = replacing_values(
                values, position, functools.partial(site.columns, kind, self.width)
            )
        return self.run(
            *self.arguments(row, copies),
            copies,
            hidden=hidden,
            replace_output=replaced,
            edit_values=edit,
            grad=grad,
        )
