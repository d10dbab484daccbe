"""Batches in which texts affect each other, such as experts with a shared capacity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import mixlens
from mixlens import Lens
from mixlens.errors import InvalidInput
from mixlens.recording.batch_independence import copies_are_independent
from tests.conformance.tiny_models import VOCABULARY, translator
from tests.conformance.zoo import ZOO, built, inputs, randomised
from tests.zoo.models import entries

TOKENS = 20


def _nllb(fraction: float) -> Any:
    """Tokens beyond `fraction` of a batch, or beyond three if it is negative, are dropped."""
    torch.manual_seed(0)
    experts = {"num_experts": 4, "encoder_sparse_step": 1, "decoder_sparse_step": 1}
    capacity = {"moe_eval_capacity_token_fraction": fraction, "expert_capacity": 3}
    return randomised(translator("NllbMoe", **experts, **capacity)().double().eval())


def _given() -> dict[str, Tensor]:
    ids = torch.randint(5, VOCABULARY, (1, TOKENS), generator=torch.Generator().manual_seed(3))
    return {"input_ids": ids, "decoder_input_ids": ids[:, :6].clone()}


def _zeroed_by_hooks(model: nn.Module, layer: nn.Module, value: nn.Module) -> Tensor:
    """Cosine distances of a layer's output, with one value after the other set to zero."""
    seen: list[Tensor] = []
    seeing = layer.register_forward_hook(
        lambda module, given, made: seen.append(made[0] if isinstance(made, tuple) else made)
    )
    for source in [None, *range(TOKENS)]:

        def zero(module: nn.Module, given: Any, made: Tensor, source: int | None = source) -> Any:
            kept = made.clone()
            kept[:, source] = 0
            return kept

        zeroing = None if source is None else value.register_forward_hook(zero)
        with torch.no_grad():
            model(**_given())
        if zeroing is not None:
            zeroing.remove()
    seeing.remove()
    whole, *edited = (states[0] for states in seen)
    return torch.stack([1 - torch.cosine_similarity(states, whole) for states in edited], 1)


@pytest.mark.parametrize("fraction", [0.5, 0.25, -1.0])
def test_value_zeroing_does_not_share_the_capacity_of_experts(fraction: float) -> None:
    model = _nllb(fraction)
    maps = Lens(model).measure("value_zeroing", _given(), site="encoder")
    for number, layer in enumerate(model.encoder.layers):
        expected = _zeroed_by_hooks(model, layer, layer.self_attn.v_proj)
        np.testing.assert_allclose(maps.scores[number], expected, atol=1e-7)


def test_copies_of_a_text_in_the_whole_model_are_run_one_after_the_other() -> None:
    lens = Lens(_nllb(0.5))
    whole = lens.measure(
        "integrated_gradients", _given(), site="encoder", steps=8, of="embedding", pooling="mean"
    )
    lens.memory_budget = 0  # one copy at a time
    alone = lens.measure(
        "integrated_gradients", _given(), site="encoder", steps=8, of="embedding", pooling="mean"
    )
    np.testing.assert_allclose(whole.scores, alone.scores, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "mixtral"])
def test_copies_are_independent_in_others(name: str) -> None:
    assert name in ZOO
    recording = Lens(built(name)).record(inputs(name))
    assert all(layer.has_independent_copies() for layer in recording.layers(recording.sites[0]))


def test_a_run_that_fails_on_copies_is_not_trusted_with_them() -> None:
    def run(states: Tensor) -> Tensor:
        if len(states) > 1:
            raise ValueError("one text only")
        return states

    model, states = built("bert"), torch.ones(3, 2)
    assert not copies_are_independent(model, "fails", run, states)
    assert copies_are_independent(model, "passes", lambda states: states, states)


@pytest.mark.parametrize("fraction", [0.5, -1.0])
def test_texts_of_a_batch_do_not_share_the_capacity_of_experts(fraction: float) -> None:
    lens = Lens(_nllb(fraction))
    texts = [_given(), {key: value.flip(1) for key, value in _given().items()}]
    batch = {key: torch.cat([text[key] for text in texts]) for key in texts[0]}
    maps = lens.measure("attention", batch)
    assert isinstance(maps, list)
    for made, text in zip(maps, texts, strict=True):
        expected = lens.measure("attention", text)
        assert not isinstance(expected, list)
        np.testing.assert_allclose(made.scores, expected.scores, atol=1e-12)


def _splinter() -> Any:
    """It runs only on texts that contain its token for a question (5)."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "max_position_embeddings": 24,
    }
    heads: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2}
    config = hf.SplinterConfig(vocab_size=VOCABULARY, question_token_id=5, **sizes, **heads)
    return randomised(hf.SplinterForPreTraining(config).double().eval())


def _questions() -> dict[str, Tensor]:
    ids = torch.randint(6, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(3))
    ids[:, 3] = 5
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


@pytest.mark.parametrize("padding", [0, 2])
def test_a_model_that_needs_a_token_in_every_text_is_measured_in_batches(padding: int) -> None:
    lens, given = Lens(_splinter()), _questions()
    given["attention_mask"][1, 9 - padding :] = 0
    recording = lens.record(given)
    assert recording.batch == 2
    batch: Any = mixlens.measure("alti", recording)
    for row, maps in enumerate(batch):
        alone = {"input_ids": given["input_ids"][[row], : 9 - padding * row]}
        np.testing.assert_allclose(maps.scores, lens.measure("alti", alone).scores, atol=1e-12)


def test_a_model_that_needs_a_token_and_mixes_texts_is_refused() -> None:
    model = _splinter()
    layer = model.splinter.encoder.layer[0].output
    layer.register_forward_hook(lambda module, given, made: made + made.mean(0, keepdim=True))
    with pytest.raises(InvalidInput, match=r"differently in a batch than alone.*error \d"):
        Lens(model).record(_questions())


def _musicgen() -> tuple[Any, dict[str, Tensor]]:
    """Three texts; the decoder takes four sequences of codes for each."""
    entry = next(e for e in entries() if e.key == "MusicgenMelodyForConditionalGeneration")
    return entry.build().double(), entry.given()


def test_texts_with_several_sequences_of_codes_are_measured_in_batches() -> None:
    model, given = _musicgen()
    assert len(given["input_ids"]) == 3
    assert len(given["decoder_input_ids"]) == 12
    lens = Lens(model)
    recording = lens.record(given)
    for site in recording.sites:
        batch: Any = mixlens.measure("value_zeroing", recording, site=site)
        for number, maps in enumerate(batch):
            codes = slice(4 * number, 4 * number + 4)
            alone = {
                "input_ids": given["input_ids"][[number]],
                "decoder_input_ids": given["decoder_input_ids"][codes],
                "decoder_attention_mask": given["decoder_attention_mask"][[number]],
            }
            expected: Any = lens.measure("value_zeroing", alone, site=site)
            np.testing.assert_allclose(maps.scores, expected.scores, atol=1e-7)


@pytest.mark.parametrize("path", ["decoder.model.decoder.layers.0", "decoder.lm_heads.3"])
def test_such_texts_must_not_see_each_other(path: str) -> None:
    """Neither in a layer nor in the logits, which have a row for each sequence of codes."""
    model, given = _musicgen()
    module = model.get_submodule(path)

    def mix(module: nn.Module, args: Any, made: Any) -> Any:
        states = made[0] if isinstance(made, tuple) else made
        mixed = states + states.mean(0, keepdim=True)
        return (mixed, *made[1:]) if isinstance(made, tuple) else mixed

    module.register_forward_hook(mix)
    with pytest.raises(InvalidInput, match=r"differently in a batch than alone.*error \d"):
        Lens(model).record(given)


def test_a_check_that_does_not_run_gives_its_reason() -> None:
    model = _splinter()

    def refuse(module: nn.Module, args: Any, kwargs: Any) -> None:
        if len(kwargs["input_ids"]) > 2:
            raise ValueError("two texts at most")

    lens, given = Lens(model), _questions()
    lens.record({key: value[:1] for key, value in given.items()})
    model.register_forward_pre_hook(refuse, with_kwargs=True)
    with pytest.raises(InvalidInput, match=r"could not check .* raised ValueError: two texts at"):
        lens.record(given)


def test_not_a_number_in_a_batch_has_no_size() -> None:
    model = _splinter()
    layer = model.splinter.encoder.layer[0].output

    def spoil(module: nn.Module, args: Any, made: Tensor) -> Tensor:
        return made * (float("nan") if len(made) > 2 else 1.0)

    lens, given = Lens(model), _questions()
    lens.record({key: value[:1] for key, value in given.items()})
    layer.register_forward_hook(spoil)
    with pytest.raises(InvalidInput, match="NaN in the batch only"):
        lens.record(given)
