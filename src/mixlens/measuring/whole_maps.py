"""Measure a few targets from whole maps, for layers that cannot be restricted to targets. The
scores are the same, but whole maps need more time and memory. Output measures explain one target at
a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mixlens.contracts import Request, Scores
from mixlens.errors import InvalidInput
from mixlens.measures import spec_of
from mixlens.measuring.measured_batch import MeasuredBatch
from mixlens.measuring.recorder import record
from mixlens.model.session import open_session
from mixlens.recording.recording import Recording
from mixlens.text.answer_tokens import is_chosen

Options = Mapping[str, Any]


def record_whole(name: str, recording: Recording, options: Options, reason: str) -> Recording:
    """Record all targets of the same inputs, for one measure with these options.

    `reason` states why a few targets cannot be recorded alone, and is stored in the new recording.
    """
    whole = record_all_targets(
        recording, name, options if is_chosen(options.get("answer")) else None
    )
    stack = recording.structure.stack_of(recording.site).name
    if whole.lengths[stack] != recording.lengths[stack]:
        raise InvalidInput(
            f"The targets are tokens of the text, but the tokens of {stack} are different. Record "
            f"the whole text, and pass targets of {stack}."
        )
    return replace(whole, not_cut=reason)


def record_all_targets(
    recording: Recording, name: str, arguments: Mapping[str, Any] | None = None
) -> Recording:
    """Record the inputs again with all targets, and keep the tensors that one measure needs.

    Pass the `arguments` of the measure to compute only the logits that it needs, if the model
    supports it.
    """
    if recording.is_kept:
        return recording
    recording.require_state()
    how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": recording.memory_budget}
    if spec_of(name).reads != "attention":
        return record(
            recording.lens, recording.prepared, **how, measures=[name], arguments=arguments
        )
    if recording.whole is None:
        with open_session(recording.model, restores=False) as session:
            recording.whole = record(recording.lens, recording.prepared, **how)
            recording.whole.state = session.whole_state  # its layers may be read in a later call
    return recording.whole


def requests_by_output(
    name: str, recording: Recording, request: Request, options: Options
) -> list[tuple[Options, Request]]:
    """Return the options and the request for each output that a measure explains.

    In a recording from `Lens.generate`, each generated token among the targets is one output.
    Otherwise there is one output for all targets.
    """
    spec, has_targets = spec_of(name), spec_of(name).gives == "maps"
    if is_chosen(options.get("answer")):  # one output for all of its tokens
        is_named = has_targets or request.targets != recording.targets
        return [(options, request if is_named else replace(request, targets=None))]
    if not spec.explains_output or recording.produced is None or request.targets is None:
        return [(options, request)]
    if is_chosen(options.get("position")) and not has_targets:
        return [(options, replace(request, targets=None))]
    places = list(zip(*request.targets, strict=True))
    if len(places) > 1 and (recording.batch > 1 or {"position", "word"} & set(options)):
        if has_targets:  # one output for all targets, from the options
            return [(options, request)]
        raise InvalidInput(
            f"{name} explains one output of the model. Pass one of the {len(places)} targets."
        )
    pairs: list[tuple[Options, Request]] = []
    for at in places:
        words = [
            produced.ids[place] for produced, place in zip(recording.produced, at, strict=True)
        ]
        targets = tuple((place,) for place in at) if has_targets else None
        output_options = {"position": list(at), "word": words, **options}
        pairs.append((output_options, replace(request, targets=targets)))
    return pairs


def join_outputs(batches: Sequence[MeasuredBatch], request: Request) -> MeasuredBatch:
    """Join the scores of several outputs into one batch, with one target per output."""
    first = batches[0]
    if len(batches) == 1:
        return first
    output_options = {
        key: [value for batch in batches for value in batch.options[key]]
        for key in ("position", "word")
    }
    return replace(
        first,
        request=request if first.spec.gives == "maps" else first.request,
        scores=Scores.of_outputs([batch.scores for batch in batches]),
        options={**first.options, **output_options},
    )
