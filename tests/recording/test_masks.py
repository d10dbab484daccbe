"""Scores under any mask equal those of the model's own attention, captured by hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import mixlens
from mixlens import Lens
from mixlens.maps.attention_identifiability import identifiability
from tests.recording import mask_oracles
from tests.recording.mask_oracles import ARCHITECTURES, FROM_TRUTH, OF_PLAIN_BLOCKS, N

_PACKED = torch.cat([torch.arange(6), torch.arange(N - 6)])[None]
_HOLES = torch.ones(1, N).long()
_HOLES[0, 2:5] = 0
_FIRST_HIDDEN = torch.ones(1, N).long()
_FIRST_HIDDEN[0, [0, 5]] = 0
GIVEN: dict[str, dict[str, Any]] = {
    "prefix": {"attention_mask": mask_oracles.mask_of("prefix", "lowest")},
    "both directions": {"attention_mask": mask_oracles.mask_of("bidirectional", "lowest")},
    "biased": {"attention_mask": mask_oracles.mask_of("prefix", "biased")},
    "moderate": {"attention_mask": mask_oracles.mask_of("packed", "moderate")},
    "boolean": {"attention_mask": mask_oracles.mask_of("blocks", "boolean")},
    "by head": {"attention_mask": mask_oracles.mask_of("by head", "infinite")},
    "targets that see nothing": {"attention_mask": mask_oracles.mask_of("blank", "boolean")},
    "holes": {"attention_mask": _HOLES},
    "first token hidden": {"attention_mask": _FIRST_HIDDEN},
    "packed by positions": {"position_ids": _PACKED},
}
CASES = [
    ("llama", "eager", "prefix"),
    ("llama", "sdpa", "prefix"),
    ("llama", "eager", "boolean"),
    ("llama", "sdpa", "boolean"),
    ("llama", "sdpa", "targets that see nothing"),
    ("llama", "sdpa", "first token hidden"),
    ("llama", "sdpa", "packed by positions"),
    ("llama", "eager", "holes"),
    ("gpt2", "sdpa", "both directions"),
    ("gpt2", "eager", "by head"),
    ("opt", "sdpa", "holes"),
    ("qwen2", "sdpa", "moderate"),
    ("qwen2", "eager", "biased"),
    ("gemma3", "sdpa", "first token hidden"),
    ("gemma3", "eager", "packed by positions"),
    ("bert", "sdpa", "by head"),
    ("bert", "eager", "boolean"),
    ("bart", "sdpa", "prefix"),
    ("t5", "eager", "biased"),
    ("t5", "sdpa", "boolean"),
]


def _inputs(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if not ARCHITECTURES[name].decoder:
        return {"input_ids": mask_oracles.ids(), **given}
    decoder = {f"decoder_{key}": value for key, value in given.items()}
    return {
        "input_ids": mask_oracles.ids(),
        "decoder_input_ids": mask_oracles.ids(seed=5),
        **decoder,
    }


def _measures(name: str) -> list[str]:
    how = ARCHITECTURES[name]
    left_out = set() if how.plain else set(OF_PLAIN_BLOCKS)
    return [
        m for m in FROM_TRUTH if m not in left_out | ({"flow_routes"} if how.calls > 1 else set())
    ]


@pytest.mark.parametrize(("name", "implementation", "mask"), CASES)
def test_scores_are_those_of_the_models_own_attention(
    name: str, implementation: str, mask: str
) -> None:
    how, model = ARCHITECTURES[name], mask_oracles.built(name, implementation)
    inputs, lens = _inputs(name, GIVEN[mask]), Lens(model)
    site = "decoder" if how.decoder else None
    truth = mask_oracles.truth(model, how, inputs)
    expected = {m: [FROM_TRUTH[m](truth, layer) for layer in (0, 1)] for m in _measures(name)}
    expected["value_zeroing"] = [
        mask_oracles.value_zeroing(model, how, inputs, layer) for layer in (0, 1)
    ]
    for measure, layers in expected.items():
        options = {"value_bias": True} if measure == "flow_routes" else {}
        for targets in (None, [3, -1]):
            made = lens.measure(measure, inputs, site=site, targets=targets, **options)
            assert isinstance(made, mixlens.MixingMaps)
            for layer, scores in enumerate(layers):
                wanted = scores if targets is None else scores[targets]
                error = np.abs(made.scores[layer] - wanted).max() / np.abs(scores).max()
                assert error < 2e-5, f"{measure}, targets {targets}, layer {layer}: {error:.1e}"


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_texts_of_a_batch_may_have_masks_of_their_own(implementation: str) -> None:
    how, model = ARCHITECTURES["llama"], mask_oracles.built("llama", implementation)
    mask = mask_oracles.mask_of("by text", "lowest", batch=2)
    inputs = {"input_ids": mask_oracles.ids(2), "attention_mask": mask}
    for measure in ("attention_norm", "alti", "effective_attention"):
        for targets in (None, [3]):
            made = Lens(model).measure(measure, inputs, targets=targets)
            assert isinstance(made, list)
            for text, maps in enumerate(made):
                scores = FROM_TRUTH[measure](mask_oracles.truth(model, how, inputs, text), 1)
                wanted = scores if targets is None else scores[targets]
                np.testing.assert_allclose(maps.scores[1], wanted, atol=2e-6)


@pytest.mark.parametrize("measure", ["attention_norm", "attention_norm_res_ln", "alti"])
def test_a_long_text_with_a_prefix_is_not_cut_to_what_came_before(measure: str) -> None:
    """Long causal texts leave out later sources block by block; this one has some in sight."""
    how, model = ARCHITECTURES["llama"], mask_oracles.built("llama", "sdpa")
    at = torch.arange(300)
    mask = ((at[:, None] >= at) | (at < 250))[None, None]
    inputs = {"input_ids": at[None] % 37 + 3, "attention_mask": mask}
    recording = Lens(model).record(inputs)
    assert not recording.layers()[0].site().is_causal
    assert Lens(model).record({"input_ids": inputs["input_ids"]}).layers()[0].site().is_causal
    made = mixlens.measure(measure, recording)
    assert isinstance(made, mixlens.MixingMaps)
    scores = FROM_TRUTH[measure](mask_oracles.truth(model, how, inputs), 0)
    np.testing.assert_allclose(made.scores[0], scores, atol=2e-5 * scores.max())


def test_nothing_lands_on_hidden_tokens() -> None:
    """Bounds and alternatives of a weight: the values of hidden tokens give no freedom."""
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    recording = lens.record({"input_ids": mask_oracles.ids(), "attention_mask": _HOLES})
    bounds = mixlens.attention_bounds(recording, 0, 0, N - 1)
    other = mixlens.alternative_attention(recording, 0, 0, N - 1)
    assert not bounds.upper[2:5].any()
    assert not other.weights[2:5].any()
    assert other.distance > 0.01, "the visible tokens leave some freedom"
    table: Any = identifiability(recording)
    weights = recording.layers()[0].site().weights[0]
    effective = lens.measure("effective_attention", recording.inputs, per_head=True)
    assert isinstance(effective, mixlens.MixingMaps)
    seen = (weights[0] > 0).numpy()
    removed = (weights.numpy() - effective.scores[0])[:, seen]
    share = (removed**2).sum(-1) / (weights.numpy()[:, seen] ** 2).sum(-1)
    np.testing.assert_allclose(table["null_share"][0], share, atol=1e-6)


def test_a_direction_that_is_changed_later_is_followed() -> None:
    """sdpa asks the module for its direction if it is given no mask: maps follow as rows do."""
    model, how = mask_oracles.built("llama", "sdpa"), ARCHITECTURES["llama"]
    lens, inputs = Lens(model), {"input_ids": mask_oracles.ids()}
    lens.measure("attention", inputs)
    for layer in model.model.layers:
        layer.self_attn.is_causal = False
    truth = mask_oracles.truth(model, how, inputs)
    assert np.triu(truth.weights[0], 1).any()
    for measure in ("attention", "attention_norm", "alti"):
        for targets in (None, [3]):
            made = lens.measure(measure, inputs, targets=targets)
            assert isinstance(made, mixlens.MixingMaps)
            scores = FROM_TRUTH[measure](truth, 1)
            wanted = scores if targets is None else scores[targets]
            np.testing.assert_allclose(made.scores[1], wanted, atol=2e-6)


def test_a_mask_that_the_model_refuses_is_reported() -> None:
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    mask = mask_oracles.mask_of("prefix", "boolean").long()
    with pytest.raises(mixlens.InvalidInput, match="rejects this input"):
        lens.measure("attention", {"input_ids": mask_oracles.ids(), "attention_mask": mask})


@pytest.mark.parametrize("targets", [None, [-1]])
@pytest.mark.parametrize("probed", [False, True])
def test_ids_with_too_many_axes_raise_our_own_error(probed: bool, targets: Any) -> None:
    """With sdpa the model accepts them, but not with captured attention, also after a probe."""
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    ids = mask_oracles.ids()
    if probed:
        lens.measure("attention", {"input_ids": ids})
    with pytest.raises(mixlens.MixlensError):
        lens.measure("attention", {"input_ids": ids[None]}, targets=targets)


def test_errors_inside_the_model_are_ours() -> None:
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    inputs = {"input_ids": mask_oracles.ids()}
    model: Any = lens.model
    layer = model.model.layers[0].mlp

    def fails(*_: object) -> None:
        raise KeyError("no such expert")

    recording = lens.record(inputs, targets=[-1])
    forward = layer.down_proj.forward
    layer.down_proj.forward = fails
    try:
        for run in (lambda: lens.record(inputs), lambda: lens.generate(inputs, max_new_tokens=2)):
            with pytest.raises(mixlens.MixlensError, match="KeyError"):
                run()
    finally:
        layer.down_proj.forward = forward
        del layer.down_proj.forward
    assert isinstance(mixlens.measure("attention", recording), mixlens.MixingMaps)


def test_a_mask_that_eager_code_rounds_away_is_refused() -> None:
    """A row at -1e9: sdpa in float64 keeps the scores below it, a softmax in float32 does not."""
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    mask = mask_oracles.mask_of("blank", "moderate")
    with pytest.raises(mixlens.UnsupportedModel, match="differs from the native model"):
        lens.measure("attention", {"input_ids": mask_oracles.ids(), "attention_mask": mask})


def test_a_mask_under_which_the_model_computes_nan_is_refused() -> None:
    """The first token sees nothing: the lowest float64 is minus infinity in a float32 softmax."""
    lens = Lens(mask_oracles.built("llama", "eager"))
    inputs = {"input_ids": mask_oracles.ids(), "attention_mask": _FIRST_HIDDEN}
    with pytest.raises(
        mixlens.UnsupportedModel, match=r"differs from the native model .relative error nan"
    ):
        lens.measure("attention", inputs)


def test_noise_leaves_out_what_is_hidden() -> None:
    lens = Lens(mask_oracles.built("llama", "sdpa"))
    mask = mask_oracles.mask_of("packed", "boolean")
    made = lens.measure("random", {"input_ids": mask_oracles.ids(), "attention_mask": mask})
    assert isinstance(made, mixlens.MixingMaps)
    np.testing.assert_array_equal(made.scores[0] != 0, mask[0, 0].numpy())
