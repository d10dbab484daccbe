"""The contract of every measure on every supported family: what it says is true of its scores, and
nothing irrelevant moves them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel, testing
from mixlens.measures import MEASURES, names, spec_of
from mixlens.recording.recording import Recording
from mixlens.testing import largest_difference
from tests.conformance.zoo import FAMILIES, ZOO, as_eager_and_sdpa, built, inputs

TEXTS = [name for name, animal in ZOO.items() if animal.kind in ("text", "translation")]
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NOT RUN: there is no GPU here"
)
Measured = dict[tuple[str, str], list[MixingMaps]]


def measured(recording: Recording) -> Measured:
    """Every measure on every site where it is given; refusals must carry a reason."""
    found: Measured = {}
    for name in names():
        try:
            sites = testing.measured(name, recording)
        except (UnsupportedModel, InvalidInput) as error:
            testing.require_reason(error)
            continue
        found |= {(name, site): rows for site, rows in sites.items()}
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_shapes_labels_facts_and_files(name: str) -> None:
    recording = Lens(built(name, head=True)).record(inputs(name))
    specs, seen = mixlens.list_measures(), measured(recording)
    for (measure, site), rows in seen.items():
        testing.check_maps(specs[measure], recording, site, rows)
    always = {
        measure
        for measure, spec in specs.items()
        if not spec.explains_output and not hasattr(MEASURES.entry(measure), "refusal")
    }
    assert always <= {measure for measure, _ in seen}


@pytest.mark.parametrize("name", ZOO)
def test_batch_order_and_repetition_change_nothing(name: str) -> None:
    lens = Lens(built(name, head=True))
    given = inputs(name)
    swapped = {key: value.flip(0) for key, value in given.items()}
    alone = {key: value[:1] for key, value in given.items()}
    recordings = [lens.record(batch) for batch in (given, swapped, alone)]
    every = [measured(recording) for recording in recordings]
    for key, rows in every[0].items():
        assert largest_difference(rows[0], every[1][key][1]) <= spec_of(key[0]).rounding, key
        assert largest_difference(rows[0], every[2][key][0]) <= spec_of(key[0]).rounding, key
    again = measured(recordings[0])
    for key, rows in every[0].items():
        assert np.array_equal(rows[0].scores, again[key][0].scores), f"{key} is not deterministic"


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", TEXTS)
def test_padding_changes_nothing(name: str, side: str) -> None:
    model, given = built(name, head=True), inputs(name)
    alone = {
        key: value[:1, :6] if key in ("input_ids", "attention_mask") else value[:1]
        for key, value in given.items()
    }
    if "clip" in name:
        alone["input_ids"] = torch.cat([given["input_ids"][:1, :5], given["input_ids"][:1, -1:]], 1)
    blank = torch.zeros(1, 3, dtype=torch.long)

    def beside(row: Tensor, fill: Tensor) -> Tensor:
        return torch.cat([fill, row] if side == "left" else [row, fill], 1)

    batch = dict(given)
    pads = blank + (getattr(model.config, "pad_token_id", None) or 0)
    batch["input_ids"] = torch.cat([beside(alone["input_ids"], pads), given["input_ids"][1:]])
    batch["attention_mask"] = torch.cat(
        [beside(alone["attention_mask"], blank), given["attention_mask"][1:]]
    )
    lens = Lens(model)
    single = measured(lens.record(alone))
    several = measured(lens.record(batch))
    # DeepLIFT is refused for a whole batch where it is not complete for one of its texts.
    assert {key for key in single.keys() ^ several.keys() if key[0] != "deep_lift"} == set()
    for key in single.keys() & several.keys():
        rows = single[key]
        assert largest_difference(rows[0], several[key][0]) <= spec_of(key[0]).rounding, key


@pytest.mark.parametrize("name", ZOO)
def test_attention_implementation_changes_nothing(name: str) -> None:
    models = as_eager_and_sdpa(name, head=True)
    eager, sdpa = (measured(Lens(model).record(inputs(name))) for model in models)
    for key, rows in eager.items():
        assert largest_difference(rows[0], sdpa[key][0]) <= 1e-4, key


@needs_gpu
@pytest.mark.parametrize("name", ZOO)
def test_a_gpu_changes_nothing(name: str) -> None:
    """Up to rounding; what explains an output goes through the whole network twice and keeps a
    digit less.
    """
    model, given = built(name, head=True), inputs(name)
    here = measured(Lens(model).record(given))
    there = measured(Lens(model.to("cuda")).record(on("cuda", given)))
    assert {key for key in here.keys() ^ there.keys() if key[0] != "deep_lift"} == set()
    for key in here.keys() & there.keys():
        for row in (0, 1):
            assert largest_difference(here[key][row], there[key][row]) <= (
                1e-4 if spec_of(key[0]).explains_output else 1e-5
            ), (key, row)


def on(device: str, given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.to(device) for key, value in given.items()}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("name", ZOO)
def test_bfloat16_is_close_to_float32(name: str, device: str) -> None:
    """The same weights, rounded once: what differs is the model's own arithmetic."""
    half = built(name, torch.bfloat16, head=True).to(device)
    wide = built(name, torch.bfloat16, head=True).to(device, torch.float32)
    given = on(device, inputs(name, torch.bfloat16))
    narrow_maps = measured(Lens(half).record(given))
    wide_maps = measured(Lens(wide).record(given))
    for key, rows in wide_maps.items():
        a, b = rows[0].scores, narrow_maps[key][0].scores
        bound = spec_of(key[0]).half_precision
        if bound is None:
            continue
        assert np.abs(a - b).mean() <= bound * np.abs(a).mean(), key
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9, key


@pytest.mark.parametrize("name", ZOO)
def test_per_head_layers_and_targets(name: str) -> None:
    recording = Lens(built(name)).record(inputs(name))
    heads = recording.structure.stacks[0].layers[0].sites[0].heads
    for measure in (name for name in names() if spec_of(name).per_head):
        whole = mixlens.measure(measure, recording, per_head=True)
        some = mixlens.measure(measure, recording, per_head=True, layers=[-1], targets=[2, -1])
        assert isinstance(whole, list)
        assert isinstance(some, list)
        assert whole[1].scores.shape[1] == heads
        expected = whole[1].scores[-1:, :, [2, -1]]
        assert np.abs(some[1].scores - expected).max() <= 1e-5 * np.abs(expected).max(), measure


@pytest.mark.parametrize("name", ZOO)
def test_the_model_is_left_as_it_was(name: str) -> None:
    model = built(name, head=True)
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    attributes = [set(vars(part)) for part in model.modules()]
    grads = [parameter.requires_grad for parameter in model.parameters()]
    assert measured(Lens(model).record(inputs(name)))
    assert all(torch.equal(weights[key], value) for key, value in model.state_dict().items())
    assert attributes == [set(vars(part)) for part in model.modules()]
    assert grads == [parameter.requires_grad for parameter in model.parameters()]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(
        part._forward_hooks or part._forward_pre_hooks or part._backward_hooks
        for part in model.modules()
    )
