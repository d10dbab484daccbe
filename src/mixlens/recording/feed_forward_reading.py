"""What a layer does after its last attention block, or next to it, read from the numbers of one
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from mixlens.recording.events import Core, Event
from mixlens.recording.evidence import Evidence, outermost_first
from mixlens.recording.structure import FeedForwardStructure, SiteStructure, Witness


def feed_forwards(evidence: Evidence, stream: Tensor) -> Iterator[FeedForwardStructure | None]:
    """Ways to explain the layer's output from the stream after its last attention site."""
    last = evidence.trace.cores[-1]
    after = [event for event in evidence.trace.events if event.start > last.tick]
    if evidence.same(stream, evidence.output):
        yield _idle(evidence, stream, after)
        return
    sums: list[tuple[str | None, Tensor]] = [(None, evidence.output)]
    for event in reversed(after):
        if (
            event.inputs
            and evidence.same(event.output, evidence.output)
            and evidence.norm(event) is not None
        ):
            sums.append((event.path, event.inputs[0]))
    input_norm = next(
        (
            event.path
            for event in after
            if event.inputs and evidence.same(event.inputs[0], stream) and evidence.norm(event)
        ),
        None,
    )
    for norm_path, total in sums:
        for event in outermost_first(after):
            if (
                event.output is None
                or event.output.shape != total.shape
                or evidence.same(event.output, total)
            ):
                continue
            if evidence.same(event.output, stream) or (
                event.inputs and evidence.same(event.inputs[0], event.output)
            ):
                continue
            scales = evidence.fitted(total, [stream, event.output])
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


def _idle(evidence: Evidence, stream: Tensor, after: list[Event]) -> FeedForwardStructure | None:
    """A feed-forward part that adds nothing to these tokens, which it may to others; None if
    the layer has none.
    """
    for event in outermost_first(after):
        if event.output is None or event.output.shape != stream.shape:
            continue
        weighs = any(parameter.dim() > 1 for parameter in event.module.parameters())
        if weighs and evidence.negligible(event.output, stream):
            return FeedForwardStructure(output=event.path)
    return None


def parallel(
    evidence: Evidence, site: SiteStructure, core: Core, stream: Tensor, branch: Tensor
) -> Iterator[tuple[SiteStructure, Tensor, FeedForwardStructure]]:
    """output = stream + attention + feed-forward, in one sum."""
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
        scales = evidence.fitted(evidence.output, [stream, branch, event.output])
        if scales is not None and _unmoved(evidence, event, site.output_projection):
            feed_forward = FeedForwardStructure(output=event.path, branch_scale=scales[2])
            found = replace(
                site,
                parallel=True,
                residual_scale=scales[0],
                branch_scale=scales[1],
                witness=Witness(event.path, "out"),
            )
            yield found, evidence.output, feed_forward
            return


def _unmoved(evidence: Evidence, event: Event, projection: str) -> bool:
    """Does a module return the same if the attention output is another?"""
    returned = evidence.trace.at(projection)
    assert returned is not None
    assert returned.output is not None
    moved = evidence.trace.again(replaced={projection: returned.output.flip(-1)})
    after = moved.at(event.path)
    return after is not None and evidence.same(event.output, after.output)
