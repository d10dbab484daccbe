"""One forward pass, split layer by layer, each part checked against the activations of the model.

Memory: a recording keeps the input and output of every layer, layers x batch x n x d_model numbers.
Attention weights, values and the witnesses of the checks are kept as well while all of them fit
`memory_budget` bytes; beyond it they are recomputed, one layer at a time, when asked for. The peak
above the model's own forward pass is thus

    layer inputs and outputs + memory_budget + the internals of one layer (about batch x heads x n^2
    + 8 x batch x n x d_model numbers)

and does not grow with layers x n^2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.capture.bare_products import part_at
from mixlens.capture.hook_points import HookPoint, watch
from mixlens.capture.layer_calls import Inputs, Keep, LayerCall, batch_size, layer_calls
from mixlens.contracts import AttentionKind, Request, Targets
from mixlens.errors import NonFiniteActivations, UnsupportedModel
from mixlens.model.fingerprint import ModelState
from mixlens.model.model_cache import state_of
from mixlens.model.model_changes import require_state
from mixlens.model.module_walk import parts_of
from mixlens.model.placement import is_moved
from mixlens.recording.deferred_checks import checks_wait, not_finite, require_small, waiting_for
from mixlens.recording.internals import Internals
from mixlens.recording.layer import Layer
from mixlens.recording.upcast import UpcastModules
from mixlens.structure.model_structure import ModelStructure, StackStructure
from mixlens.structure.user_hooks import hooks_inside
from mixlens.text.encoding import token_row
from mixlens.text.padding import row_lengths
from mixlens.text.plurals import counted
from mixlens.text.tokens import Produced, TokenRow

Visitor = Callable[[int, Layer, Targets], None]


class StructureDiffers(UnsupportedModel):
    """The model is put together in a different way on this input than on the probe."""


@dataclass(kw_only=True, repr=False)
class Recording:
    """One verified forward pass of one batch.

    `Lens.record` and `Lens.generate` return it. Real tokens come first in each text of the batch,
    and padding follows.

    Attributes
    ----------
    model : torch.nn.Module
        The recorded model.
    inputs : mapping
        The inputs of the forward pass, as a copy.
    output
        The output of the model, with logits if it has a head.
    tokens : mapping
        Tokens of each text, by stack ("encoder", "decoder").
    lengths : mapping
        Numbers of real tokens of each text, by stack.
    memory_budget : int
        Bytes that the recording may keep next to the inputs and outputs of the layers.
    targets : tuple or None
        Targets of each text, if it was recorded for a few targets.

    Examples
    --------
    >>> from mixlens import Lens
    >>> recording = Lens.bundled().record(["The dogs bark.", "The cat sleeps."])
    >>> recording.batch, recording.sites
    (2, ('encoder',))
    """

    model: nn.Module
    structure: ModelStructure
    inputs: Inputs
    output: Any
    lengths: Mapping[str, Sequence[int]]  # stack name -> real tokens of each row
    tokens: Mapping[str, Sequence[TokenRow]]  # stack name -> the tokens of each row
    memory_budget: int
    stack_layers: Mapping[str, Sequence[Layer]]  # stack name -> its layers
    source_counts: Mapping[tuple[str, AttentionKind], int]  # tokens that a stack's attention reads
    tokenizer: Any = None  # for words that name an output to explain
    # The targets that are meant if none are named, for each row of the batch, and their stack.
    targets: tuple[tuple[int, ...], ...] | None = None
    target_stack: str | None = None
    produced: Sequence[Produced] | None = None  # of a continued prompt, for each row of the batch
    rows_refused: str | None = None  # why its targets could not be taken apart by themselves
    logits_at: Int[Tensor, " position"] | None = None  # in order, if not all positions have logits
    state: ModelState | None = None  # of the model when it was recorded

    def __post_init__(self) -> None:
        if self.state is None:
            self.state = state_of(self.model)

    def require_state(self) -> None:
        """Raise `ModelChanged` if the model has changed since it was recorded."""
        assert self.state is not None
        require_state(self.model, self.state)

    def __repr__(self) -> str:
        sizes = [
            f"{name}: {counted(len(self.stack_layers[name]), 'layer')},"
            f" {counted(max(lengths), 'token')}"
            for name, lengths in self.lengths.items()
        ]
        texts = "" if self.batch == 1 else f"{self.batch} texts; "
        about = f"{texts}{'; '.join(sizes)}{self._answer_in_repr()}"
        return f"<{type(self).__name__} of {type(self.model).__name__}: {about}>"

    def _answer_in_repr(self) -> str:
        return "" if self.answer is None else f"; answer {self.answer!r:.200}"

    @property
    def answer(self) -> str | None:
        """The text of the produced targets of `Lens.generate`; None without one or a tokenizer."""
        if self.produced is None or self.targets is None or self.tokenizer is None:
            return None
        row, ids = self.produced[0]
        places = self.targets[0]
        read = self.tokens[self.last_stack.name][0].offsets
        if row.text is not None and row.offsets is not None and read is not None:
            start = max(stop for _, stop in read[: places[0] + 1])  # a space may be no token's
            return row.text[start : max(row.offsets[place][1] for place in places)]
        text: str = self.tokenizer.decode([ids[i] for i in places], skip_special_tokens=True)
        return text

    @property
    def batch(self) -> int:
        """How many texts were recorded."""
        return batch_size(self.inputs)

    def token_logits(
        self, logits: Float[Tensor, "batch position word"], places: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch word"]:
        """The logits at one token of each text."""
        rows = torch.arange(len(logits), device=logits.device)
        if self.logits_at is None:
            return logits[rows, places]
        return logits[rows, torch.searchsorted(self.logits_at, places)]

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the attention sites: "encoder", "decoder", "cross", or the towers of a model
        that has several.
        """
        return tuple(self.structure.sites)

    def target_tokens(self, site: str | None, row: int) -> TokenRow:
        """The tokens that are the targets of a site, for one text."""
        return self.tokens[self.structure.stack_of(site).name][row]

    def named_targets(self, site: str | None, row: int) -> TokenRow:
        """The targets as results name them: by the token that each produced, if that is known."""
        if self.produced is not None and self.structure.stack_of(site) is self.last_stack:
            return self.produced[row].tokens
        return self.target_tokens(site, row)

    @property
    def last_stack(self) -> StackStructure:
        """The stack whose output the model's head reads."""
        return self.structure.calls[-1][0]

    def source_tokens(self, site: str | None, row: int) -> TokenRow:
        """For cross-attention the tokens of the stack that is read, else the stack's own."""
        chosen = self.structure.site(site)
        if chosen.reads_own:
            return self.tokens[chosen.stack.name][row]
        sources = self.source_counts[chosen.stack.name, chosen.kind]
        for other in reversed(self.structure.stacks):
            if other is not chosen.stack and self._width(other) == sources:
                return self.tokens[other.name][row]
        mask = self.inputs.get("encoder_attention_mask")  # encoder states given as input
        if isinstance(mask, Tensor) and mask.shape[1:] == (sources,):
            return TokenRow.numbered(int(mask[row].sum()))
        ids = self.inputs.get("input_ids")  # of an encoder that is not measured (Pegasus-X)
        if isinstance(ids, Tensor) and ids.shape[1:] == (sources,):
            counts = row_lengths(self.inputs)
            end = counts[row] if counts else sources
            return token_row(self.tokenizer, ids[row, :end].tolist())
        return TokenRow.numbered(sources)

    def source_lengths(self, site: str | None) -> list[int]:
        """How many sources each text has."""
        return [len(self.source_tokens(site, row)) for row in range(self.rows(site))]

    def _width(self, stack: StackStructure) -> int:
        """Tokens of a stack's longest row."""
        return self.stack_layers[stack.name][0].width

    def rows(self, site: str | None = None) -> int:
        """Rows of a site's stack: as many as the input has, or one for each image."""
        return len(self.tokens[self.structure.stack_of(site).name])

    def visit(self, request: Request, visitor: Visitor) -> None:
        """Hand every requested layer to `visitor`, with its place among the layers of its attention
        and the requested targets.
        """
        layers, targets = self.layers(request.site), request.chosen(self)
        for position in sorted(set(request.layers)):
            visitor(position, layers[position], targets)

    def layers(self, site: str | None = None) -> list[Layer]:
        """The layers that have attention of a site's kind."""
        self.require_state()
        chosen = self.structure.site(site)
        layers = self.stack_layers[chosen.stack.name]
        return [layers[position] for position in chosen.stack.positions(chosen.kind)]


Order = Sequence[tuple[StackStructure, int]]
"""Stack and layer of each call, as the probe showed them."""


def require_as_probed(order: Order, number: int, call: LayerCall) -> None:
    """This layer is the one that the probe called there."""
    if number >= len(order) or order[number][0].layers[order[number][1]].path != call.path:
        raise StructureDiffers(
            "the model calls its layers in a different order on this input than on the probe"
        )


def require_all_called(order: Order, calls: Sequence[LayerCall]) -> None:
    """No layer of the probe is missing."""
    if len(calls) != len(order):
        raise StructureDiffers(
            f"the model called {len(calls)} layers on this input, {len(order)} on the probe"
        )


def require_finite(order: Order, number: int, path: str, output: Tensor) -> None:
    """No NaN and no infinity came out of a layer."""
    stack, index = order[number]
    error = not_finite(f"{index} of {stack.name} (`{path}`)", output)  # which holds no tensor

    def failure(_: float) -> NonFiniteActivations:
        return error

    output = output.detach()
    deferred = waiting_for(output)
    if deferred is not None:
        deferred.rows_are_finite(output, failure)
    else:
        lowest, highest = output.aminmax()  # NaN is both: one pass, and no copy
        require_small(0.0 * lowest + 0.0 * highest, 0.0, failure)


class _Kept:
    """What a recording keeps of each layer as it goes by, up to its memory budget."""

    def __init__(self, order: Order, memory_budget: int) -> None:
        self.internals: list[list[Internals] | None] = []
        self.sources: dict[tuple[str, AttentionKind], int] = {}
        self._order, self._left = order, memory_budget

    def take(self, call: LayerCall, seen: Mapping[Any, Tensor]) -> None:
        """Checks the next call against the probe, and keeps its internals if they fit."""
        position = len(self.internals)
        require_as_probed(self._order, position, call)
        stack, index = self._order[position]
        expected = stack.layers[index].sites
        output = None if call.output is None else call.hidden_out
        left = seen[expected[-1].hook_point] if output is None else output
        require_finite(self._order, position, call.path, left)
        if len(expected) != len(call.attention):
            raise StructureDiffers(
                f"layer `{call.path}` calls attention {len(call.attention)} times on this input,"
                f" {len(expected)} times on the probe"
            )
        parts = Internals.of_layer(call.attention, seen, output)
        for part, site in zip(parts, expected, strict=True):
            _, _, targets, count = part.attention.weights.shape
            if site.kinds == (AttentionKind.SELF,) and count != targets:
                raise StructureDiffers(
                    f"layer `{call.path}` reads {count} sources for {targets} tokens on this input,"
                    " and its tokens alone on the probe"
                )
            for kind in site.kinds:
                columns = range(count)[site.columns(kind, targets, count)]
                self.sources.setdefault((stack.name, kind), len(columns))
        size = sum(part.nbytes for part in parts)
        fits = size <= self._left
        self._left -= size if fits else 0
        self.internals.append(parts if fits else None)
        call.attention = []
        call.output = output


def _stack_layers(
    model: nn.Module,
    structure: ModelStructure,
    calls: Sequence[LayerCall],
    internals: Sequence[list[Internals] | None],
    memory_budget: int,
) -> dict[str, list[Layer]]:
    """The layers of each stack, in the order of their calls."""
    upcast_modules, layers = UpcastModules(), dict[str, list[Layer]]()
    for (stack, index), call, parts in zip(structure.calls, calls, internals, strict=True):
        layer = Layer(
            model=model,
            backend=structure.backend,
            stack=stack,
            index=index,
            call=call,
            internals=parts,
            upcast_modules=upcast_modules,
            memory_budget=memory_budget,
        )
        layers.setdefault(stack.name, []).append(layer)
        if layer.native_input.shape[:2] != layers[stack.name][0].native_input.shape[:2]:
            raise StructureDiffers(
                f"layer `{call.path}` has other rows or tokens than the first of {stack.name}, and"
                " the same number of them on the probe"
            )
    return layers


def _last_block(model: nn.Module, order: Order) -> tuple[HookPoint, ...]:
    """What must be seen of the last layer if nothing after its attention block is needed: at the
    end the block's output. Empty if the layer must run to its end: that output is seen nowhere
    else, its witness runs twice and may see something else first, or hooks wait for the end.
    """
    stack, index = order[-1]
    layer = stack.layers[index]
    shown = all(site.hook_point and not site.parallel and not site.open for site in layer.sites)
    end = layer.sites[-1].hook_point
    if end is None or not shown or layer.layout:
        return ()
    module = part_at(model, layer.path)
    shown_twice = parts_of(module).count(part_at(module, end.path)) > 1
    waits = shown_twice or is_moved(module) or hooks_inside(module, layer.path)
    return () if waits else (*(layer.blocks - {end}), end)


def recorded(
    model: nn.Module,
    structure: ModelStructure,
    inputs: Inputs,
    *,
    lengths: Mapping[str, Sequence[int]],
    tokens: Mapping[str, Sequence[TokenRow]],
    memory_budget: int,
    output: bool = True,
    blocks_only: bool = False,
    logits_at: Int[Tensor, " position"] | None = None,
) -> Recording:
    """Runs the model once and keeps what the measures need; without `output` up to its last
    layer (`blocks_only`: up to the attention block of that layer, if it can be left there), with
    `logits_at` with logits at these positions alone.
    """
    order = structure.calls
    watched: dict[str, set[HookPoint]] = {}
    for stack, index in order:  # a module may run several times, with cross-attention or without
        layer_structure = stack.layers[index]
        watched.setdefault(layer_structure.path, set()).update(layer_structure.watched)

    def watches(module: nn.Module, path: str, keep: Keep) -> list[Any]:
        return [watch(module, hook_point, keep) for hook_point in watched[path]]

    kept = _Kept(order, memory_budget)
    with torch.no_grad(), checks_wait():
        calls, said = layer_calls(
            model,
            inputs if logits_at is None else {**inputs, "logits_to_keep": logits_at},
            set(watched),
            structure.backend,
            on_layer=kept.take,
            watch=watches,
            stop_after=None if output else len(order),
            stop_inside=() if output or not blocks_only else _last_block(model, order),
            layouts=structure.layouts,
        )
    require_all_called(order, calls)
    return Recording(
        model=model,
        structure=structure,
        inputs=inputs,
        output=said,
        lengths=lengths,
        tokens=tokens,
        memory_budget=memory_budget,
        stack_layers=_stack_layers(model, structure, calls, kept.internals, memory_budget),
        source_counts=kept.sources,
        logits_at=logits_at,
    )
