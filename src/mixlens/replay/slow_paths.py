"""List the layers that do not allow the fast forms, and why (`mixlens doctor`).

The fast forms of Value Zeroing and of hidden token attribution are tried on one layer of each kind,
like in the measures. The scores are the same either way.
"""

from __future__ import annotations

from mixlens.contracts import AttentionKind
from mixlens.errors import UnsupportedModel
from mixlens.recording.layer import Layer
from mixlens.recording.recording import Recording
from mixlens.replay.fallbacks import fallbacks_collected
from mixlens.replay.folding import fold, folded_bytes
from mixlens.replay.forward_derivative import forward_derivative
from mixlens.replay.intervention import LayerFunction
from mixlens.replay.layer_rest import LayerRest
from mixlens.replay.zeroing_fast import read_mlp

_TRIED_BYTES = 2**26  # folding a larger layer takes longer than the rest of a report
_TANGENTS = 64


def slow_paths(recording: Recording) -> dict[str, str]:
    """Return the form and the reason for each layer that needs a slow form, by path."""
    reasons: dict[str, list[str]] = {}
    for site in recording.sites:
        kind = recording.structure.site(site).kind
        tried: dict[object, list[str]] = {}
        for layer in recording.layers(site):
            key = layer.signature
            if key not in tried:
                tried[key] = _fallbacks(layer, kind)
            known = reasons.setdefault(layer.structure.path, [])
            known += [reason for reason in tried[key] if reason not in known]
    return {path: ". ".join(given) for path, given in reasons.items() if given}


def _fallbacks(layer: Layer, kind: AttentionKind) -> list[str]:
    with fallbacks_collected() as collected:
        read_mlp(LayerRest(layer, kind))
        try:
            step = LayerFunction(layer, 0, of_states=kind is AttentionKind.CROSS)
        except UnsupportedModel:  # then hidden token attribution does not support it
            return collected.get(layer.structure.path, [])
        push = forward_derivative(step)
        if push is not None and folded_bytes(step) <= _TRIED_BYTES:
            fold(step, push, size=_TANGENTS)
    return collected.get(layer.structure.path, [])
