"""A recording: one forward pass taken apart, layer by layer, each part checked against what the
model really computed.

Memory: a recording keeps the input and output of every layer, layers x batch x n x d_model numbers.
Attention weights, values and the witnesses of the checks are kept as well while all of them fit
`memory_budget` bytes; beyond it they are recomputed, one layer at a time, when asked for. The peak
above the model's own forward pass is thus

    layer inputs and outputs + memory_budget + the internals of one layer (about batch x heads x n^2
    + 8 x batch x n x d_model numbers)

and does not grow with layers x n^2.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mixlens.errors import InvalidInput, NonFiniteActivations, UnsupportedModel
from mixlens.recording.calls import Inputs, LayerCall, batch_size, layer_calls
from mixlens.recording.model_structure import ModelStructure, StackStructure
from mixlens.recording.rerun import cast, expanded, run_layer
from mixlens.recording.site import Internals, Site, watch, watching
from mixlens.recording.structure import LayerStructure, Witness
from mixlens.tokens import TokenRow


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """Half precision is taken apart in float32."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


class Layer:
    """One recorded layer of a stack."""

    def __init__(
        self, recording: Recording, stack: StackStructure, index: int, call: LayerCall
    ) -> None:
        self._recording, self._call, self.stack, self.index = recording, call, stack, index
        self._internals: list[Internals] | None = None
        self._sites: tuple[Site, ...] | None = None

    @property
    def structure(self) -> LayerStructure:
        return self.stack.layers[self.index]

    @property
    def input(self) -> Float[Tensor, "batch target d_model"]:
        return self._wide(self._call.hidden_in)

    @property
    def output(self) -> Float[Tensor, "batch target d_model"]:
        """What the layer returned: the stream before any final norm of the stack."""
        return self._wide(self._call.hidden_out)

    @property
    def module(self) -> nn.Module:
        """The layer in float32 or better: for half-precision models a copy, one at a time."""
        return self._recording._wide_module(self._call)

    def submodule(self, path: str) -> nn.Module:
        """A part of the layer as the model has it, in the model's own precision."""
        return self._call.module.get_submodule(path)

    def _wide(self, tensor: Tensor) -> Tensor:
        return tensor.to(computing_dtype(tensor.dtype))

    def sites(self) -> list[Site]:
        """The layer's attention sites in the order of their calls, each verified.

        Remembered where the internals are kept.
        """
        if self._sites is not None:
            return list(self._sites)
        internals = self._internals or self._recomputed()
        found: list[Site] = []
        stream = self.input
        for structure, parts in zip(self.structure.sites, internals, strict=True):
            where = f"layer {self.index} of {self.stack.name} (`{self.structure.path}`)"
            site = Site.rebuilt(structure, self.structure, self._call, stream, parts, where)
            found.append(site)
            stream = site.block_output
        if self._internals is not None and self._call.hidden_in.dtype == found[0].weights.dtype:
            self._sites = tuple(
                found
            )  # for half precision a site is twice as large as what was kept
        return found

    def site(self, kind: str = "self") -> Site:
        for site in self.sites():
            if site.structure.kind == kind:
                return site
        raise InvalidInput(f"layer {self.index} of {self.stack.name} has no {kind}-attention")

    def seen(self, witness: Witness) -> Float[Tensor, "batch target d_model"]:
        """A tensor that the layer really had: at once where the recording kept it, else by one more
        run of the layer.
        """
        kept = self._internals[0].seen if self._internals else {}
        if witness not in kept:
            call, backend = self._call, self._recording.structure.backend
            with torch.no_grad(), watching(call.module, frozenset({witness})) as kept:
                run_layer(
                    call.module, backend, call.args, call.kwargs, batch=int(call.hidden_in.shape[0])
                )
        return self._wide(kept[witness]).reshape(self.input.shape)

    def _recomputed(self) -> list[Internals]:
        call = self._call
        again = LayerCall(call.path, call.module, call.args, call.kwargs)
        with torch.no_grad(), watching(call.module, self.structure.watched) as seen:
            batch = int(call.hidden_in.shape[0])
            backend = self._recording.structure.backend
            on_call = again.attention.append
            output = run_layer(
                call.module, backend, call.args, call.kwargs, batch=batch, on_call=on_call
            )
        return Internals.of_layer(again.attention, seen, output)

    def rerun(
        self,
        row: int = 0,
        *,
        hidden: Float[Tensor, "copies target d_model"] | None = None,
        values: Float[Tensor, "copies kv_head source d_head"] | None = None,
        attention_output: Float[Tensor, "copies target d_model"] | None = None,
        kind: str = "self",
        copies: int | None = None,
        grad: bool = False,
    ) -> Float[Tensor, "copies target d_model"]:
        """The layer's output for copies of one row of the batch, each with its own edit; unedited
        with `copies` alone.

        `hidden` replaces the layer's input, `values` the value vectors of a site (attention weights
        stay), `attention_output` what its output projection returns.
        """
        edits = [edit for edit in (hidden, values, attention_output) if edit is not None]
        copies = int(edits[0].shape[0]) if edits else copies or 1
        kinds = [site.kind for site in self.structure.sites]
        if kind not in kinds:
            raise InvalidInput(f"layer {self.index} of {self.stack.name} has no {kind}-attention")
        position = kinds.index(kind)

        def edited(number: int, original: Tensor) -> Tensor:
            if number != position or values is None:
                return original
            return _for_heads(values.to(original.dtype), int(original.shape[1])).expand(
                original.shape
            )

        args, kwargs = expanded(self._call, self.structure.axes, row, copies)
        module, dtype = self.module, computing_dtype(self._call.hidden_in.dtype)
        if dtype != self._call.hidden_in.dtype:
            args, kwargs = cast(args, dtype), cast(kwargs, dtype)
        replaced = {}
        if attention_output is not None:
            replaced[self.structure.sites[position].output_projection] = attention_output
        return run_layer(
            module,
            self._recording.structure.backend,
            args,
            kwargs,
            batch=copies,
            hidden=hidden,
            replace_output=replaced,
            edit_values=edited if values is not None else None,
            grad=grad,
        )


def _for_heads(
    values: Float[Tensor, "copies some_heads source d_head"], heads: int
) -> Float[Tensor, "copies heads source d_head"]:
    """Values for as many heads as one attention call takes: code that repeats grouped values may do
    so in some calls and not in others.
    """
    given = int(values.shape[1])
    if given == heads:
        return values
    if max(given, heads) % min(given, heads):
        raise InvalidInput(
            f"this attention has {heads} value heads, and values are given for {given}"
        )
    if given < heads:
        return values.repeat_interleave(heads // given, 1)
    groups = values.reshape(len(values), heads, -1, *values.shape[2:])
    if not torch.equal(groups, groups[:, :, :1].expand_as(groups)):
        raise InvalidInput(
            f"this attention has {heads} value heads; values of query heads that share one of them"
            " must be the same"
        )
    return groups[:, :, 0]


@dataclass
class Recording:
    """One verified forward pass of one batch.

    Rows hold real tokens first; `lengths` says how many.
    """

    model: nn.Module
    structure: ModelStructure
    inputs: Inputs
    output: Any
    lengths: Mapping[str, Sequence[int]]  # stack name -> real tokens of each row
    tokens: Mapping[str, Sequence[TokenRow]]  # stack name -> the tokens of each row
    memory_budget: int
    tokenizer: Any = None  # for words that name an output to explain

    def __post_init__(self) -> None:
        self._layers: dict[str, list[Layer]] = {}
        self._copy: tuple[LayerCall, nn.Module] | None = None

    @property
    def batch(self) -> int:
        return batch_size(self.inputs)

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the attention sites: "encoder", "decoder", "cross", or the towers of a model
        that has several.
        """
        return tuple(self.structure.sites)

    def target_tokens(self, site: str | None, row: int) -> TokenRow:
        return self.tokens[self.structure.stack_of(site).name][row]

    def source_tokens(self, site: str | None, row: int) -> TokenRow:
        """For cross-attention the tokens of the encoder, else those of the stack itself."""
        _, stack, kind = self.structure.site(site)
        if kind == "self":
            return self.tokens[stack.name][row]
        for other in self.structure.stacks:
            if other is not stack:
                return self.tokens[other.name][row]
        mask = self.inputs.get(
            "encoder_attention_mask"
        )  # encoder states given as input: no encoder was recorded
        states = self.inputs.get("encoder_hidden_states")
        count = (
            int(mask[row].sum())
            if mask is not None
            else int(states.shape[1])
            if states is not None
            else 0
        )
        return TokenRow.numbered(count)

    def layers(self, site: str | None = None) -> list[Layer]:
        """The layers of the stack that holds a site."""
        return self._layers[self.structure.stack_of(site).name]

    def _wide_module(self, call: LayerCall) -> nn.Module:
        if call.hidden_in.dtype == computing_dtype(call.hidden_in.dtype):
            return call.module
        if self._copy is None or self._copy[0] is not call:
            self._copy = (call, copy.deepcopy(call.module).float())
        return self._copy[1]


def recorded(
    model: nn.Module,
    structure: ModelStructure,
    inputs: Inputs,
    *,
    lengths: Mapping[str, Sequence[int]],
    tokens: Mapping[str, Sequence[TokenRow]],
    memory_budget: int,
) -> Recording:
    """Runs the model once and keeps what the measures need."""
    order = structure.calls
    kept = 0
    position = 0
    internals: list[list[Internals] | None] = []
    by_path: dict[str, LayerStructure] = {
        layer.path: layer for stack, i in order for layer in [stack.layers[i]]
    }

    def on_layer(call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
        nonlocal kept, position
        if (
            position >= len(order)
            or order[position][0].layers[order[position][1]].path != call.path
        ):
            raise UnsupportedModel(
                "the model calls its layers in another order on this input than on the probe"
            )
        if not all(
            bool(end.isfinite()) for end in call.hidden_out.aminmax()
        ):  # NaN is both ends: one pass, and no copy
            raise NonFiniteActivations(
                f"layer {order[position][1]} of {order[position][0].name} (`{call.path}`) returned"
                " NaN or infinity. Check the weights, or load the model in a wider dtype"
                " (float32)."
            )
        position += 1
        parts = Internals.of_layer(call.attention, seen, call.hidden_out)
        size = sum(part.nbytes for part in parts)
        keep = kept + size <= memory_budget
        kept += size if keep else 0
        internals.append(parts if keep else None)
        call.attention = []
        call.output = call.hidden_out

    calls: list[LayerCall]

    def watches(module: nn.Module, path: str, into: Callable[[], dict[Any, Tensor]]) -> list[Any]:
        return [watch(module, witness, into) for witness in by_path[path].watched]

    with torch.no_grad():
        calls, output = layer_calls(
            model, inputs, set(by_path), structure.backend, on_layer=on_layer, watch=watches
        )
    if len(calls) != len(order):
        raise UnsupportedModel(
            f"the model called {len(calls)} layers on this input, {len(order)} on the probe"
        )
    recording = Recording(model, structure, inputs, output, lengths, tokens, memory_budget)
    for (stack, index), call, parts in zip(order, calls, internals, strict=True):
        layer = Layer(recording, stack, index, call)
        layer._internals = parts
        recording._layers.setdefault(stack.name, []).append(layer)
    return recording
