"""Single-target mode: one forward pass with the model's own attention, split by source for a few
targets.

The model runs as it was loaded (sdpa, flash). Each layer is handed on as it goes by, cut to the
wanted targets: its input, its output, the witnesses of the checks, the values of all sources and
the wanted rows of the attention weights (`row_attention`). Nothing of size n x n is formed. The
rows pass the same checks as a whole recording: multiplied out they must give what the attention
module returned for these targets, and the block must add up.

Memory above the model's own forward pass: the rows, and a few tensors of one layer. What a visitor
keeps is its own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from mixlens.contracts import AttentionKind, Request
from mixlens.errors import InvalidInput, TargetsUnavailable
from mixlens.model.placement import entry_device, sent
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording, Visitor, recorded
from mixlens.recording.target_pass import run_by_rows
from mixlens.structure.model_structure import AttentionSite, ModelStructure
from mixlens.structure.probe import short_probe
from mixlens.text.inputs import Prepared
from mixlens.text.plurals import counted
from mixlens.text.positions import EachText, positions_by_text
from mixlens.text.tokens import TokenRow


@dataclass(kw_only=True, repr=False)
class RowRecording(Recording):
    """A forward pass of which only some targets of one stack are taken apart.

    It runs when something is measured, so that other targets or a different site of the same stack
    cost nothing more.
    """

    site: AttentionSite
    targets: tuple[tuple[int, ...], ...]  # positions, for each row of the batch
    width: int  # tokens of the stack, padding included
    lens: Any  # records the same inputs again, for a measure that needs all targets
    ready: Prepared
    whole: Recording | None = None  # the same inputs with all targets, once they were needed

    def of(self, site: str, targets: tuple[tuple[int, ...], ...]) -> RowRecording:
        """The same inputs, with other targets or a different site of the same stack."""
        chosen = self.structure.site(site)
        if chosen.stack is not self.site.stack:
            raise InvalidInput(
                f"the targets of this recording are tokens of {self.site.stack.name}: record again"
                f" for the site {site}"
            )
        if chosen.name == self.site.name and targets == self.targets:
            return self
        _require_rows(self.structure, chosen)
        return replace(self, site=chosen, targets=targets)

    def __repr__(self) -> str:
        targets = counted(len(self.targets[0]), "target")
        about = f"{targets} of {self.site.name}{self._answer_in_repr()}"
        return f"<RowRecording of {type(self.model).__name__}: {about}>"

    @functools.cached_property
    def places(self) -> Int[Tensor, "batch target"]:
        """The positions of the targets, next to the model."""
        return sent(torch.tensor(self.targets), entry_device(self.model))

    def source_tokens(self, site: str | None, row: int) -> TokenRow:
        """Of the same stack, or of the only other one."""
        return self._source_rows(site)[row]

    def source_lengths(self, site: str | None) -> list[int]:
        """How many sources each text has."""
        return [len(row) for row in self._source_rows(site)]

    def _source_rows(self, site: str | None) -> Sequence[TokenRow]:
        chosen = self.structure.site(site)
        own = chosen.kind is AttentionKind.SELF
        stack = next(s for s in self.structure.stacks if (s is chosen.stack) == own)
        return self.tokens[stack.name]

    def layers(self, site: str | None = None) -> list[Layer]:
        """Raise: layers that are cut to targets are there only while the model runs."""
        raise TargetsUnavailable("its layers are there only while they are measured")

    @functools.cached_property
    def short(self) -> Recording:
        """The whole model on a dozen tokens: what is proved of a layer there holds for its rows."""
        return recorded(
            self.model,
            self.structure,
            short_probe(self.inputs, self.model).inputs,
            lengths={},
            tokens={},
            memory_budget=self.memory_budget,
            output=False,
        )

    def visit(self, request: Request, visitor: Visitor) -> None:
        """Run the model up to the end of the stack, and hand on every requested layer as it goes
        by.
        """
        targets = request.chosen(self, self.places)

        def on_layer(layer: Layer) -> None:
            if layer.index in request.layers:
                visitor(layer.index, layer, targets)

        try:
            run_by_rows(self, on_layer)
        finally:
            vars(self).pop("short", None)  # it may hold a float32 copy of a layer


def row_recording(
    lens: Any,
    structure: ModelStructure,
    ready: Prepared,
    *,
    site: str | None,
    targets: Sequence[int | str] | EachText,
    memory_budget: int,
) -> RowRecording:
    """A recording of these targets (labels or positions); nothing runs before it is visited."""
    chosen = structure.site(site)
    if not len(targets):
        raise TargetsUnavailable("no target is named")
    _require_rows(structure, chosen)
    tokens = _text_tokens(structure, ready)
    if len(tokens) < (2 if chosen.kind is AttentionKind.CROSS else 1) or (
        chosen.stack.name not in tokens
    ):
        raise TargetsUnavailable(f"the tokens of {chosen.name} are known only after a run")
    rows = tokens[chosen.stack.name]
    last = chosen.stack is structure.calls[-1][0]
    produced = ready.produced if last else None
    named = rows if produced is None else [row.tokens for row in produced]
    decoder = rows == ready.decoder_rows
    return RowRecording(
        lens=lens,
        ready=ready,
        model=lens.model,
        structure=structure,
        inputs=ready.tensors,
        output=None,
        lengths={name: [len(row) for row in known] for name, known in tokens.items()},
        tokens=tokens,
        memory_budget=memory_budget,
        stack_layers={},
        source_counts={},
        site=chosen,
        targets=positions_by_text(targets, named),
        target_stack=chosen.stack.name,
        produced=ready.produced,
        width=int(ready.tensors["decoder_input_ids" if decoder else "input_ids"].shape[1]),
    )


def _require_rows(structure: ModelStructure, chosen: AttentionSite) -> None:
    """Raises `RowsUnavailable` if a site of this structure is never cut to rows."""
    if any(layer.layout is not None for layer in chosen.stack.layers):
        raise TargetsUnavailable("its layers are not modules that take and return rows of tokens")
    if any(layer.open is not None for layer in chosen.stack.layers):
        raise TargetsUnavailable("what follows its attention is run on whole sequences")
    if structure.whole or len(chosen.numbers) != len(chosen.stack.layers):
        raise TargetsUnavailable("its structure shows on the whole input only, or differs by layer")
    if chosen.kind is AttentionKind.CROSS and len(structure.stacks) != 2:
        raise TargetsUnavailable("which stack the cross-attention reads is known only after a run")
    if any(part.own_sources for layer in chosen.stack.layers for part in layer.sites):
        raise TargetsUnavailable("its attention reads two stacks at once")
    if structure.backend != "interface":
        raise TargetsUnavailable(
            "its attention does not go through transformers' attention interface"
        )


def _text_tokens(structure: ModelStructure, ready: Prepared) -> dict[str, Sequence[TokenRow]]:
    """The tokens of every stack, as far as they are known before the model runs.

    Of several towers, the last is a causal language model that reads the text; else they are not
    known. Of more than two stacks, one may read what others made of the text.
    """
    last, stacks = structure.calls[-1][0], structure.stacks
    if len(stacks) > 1 and not any(stack.has_cross for stack in stacks):
        stacks = (last,) if last.layers[0].sites[0].causal else ()
    tokens: dict[str, Sequence[TokenRow]] = {}
    for stack in stacks:
        decoder = stack.has_cross or len(structure.stacks) == 1
        known = ready.decoder_rows if decoder and ready.decoder_rows else ready.rows
        unsure = len(stacks) > 2 and known is ready.rows  # BLT: patches of the text
        if known is not None and not unsure:
            tokens[stack.name] = known
    return tokens
