"""`check_measure` accepts correct measures and names the broken rule of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import Lens, MixingMaps, measure
from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.measures import MEASURES, register
from mixlens.recording.recording import Recording
from mixlens.testing import MODELS, check_measure
from tests.measures import models

ABOUT: dict[str, Any] = {
    "summary": "attention again",
    "citation": "nobody 2020",
    "use_when": "never",
    "cost": "1 forward pass",
}


@pytest.fixture(autouse=True)
def only_here() -> Iterator[None]:
    yield
    MEASURES.unregister("toy")


def attention(recording: Recording, request: Request) -> list[torch.Tensor]:
    take = request.chosen(recording).take
    return [take(site.weights.mean(1), 1) for _, site in request.sites(recording)]


def test_a_right_measure_passes_and_refusals_are_listed() -> None:
    @register("toy", Spec(**ABOUT, facts=Facts(rows_sum_to_one=True), sites=(AttentionKind.SELF,)))
    def toy(recording: Recording, request: Request, *, power: int = 1) -> Scores:
        return Scores(torch.stack(attention(recording, request)) ** power)

    assert set(check_measure("toy").values()) == {"checked"}
    with pytest.raises(AssertionError, match="scores do not sum to one"):
        check_measure("toy", power=2)


def test_a_measure_that_reads_more_than_its_spec_is_reported() -> None:
    @register("toy", Spec(**ABOUT, facts=Facts(), within_blocks=True))
    def toy(recording: Recording, request: Request) -> Scores:
        ends = [layer.output.norm(dim=-1)[:, :, None] for layer, _ in request.sites(recording)]
        rows = attention(recording, request)
        return Scores(torch.stack([r * e for r, e in zip(rows, ends, strict=True)]))

    with pytest.raises(AssertionError, match="if only the declared inputs are recorded"):
        check_measure("toy")
    with pytest.raises(AssertionError, match="ends with the attention block of the last layer"):
        check_measure("toy", {"Llama": MODELS["RMS norm, grouped heads (Llama)"]})


def test_attention_of_the_models_is_neither_uniform_nor_at_one_token() -> None:
    """Such attention would hide mistakes of a measure."""
    for build in MODELS.values():
        model = build()
        assert all(parameter.any() for parameter in model.parameters())
        inputs = {"input_ids": torch.randperm(47, generator=torch.manual_seed(0))[None, :8] + 3}
        if model.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = inputs["input_ids"].flip(1)[:, :5]
        recording = Lens(model).record(inputs)
        for site in recording.sites:
            maps = measure("attention", recording, site=site, per_head=True)
            assert isinstance(maps, MixingMaps)
            weights = maps.scores
            largest, uniform = weights[..., 2:, :].max(-1), 1 / weights.shape[-1]
            assert largest.min() > uniform + 1e-3, f"{type(model).__name__}, {site}"
            assert largest.mean() < 0.5, f"{type(model).__name__}, {site}"


def test_measures_of_an_output_are_checked_on_models_with_a_head() -> None:
    """One row for the model, and scores with signs."""
    config = hf.BertConfig(**models._SIZES, max_position_embeddings=40, num_labels=3)  # type: ignore[call-arg]
    heads = {
        "classifier": lambda: models.randomised(hf.BertForSequenceClassification(config)),
        "masked": lambda: models.randomised(hf.BertForMaskedLM(config)),
    }
    for name, options in (("gradient_x_input", {}), ("blank_out", {"replacement": 1})):
        assert set(check_measure(name, heads, **options).values()) == {"checked"}


def test_a_wrong_measure_is_named() -> None:
    @register("toy", Spec(**ABOUT, facts=Facts()))
    def toy(recording: Recording, request: Request, *, wrong: str = "") -> Scores:
        scores = torch.stack(attention(recording, request))
        if wrong == "order":  # the first text of a batch is different
            scores[:, 0] *= 2
        if wrong == "chance":
            scores *= torch.rand(1)
        if wrong == "later":
            scores = scores + 0.1
        if wrong == "sign":
            scores = -scores
        if wrong == "parts" and request.targets is not None:
            scores = scores.flip(2)
        if wrong == "model":
            for weight in recording.model.parameters():
                weight.requires_grad_(False)
        return Scores(scores)

    promises = {
        "order": "different order",
        "chance": "in a second call",
        "later": "later tokens",
        "sign": "negative",
        "parts": "targets=",
        "model": "the model was changed",
    }
    for wrong, message in promises.items():
        with pytest.raises(AssertionError, match=message):
            check_measure("toy", wrong=wrong)
