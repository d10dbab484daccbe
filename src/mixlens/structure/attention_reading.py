"""Infer the structure of one attention block from the activations of one run.

The output projection is the affine module whose input is A V, the product of attention weights and
values, with or without a gate. The norms and scales after the projection form the branch. The
residual sum is the first tensor that is a linear combination of the residual stream and the branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mixlens.capture.attention_call import ValueEdit
from mixlens.capture.layer_calls import HookPoint
from mixlens.errors import UnsupportedModel
from mixlens.kernels.differences import attention_product, rounding
from mixlens.structure.layer_structure import affine_map
from mixlens.structure.layer_trace import Core, Event, Evidence, outermost_first


@dataclass
class ObservedSum:
    """Describes a sum total = residual_scale * residual + branch_scale * branch that was found in a
    trace.
    """

    total: Tensor
    residual_from: str | None
    residual_scale: float
    branch_scale: float | Tensor
    event: Event | None  # the submodule that takes the sum; None if it is the layer's output
    position: int = 0


class TurnedProjection(UnsupportedModel):
    """Raised if the module that reads A V expects [tokens, batch, channel]."""

    def __init__(self, path: str) -> None:
        super().__init__(f"`{path}` has the tokens before the batch")
        self.path = path


def projection_of(evidence: Evidence, index: int, *, any_width: bool = False) -> tuple[Event, bool]:
    """Return the affine module whose input is A V (attention weights times values), and whether A V
    is gated. With `any_width`, the number of output channels may differ from that of the residual
    stream.
    """
    core = evidence.trace.cores[index]
    weights, values = core.call.weights, core.call.values
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], 1)
    product = (weights @ values).transpose(1, 2)
    takers = [
        event
        for event in evidence.trace.events
        if _may_take(evidence, event, core, product, any_width)
    ]

    def takes(event: Event, tensor: Tensor) -> bool:
        """The inputs are compared first, because a whole MLP is affine or not only by its answers
        to all unit vectors.
        """
        event_input = event.inputs[0].reshape(tensor.shape).flatten(2)
        return evidence.same(event_input, tensor.flatten(2)) and _is_affine(
            evidence, event, product
        )

    for event in takers:
        if takes(event, product):
            return event, False
    if takers:
        ones = evidence.trace.again(edit_values=all_ones(index))
        for event in takers:
            other = ones.at(event.path)
            if other is not None and takes(event, gate_of(other.inputs[0], weights) * product):
                return event, True
    _, error = attention_product(weights, values, core.call.output)
    if not error <= rounding(evidence.hidden):
        raise UnsupportedModel(
            f"layer `{evidence.path}`: its output is not the product of one attention matrix "
            f"and the values (relative error {error:.1e}), as in low-rank and kernel "
            "approximations of attention. mixlens reports nothing rather than a wrong number."
        )
    width = _other_width(evidence, core, product)
    if width is not None:
        raise UnsupportedModel(
            f"layer `{evidence.path}`: its output projection returns {width} channels, but "
            f"the layer's states have {evidence.d_model}. It adds to one of several streams "
            "(Gemma 3n) or to an inner one (the bottleneck of MobileBERT), which layers do "
            "not pass on. mixlens reports nothing rather than a wrong number."
        )
    for event in evidence.trace.events:
        if event.inputs and _is_turned(evidence, event.inputs[0], product.flatten(2)):
            raise TurnedProjection(event.path)
    raise UnsupportedModel(
        f"layer `{evidence.path}`: no linear module takes the product of attention weights "
        "and values, with or without a gate (a norm or another step precedes the output "
        "projection, or the projection is a bare parameter), so the output cannot be split "
        "by source token. mixlens reports nothing rather than a wrong number."
    )


def _is_turned(evidence: Evidence, tensor: Tensor, product: Tensor) -> bool:
    """Return whether `tensor` equals `product` with the first two axes swapped."""
    has_swapped_axes = tensor.dim() == 3 and tensor.shape[:2] == product.shape[1::-1]
    return has_swapped_axes and evidence.same(tensor.transpose(0, 1), product)


def _other_width(evidence: Evidence, core: Core, product: Tensor) -> int | None:
    """Return the output width of the affine module that reads A V, if it differs from the width of
    the residual stream. Return None otherwise.
    """
    for event in evidence.trace.events:
        if event.start < core.tick or not event.inputs or event.output is None:
            continue
        event_input, width = event.inputs[0], int(event.output.shape[-1])
        if width != evidence.d_model and event_input.numel() == product.numel():
            if evidence.same(event_input.reshape(product.shape).flatten(2), product.flatten(2)):
                affine = affine_map(event.module, product.shape[2] * product.shape[3], product)
                if affine is not None and not _is_identity(affine[0]):
                    return width
    return None


def _may_take(
    evidence: Evidence, event: Event, core: Core, product: Tensor, any_width: bool
) -> bool:
    """Return whether a module's input has the size of A V and its output the size of the stream."""
    if event.start < core.tick or not event.inputs or event.output is None:
        return False
    axes = slice(0, 2 if any_width else 3)
    fits = event.output.dim() == 3 and event.output.shape[axes] == evidence.hidden.shape[axes]
    return event.inputs[0].numel() == product.numel() and fits


def _is_affine(evidence: Evidence, event: Event, product: Tensor) -> bool:
    """Return whether a module that reads A V is an affine map, and not the identity."""
    affine = affine_map(event.module, int(product.shape[2] * product.shape[3]), evidence.hidden)
    # dropout returns its input, and so does every map of zeros
    return affine is not None and not _is_identity(affine[0])


def branch_of(evidence: Evidence, projection: Event) -> tuple[Tensor, tuple[str, ...], bool, int]:
    """Return the output of the last norm or scale between the projection and the residual sum.

    Also return the paths of all these norms and scales, whether any of them is a norm, and the tick
    at which the last one ends.
    """
    assert projection.output is not None
    value, paths, any_norm, end = projection.output, [], False, projection.end
    progress = True
    while progress:
        progress = False
        for event in evidence.trace.events:
            if event.start > end and event.inputs and evidence.same(event.inputs[0], value):
                form = evidence.norm(event)
                if form is not None:
                    assert event.output is not None
                    value, end, progress = event.output, event.end, True
                    paths.append(event.path)
                    any_norm |= form.scaled
                    break
    return value, tuple(paths), any_norm, end


def input_norm_of(evidence: Evidence, core: Core, stream: Tensor) -> str | None:
    """Return the path of the norm that is applied to the stream before attention, or None."""
    for event in evidence.trace.events:
        if event.end < core.tick and event.inputs and evidence.same(event.inputs[0], stream):
            form = evidence.norm(event)
            if form is not None and form.scaled and _feeds(evidence, event, core):
                return event.path
    return None


def _feeds(evidence: Evidence, norm: Event, core: Core) -> bool:
    """Return whether the norm's output enters a module that runs before the attention call or
    contains it.
    """
    return any(
        norm.end < event.start < core.tick
        and any(evidence.same(tensor, norm.output) for tensor in event.inputs)
        for event in evidence.trace.events
    )


def residual_sum(
    evidence: Evidence, stream: Tensor, branch: Tensor, end: int, detours: bool
) -> ObservedSum | None:
    """Return the first tensor that is the sum of the residual stream and the branch (each may be
    scaled).

    With `detours`, the output of an earlier norm may replace the stream as the residual.
    """
    later = list(evidence.after(end))
    residuals: list[tuple[str | None, Tensor]] = [(None, stream)]
    residuals += [
        (event.path, event.output)
        for event in evidence.trace.events
        if detours
        and event.end <= end
        and event.output is not None
        and event.output.shape == evidence.hidden.shape
        if evidence.norm(event) is not None
    ]
    if evidence.negligible(
        branch, stream
    ):  # attention adds nothing, so the sum is the stream itself
        for total, event, position in later:
            if evidence.same(total, stream):
                return ObservedSum(total, None, 1.0, 1.0, event, position)
    for total, event, position in later:
        if evidence.same(total, branch) or evidence.same(total, stream):
            continue
        for source, residual in residuals:
            scales = evidence.fit(total, [residual, branch])
            if scales is not None:
                return ObservedSum(total, source, scales[0], scales[1], event, position)
    for total, event, position in later:
        if not evidence.same(total, branch) and not evidence.same(total, stream):
            by_channel = evidence.fitted_by_channel(total, stream, branch)
            if by_channel is not None:
                return ObservedSum(total, None, 1.0, by_channel, event, position)
    return None


def entries(evidence: Evidence) -> Iterator[tuple[HookPoint, Tensor]]:
    """Yield the tensors that may be the input of the first attention block, other than the layer's
    input.

    Each of them is the sum of the layer's input and the output of an earlier module that processes
    each token separately (the first half-step MLP of a Conformer).
    """
    start = evidence.trace.cores[0].tick
    before = [event for event in evidence.trace.events if event.end < start]
    candidates: list[Tensor] = [evidence.hidden]
    for event in before:
        tensor = event.inputs[0] if event.inputs else None
        if tensor is None or tensor.shape != evidence.hidden.shape:
            continue
        if any(evidence.same(tensor, other) for other in candidates):
            continue
        candidates.append(tensor)
        for part in outermost_first(before):
            if part.end < event.start and part.output is not None:
                if part.output.shape == tensor.shape and not evidence.same(part.output, tensor):
                    coefficients = evidence.fit(tensor, [evidence.hidden, part.output])
                    if coefficients is not None and _by_token(evidence, event):
                        yield HookPoint(event.path, "in"), tensor
                        break


def _by_token(evidence: Evidence, event: Event) -> bool:
    """Return whether a module's input at each token depends only on the layer's input at the same
    token.
    """
    edited_hidden = evidence.hidden.clone()
    place = edited_hidden.shape[1] // 2
    edited_hidden[:, place] = edited_hidden[:, place].flip(-1)
    event_after = evidence.trace.again(new_hidden=edited_hidden).at(event.path)
    if event_after is None or not event_after.inputs:
        return False
    other_tokens = [token for token in range(edited_hidden.shape[1]) if token != place]
    return evidence.same(event_after.inputs[0][:, other_tokens], event.inputs[0][:, other_tokens])


def _is_identity(matrix: Tensor) -> bool:
    square = matrix.shape[0] == matrix.shape[1]
    return square and torch.equal(matrix, torch.eye(len(matrix)).to(matrix))


def all_ones(position: int) -> ValueEdit:
    """Return an edit that sets every value of one attention call of a layer to one."""
    return lambda number, values: torch.ones_like(values) if number == position else values


def gate_of(
    projection_input: Tensor, weights: Float[Tensor, "batch head target source"]
) -> Float[Tensor, "batch target head d_head"]:
    """Return the gate, computed from the projection's input in a run with all values set to one."""
    batch, heads, targets, _ = weights.shape
    sums = weights.sum(-1).transpose(1, 2)[..., None]
    projection_input = projection_input.reshape(batch, targets, heads, -1)
    return projection_input / torch.where(sums == 0, 1.0, sums)
