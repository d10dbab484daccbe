"""Options of `generate` are those of transformers, and lengths are checked before it runs."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens
from mixlens.errors import InputTooLong, NonFiniteActivations
from tests.conformance.zoo import built

PROMPT = "The keys to the cabinet"


@functools.cache
def lens() -> Lens:
    return Lens.bundled("causal")


def generated(**options: Any) -> tuple[int, ...]:
    torch.manual_seed(1)
    produced = lens().generate(PROMPT, **options).produced
    assert produced is not None
    return produced[0].ids


def test_a_generation_config_is_followed_and_left_as_it_was(
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = hf.GenerationConfig(max_new_tokens=6, do_sample=True, temperature=50.0)
    before = config.to_dict()
    ids = lens().tokenizer(PROMPT, return_tensors="pt")["input_ids"]
    torch.manual_seed(1)
    model: Any = lens().model
    expected = model.generate(ids, generation_config=config)[0].tolist()
    assert generated(generation_config=config) == tuple(expected[1:])
    assert config.to_dict() == before
    assert "deprecated" not in capfd.readouterr().err


def test_the_default_output_is_the_most_likely_token(monkeypatch: pytest.MonkeyPatch) -> None:
    likeliest = generated(max_new_tokens=6)
    model: Any = lens().model
    monkeypatch.setattr(model.generation_config, "do_sample", True)
    monkeypatch.setattr(model.generation_config, "temperature", 50.0)
    assert generated(max_new_tokens=6) == likeliest
    assert generated(generation_config=hf.GenerationConfig(max_new_tokens=6)) == likeliest
    assert generated(max_new_tokens=6, do_sample=True) != likeliest


def test_an_answer_stops_at_a_string() -> None:
    """The tokenizer that transformers needs for this is the lens's own."""
    answer = lens().generate("Once upon a time", max_new_tokens=40, stop_strings=["."]).answer
    assert answer is not None
    assert answer.endswith(".")
    assert answer.count(".") == 1


def test_any_whole_number_is_a_length() -> None:
    count: Any = np.int64(3)
    assert generated(max_new_tokens=count) == generated(max_new_tokens=3)
    given = hf.GenerationConfig(max_new_tokens=3)
    given.max_new_tokens = count
    assert generated(generation_config=given) == generated(max_new_tokens=3)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"max_new_tokens": "5"}, InvalidInput, "max_new_tokens='5' is not an integer"),
        ({"max_new_tokens": 3.0}, InvalidInput, "is not an integer"),
        ({"max_new_tokens": True}, InvalidInput, "is not an integer"),
        ({"max_length": "5"}, InvalidInput, "max_length='5' is not an integer"),
        ({"max_length": 300}, InputTooLong, "up to 249"),
        ({"config": {"max_length": 300}}, InputTooLong, "up to 249"),
        ({"config": {"max_new_tokens": 250}}, InputTooLong, "up to 249"),
        ({"generation_config": {"max_new_tokens": 2}}, InvalidInput, "generation_config is dict"),
    ],
)
def test_lengths_are_checked_before_anything_is_generated(
    options: dict[str, Any],
    error: type[Exception],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lens().model, "generate", None)
    if "config" in options:
        options = {"generation_config": hf.GenerationConfig(**options["config"])}
    with pytest.raises(error, match=words):
        generated(**options)


def test_a_length_that_fits_exactly_is_allowed() -> None:
    assert len(generated(max_length=10)) == 9
    assert len(generated(max_new_tokens=2, max_length=10_000)) == 9


def test_a_continuation_that_does_not_fit_the_decoder() -> None:
    bart = Lens(built("bart", head=True))
    with pytest.raises(
        InputTooLong, match="A continuation of 3000 tokens does not fit the decoder"
    ):
        bart.generate({"input_ids": [5, 6, 7]}, max_new_tokens=3000)
    with pytest.raises(InputTooLong, match="A continuation of 2999 tokens does not fit the decod"):
        bart.generate({"input_ids": [5, 6, 7]}, max_length=3000)


@pytest.mark.parametrize("options", [{}, {"num_beams": 2}, {"do_sample": True}])
def test_nothing_is_generated_of_logits_that_are_nan(options: dict[str, Any]) -> None:
    model = built("llama", head=True)
    with torch.no_grad():
        model.lm_head.weight[3] = torch.nan
    with pytest.raises(NonFiniteActivations, match=r"`lm_head\.weight`|weights of its head"):
        Lens(model).generate({"input_ids": torch.tensor([[5, 6, 7]])}, **options)


@pytest.mark.parametrize("implementation", ["grouped_mm", "batched_mm", "eager"])
def test_experts_generate_in_float64(implementation: str) -> None:
    """Grouped expert products do not run in float64; the setting of the user comes back."""
    model = built("mixtral", head=True).double()
    model.config._experts_implementation_internal = implementation
    made = Lens(model).generate({"input_ids": [[5, 6, 7]]}, max_new_tokens=4).produced
    assert model.config._experts_implementation_internal == implementation
    model.config._experts_implementation_internal = "eager"
    ids = torch.tensor([[5, 6, 7]])
    for _ in range(4):
        with torch.no_grad():
            likeliest = model(input_ids=ids).logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, likeliest], 1)
    assert made is not None
    assert made[0].ids == tuple(ids[0, 1:].tolist())
