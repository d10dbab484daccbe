"""One attention call over its own tokens and those of another stack is split into both."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mixlens import Lens
from mixlens.contracts import AttentionKind
from tests.zoo.models import entries
from tests.zoo.native import cosine_distance, output_without, value_channels


@pytest.mark.parametrize(
    ("name", "site", "targets", "others"),
    [
        ("T5Gemma2Model", "decoder.layers", 7, 7),  # [decoder; encoder]
        ("MuseGlimmerAssistantModel", "decoder", 4, 7),  # [context; its own]
    ],
)
def test_both_kinds_of_sources_add_up_and_their_zeroing_is_native(
    name: str, site: str, targets: int, others: int
) -> None:
    entry = next(entry for entry in entries() if entry.name == name)
    model, given = entry.build(), entry.given()
    lens = Lens(model)
    recording = lens.record(given)
    stack = recording.structure.stack_of(site)
    cross = next(
        key
        for key, place in recording.structure.sites.items()
        if place.stack is stack and place.kind is AttentionKind.CROSS
    )
    for layer in recording.stack_layers[stack.name]:
        own, read = layer.site(AttentionKind.SELF), layer.site(AttentionKind.CROSS)
        assert own.weights.shape[2:] == (targets, targets)
        assert read.weights.shape[2:] == (targets, others)
        rows = own.weights.sum(-1) + read.weights.sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))
    for key, kind in ((site, AttentionKind.SELF), (cross, AttentionKind.CROSS)):
        scores = torch.tensor(_first(lens.measure("value_zeroing", given, site=key)).scores)
        layer = recording.stack_layers[stack.name][0]
        module = model.get_submodule(layer.structure.path)
        channels = value_channels(model, given, layer.site(kind).values[0], module)
        assert channels is not None
        whole = output_without(model, given, channels, None, module)[0]
        for source in range(scores.shape[-1]):
            edited = output_without(model, given, channels, source, module)[0]
            expected = cosine_distance(whole, edited)
            torch.testing.assert_close(
                scores[0, :, source].double(), expected, atol=1e-6, rtol=1e-3
            )


def _first(maps: Any) -> Any:
    return maps[0] if isinstance(maps, list) else maps
