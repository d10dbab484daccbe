"""Resolve the target, measures, cue and explained output of a comparison, and check them before any
measure runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mixlens.contracts import AttentionKind, Span, Spec
from mixlens.errors import InvalidInput, MixlensError, no_such
from mixlens.maps.one_row import AGGREGATES
from mixlens.measures import list_measures, ready_measures
from mixlens.measuring.measured_batch import span_label
from mixlens.measuring.whole_maps import record_all_targets
from mixlens.replay.explained_answer import answer_parts, produced_tokens
from mixlens.replay.explained_output import select_explained
from mixlens.text.tokens import TokenRow, cls_position, position_of, positions_by_text, to_list
from mixlens.text.words import words as merged_words

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


@dataclass(frozen=True, kw_only=True)
class TargetChoice:
    """The target to compare measures on, and how to aggregate its scores."""

    site: str
    place: int  # index of the target among tokens
    word_tokens: tuple[int, ...]  # all tokens of its word, or itself
    chosen: int  # index of the target among the shown tokens or words
    label: str
    aggregate: str | int
    words: bool
    row: TokenRow  # labels of all targets
    span: str | bool | None = None  # how several targets are scored as one
    answer: tuple[int, int] | None = None  # the tokens that they produce, for measures of outputs


def default_target(recording: Recording, site: str | None) -> int:
    """Return the position of the default target.

    In single-target mode, this is the last recorded target. Otherwise it is the only mask token,
    the [CLS] token of a bidirectional classifier (or its first token), or the last token.
    """
    if recording.targets and recording.target_stack == recording.structure.stack_of(site).name:
        return recording.targets[0][-1]
    labels = recording.target_tokens(site, 0).labels
    mask = getattr(recording.tokenizer, "mask_token", None)
    if labels.count(mask) == 1:
        return labels.index(mask)
    logits = getattr(recording.output, "logits", None)
    attention = recording.structure.site(site).stack.layers[0].sites[0]
    classifies = logits is not None and logits.dim() == 2 and not attention.causal
    return cls_position(recording.tokenizer, labels) if classifies else len(labels) - 1


def site_of(recording: Recording, site: str | None) -> str:
    """Return the name of an attention: `site`, else the recording's default, else the model's first
    attention.
    """
    return recording.structure.site(recording.site if site is None else site).name


def by_rows(only: Sequence[str] | str | None, aggregate: str | int) -> bool:
    """Return whether all measures in `only` can score a target without whole maps."""
    specs, names = list_measures(), _names(only) or []
    supported = all(name in specs and specs[name].row_by_row for name in names)
    # Signed scores are aggregated by absolute value, which needs maps.
    signed = supported and any(specs[name].facts.signed for name in names)
    return bool(names) and supported and not (signed and aggregate == "rollout")


def _names(only: Sequence[str] | str | None) -> list[str] | None:
    """Return the names of the measures as a list, or None for all. Raise `InvalidInput` unless all
    are strings.
    """
    names = to_list(only, "measures")
    for name in names or ():
        if not isinstance(name, str):
            raise InvalidInput(no_such("measure", name, list_measures()))
    return names


def choose_target(
    recording: Recording, target: int | str, site: str, aggregate: str | int, words: bool
) -> TargetChoice:
    """Return the target with this position or label, and how to aggregate its scores."""
    if recording.batch != 1:
        raise InvalidInput("compare takes one text. Pass one text at a time")
    if not isinstance(aggregate, int) and aggregate not in AGGREGATES:
        raise InvalidInput(
            f"Unknown aggregate {aggregate!r}. Choose one of: {', '.join(AGGREGATES)}, or "
            "pass a layer number."
        )
    target_tokens = recording.named_targets(site, 0)
    ((place,),) = positions_by_text([target], [target_tokens], first=_find_targets(recording, site))
    layers = len(recording.structure.site(site).numbers)
    if isinstance(aggregate, int) and not -layers <= aggregate < layers:
        raise InvalidInput(
            f"Layer {aggregate} is out of range (0–{layers - 1}). Pass a number in this range."
        )
    word_tokens: tuple[int, ...] = (place,)
    index, label = place, target_tokens.labels[place]
    if words:
        ranges, merged = merged_words(target_tokens)
        index = next(i for i, (start, stop) in enumerate(ranges) if start <= place < stop)
        word_tokens, label = tuple(range(*ranges[index])), merged.labels[index]
    return TargetChoice(
        site=site,
        place=place,
        word_tokens=word_tokens,
        chosen=index,
        label=label,
        aggregate=aggregate,
        words=words,
        row=target_tokens,
    )


def choose_span(
    recording: Recording,
    targets: Sequence[int | str] | None,
    answer: Any,
    span: str | bool,
    site: str,
    aggregate: str | int,
    words: bool,
) -> TargetChoice:
    """Return several targets as a span, which is scored as one target.

    The span consists of the named targets, or of the positions that produced the tokens of
    `answer`.
    """
    if aggregate == "rollout":
        raise InvalidInput(
            "aggregate='rollout' is for one target, not for a span. Choose another aggregation."
        )
    if answer is not None:
        if targets is not None:
            raise InvalidInput("target and answer are mutually exclusive. Pass one of them.")
        if recording.structure.stack_of(site) is not recording.last_stack:
            raise InvalidInput(f"{site} does not produce the answer. Choose another attention.")
        (part,) = answer_parts(recording, answer)
        places = part.positions
    elif targets is not None:
        target_tokens = recording.named_targets(site, 0)
        (places,) = positions_by_text(
            targets, [target_tokens], first=_find_targets(recording, site)
        )
    elif recording.targets is not None:
        places = recording.targets[0]
    else:
        raise InvalidInput("A span needs targets. Pass several targets, or an answer.")
    Span.of(span, None, [places])  # raises if there is no such definition
    choice = choose_target(recording, places[0], site, aggregate, False)
    labels = choice.row
    if answer is not None:  # the label is the answer, not the tokens in front of it
        labels = produced_tokens(recording, 0).tokens
    is_one_piece = list(places) == list(range(places[0], places[-1] + 1))
    return replace(
        choice,
        word_tokens=tuple(places),
        chosen=places[0],
        label=span_label(labels, tuple(places)),
        words=words,
        span=span,
        answer=(places[0] + 1, places[-1] + 2) if is_one_piece else None,
    )


def _find_targets(recording: Recording, site: str) -> tuple[tuple[int, ...], ...] | None:
    is_own = recording.target_stack == recording.structure.stack_of(site).name
    return recording.targets if is_own else None


def chosen_specs(
    only: Sequence[str] | None, options: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, Spec]:
    """Return the specs of the measures to compare. Raise `InvalidInput` if `options` names any
    other measure.
    """
    specs = list_measures()
    names = _names(only) or list(ready_measures())
    for name in (*names, *(options or {})):
        if name not in specs:
            raise InvalidInput(no_such("measure", name, specs))
    for name, measure_options in (options or {}).items():
        if not isinstance(measure_options, Mapping):
            raise InvalidInput(
                f"options[{name!r}] is {type(measure_options).__name__}. Pass a dict."
            )
        if name not in names:
            raise InvalidInput(
                f"Options were passed for {name}, which is not compared. Add it to the "
                "measures, or drop the options."
            )
    return {name: specs[name] for name in names}


def own_source(recording: Recording, choice: TargetChoice) -> int | None:
    """Return the index of the target among the shown sources, or None for a span or in
    cross-attention.

    In a continued prompt, the target is represented by the input token at the position that
    produced it.
    """
    if recording.structure.site(choice.site).kind is not AttentionKind.SELF or choice.span:
        return None
    if not choice.words:
        return choice.place
    ranges, _ = merged_words(recording.source_tokens(choice.site, 0))
    return next(i for i, (_, stop) in enumerate(ranges) if choice.word_tokens[0] < stop)


def cue_position(recording: Recording, choice: TargetChoice, cue: int | str) -> int:
    """Return the index of the cue among the shown sources."""
    source_tokens = recording.source_tokens(choice.site, 0)
    labels = merged_words(source_tokens)[1] if choice.words else source_tokens
    try:
        return position_of(cue, labels, range(len(labels)))
    except InvalidInput as error:
        raise InvalidInput(f"cue {cue}: {error}") from None


def with_all_targets(recording: Recording, name: str) -> Recording:
    """Record the same inputs again with all targets, for a measure that needs whole maps."""
    return replace(record_all_targets(recording, name), targets=None)


def explained_output(
    recording: Recording, choice: TargetChoice, specs: Mapping[str, Spec], explain: dict[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Return the options that select the explained output, and the label of this output. Raise if
    they name an output that does not exist.
    """
    accepted = [
        name for name in inspect.signature(select_explained).parameters if name != "recording"
    ]
    for name in explain:
        if name not in accepted:
            raise InvalidInput(no_such("output option", name, accepted))
    if not any(spec.explains_output for spec in specs.values()):
        if explain:
            raise InvalidInput(
                "None of these measures explains an output. Drop `word`, `foil` and `label`, or "
                "add a measure that explains one."
            )
        return {}, None
    if choice.span:
        if explain:
            raise InvalidInput(
                f"{', '.join(explain)} cannot be combined with a span, whose explained output is"
                " the log-probability of its tokens. Drop these options or the span."
            )
        return _answer_of_span(recording, choice)
    whole = with_all_targets(recording, next(name for name in specs if specs[name].explains_output))
    logits = getattr(whole.output, "logits", None)
    last = recording.structure.stack_of(choice.site) is recording.last_stack
    at_target = logits is not None and logits.dim() == 3 and last
    output_options = {**({"position": choice.place} if at_target else {}), **explain}
    if at_target and recording.produced is not None and not {"position", "word"} & set(explain):
        output_options["word"] = recording.produced[0].ids[choice.place]
    try:
        return output_options, select_explained(whole, **{"of": "logit", **output_options}).names[0]
    except MixlensError:
        if explain:
            raise
        return output_options, None  # each measure reports its own reason


def _answer_of_span(
    recording: Recording, choice: TargetChoice
) -> tuple[dict[str, Any], str | None]:
    if choice.answer is None:
        places = ", ".join(map(str, choice.word_tokens))
        raise InvalidInput(
            f"The targets {places} are not adjacent, so output measures cannot explain them as"
            " one answer. List only layer measures in only=[…]."
        )
    try:
        return {"answer": choice.answer}, answer_parts(recording, choice.answer)[0].name
    except MixlensError:
        return {"answer": choice.answer}, None  # each measure reports its own reason
