"""Infer the part of a layer after its last attention block, or parallel to it, from the activations
of one run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from mixlens.capture.layer_calls import HookPoint
from mixlens.structure.layer_structure import AttentionStructure, FeedForwardStructure
from mixlens.structure.layer_trace import Core, Event, Evidence, outermost_first


def feed_forwards(evidence: Evidence, stream: Tensor) -> Iterator[FeedForwardStructure | None]:
    """Yield possible structures of the MLP that explain the layer's output, given the residual
    stream after the last attention block.
    """
    last = evidence.trace.cores[-1]
    after = [event for event in evidence.trace.events if event.start > last.tick]
    if evidence.same(stream, evidence.output):
        yield _idle(evidence, stream, after)
        return
    sums = _totals(evidence, after)
    input_norm = next(
        (
            event.path
            for event in after
            if event.inputs and evidence.same(event.inputs[0], stream) and evidence.norm(event)
        ),
        None,
    )
    for norm_path, total in sums:
        for event in _parts(evidence, stream, total, after):
            assert event.output is not None
            scales = evidence.fit(total, [stream, event.output])
            if scales is not None:
                yield FeedForwardStructure(
                    output=event.path,
                    residual_scale=scales[0],
                    branch_scale=scales[1],
                    input_norm=input_norm,
                    output_norm=norm_path,
                )
                continue
            by_channel = evidence.fitted_by_channel(total, stream, event.output)
            if by_channel is not None:
                yield FeedForwardStructure(
                    output=event.path,
                    branch_scale=by_channel,
                    input_norm=input_norm,
                    output_norm=norm_path,
                )


def _totals(evidence: Evidence, after: list[Event]) -> list[tuple[str | None, Tensor]]:
    """Return the candidates for the residual sum: the layer's output, and the input of each norm
    that computes this output.
    """
    totals: list[tuple[str | None, Tensor]] = [(None, evidence.output)]
    for event in reversed(after):
        if event.inputs and evidence.same(event.output, evidence.output) and evidence.norm(event):
            totals.append((event.path, event.inputs[0]))
    return totals


def several_parts(evidence: Evidence, stream: Tensor) -> Iterator[tuple[str, ...]]:
    """Yield possible groups of modules that add to the residual stream after attention and explain
    the layer's output. The modules may add to the stream one after the other (a convolution and a
    half-step MLP in Conformers), or in one sum (experts and a shared expert).
    """
    last = evidence.trace.cores[-1]
    after = [event for event in evidence.trace.events if event.start > last.tick]
    for _, total in _totals(evidence, after):
        yield from _steps(evidence, stream, total, after, 3)
        parts = [part for part in _parts(evidence, stream, total, after) if "." not in part.path]
        for one, other in itertools.combinations(parts, 2):
            assert one.output is not None
            assert other.output is not None
            if evidence.same(one.output, other.output):
                continue
            if evidence.fit(total, [stream, one.output, other.output]) is not None:
                yield one.path, other.path


def _steps(
    evidence: Evidence, stream: Tensor, total: Tensor, after: list[Event], most: int
) -> Iterator[tuple[str, ...]]:
    """Yield sequences of at most `most` modules whose outputs, added to the stream one by one, give
    the total.
    """
    for part in _parts(evidence, stream, total, after):
        assert part.output is not None
        later = [event for event in after if event.start > part.end]
        if evidence.fit(total, [stream, part.output]) is not None:
            yield (part.path,)
        elif most > 1:
            for event in later:
                event_input = event.inputs[0] if event.inputs else None
                if (
                    event_input is None
                    or event_input.shape != total.shape
                    or evidence.same(event_input, stream)
                ):
                    continue
                if evidence.fit(event_input, [stream, part.output]) is not None:
                    for rest in _steps(evidence, event_input, total, later, most - 1):
                        yield part.path, *rest
                    break


def _parts(
    evidence: Evidence, stream: Tensor, total: Tensor, after: list[Event]
) -> Iterator[Event]:
    """Yield the modules whose output may be added to the residual stream."""
    for event in outermost_first(after):
        output = event.output
        if output is None or output.shape != total.shape:
            continue
        if evidence.same(output, total) or evidence.same(output, stream):
            continue
        if not (event.inputs and evidence.same(event.inputs[0], output)):
            yield event


def _idle(evidence: Evidence, stream: Tensor, after: list[Event]) -> FeedForwardStructure | None:
    """Return the MLP whose output is negligible for these tokens, or None if there is none.

    The MLP may add to the stream for other tokens.
    """
    for event in outermost_first(after):
        if event.output is None or event.output.shape != stream.shape:
            continue
        weighs = any(parameter.dim() > 1 for parameter in event.module.parameters())
        if weighs and evidence.negligible(event.output, stream):
            return FeedForwardStructure(output=event.path)
    return None


def parallel(
    evidence: Evidence, site: AttentionStructure, core: Core, stream: Tensor, branch: Tensor
) -> Iterator[tuple[AttentionStructure, Tensor, FeedForwardStructure]]:
    """Yield the structure of a parallel layer, whose output is stream + attention + MLP in one
    sum.
    """
    for event in outermost_first(evidence.trace.events):
        if (
            event.output is None
            or event.output.shape != evidence.hidden.shape
            or event.path in core.inside
        ):
            continue
        if evidence.same(event.output, branch) or evidence.same(event.output, evidence.output):
            continue
        if event.inputs and evidence.same(event.inputs[0], event.output):
            continue
        scales = evidence.fit(evidence.output, [stream, branch, event.output])
        if scales is not None and _unmoved(evidence, event, site.output_projection):
            feed_forward = FeedForwardStructure(output=event.path, branch_scale=scales[2])
            structure = replace(
                site,
                parallel=True,
                residual_scale=scales[0],
                branch_scale=scales[1],
                hook_point=HookPoint(event.path, "out"),
            )
            yield structure, evidence.output, feed_forward
            return


def _unmoved(evidence: Evidence, event: Event, projection: str) -> bool:
    """Return whether the output of a module stays the same when the attention output changes."""
    returned = evidence.trace.at(projection)
    assert returned is not None
    assert returned.output is not None
    run_after = evidence.trace.again(replaced={projection: returned.output.flip(-1)})
    after = run_after.at(event.path)
    return after is not None and evidence.same(event.output, after.output)
