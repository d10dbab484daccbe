"""Apply every suitable measure to one target of a recording.

Only the scores of this target are computed, unless layers are aggregated by rollout, which also
needs the scores of other tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from mixlens.contracts import Spec
from mixlens.errors import InvalidInput, MixlensError, OutOfMemory, list_reasons, without_subject
from mixlens.maps.comparison import Comparison
from mixlens.maps.one_row import DEFAULT_READING, layer_rows, roll_out_absolute, target_row
from mixlens.maps.provenance import model_name
from mixlens.maps.rollout import collapse_of
from mixlens.measures import refusal
from mixlens.measuring.compared_target import (
    TargetChoice,
    choose_span,
    choose_target,
    chosen_specs,
    cue_position,
    default_target,
    explained_output,
    own_source,
    site_of,
    with_all_targets,
)
from mixlens.measuring.measure import measure, measure_together
from mixlens.measuring.rollout_of_targets import roll_out_targets
from mixlens.measuring.timing import SHORTEST, Budget, estimated_seconds
from mixlens.text.tokens import TokenRow

if TYPE_CHECKING:
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording

Progress = Callable[[str, int, int], None]
"""Called before each measure with its name, the number of finished measures, and their total."""


@dataclass(kw_only=True)
class _Rows:
    """Scores of each measure, collected as they are computed."""

    scores: dict[str, np.ndarray] = field(default_factory=dict)
    by_layer: dict[str, np.ndarray] = field(default_factory=dict)
    provenance: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, str] = field(default_factory=dict)
    sources: TokenRow = field(default_factory=lambda: TokenRow(()))


def compare(
    recording: Recording,
    target: int | str | Sequence[int | str] | None,
    *,
    span: str | bool | None = None,
    answer: Any = None,
    site: str | None = None,
    aggregate: str | int = DEFAULT_READING,
    only: Sequence[str] | None = None,
    words: bool = False,
    explain: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    cue: int | str | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare all applicable measures on one recording.

    For a continued prompt (`lens.generate`), name a target by the token that it produced.

    `explain` names the output that gradient and erasure measures explain (`word` and `foil`, or
    `label`; default: the model's own prediction at the target). `options` maps the name of a
    measure to its options. Hidden token attribution uses 32 probes by default. `aggregate`
    determines how layers are aggregated: "mean" of the normalised layers, "rollout", "last", or a
    layer number. It does not apply to measures that have a single set of scores for the whole model
    (hidden token attribution and measures that explain an output).

    `span` scores several targets as one ("sum", "joint", "mean", or True for the default of each
    measure). `answer` names the tokens of an answer. Layer measures score the positions that
    produced these tokens as a span, and output measures explain all of them as one output. `cue` is
    a source whose rank you want to know. With a `budget` in seconds, measures that would take
    longer are skipped.
    """
    for name, value in (("explain", explain), ("options", options)):
        if not isinstance(value, (Mapping, NoneType)):
            raise InvalidInput(f"{name} is {type(value).__name__}. Pass a dict of options.")
    recording.require_state()
    choice = _choice(recording, target, span, answer, site_of(recording, site), aggregate, words)
    specs = chosen_specs(only, options)
    place = None if cue is None else cue_position(recording, choice, cue)
    outputs, name_of_output = explained_output(recording, choice, specs, dict(explain or {}))
    arguments = {
        name: {
            **(outputs if spec.explains_output else {}),
            **spec.quick,
            **(options or {}).get(name, {}),
        }
        for name, spec in specs.items()
    }
    results = _rows_of(recording, choice, specs, arguments, budget, progress)
    for name, warning in results.warnings.items():
        warnings.warn(f"{name}: {warning}", stacklevel=3)
    return Comparison(
        target=choice.chosen,
        target_token=choice.label,
        sources=results.sources.labels,
        own_source=own_source(recording, choice),
        aggregate=str(aggregate),
        scores=results.scores,
        left_out=results.left_out,
        explained=name_of_output,
        cue=place,
        model=model_name(recording.model),
        row=results.sources,
        by_layer=results.by_layer,
        provenance=results.provenance,
        warnings=results.warnings,
    )


def _choice(
    recording: Recording,
    target: int | str | Sequence[int | str] | None,
    span: str | bool | None,
    answer: Any,
    site: str,
    aggregate: str | int,
    words: bool,
) -> TargetChoice:
    several = hasattr(target, "__iter__") and not isinstance(target, str)
    if span or (answer is not None and answer is not False):
        target_list: Any = target if several or target is None else [target]
        return choose_span(recording, target_list, answer, span or True, site, aggregate, words)
    if several:
        raise InvalidInput(
            f"target={target!r} names several targets. Pass span='sum', 'joint', 'mean' or True to"
            " score them as one."
        )
    named_target: Any = default_target(recording, site) if target is None else target
    return choose_target(recording, named_target, site, aggregate, words)


def _rows_of(
    recording: Recording,
    choice: TargetChoice,
    specs: Mapping[str, Spec],
    arguments: Mapping[str, Mapping[str, Any]],
    budget: Budget | None,
    progress: Progress | None,
) -> _Rows:
    """Return the scores of each measure, or the reason for skipping it."""
    results, shared = _Rows(), _measure_shared(recording, choice, specs, arguments)
    kinds: set[type[BaseException]] = set()
    for number, (name, spec) in enumerate(specs.items()):
        measure_arguments = arguments[name]
        if progress is not None:
            progress(name, number, len(specs))
        try:
            # the time of maps does not predict that of a few targets
            if budget is not None and not _by_rows(recording, spec, choice):
                _require_time(name, spec, choice, measure_arguments, recording, budget)
            maps = shared.get(name) or _measure_target(
                name, spec, choice, measure_arguments, recording
            )
            rolled = _roll_out_target(name, spec, choice, measure_arguments, recording)
            _add(results, name, spec, choice, maps, rolled)
        except (MixlensError, ImportError) as error:
            results.left_out[name] = without_subject(name, str(error))
            kinds.add(type(error))
    if not results.scores:
        reasons = list_reasons(results.left_out)
        if kinds == {OutOfMemory}:
            raise OutOfMemory(reasons)
        raise InvalidInput(f"No measure applies: {reasons}")
    return results


def _measure_shared(
    recording: Recording,
    choice: TargetChoice,
    specs: Mapping[str, Spec],
    arguments: Mapping[str, Mapping[str, Any]],
) -> dict[str, MixingMaps]:
    """Score all single-target measures in one forward pass.

    If one measure fails, return an empty dict. The measures then run separately, so that each
    reports its own error.
    """
    if recording.is_kept:
        return {}
    options_by_measure = {
        name: arguments[name]
        for name, spec in specs.items()
        if _by_rows(recording, spec, choice)
        if refusal(name, recording.structure, choice.site) is None
    }
    if not options_by_measure:
        return {}
    try:
        maps_by_measure = measure_together(
            options_by_measure,
            recording,
            site=choice.site,
            targets=list(choice.word_tokens),
            span=choice.span,
        )
    except MixlensError:
        return {}
    return {name: maps for name, maps in maps_by_measure.items() if not isinstance(maps, list)}


def _by_rows(recording: Recording, spec: Spec, choice: TargetChoice) -> bool:
    """Return whether a measure scores the target without computing whole maps."""
    can_score_alone = not recording.is_kept and spec.row_by_row
    return can_score_alone and _takes_rows(recording, spec, choice)


def _takes_rows(recording: Recording, spec: Spec, choice: TargetChoice) -> bool:
    """Return whether the target can be scored alone, so that no whole maps are needed.

    A rollout needs whole maps, except in single-target mode with unsigned scores.
    """
    rolls = not recording.is_kept and not spec.facts.signed
    return spec.gives == "maps" and (choice.aggregate != "rollout" or rolls)


def _measure_target(
    name: str, spec: Spec, choice: TargetChoice, options: Mapping[str, Any], recording: Recording
) -> MixingMaps:
    if choice.span and spec.explains_output and spec.gives == "maps":
        raise InvalidInput(
            f"{name} does not support spans, because it scores single targets of an output. "
            "Leave it out of `only`."
        )
    is_single_target = _takes_rows(recording, spec, choice)
    whole = recording if is_single_target else with_all_targets(recording, name)
    if spec.gives == "maps" and not is_single_target:
        whole = replace(
            whole, produced=None
        )  # aggregated layers: targets and sources are the same tokens
    targets = list(choice.word_tokens) if is_single_target else None
    span = choice.span if is_single_target else None
    maps = measure(name, whole, site=choice.site, targets=targets, span=span, **options)
    assert not isinstance(maps, list)
    return maps


def _roll_out_target(
    name: str, spec: Spec, choice: TargetChoice, options: Mapping[str, Any], recording: Recording
) -> MixingMaps | None:
    """Return the target's scores, aggregated by rollout in single-target mode.

    Return None if no rollout is requested, or if the rollout needs whole maps.
    """
    if choice.aggregate != "rollout" or spec.facts.reaches_input:
        return None
    if recording.is_kept or not _takes_rows(recording, spec, choice):
        return None
    targets = list(choice.word_tokens)
    return roll_out_targets(name, recording, site=choice.site, targets=targets, **options)


def _require_time(
    name: str,
    spec: Spec,
    choice: TargetChoice,
    options: Mapping[str, Any],
    recording: Recording,
    budget: Budget,
) -> None:
    """Raise `InvalidInput` if the measure would take longer than the time budget."""
    length = max(len(texts[0]) for texts in recording.tokens.values())
    if length <= 2 * SHORTEST:
        return

    def run(short: Recording) -> MixingMaps:
        last = len(short.target_tokens(choice.site, 0)) - 1
        at: dict[str, Any] = {}
        if "position" in options:
            at["position"] = min(int(options["position"]), last)
        if "answer" in options:
            at["answer"] = (last, last + 1)
        near = tuple(dict.fromkeys(min(piece, last) for piece in choice.word_tokens))
        short_choice = TargetChoice(
            **{**vars(choice), "word_tokens": near, "place": min(choice.place, last)}
        )
        return _measure_target(name, spec, short_choice, {**options, **at}, short)

    seconds = estimated_seconds(run, budget.shorter, length, budget.seconds)
    if seconds > budget.seconds:
        raise InvalidInput(
            f"it would take about {seconds:.0f} s, more than the budget of {budget.seconds:g} s"
        )


def _add(
    results: _Rows,
    name: str,
    spec: Spec,
    choice: TargetChoice,
    maps: MixingMaps,
    rolled: MixingMaps | None,
) -> None:
    """Add the target's scores to the comparison.

    Each source has one number, and the absolute values sum to one.
    """
    aggregate, aggregated = choice.aggregate, maps
    if rolled is not None:
        aggregated, aggregate = rolled, "last"
    elif aggregate == "rollout" and spec.gives == "maps" and not maps.facts.reaches_input:
        # layers are aggregated token by token, then merged into words
        aggregated, aggregate = roll_out_absolute(maps), "last"
    collapse = collapse_of(aggregated)
    if collapse is not None:
        results.warnings[name] = str(collapse)
    if spec.gives == "maps" and not choice.span:
        maps, aggregated = (replace(each, target_row=choice.row) for each in (maps, aggregated))
    aggregated = aggregated.words() if choice.words else aggregated
    index = 0 if choice.span else choice.chosen  # a span is the only target of its maps
    results.scores[name] = target_row(aggregated, spec, index, aggregate)
    results.provenance[name] = maps.provenance
    if spec.gives == "maps":
        merged = maps.words() if choice.words else maps
        results.by_layer[name] = layer_rows(merged, spec, index)
    if not spec.explains_output or not len(results.sources):
        results.sources = aggregated.source_row
