"""Report which measures support a model, and whether its structure was verified (`doctor`).

`slow_paths` lists the layers that need a slower algorithm, with the reason. To find these layers,
the fast algorithms of Value Zeroing and hidden token attribution are tried on one layer of each
structure. The slower algorithms return the same scores.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from mixlens.contracts import AttentionKind, Spec
from mixlens.errors import (
    InvalidInput,
    MixlensError,
    NonFiniteActivations,
    OutOfMemory,
    UnsupportedModel,
    without_subject,
)
from mixlens.measures import ready_measures, recorded_refusal
from mixlens.measuring.estimates import estimate_of_recording, memory_advice
from mixlens.measuring.measure import measure, why_not_cut
from mixlens.measuring.recorder import record
from mixlens.model.loading import damaged_weights
from mixlens.model.placement import available_to
from mixlens.model.session import open_session
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.recording.verification import Report, report
from mixlens.replay.explained_output import no_logits
from mixlens.replay.fallbacks import fallbacks_collected
from mixlens.replay.folding import fold, folded_bytes
from mixlens.replay.forward_derivative import forward_derivative
from mixlens.replay.intervention import LayerFunction
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroing_fast import allows_fast
from mixlens.text.dummy_inputs import default_input

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.text.inputs import Text


def verify(lens: Lens, inputs: Text | Sequence[Text] | Mapping[str, Any] | None) -> Report:
    """Implement `Lens.verify`."""
    model = lens.model
    inputs = default_input(model, lens.tokenizer) if inputs is None else inputs
    damage = damaged_weights(model)  # of the head too, after which no layer follows
    if damage is not None:
        raise NonFiniteActivations(damage)
    recording = lens.record(inputs)
    tokens = max(max(lengths) for lengths in recording.lengths.values())
    available = available_to(model)
    with open_session(model) as session:
        session.memory_advice = lambda: memory_advice(
            estimate_of_recording(model, tokens, targets=None, texts=recording.batch), available
        )
        for layer in itertools.chain(*recording.stack_layers.values()):
            layer.sites()  # rebuilt first, because measures defer its errors and settle them
        from_maps = {site: _why_from_maps(lens, inputs, site) for site in recording.sites}
        return report(recording, list_refusals(recording), slow_paths(recording), from_maps)


@torch.no_grad()
def list_refusals(recording: Recording) -> dict[str, str | None]:
    """Return, for each measure, why it does not support the model.

    The reason is None if the measure supports at least one attention of the model.
    """
    refusals: dict[str, str | None] = {}
    for name, spec in ready_measures().items():
        if spec.explains_output:
            reason = no_logits(recording.output, or_embedding=spec.explains_embedding)
            if reason is not None:
                refusals[name] = reason
                continue
        reasons = [recorded_refusal(name, recording, site) for site in recording.sites]
        reason = None if None in reasons else reasons[0]
        refusals[name] = None if reason is None else without_subject(name, reason)
        if spec.explains_output and reason is None:
            refusals[name] = _measured_refusal(recording, name, spec)
    return refusals


def _measured_refusal(recording: Recording, name: str, spec: Spec) -> str | None:
    """Run an output measure with its cheapest options, and return why it does not support the
    model.

    Return None if the measure runs. Errors about inputs or options are ignored.
    """
    logits = recording.output.logits
    option_names = {option.name for option in spec.options}
    options = dict(spec.least)
    if logits.dim() == 3:
        options["position"] = -1
    if "replacement" in option_names:
        options["replacement"] = "zero"  # which needs no tokenizer
    if "of" in option_names and logits.shape[-1] == 1:
        options["of"] = "logit"
    try:
        measure(name, recording, **options)
    except UnsupportedModel as error:
        return without_subject(name, str(error))
    except InvalidInput:
        return None
    return None


def _why_from_maps(lens: Lens, inputs: Any, site: str) -> str | None:
    """Return why single targets of an attention need whole maps, or None if they can be measured
    alone.

    To find out, this function measures the last target.
    """
    try:
        return why_not_cut(record(lens, inputs, targets=[-1], site=site, memory_budget=None))
    except OutOfMemory:
        raise
    except MixlensError as error:
        return str(error)


_TRIED_BYTES = 2**26  # folding a larger layer takes longer than the rest of a report
_TANGENTS = 64


def slow_paths(recording: Recording) -> dict[str, str]:
    """Return the reasons why layers need a slower algorithm, by the module path of each layer."""
    reasons: dict[str, list[str]] = {}
    for site in recording.sites:
        kind = recording.structure.site(site).kind
        reasons_by_layer: dict[object, list[str]] = {}
        for layer in recording.layers(site):
            key = layer.signature
            if key not in reasons_by_layer:
                reasons_by_layer[key] = _fallbacks(layer, kind)
            path_reasons = reasons.setdefault(layer.structure.path, [])
            path_reasons += [
                reason for reason in reasons_by_layer[key] if reason not in path_reasons
            ]
    return {
        path: ". ".join(layer_reasons) for path, layer_reasons in reasons.items() if layer_reasons
    }


def _fallbacks(layer: Layer, kind: AttentionKind) -> list[str]:
    with fallbacks_collected() as collected:
        allows_fast(LayerRest(layer, kind))
        try:
            step = LayerFunction(layer, 0, of_states=kind is AttentionKind.CROSS)
        except UnsupportedModel:  # then hidden token attribution does not support it
            return collected.get(layer.structure.path, [])
        push = forward_derivative(step)
        if push is not None and folded_bytes(step) <= _TRIED_BYTES:
            fold(step, push, size=_TANGENTS)
    return collected.get(layer.structure.path, [])
