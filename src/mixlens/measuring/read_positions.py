"""Find the positions whose logits a measure needs, before the model runs. A model that supports
`logits_to_keep` then computes only these logits, which saves memory if the vocabulary is large.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from mixlens.capture.layer_calls import LayerCall, batch_size, layer_calls
from mixlens.errors import InvalidInput, TargetsUnavailable
from mixlens.kernels.chunks import upcast_tensor
from mixlens.model.module_walk import part_at
from mixlens.recording.passed_layers import PassedLayers
from mixlens.recording.projection_inputs import ProjectionInputs
from mixlens.recording.recording import Recording
from mixlens.recording.target_pass import require_cuttable
from mixlens.replay.intervention import on_copies
from mixlens.structure.model_discovery import model_structure
from mixlens.text.answer_tokens import answer_for_each, find_answer, following_tokens, is_chosen
from mixlens.text.input_checks import is_plain_text
from mixlens.text.inputs import Prepared
from mixlens.text.padding import row_lengths
from mixlens.text.tokens import EachText, TokenRow, resolve_positions

if TYPE_CHECKING:
    from mixlens.contracts import Request
    from mixlens.structure.model_structure import ModelStructure


def find_read_positions(
    model: nn.Module, structure: ModelStructure, ready: Prepared, options: Mapping[str, Any]
) -> Int[Tensor, " position"] | None:
    """Return the sorted positions whose logits these options need, or None for all.

    Positions are known in advance only for plain text and a causal model that can skip the other
    logits.
    """
    accepted = inspect.signature(model.forward).parameters
    if "logits_to_keep" not in accepted or options.get("of") in ("embedding", "similarity"):
        return None
    inputs, causal = ready.tensors, structure.calls[-1][0].layers[0].sites[0].causal
    if not (is_plain_text(inputs) and len(structure.stacks) == 1 and causal):
        return None
    ids: Tensor = inputs["input_ids"]
    lengths = row_lengths(inputs) or [int(ids.shape[1])] * len(ids)
    try:
        if is_chosen(options.get("answer")):
            places = _answer_positions(ready, options["answer"], lengths)
        else:
            places = _positions(options.get("position"), lengths)
    except (InvalidInput, IndexError, TypeError, ValueError):  # raised when the output is resolved
        return None
    return torch.tensor(sorted(set(places)), device=ids.device)


def _positions(position: Any, lengths: Sequence[int]) -> list[int]:
    one_for_each = isinstance(position, Sequence) and not isinstance(position, str)
    each = list(position) if one_for_each else [-1 if position is None else position] * len(lengths)
    return [resolve_positions([int(p)], n)[0] for p, n in zip(each, lengths, strict=True)]


def _answer_positions(ready: Prepared, answer: Any, lengths: Sequence[int]) -> list[int]:
    """Return the positions that predict the answers of all texts."""
    places: list[int] = []
    ids: Tensor = ready.tensors["input_ids"]
    for text, text_answer in enumerate(answer_for_each(answer, len(lengths))):
        if ready.produced is None:
            tokens = TokenRow.numbered(lengths[text]) if ready.rows is None else ready.rows[text]
            produced = following_tokens(tokens, ids[text, : lengths[text]].tolist())
        else:
            produced = ready.produced[text]
        is_continued = ready.produced is not None
        places += find_answer(text_answer, produced, is_continued=is_continued).positions
    return places


def find_explained_targets(
    model: nn.Module,
    ready: Prepared,
    arguments: Mapping[str, Any],
    budget: int,
) -> EachText | None:
    """Return the tokens whose logits are explained, or None if all targets should be recorded.

    All targets are recorded if the model cannot skip the other logits, if there are several texts,
    or if the attention weights of all tokens fit into the budget. Keeping these weights saves two
    forward passes.
    """
    if batch_size(ready.tensors) > 1:
        return None
    structure = model_structure(model, ready.tensors)
    heads = sum(
        site.heads for stack in structure.stacks for layer in stack.layers for site in layer.sites
    )
    ids = ready.tensors.get("input_ids")
    if ids is None or 4 * heads * ids.shape[1] ** 2 <= budget:
        return None
    places = find_read_positions(model, structure, ready, arguments)
    return None if places is None else EachText((tuple(places.tolist()),))


@torch.no_grad()
def with_output(recording: Recording, options: Mapping[str, Any]) -> Recording:
    """Return a recording of a few targets, with the model's output added.

    The output contains the logits that the options request. `final_states` contains the states from
    which the model computes these logits. Raises `TargetsUnavailable` if the model can only compute
    all logits.
    """
    model, structure = recording.model, recording.structure
    assert recording.prepared is not None
    positions = find_read_positions(model, structure, recording.prepared, options)
    if positions is None or recording.batch > 1:
        raise TargetsUnavailable("the model computes the logits of all tokens")
    states: list[Tensor] = []

    def on_layer(call: LayerCall, _tensors: object) -> None:
        states.append(upcast_tensor(call.hidden_out[:, positions.to(call.hidden_out.device)]))

    inputs = {**recording.inputs, "logits_to_keep": positions}
    last = {recording.last_stack.layers[-1].path}
    _, output = layer_calls(model, inputs, last, None, on_layer=on_layer)
    if len(states) != 1:
        raise TargetsUnavailable("the last layer runs more than once")
    targets = (tuple(positions.tolist()),)
    return replace(
        recording, output=output, logits_at=positions, final_states=states[0], targets=targets
    )


def with_graph(recording: Recording, request: Request, options: Mapping[str, Any]) -> Recording:
    """Return a recording of a few targets, with an output that belongs to an autograd graph.

    The same forward pass keeps the layers, restricted to the targets, and the inputs of the output
    projections. Raises `TargetsUnavailable` for several texts and for embeddings, which are pooled
    from all tokens.
    """
    model, structure = recording.model, recording.structure
    assert recording.prepared is not None
    assert request.targets is not None
    if recording.batch > 1 or options.get("of") in ("embedding", "similarity"):
        raise TargetsUnavailable("a graph is kept only for logits of a single text")
    positions = find_read_positions(model, structure, recording.prepared, options)
    inputs = {**recording.inputs, **({} if positions is None else {"logits_to_keep": positions})}
    site = structure.site(request.site)
    require_cuttable(structure, site)
    parts = [
        (layer.path, next(part for part in layer.sites if request.kind in part.kinds))
        for layer in site.stack.layers
    ]
    modules = [part_at(part_at(model, path), part.output_projection) for path, part in parts]
    passed, projected = PassedLayers(request.targets[0]), ProjectionInputs(modules)

    def run() -> Any:
        with projected.collect(model):
            return passed.run_with_output(recording, request, inputs)

    output = on_copies(model, run)
    return replace(
        recording, output=output, logits_at=positions, passed=passed, projected=projected
    )
