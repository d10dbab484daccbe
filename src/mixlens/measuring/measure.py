"""Measure a recording: check the request, score the batch, and split it into maps per text."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mixlens.contracts import Request, Scores, Span
from mixlens.errors import InvalidInput, TargetsUnavailable, UnsupportedModel
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.measures import (
    refusal,
    requested_function,
    scores_layers,
    scores_of,
    span_definition,
    span_rule,
    spec_of,
    without_noise,
)
from mixlens.measuring.estimates import Estimate, estimate_of, memory_advice, require_room
from mixlens.measuring.measured_batch import MeasuredBatch, span_labels
from mixlens.measuring.read_positions import with_graph, with_output
from mixlens.measuring.whole_maps import join_outputs, record_whole, requests_by_output
from mixlens.model.distributed import require_same
from mixlens.model.placement import available_to
from mixlens.model.session import open_session
from mixlens.recording.deferred_checks import checks_wait
from mixlens.recording.recording import Recording, score_layers
from mixlens.recording.target_pass import target_blocks
from mixlens.replay.explained_output import logits_of
from mixlens.text.answer_tokens import is_chosen
from mixlens.text.tokens import EachText

_log = logging.getLogger(__name__)


def measure(
    name: str,
    recording: Recording,
    *,
    site: str | None = None,
    layers: int | Sequence[int] | None = None,
    targets: int | str | Sequence[int | str] | None = None,
    per_head: bool = False,
    span: str | bool | None = None,
    weights: Any = None,
    precision: str | None = None,
    **options: Any,
) -> MixingMaps | list[MixingMaps]:
    """Compute one measure of a recording.

    Parameters
    ----------
    name
        The measure. See `mixlens.list_measures`.
    recording
        A recording (`lens.record`, `lens.generate`).
    site, layers, targets, per_head, span, weights, precision
        The same as for `Lens.measure`. The span of `lens.generate` is the answer, unless you name
        targets.
    **options
        Options of the measure.

    Returns
    -------
    MixingMaps or list of MixingMaps
        The maps of one text, or a list for several texts.

    Raises
    ------
    InvalidInput
        If the measure, option, layer or target does not exist.
    ModelChanged
        If the model has changed since it was recorded.
    UnsupportedModel
        If mixlens cannot compute correct scores for this model.

    Examples
    --------
    >>> import mixlens
    >>> recording = mixlens.Lens.bundled().record("The dogs bark.")
    >>> mixlens.measure("attention", recording).scores.shape
    (6, 6, 6)
    """
    if isinstance(name, Recording):
        raise InvalidInput(
            "The arguments are in the wrong order. Pass the name of a measure, then the recording."
        )
    selection: dict[str, Any] = {"site": site, "layers": layers, "targets": targets}
    selection |= {"per_head": per_head, "span": span, "weights": weights, "precision": precision}
    batches = measure_batches({name: options}, recording, **selection)
    return _one_or_several(batches[name])


def measure_together(
    measures: Sequence[str] | Mapping[str, Mapping[str, Any]],
    recording: Recording,
    *,
    site: str | None = None,
    layers: int | Sequence[int] | None = None,
    targets: int | str | Sequence[int | str] | None = None,
    per_head: bool = False,
    span: str | bool | None = None,
    weights: Any = None,
    precision: str | None = None,
) -> dict[str, MixingMaps | list[MixingMaps]]:
    """Compute several measures of one recording, and return the maps of each measure by name.

    A recording of a few targets (`lens.record(text, targets=...)`, `lens.generate(...)`) runs the
    model once for all of them.
    """
    options_by_measure = (
        measures if isinstance(measures, Mapping) else {name: {} for name in measures}
    )
    selection: dict[str, Any] = {"site": site, "layers": layers, "targets": targets}
    selection |= {"per_head": per_head, "span": span, "weights": weights, "precision": precision}
    batches = measure_batches(options_by_measure, recording, **selection)
    return {name: _one_or_several(batch) for name, batch in batches.items()}


def measure_batches(
    measures: Mapping[str, Mapping[str, Any]],
    recording: Recording,
    *,
    site: str | None = None,
    layers: int | Sequence[int] | None = None,
    targets: int | str | Sequence[int | str] | EachText | None = None,
    per_head: bool = False,
    span: str | bool | None = None,
    weights: Any = None,
    precision: str | None = None,
) -> dict[str, MeasuredBatch]:
    """Return several measures of one recording as padded batches."""
    if not isinstance(recording, Recording):
        raise InvalidInput(
            f"{type(recording).__name__} is not a recording. Pass one from lens.record, or "
            "use lens.measure for a text."
        )
    measures, weights = _with_own_weights(measures, weights)
    requests = {
        name: _with_span(
            name,
            _check_request(name, recording, site, layers, targets, per_head),
            span,
            weights,
            options,
        )
        for name, options in measures.items()
    }
    return _batches(measures, recording, requests, precision)


def _batches(
    measures: Mapping[str, Mapping[str, Any]],
    recording: Recording,
    requests: Mapping[str, Request],
    precision: str | None,
) -> dict[str, MeasuredBatch]:
    """Return several measures (with their options) of a recording.

    Measures that score one layer at a time share one loop over the layers. If the recording does
    not keep its layers, all targets are recorded again for the other measures, and for measures
    whose layers cannot be restricted to the targets.
    """
    refused: dict[str, str] = {}
    scores: dict[str, Scores] = {}
    of_layers = {
        name: options
        for name, options in measures.items()
        if scores_layers(name) and (recording.is_kept or spec_of(name).row_by_row)
    }
    by_request: dict[Request, dict[str, Mapping[str, Any]]] = {}  # one request, unless some sample
    for name, options in of_layers.items():
        by_request.setdefault(requests[name], {})[name] = options
    for request, same_request in by_request.items():
        try:
            with at_work(same_request, recording, request, precision):
                scores |= _scores_of_layers(same_request, recording, request, refused)
        except TargetsUnavailable as error:  # the proof of a cut layer holds for all measures
            refused |= {name: str(error) for name in same_request}
    batches = {}
    for name, options in measures.items():
        request = requests[name]
        if name in scores:
            batches[name] = _batch(name, recording, request, scores[name], options)
        elif recording.is_kept:
            with at_work({name: options}, recording, request, precision):
                measure_scores = scores_of(name, recording, request, options)
            batches[name] = _batch(name, recording, request, measure_scores, options)
        else:
            batch_of_output = _of_one_output(name, recording, request, options, precision)
            reason = refused.get(name, f"{name} needs all targets of a text")
            batches[name] = batch_of_output or _from_maps(
                name, recording, request, options, reason, precision
            )
    return batches


def _of_one_output(
    name: str,
    recording: Recording,
    request: Request,
    options: Mapping[str, Any],
    precision: str | None,
) -> MeasuredBatch | None:
    """Explain an answer or a token from layers that are restricted to the explained tokens.

    Return None if the measure needs whole maps.
    """
    is_one = any(is_chosen(options.get(key)) for key in ("answer", "position"))
    has_own_targets = request.targets != recording.targets
    several = not is_one and recording.produced is not None
    spec = spec_of(name)
    if not (spec.follows_output or spec.follows_gradient) or has_own_targets or several:
        return None
    layer_request = request if spec.follows_gradient else replace(request, targets=None)
    try:
        with at_work({name: options}, recording, request, precision):
            if spec.follows_gradient:
                ready = with_graph(recording, request, options)
            else:
                ready = with_output(recording, options)
            scores = scores_of(name, ready, layer_request, options)
    except TargetsUnavailable as error:
        _log.info("%s: whole maps are recorded for the explained tokens: %s", name, error)
        return None
    return _batch(name, recording, layer_request, scores, options)


def _scores_of_layers(
    measures: Mapping[str, Mapping[str, Any]],
    recording: Recording,
    request: Request,
    refused: dict[str, str] | None = None,
) -> dict[str, Scores]:
    functions = {
        name: requested_function(name, options, request) for name, options in measures.items()
    }
    scores = score_layers(functions, recording, request, refused)
    return {
        name: without_noise(name, scores_of_measure) for name, scores_of_measure in scores.items()
    }


def why_not_cut(recording: Recording) -> str | None:
    """Return why the targets of a recording need whole maps, or None if they can be measured alone.

    To find out, this function measures the targets.
    """
    if recording.is_kept:
        return recording.not_cut
    name = "attention"
    request = _check_request(name, recording, None, None, None, False)
    try:
        with at_work({name: {}}, recording, request, None):
            _scores_of_layers({name: {}}, recording, request)
    except TargetsUnavailable as error:
        return str(error)
    return None


def _from_maps(
    name: str,
    recording: Recording,
    request: Request,
    options: Mapping[str, Any],
    reason: str,
    precision: str | None,
) -> MeasuredBatch:
    """Record whole maps and return the scores of the named targets.

    This works for every model. The reason for recording whole maps is logged and added to the
    provenance of the maps (`recorded`).
    """
    _log.info("%s uses whole maps for these targets: %s", name, reason)
    require_room(_largest({name: options}, recording, request), available_to(recording.model))
    whole = record_whole(name, recording, options, reason)
    outputs = [
        _batches({name: output_options}, whole, {name: output_request}, precision)[name]
        for output_options, output_request in requests_by_output(name, recording, request, options)
    ]
    return join_outputs(outputs, request)


def _batch(
    name: str, recording: Recording, request: Request, scores: Scores, options: Mapping[str, Any]
) -> MeasuredBatch:
    if request.span is not None:
        scores = replace(scores, target_labels=span_labels(recording, request))
    return MeasuredBatch(
        name=name,
        spec=spec_of(name),
        recording=recording,
        request=request,
        scores=scores,
        options=options,
    )


def _largest(
    measures: Mapping[str, Mapping[str, Any]],
    recording: Recording,
    request: Request,
) -> Estimate:
    """Return the largest memory estimate of these measures, which run one after the other."""
    at_once = None if request.targets is None else target_blocks(recording, request)[0].stop
    estimates = [
        estimate_of(
            recording.model,
            name,
            max(recording.lengths[recording.structure.stack_of(request.site).name]),
            targets=at_once,
            layers=len(request.layers),
            texts=recording.batch,
            options=options,
            recorded=recording.is_kept,
        )
        for name, options in measures.items()
    ]
    return max(estimates, key=lambda estimate: estimate.sure)


@contextlib.contextmanager
def at_work(
    measures: Mapping[str, Mapping[str, Any]],
    recording: Recording,
    request: Request,
    precision: str | None,
) -> Iterator[None]:
    """Lock the model while measures run. Raise `OutOfMemory` first if they cannot fit into
    memory.
    """
    model = recording.model
    with open_session(model, precision=precision, recorded=recording.state) as session:
        require_same(inputs=recording.inputs, options=(measures, request, precision))
        estimate, available = _largest(measures, recording, request), available_to(model)
        require_room(estimate, available)
        session.memory_advice = partial(memory_advice, estimate, available)
        if not recording.is_kept:  # layers that pass by have deferred checks of their own
            yield
            return
        try:
            with checks_wait():
                yield
        except BaseException:  # also KeyboardInterrupt: deferred checks may not have run
            for layer in itertools.chain(*recording.stack_layers.values()):
                layer.forget_sites()
            raise


def _check_request(
    name: str,
    recording: Recording,
    site: str | None,
    layers: int | Sequence[int] | None,
    targets: int | str | Sequence[int | str] | EachText | None,
    per_head: bool,
) -> Request:
    """Check the arguments and return them as a request. Raise an error if they are invalid."""
    spec = spec_of(name)
    if not isinstance(per_head, (bool, np.bool_)):
        raise InvalidInput(f"per_head={per_head!r} is not a truth value. Pass True or False.")
    if per_head and not spec.per_head:
        raise InvalidInput(f"{name} is defined only for whole layers. Drop per_head.")
    site = recording.site if site is None else site
    reason = refusal(name, recording.structure, site)
    if reason is not None:
        if spec.explains_output and recording.output is not None:
            logits_of(recording.output)  # without a head, the advised measures would fail too
        raise UnsupportedModel(reason)
    request = Request.resolved(
        recording, site=site, layers=layers, targets=targets, per_head=per_head
    )
    stack = recording.structure.stack_of(request.site).name
    chosen_before = stack == recording.target_stack and (
        not recording.is_kept or spec.gives == "maps"
    )
    if targets is None and chosen_before:
        request = replace(request, targets=recording.targets)
    return request


def _with_own_weights(
    measures: Mapping[str, Mapping[str, Any]], weights: Any
) -> tuple[Mapping[str, Mapping[str, Any]], Any]:
    """Pass `weights` to the measures that have an option of this name.

    If no measure has this option, the weights are returned as the weights of a span.
    """
    if weights is None:
        return measures, None
    weighted = {
        name for name in measures if any(o.name == "weights" for o in spec_of(name).options)
    }
    with_weights = {
        name: {**options, "weights": weights} if name in weighted else options
        for name, options in measures.items()
    }
    return with_weights, None if weighted else weights


def _with_span(
    name: str,
    request: Request,
    span: str | bool | None,
    weights: Any,
    options: Mapping[str, Any],
) -> Request:
    """Return the request, with its targets (or a sample of them) as a span if `span` is set."""
    if span is None or span is False:
        if weights is not None:
            raise InvalidInput("weights= needs a span. Pass span='sum', 'joint' or 'mean'.")
        return request
    if request.targets is None:
        raise InvalidInput("A span needs targets. Pass targets=[…], or use lens.generate.")
    new_span = Span.of(span, weights, request.targets)
    definition = span_definition(name, new_span)  # raises if the measure has no such span
    rule, count = span_rule(name), options.get("sample")
    if rule is None or not rule.samples or count is None:
        return replace(request, span=new_span)
    if definition != "mean":
        raise InvalidInput(f"sample={count!r} needs span='mean', got span={definition!r}.")
    new_span, targets = new_span.sample(request.targets, count, options.get("seed", 0))
    return replace(request, span=new_span, targets=targets)


def _one_or_several(batch: MeasuredBatch) -> MixingMaps | list[MixingMaps]:
    maps = batch.maps()
    return maps[0] if len(maps) == 1 else maps
