"""The contract of every measure on every supported family: what it says is true of its scores, and
nothing irrelevant moves them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import mixlens
from mixlens import InvalidInput, Lens, MixingMaps, UnsupportedModel, testing
from mixlens.measures import names, ready_measures, recorded_refusal, spec_of
from mixlens.recording.recording import Recording
from mixlens.testing import largest_difference
from tests.conformance.refusals import INCOMPLETE, expected_refusal
from tests.conformance.zoo import FAMILIES, ZOO, built, inputs, with_plain_attention

TEXTS = [name for name, animal in ZOO.items() if animal.kind in ("text", "translation")]
needs_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="NOT RUN: there is no GPU here"
)
Measured = dict[tuple[str, str], list[MixingMaps]]


def measured(family: str, recording: Recording, measures: Iterable[str] | None = None) -> Measured:
    """Every measure on every site where it is given. A refusal must be the expected one; DeepLIFT
    may be incomplete for any one batch.
    """
    by_name: Measured = {}
    for name in names() if measures is None else measures:
        spec = spec_of(name)
        options = {**spec.least, **testing.fixed_output(spec, recording)}
        for site in recording.sites if spec.gives == "maps" else recording.sites[:1]:
            reason = expected_refusal(name, family, site, recording)
            try:
                maps = mixlens.measure(name, recording, site=site, **options)
            except (UnsupportedModel, InvalidInput) as error:
                testing.require_reason(error)
                words = INCOMPLETE if name == "deep_lift" and reason is None else reason
                assert words is not None, f"{name} is refused on {family}, {site}: {error}"
                assert words in str(error), f"{name} on {family}, {site}: not for {words}: {error}"
            else:
                by_name[name, site] = maps if isinstance(maps, list) else [maps]
    return by_name


def state(model: Any) -> list[Any]:
    """All that a measure could leave behind."""
    return [
        [(key, value.clone()) for key, value in model.state_dict().items()],
        [set(vars(part)) for part in model.modules()],
        [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()],
        [
            (len(part._forward_hooks), len(part._forward_pre_hooks), len(part._backward_hooks))
            for part in model.modules()
        ],
    ]


class Family:
    """A family's model, recorded and measured once for all tests of it.

    Its numbers are those that it has in bfloat16, so that a model in that precision is the same.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.model = built(name, torch.bfloat16, head=True).to(torch.float32)
        self.given = {
            key: value.float() if value.is_floating_point() else value
            for key, value in inputs(name, torch.bfloat16).items()
        }
        self.before = state(self.model)
        self.lens = Lens(self.model)
        self.recording = self.lens.record(self.given)
        self.maps = measured(name, self.recording)

    def measured(self, given: dict[str, Tensor]) -> Measured:
        """Every measure of other inputs."""
        return measured(self.name, self.lens.record(given))


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest) -> Family:
    return Family(request.param)


every_family = pytest.mark.parametrize("family", FAMILIES, indirect=True)


@every_family
def test_shapes_labels_facts_files_and_refusals(family: Family) -> None:
    specs, recording = ready_measures(), family.recording
    for (measure, site), rows in family.maps.items():
        testing.check_maps(specs[measure], recording, site, rows)
    given = {
        (measure, site)
        for measure, spec in specs.items()
        for site in (recording.sites if spec.gives == "maps" else recording.sites[:1])
        if expected_refusal(measure, family.name, site, recording) is None
    }
    assert family.maps.keys() == given


@every_family
def test_arguments_are_checked_before_anything_runs(family: Family) -> None:
    """But for what an output, or a bias that one option leaves in its place, decides."""
    recording = family.recording
    for name, spec in ready_measures().items():
        for site in recording.sites if spec.gives == "maps" else recording.sites[:1]:
            reason, given = recorded_refusal(name, recording, site), (name, site) in family.maps
            assert not (reason and given), f"{name}, {site}: {reason}"
            if not spec.explains_output and name != "flow_routes":
                assert (reason is None) == given, f"{name}, {site}: {reason}"


@every_family
def test_asking_again_changes_nothing(family: Family) -> None:
    again = measured(family.name, family.recording)
    for key, rows in family.maps.items():
        assert np.array_equal(rows[0].scores, again[key][0].scores), f"{key} is not deterministic"


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family.values[0] not in TEXTS], indirect=True
)
def test_order_and_other_texts_of_a_batch_change_nothing(family: Family) -> None:
    swapped = family.measured({key: value.flip(0) for key, value in family.given.items()})
    alone = family.measured({key: value[:1] for key, value in family.given.items()})
    for key, rows in family.maps.items():
        assert largest_difference(rows[0], swapped[key][1]) <= spec_of(key[0]).rounding, key
        assert largest_difference(rows[0], alone[key][0]) <= spec_of(key[0]).rounding, key


@pytest.mark.parametrize("family", TEXTS, indirect=True)
def test_padding_order_and_other_texts_change_nothing(family: Family) -> None:
    """The first text, cut, alone and padded on either side; the second in a different place."""
    given = family.given
    alone = {
        key: value[:1, :6] if key in ("input_ids", "attention_mask") else value[:1]
        for key, value in given.items()
    }
    if "clip" in family.name:
        alone["input_ids"] = torch.cat([given["input_ids"][:1, :5], given["input_ids"][:1, -1:]], 1)
    blank = torch.zeros(1, 3, dtype=torch.long)
    pads = blank + (getattr(family.model.config, "pad_token_id", None) or 0)
    ids, mask = alone["input_ids"], alone["attention_mask"]
    batch = {key: torch.cat([value[1:], value[:1], value[:1]]) for key, value in given.items()}
    batch["input_ids"] = torch.cat(
        [given["input_ids"][1:], torch.cat([pads, ids], 1), torch.cat([ids, pads], 1)]
    )
    batch["attention_mask"] = torch.cat(
        [given["attention_mask"][1:], torch.cat([blank, mask], 1), torch.cat([mask, blank], 1)]
    )
    single, several = family.measured(alone), family.measured(batch)
    # DeepLIFT is refused for a whole batch if it is not complete for one of its texts.
    for others in (single, family.maps):
        assert {key for key in others.keys() ^ several.keys() if key[0] != "deep_lift"} == set()
    for key in several:
        pairs = {"second": (family.maps, 1, 0), "left": (single, 0, 1), "right": (single, 0, 2)}
        for text, (others, row, place) in pairs.items():
            if key in others:
                difference = largest_difference(others[key][row], several[key][place])
                assert difference <= spec_of(key[0]).rounding, (text, key)


@every_family
def test_attention_implementation_changes_nothing(family: Family) -> None:
    plain = Lens(with_plain_attention(family.name, family.model))
    other = measured(family.name, plain.record(family.given))
    for key, rows in other.items():
        assert largest_difference(rows[0], family.maps[key][0]) <= 1e-4, key


@needs_gpu
@pytest.mark.parametrize("name", ZOO)
def test_a_gpu_changes_nothing(name: str) -> None:
    """Up to rounding; what explains an output goes through the whole network twice and keeps a
    digit less.
    """
    model, given = built(name, head=True), inputs(name)
    here = measured(name, Lens(model).record(given))
    there = measured(name, Lens(model.to("cuda")).record(on("cuda", given)))
    assert {key for key in here.keys() ^ there.keys() if key[0] != "deep_lift"} == set()
    for key in here.keys() & there.keys():
        for row in (0, 1):
            assert largest_difference(here[key][row], there[key][row]) <= (
                1e-4 if spec_of(key[0]).explains_output else 1e-5
            ), (key, row)


def on(device: str, given: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key: value.to(device) for key, value in given.items()}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize("family", ZOO, indirect=True)
def test_bfloat16_is_close_to_float32(family: Family, device: str) -> None:
    """The same weights, rounded once: what differs is the model's own arithmetic."""
    if family.name == "mt5":
        # Its logits are not scaled and span 30 here. Rounded to bfloat16 they move the weights by a
        # tenth: the model's own eager and sdpa attention differ by 0.14, in float32 by 5e-6.
        pytest.xfail("eager and sdpa attention of this build differ by 0.14 in bfloat16")
    half = built(family.name, torch.bfloat16, head=True).to(device)
    narrow = Lens(half).record(on(device, inputs(family.name, torch.bfloat16)))
    narrow_maps = measured(family.name, narrow)
    for key, rows in family.maps.items():
        bound = spec_of(key[0]).half_precision
        refused = expected_refusal(key[0], family.name, key[1], narrow) is not None
        if bound is None or (key not in narrow_maps and refused):
            continue
        a, b = rows[0].scores, narrow_maps[key][0].scores
        assert np.abs(a - b).mean() <= bound * np.abs(a).mean(), key
        assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.9, key


@every_family
def test_per_head_layers_and_targets(family: Family) -> None:
    recording = family.recording
    heads = recording.structure.stacks[0].layers[0].sites[0].heads
    specs = {name: spec_of(name) for name in names()}
    mixing = [name for name, spec in specs.items() if spec.per_head and not spec.explains_output]
    for measure in mixing:
        if expected_refusal(measure, family.name, recording.sites[0], recording) is not None:
            continue
        whole = mixlens.measure(measure, recording, per_head=True)
        chosen = mixlens.measure(measure, recording, per_head=True, layers=[-1], targets=[2, -1])
        assert isinstance(whole, list)
        assert isinstance(chosen, list)
        assert whole[1].scores.shape[1] == heads
        expected = whole[1].scores[-1:, :, [2, -1]]
        assert np.abs(chosen[1].scores - expected).max() <= 1e-5 * np.abs(expected).max(), measure


@every_family
def test_the_model_is_left_as_it_was(family: Family) -> None:
    """After all of the above."""
    assert family.maps
    weights, *rest = state(family.model)
    weights_before, *rest_before = family.before
    assert rest == rest_before
    assert [key for key, _ in weights] == [key for key, _ in weights_before]
    for (key, now), (_, before) in zip(weights, weights_before, strict=True):
        assert torch.equal(now, before), key
    hooks = rest[-1]
    assert not any(any(counts) for counts in hooks)
    assert all(without for _, without in rest[1])
