"""Measures, one per file. You can add your own.

`list_measures()` lists them, and `mixlens.measure(name, recording)` computes one.

A measure file defines

* `SPEC`, a `Spec`: the summary of the measure, its citation, the structures it supports and the
  properties of its scores;
* `score_layer(layer, attention, targets, **options) -> LayerScores`: the scores of one layer for
  the whole batch, with padding. With `SPEC.per_head` it also takes `per_head`. A measure that needs
  more than one layer at a time has `score_model(recording, request, **options) -> Scores` instead.
  If `SPEC.explains_output` is set, the third argument is the resolved output;
* optionally `refusal(layer, site) -> str | None`: the reason why the measure does not support a
  layer with this structure, or None if it does;
* optionally `SPAN`, a `SpanRule`: how several targets are scored as one. Without it, the score of a
  span is the mean over its targets;
* optionally `require_layer(layer)`: raises the same `UnsupportedModel` error as scoring if the
  measure does not support a recorded layer. `mixlens doctor` calls it to list supported measures.

In a notebook, define your own measure as a function with a spec:

    @register("my_measure", Spec(...))
    def my_measure(layer, attention, targets, *, option=1): ...

In a package, write a module or an object with the same attributes as the files in this folder, and
register it under the entry point group `mixlens.measures`. `mixlens.testing.check_measure` checks
measures of both kinds.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mixlens.contracts import (
    Measure,
    Option,
    Refusal,
    Request,
    ScoreModel,
    Scores,
    Span,
    SpanRule,
    Spec,
)
from mixlens.contracts import ScoreLayer as LayerFunction
from mixlens.contracts.span import require_definition
from mixlens.errors import InvalidInput, UnsupportedModel, no_such
from mixlens.registry import Registry

if TYPE_CHECKING:
    from mixlens.contracts import LayerScores, Targets
    from mixlens.recording.attention import Attention
    from mixlens.recording.layer import Layer
    from mixlens.recording.recording import Recording
    from mixlens.recording.span_scores import SpanPart
    from mixlens.structure.layer_structure import AttentionStructure
    from mixlens.structure.model_structure import ModelStructure

__all__ = [
    "MEASURES",
    "find_spec",
    "layer_function",
    "list_measures",
    "names",
    "ready_measures",
    "recorded_refusal",
    "refusal",
    "register",
    "requested_function",
    "scores_layers",
    "scores_of",
    "span_definition",
    "span_rule",
    "spec_of",
    "unregister",
    "without_noise",
]

MEASURES: Registry[Measure] = Registry("measure", __name__)

Function = TypeVar("Function", bound=LayerFunction | ScoreModel)

# Options of every measure that explains an output; see `mixlens.replay.explained_output`.
_NAMED = "str | int | list[str | int] | None"
OUTPUT_OPTIONS = (
    Option("label", None, _NAMED),
    Option("word", None, _NAMED),
    Option("foil", None, _NAMED),
    Option("position", None, "int | list[int] | None"),
    Option("to", None, "str | list[str] | None"),
    Option("pooling", None, "str | None"),
    Option("answer", None, "bool | str | tuple[int, int] | list[Any] | None"),
    Option("reduce", None, "str | None"),
    Option("weights", None, "list[Any] | None"),
)


_PLAIN: dict[str, Any] = {
    "int": (int, np.integer),
    "float": (int, float, np.number),
    "str": str,
    "bool": bool,
}
_WORDS = {"int": "a whole number", "float": "a number", "str": "a name", "bool": "True or False"}


@dataclass(frozen=True)
class RegisteredMeasure:
    """A measure that consists of a function and its spec."""

    SPEC: Spec
    score_layer: LayerFunction | None = None
    score_model: ScoreModel | None = None
    refusal: Refusal | None = None


def register(
    name: str, spec: Spec, *, refusal: Refusal | None = None
) -> Callable[[Function], Function]:
    """Register the decorated function as the measure `name`.

    The function scores one layer: `(layer, attention, targets, *, option=default)`. A function
    `(recording, request, *, option=default)`, which returns `Scores`, scores all layers.

    Parameters
    ----------
    name
        Name of the measure. It must not be that of a built-in measure.
    spec
        Description of the measure.
    refusal
        Function that returns the reason if the measure does not support a layer structure.

    Returns
    -------
    Callable
        A decorator that returns the function itself.

    Examples
    --------
    >>> import mixlens
    >>> from mixlens.contracts import Facts, LayerScores, Spec
    >>> from mixlens.measures import register, unregister
    >>> about = {"summary": "twice the attention", "citation": "none", "use_when": "never"}
    >>> @register("twice", Spec(**about, cost="1 forward pass", facts=Facts()))
    ... def twice(layer, attention, targets, *, factor: float = 2.0):
    ...     weights = targets.take(attention.weights, 2)  # [batch, head, target, source]
    ...     return LayerScores(factor * weights.mean(1))
    >>> maps = mixlens.Lens.bundled().measure("twice", "The dogs bark.", factor=3.0)
    >>> float(maps.scores[0, 0].sum().round(4))
    3.0
    >>> unregister("twice")
    """

    def add(function: Function) -> Function:
        first = next(iter(inspect.signature(function).parameters), "")
        kind = "score_layer" if first == "layer" else "score_model"
        scoring: dict[str, Any] = {kind: function}
        MEASURES.register(name, RegisteredMeasure(spec, refusal=refusal, **scoring))
        _function_of(name, MEASURES.entry(name))
        return function

    return add


def unregister(name: str) -> None:
    """Undo `register`."""
    MEASURES.unregister(name)


def names() -> tuple[str, ...]:
    """Return the names of the measures that need no fitted file."""
    return tuple(ready_measures())


def list_measures() -> dict[str, Spec]:
    """Return the spec of every measure.

    `learned_heads` needs the option `weights`, a file that was fitted on the model. All other
    measures work without options.

    Returns
    -------
    dict of str to Spec
        By name: summary, citation, scope, properties and options. `needs` names a required option.

    Examples
    --------
    >>> import mixlens
    >>> mixlens.list_measures()["alti"].per_head
    False
    >>> [name for name, spec in mixlens.list_measures().items() if spec.needs]
    ['learned_heads']
    """
    return {name: _describe_measure(measure) for name, measure in MEASURES.entries().items()}


def ready_measures() -> dict[str, Spec]:
    """Return the spec of every measure that needs no fitted file."""
    return {name: spec for name, spec in list_measures().items() if spec.needs is None}


def spec_of(name: str) -> Spec:
    """Return the spec of one measure."""
    return _describe_measure(MEASURES.entry(name))


def find_spec(name: str) -> Spec | None:
    """Return the spec of a measure, or None if the measure is unknown."""
    return spec_of(name) if name in MEASURES.names() else None


def _describe_measure(measure: Measure) -> Spec:
    return measure.SPEC.with_options(_options(measure))


def _options(measure: Measure) -> tuple[Option, ...]:
    own_options, spec = _own_options(_function_of("", measure)), measure.SPEC
    if not spec.explains_output:
        return own_options
    return (*OUTPUT_OPTIONS, Option("of", spec.explains_by_default, "str"), *own_options)


@functools.lru_cache(maxsize=256)  # called for every layer that is measured alone
def _own_options(function: Callable[..., Any]) -> tuple[Option, ...]:
    return tuple(
        Option(p.name, p.default, _kind(p))
        for p in inspect.signature(function).parameters.values()
        if p.kind is inspect.Parameter.KEYWORD_ONLY and p.name != "per_head"
    )


def _kind(parameter: inspect.Parameter) -> str:
    """Return the annotation of an option as a string, or the type of its default if it has no
    annotation.
    """
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return annotation
    if annotation is parameter.empty:
        return type(parameter.default).__name__
    return inspect.formatannotation(annotation)


def refusal(name: str, structure: ModelStructure, site: str | None = None) -> str | None:
    """Return why a measure does not support a model, or None if it does."""
    measure = MEASURES.entry(name)
    attention = structure.site(site)
    stack, kind = attention.stack, attention.kind
    if kind not in measure.SPEC.sites:
        fits = [key for key, site in structure.sites.items() if site.kind in measure.SPEC.sites]
        instead = f". Pass site={' or '.join(map(repr, fits))}" if fits else ""
        return f"{name} is not defined for {kind}-attention{instead}"
    if measure.SPEC.one_stack and len(structure.stacks) > 1:
        return (
            f"{name} is defined for models with one stack of layers. Use attention_gradient instead"
        )
    check: Refusal | None = getattr(measure, "refusal", None)
    for number, layer in enumerate(stack.layers):
        for part in layer.sites:
            if kind in part.kinds:
                reason = _no_sum(measure.SPEC, part)
                if reason is None and check is not None:
                    reason = check(layer, part)
                if reason is not None:
                    return f"{name}, layer {number} of {stack.name}: {reason}"
    return None


def recorded_refusal(name: str, recording: Recording, site: str) -> str | None:
    """Return why a measure does not support a recording, or None if it does. Only one layer of each
    structure is checked.
    """
    reason = refusal(name, recording.structure, site)
    require_layer: Callable[[Layer], None] | None
    require_layer = getattr(MEASURES.entry(name), "require_layer", None)
    if reason is not None or require_layer is None:
        return reason
    kinds = {layer.signature: layer for layer in reversed(recording.layers(site))}
    try:
        for layer in reversed(kinds.values()):
            require_layer(layer)
    except UnsupportedModel as error:
        return str(error)
    return None


def _no_sum(spec: Spec, site: AttentionStructure) -> str | None:
    """Return why a measure cannot split this attention's output by source, or None if it can.

    The attention's output must be a known sum over sources. If it is not, `site.open` contains the
    reason.
    """
    if spec.splits == "block" and site.open is not None:
        return (
            f"the sum that it splits is unknown: {site.open}. Use attention or value_zeroing, "
            "which do not need it"
        )
    if spec.splits == "projection" and site.projection is None:
        return f"the vector of a source is unknown: {site.open}"
    return None


_SIGNATURES = (
    "Define score_layer(layer, attention, targets, *, option=default) -> LayerScores for one layer"
    " at a time, or score_model(recording, request, *, option=default) -> Scores if it needs more"
    " than a layer. docs/own_measure.md has both."
)


def _is_of_layers(measure: Measure) -> bool:
    return getattr(measure, "score_layer", None) is not None


def scores_layers(name: str) -> bool:
    """Return whether a measure scores one layer at a time."""
    return _is_of_layers(MEASURES.entry(name))


def _function_of(name: str, measure: Measure) -> Callable[..., Any]:
    """Return the function that scores a layer or a whole recording."""
    function = getattr(measure, "score_layer", None) or getattr(measure, "score_model", None)
    if function is None:
        raise InvalidInput(f"The measure {name!r} has no scoring function. {_SIGNATURES}")
    if measure.SPEC.row_by_row and not _is_of_layers(measure):
        raise InvalidInput(
            f"The measure {name!r} sets row_by_row, but does not score single layers. {_SIGNATURES}"
        )
    score: Callable[..., Any] = function
    return score


def scores_of(
    name: str, recording: Recording, request: Request, options: Mapping[str, Any]
) -> Scores:
    """Return a measure's scores for the whole batch. Scores that are only rounding error are set to
    zero.
    """
    measure = MEASURES.entry(name)
    if _is_of_layers(measure):
        from mixlens.recording.recording import score_layers

        function = requested_function(name, options, request)
        return without_noise(name, score_layers({name: function}, recording, request)[name])
    score = _function_of(name, measure)
    _check_options(name, measure, options)
    from mixlens.model.distributed import require_equal_scores

    if measure.SPEC.explains_output:
        scores = _explaining_scores(name, measure, options, recording, request)
    else:
        scores = score(recording, request, **options)
    require_equal_scores(name, scores.values)
    return without_noise(name, scores)


def layer_function(
    name: str, options: Mapping[str, Any], *, per_head: bool
) -> Callable[[Layer, Attention, Targets], LayerScores]:
    """Return the function that scores one layer with these options. The options are checked here,
    not again for every layer.
    """
    measure = MEASURES.entry(name)
    _check_options(name, measure, options)
    heads = {"per_head": per_head} if measure.SPEC.per_head else {}
    return functools.partial(_function_of(name, measure), **heads, **options)


def requested_function(
    name: str, options: Mapping[str, Any], request: Request
) -> Callable[[Layer, Attention, Targets], LayerScores | SpanPart]:
    """Return the function that scores one layer for a request.

    If the request defines a span, the function scores all targets as one.
    """
    function = layer_function(name, options, per_head=request.per_head)
    if request.span is None:
        return function
    from mixlens.recording.span_scores import SpanMeasure

    heads = {"per_head": request.per_head} if spec_of(name).per_head else {}
    return SpanMeasure(
        rule=span_rule(name),
        definition=span_definition(name, request.span),
        score_layer=function,
        options={**heads, **options},
        population=request.span.population,
    )


def span_rule(name: str) -> SpanRule | None:
    """Return the rule by which a measure scores a span, or None if the measure only averages over
    the targets.
    """
    rule: SpanRule | None = getattr(MEASURES.entry(name), "SPAN", None)
    return rule


def span_definition(name: str, span: Span) -> str:
    """Return how a measure scores a span ("sum", "joint" or "mean"). Raise `InvalidInput` if the
    measure does not support spans, or does not support the requested definition.
    """
    if not scores_layers(name) or spec_of(name).gives != "maps":
        raise InvalidInput(
            f"{name} has no spans of targets: it does not score the targets of each layer."
            " Measures that explain an output take answer= instead."
            if spec_of(name).explains_output
            else f"{name} has no spans of targets: it does not score one layer at a time. Measure"
            " the targets and take their mean."
        )
    definition = span.choose_definition(span_rule(name))
    require_definition(name, span_rule(name), definition)
    return definition


def _check_options(name: str, measure: Measure, options: Mapping[str, Any]) -> None:
    kinds = {option.name: option.kind for option in _options(measure)}
    for key, value in options.items():
        if key not in kinds and key == "answer":
            raise InvalidInput(
                f"{name} scores targets, not an output. Instead of answer, pass the positions that"
                " produced it as targets, with the span mean."
            )
        if key not in kinds:
            raise InvalidInput(no_such("option", key, sorted(kinds), f"{name} has"))
        if kinds[key] in _PLAIN and (
            not isinstance(value, _PLAIN[kinds[key]])
            or (isinstance(value, bool) and kinds[key] != "bool")
        ):
            raise InvalidInput(
                f"{key}={value!r} is not {_WORDS[kinds[key]]}. Pass a valid value for this option "
                f"of {name}."
            )


def _explaining_scores(
    name: str,
    measure: Measure,
    options: Mapping[str, Any],
    recording: Recording,
    request: Request,
) -> Scores:
    """Resolve the output to explain, and return the scores of a measure that explains it."""
    if recording.rows(request.site) != recording.batch:
        raise UnsupportedModel(
            f"{name} explains the output of each text, but {request.site} has "
            f"{recording.rows(request.site)} sequences for a batch of {recording.batch}. Choose a "
            "different site"
        )
    naming = {"of", *(option.name for option in OUTPUT_OPTIONS)}
    if request.targets is not None and measure.SPEC.gives != "maps":
        raise InvalidInput(
            f"{name} explains one output of the model, not tokens. Pass its class, its word "
            "or its position instead of targets."
        )
    output_options = {key: options[key] for key in options if key in naming}
    # not above: listing the measures needs no torch
    from mixlens.replay.resolve_output import resolve_output

    output = resolve_output(name, measure.SPEC, recording, output_options)
    own_options = {key: options[key] for key in options if key not in naming}
    scores: Scores = _function_of(name, measure)(recording, request, output, **own_options)
    return scores


def without_noise(name: str, scores: Scores) -> Scores:
    """Set scores that are as small as rounding errors (`Spec.empty_below`) to zero. Otherwise
    normalised scores could consist of rounding errors alone.
    """
    spec = MEASURES.entry(name).SPEC
    if spec.empty_below is None or scores.scale is None:
        return scores
    import torch

    values, scale = scores.values, scores.scale
    scale = scale[:, :, None] if values.dim() > scale.dim() + 1 else scale
    bar = spec.empty_below * torch.finfo(values.dtype).eps * scale
    return replace(scores, values=values.masked_fill((values.abs().amax(-1) <= bar)[..., None], 0))
