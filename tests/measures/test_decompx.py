"""DecompX against the authors' code, and its properties on other architectures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.contracts import AttentionKind
from mixlens.evaluations.compiled_truth import compiled_cases
from mixlens.kernels.shares import share
from mixlens.measures import decompx_logit
from mixlens.recording.recording import Recording
from mixlens.replay.vector_parts import PartRules, VectorLayer, own_parts
from tests import reference
from tests.measures import models, test_gradients


@pytest.fixture(scope="module")
def recorded() -> Recording:
    given = reference.arrays("decompx/inputs.npz")
    return Lens(reference.decompx()).record({k: torch.from_numpy(v) for k, v in given.items()})


RELEASED: list[tuple[str, dict[str, Any]]] = [
    ("default", {}),
    ("nobias", {"bias": "none"}),
    ("noffn", {"feed_forward": False}),
    ("nobias_noffn", {"bias": "none", "feed_forward": False}),
    ("abssim", {"bias": "abssim"}),
    ("norm", {"bias": "norm"}),
    ("equal", {"bias": "equal"}),
    ("cls", {"bias": "cls"}),
    ("local", {"local": True}),
    ("local_nobias", {"local": True, "bias": "none"}),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("case", "options"), RELEASED)
def test_released_variant_is_the_authors_code(
    recorded: Recording, case: str, options: dict[str, Any]
) -> None:
    expected = reference.arrays("decompx/results.npz")[f"{case}/encoder_norm"][:, 0]
    made = models.scores("decompx", recorded, variant="released", **options).values[:, 0]
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-10)


def test_the_bias_column_is_the_authors(recorded: Recording) -> None:
    expected = reference.arrays("decompx/results.npz")["biastoken/encoder_norm"][:, 0]
    made = models.scores("decompx", recorded, variant="released", bias="column")
    np.testing.assert_allclose(made.values[:, 0].numpy(), expected[..., :-1], atol=1e-10)
    np.testing.assert_allclose(made.extras["bias"][:, 0].numpy(), expected[..., -1], atol=1e-10)


@pytest.mark.parametrize(
    ("case", "options"),
    [("default", {}), ("nobias", {"bias": "none"}), ("noffn", {"feed_forward": False})],
)
def test_the_paper_to_the_letter(recorded: Recording, case: str, options: dict[str, Any]) -> None:
    expected = reference.arrays("decompx/ours_paper_literal.npz")[f"{case}/encoder_norm"][:, 0]
    made = models.scores("decompx", recorded, **options).values[:, 0]
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-9)


@pytest.mark.parametrize("bias", ["absdot", "norm", "equal", "column"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_vectors_add_up_to_the_hidden_states(name: str, bias: str) -> None:
    recording = models.recording(name, 9)
    layers = recording.layers(None)
    parts = own_parts(layers[0].input[0], column=bias == "column")
    for number, layer in enumerate(layers):
        step = VectorLayer(layer, layer.site(AttentionKind.SELF), 0, 9, PartRules(bias))
        parts = step.of(parts, torch.arange(9), first=number == 0, block=4)
        torch.testing.assert_close(parts.sum(1), layer.output[0], atol=1e-10, rtol=1e-9)
        if name == "gpt2":
            assert not parts[:, :9][torch.ones(9, 9).triu(1).bool()].any()


def test_batches_layers_and_targets_change_nothing() -> None:
    model = models.build("bert")
    batched = models.scores("decompx", Lens(model).record(models.padded_inputs("bert", [5, 8])))
    for row, length in enumerate([5, 8]):
        alone = models.scores(
            "decompx", Lens(model).record(models.inputs("bert", length, seed=row))
        )
        part = batched.values[:, row, :length, :length]
        torch.testing.assert_close(part, alone.values[:, 0], atol=1e-12, rtol=0)
    recording = models.recording("bert", 9)
    whole = models.scores("decompx", recording).values
    chosen = models.scores("decompx", recording, layers=[1], targets=[3, 0]).values
    torch.testing.assert_close(chosen, whole[1:2, :, [3, 0]], atol=1e-12, rtol=0)


def test_shares_by_hand() -> None:
    parts = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    constant = torch.tensor([1.0, 0.0], dtype=torch.float64)
    added = {
        how: (share(parts.clone(), constant, how) - parts)[:, 0].tolist()
        for how in ("absdot", "abssim", "norm", "equal", "cls", "none", "column")
    }
    assert added["absdot"] == added["abssim"] == added["cls"] == [1, 0, 0]
    assert added["norm"] == pytest.approx([3 / 7, 4 / 7, 0])
    assert (added["equal"], added["none"], added["column"]) == ([0.5, 0.5, 0], [0] * 3, [0, 0, 1])
    assert not share(0 * parts, constant, "absdot").any()


def test_refusals() -> None:
    fused = models.randomised(hf.Phi3Model(hf.Phi3Config(**models._CAUSAL)))
    with pytest.raises(UnsupportedModel, match="computes gate and values in one product"):
        models.scores("decompx", Lens(fused).record(models.inputs("phi3", 4)))
    with pytest.raises(InvalidInput, match="absdot"):
        models.scores("decompx", models.recording("bert", 4), bias="dot")
    with pytest.raises(InvalidInput, match="paper or released"):
        models.scores("decompx", models.recording("bert", 4), variant="theirs")


# ------------------------------------------------------------------------------------- to one logit


@pytest.mark.smoke
@pytest.mark.parametrize(("case", "options"), RELEASED[:8])
def test_logit_parts_are_the_authors(
    recorded: Recording, case: str, options: dict[str, Any]
) -> None:
    expected = reference.arrays("decompx/results.npz")[f"{case}/classifier"][0]
    for label in range(3):
        made = models.scores("decompx_logit", recorded, variant="released", label=label, **options)
        np.testing.assert_allclose(made.values[0, 0, 0].numpy(), expected[:, label], atol=1e-10)


@pytest.mark.parametrize(
    ("case", "options"),
    [("default", {}), ("nobias", {"bias": "none"}), ("noffn", {"feed_forward": False})],
)
def test_logit_parts_of_the_paper(recorded: Recording, case: str, options: dict[str, Any]) -> None:
    expected = reference.arrays("decompx/ours_paper_literal.npz")[f"{case}/classifier"][0]
    made = models.scores("decompx_logit", recorded, label=2, **options)
    np.testing.assert_allclose(made.values[0, 0, 0].numpy(), expected[:, 2], atol=1e-9)


def test_the_bias_column_of_a_logit(recorded: Recording) -> None:
    expected = reference.arrays("decompx/results.npz")["biastoken/classifier"][0]
    made = models.scores("decompx_logit", recorded, variant="released", label=1, bias="column")
    np.testing.assert_allclose(made.values[0, 0, 0].numpy(), expected[:-1, 1], atol=1e-10)
    np.testing.assert_allclose(made.extras["bias"].numpy(), expected[None, -1:, 1], atol=1e-10)


@pytest.mark.parametrize("bias", ["absdot", "equal"])
@pytest.mark.parametrize("name", ["classifier", "masked", "causal"])
def test_parts_add_up_to_the_logit(name: str, bias: str) -> None:
    model = test_gradients.build(name)
    given = models.padded_inputs(name, [5, 8])
    recording = Lens(model).record(given)
    chosen: dict[str, dict[str, Any]] = {
        "classifier": {"label": 2},
        "masked": {"position": 2, "word": 7},
    }
    explained = chosen.get(name, {"word": 7})
    made = models.scores("decompx_logit", recording, bias=bias, **explained)
    for row, length in enumerate([5, 8]):
        logits = recording.output.logits[row]
        place = {"masked": 2, "causal": length - 1}.get(name)
        number = logits[2] if place is None else logits[place, 7]
        torch.testing.assert_close(made.values[0, row, 0].sum(), number, atol=1e-9, rtol=1e-9)
        alone = Lens(model).record(test_gradients.inputs(name, length, seed=row))
        one = models.scores("decompx_logit", alone, bias=bias, **explained).values
        torch.testing.assert_close(
            made.values[:, row, :, :length], one[:, 0], atol=1e-10, rtol=1e-9
        )


def test_a_foil_is_the_difference_and_a_probability_is_refused() -> None:
    recording = Lens(test_gradients.build("causal")).record(test_gradients.inputs("causal"))
    asked: list[dict[str, Any]] = [{"word": 7}, {"word": 9}, {"word": 7, "foil": 9}]
    word, foil, both = (
        models.scores("decompx_logit", recording, **which).values for which in asked
    )
    torch.testing.assert_close(both, word - foil, atol=1e-12, rtol=0)
    with pytest.raises(InvalidInput, match="cannot be decomposed additively"):
        models.scores("decompx_logit", recording, word=7, of="probability")


def _windowed() -> Any:
    """Local attention in its second layer: a bias there is shared among fewer tokens."""
    config = hf.GPTNeoConfig(
        vocab_size=50,
        hidden_size=16,
        num_layers=3,
        num_heads=4,
        intermediate_size=24,
        attention_types=[[["local", "global", "local"], 1]],
        window_size=2,
        max_position_embeddings=40,
    )
    return models.randomised(hf.GPTNeoForCausalLM(config))


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("name", ["classifier", "masked", "causal", "windowed", "llama"])
def test_one_backward_pass_gives_what_the_tables_give(
    name: str, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _windowed() if name == "windowed" else test_gradients.build(name)
    recording = Lens(model).record(models.padded_inputs(name, [5, 8]))
    explained: dict[str, Any] = {
        "classifier": {"label": 2, "foil": 0},
        "masked": {"position": 2, "word": 7},
    }.get(name, {"word": 7, "foil": 9})
    for options in ({"bias": "none"}, {"bias": "equal"}, {"bias": "cls"}):
        for feed_forward in (True, False):
            chosen = {**explained, **options, "variant": variant, "feed_forward": feed_forward}
            made = models.scores("decompx_logit", recording, **chosen)
            with monkeypatch.context() as patch:
                patch.setattr(decompx_logit, "LINEAR", ())
                expected = models.scores("decompx_logit", recording, **chosen)
            torch.testing.assert_close(made.values, expected.values, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("bias", ["absdot", "equal"])
def test_a_feed_forward_part_without_a_norm(bias: str) -> None:
    """Compiled programs have none that does anything: the stream is read as it is. Most channels
    of their values are zero on any one text, and must not be taken for each other.
    """
    for case in compiled_cases():
        if case.program != "relay3" or case.number > 3:
            continue
        made = models.scores("decompx_logit", case.recording, bias=bias, **case.options)
        logit = case.recording.output.logits[0, case.target, case.options["word"]]
        torch.testing.assert_close(made.values.sum(), logit, atol=1e-9, rtol=0)
        first = int(made.values[0, 0, 0].abs().argmax())
        assert {first} == case.sources["carried"], case.name
