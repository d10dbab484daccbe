"""Gradient-weighted attention against autograd on the weights, and the authors' numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import mixlens
from mixlens import Lens, MixingMaps
from mixlens.maps.relevance import CoAttention, relevance_between, relevance_through
from tests import reference
from tests.measures import models, test_gradients
from tests.zoo.models import entries


@pytest.fixture(scope="module")
def numbers() -> dict[str, np.ndarray]:
    return reference.arrays("chefer2021/numbers.npz")


def one(maps: Any) -> MixingMaps:
    assert isinstance(maps, MixingMaps)
    return maps


@pytest.mark.smoke
def test_the_authors_numbers_of_an_encoder(numbers: dict[str, np.ndarray]) -> None:
    model = reference.pretrained("chefer2021/bert", "BertForSequenceClassification")
    given = {"input_ids": reference.tokens(numbers["input_ids"])}
    maps = one(Lens(model).measure("attention_gradient", given, label=int(numbers["bert/label"])))
    np.testing.assert_allclose(maps.scores, numbers["bert/cams"], atol=1e-14)
    rolled = maps.rollout()
    np.testing.assert_allclose(rolled.scores[-1], numbers["bert/R"], atol=1e-13)
    assert not rolled.facts.rows_sum_to_one
    assert rolled.provenance["steps"] == ["rollout(identity added, normalise=False)"]
    heads = one(Lens(model).measure("attention_gradient", given, label=2, per_head=True))
    expected = (numbers["bert/attention"] * numbers["bert/gradient"]).clip(0)
    np.testing.assert_allclose(heads.scores, expected, atol=1e-14)


@pytest.mark.parametrize("case", ["bart", "bart_inner_target"])
def test_the_authors_numbers_through_encoder_and_decoder(
    numbers: dict[str, np.ndarray], case: str
) -> None:
    model = reference.pretrained("chefer2021/bart", "BartForConditionalGeneration")
    names = ("input_ids", "decoder_input_ids")
    recording = Lens(model).record({name: torch.from_numpy(numbers[name]) for name in names})
    explained: dict[str, Any] = {
        "word": int(numbers[f"{case}/word"]),
        "position": int(numbers[f"{case}/target"]),
    }
    maps = [
        one(mixlens.measure("attention_gradient", recording, site=site, **explained)).scores
        for site in ("encoder", "decoder", "cross")
    ]
    own, across = relevance_through(*maps)
    np.testing.assert_allclose(own, numbers[f"{case}/R_qq"], atol=1e-12)
    np.testing.assert_allclose(across, numbers[f"{case}/guarded R_qi"], atol=1e-12)


def test_the_authors_numbers_of_co_attention(numbers: dict[str, np.ndarray]) -> None:
    """Text and image look at each other in three blocks. The weights are what the model's dropout
    modules pass on, call by call.
    """
    model = reference.pretrained("chefer2021/lxmert", "LxmertForQuestionAnswering")
    weights: list[Tensor] = []
    for path, module in model.named_modules():
        if path.endswith(("self.dropout", "att.dropout")):
            module.register_forward_hook(lambda _m, _i, made: weights.append(made))
    names = ("input_ids", "visual_feats", "visual_pos")
    answer: Any = model(**{name: torch.from_numpy(numbers[name]) for name in names})
    logit = answer.question_answering_score[0, int(numbers["lxmert/label"])]
    slopes = torch.autograd.grad(logit, weights, allow_unused=True)
    maps = [
        torch.zeros_like(a[0, 0]).numpy()  # the image after the last look at it
        if g is None
        else (g * a).clamp_min(0).mean(1)[0].detach().numpy()
        for g, a in zip(slopes, weights, strict=True)
    ]
    kinds = ("to_image", "to_text", "text", "image")
    blocks = [
        CoAttention(**dict(zip(kinds, maps[first : first + 4], strict=True)))
        for first in range(4, len(maps), 4)
    ]
    own, across = relevance_between(np.stack(maps[:2]), np.stack(maps[2:4]), blocks)
    own[0, 0] = 0
    np.testing.assert_allclose(own, numbers["lxmert/R_tt (CLS's own entry zero)"], atol=1e-13)
    np.testing.assert_allclose(across, numbers["lxmert/R_ti"], atol=1e-13)


@pytest.mark.parametrize("name", ["masked", "causal", "llama", "gemma2", "gpt_neox"])
def test_the_gradient_is_that_of_the_weights(name: str) -> None:
    """The model's own eager attention, with the weights as leaves of the graph."""
    model, given = test_gradients.build(name), test_gradients.inputs(name)
    model.config._attn_implementation = "eager"
    answer: Any = model(**given, output_attentions=True)
    number = test_gradients.number(name, "logit")(answer)
    slopes = torch.autograd.grad(number, answer.attentions)
    pairs = zip(slopes, answer.attentions, strict=True)
    expected = torch.stack([(g * a).clamp_min(0).mean(1) for g, a in pairs])
    made = models.scores(
        "attention_gradient", Lens(model).record(given), **test_gradients.options(name)
    )
    bar = 1e-6 if name == "llama" else 1e-10  # Llama takes its softmax in float32
    torch.testing.assert_close(made.values, expected.detach(), atol=bar, rtol=1e-6)


def test_each_text_of_a_batch_has_its_own_output() -> None:
    model = test_gradients.build("masked")
    given = models.padded_inputs("masked", [5, 8])
    batched = models.scores("attention_gradient", Lens(model).record(given), position=2, word=7)
    for row, length in enumerate([5, 8]):
        alone = models.scores(
            "attention_gradient",
            Lens(model).record(test_gradients.inputs("masked", length, seed=row)),
            position=2,
            word=7,
        )
        part: Tensor = batched.values[:, row, :length, :length]
        torch.testing.assert_close(part, alone.values[:, 0], atol=1e-12, rtol=0)


def test_a_gate_between_the_weights_and_the_projection_counts() -> None:
    """A weight of gated attention acts through the gate too."""
    entry = next(entry for entry in entries() if entry.name == "Qwen3_5ForCausalLM")
    model: Any = entry.build().double()
    given = {"input_ids": torch.arange(3, 10)[None]}
    recording = Lens(model).record(given)
    assert all(layer.site().gate is not None for layer in recording.layers("decoder"))
    made = models.scores("attention_gradient", recording, position=-1, word=5)
    model.set_attn_implementation("eager")
    answer = model(**given, output_attentions=True)
    weights = [part for part in answer.attentions if part is not None]
    slopes = torch.autograd.grad(answer.logits[0, -1, 5], weights)
    pairs = zip(slopes, weights, strict=True)
    expected = torch.stack([(g * a).clamp_min(0).mean(1) for g, a in pairs])
    torch.testing.assert_close(made.values, expected.detach(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("site", [None, "decoder", "cross"])
@pytest.mark.parametrize("name", test_gradients.HEADS)
def test_a_few_targets_take_one_pass_with_a_graph(name: str, site: str | None) -> None:
    """The graph and the attention weights come from the same forward pass."""
    if site is not None and name != "translator":
        pytest.skip("only the translator has several attentions")
    model, given = test_gradients.build(name), test_gradients.inputs(name)
    lens, options = Lens(model), {**test_gradients.options(name), "site": site, "per_head": True}
    whole = one(lens.measure("attention_gradient", given, **options))
    passes: list[int] = []
    handle = model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        for targets in ([-1], [0], [3, 1]):
            few = one(lens.measure("attention_gradient", given, targets=targets, **options))
            assert few.provenance["recorded"] == "rows"
            bar = 1e-7 if name in ("llama", "gemma2", "gpt_neox") else 1e-12  # a float32 softmax
            np.testing.assert_allclose(few.scores, whole.scores[:, :, targets], atol=bar, rtol=0)
    finally:
        handle.remove()
    assert len(passes) == 3
    assert all(weight.requires_grad for weight in model.parameters())


def test_a_few_targets_of_gated_attention_and_of_several_texts_equal_the_maps() -> None:
    entry = next(entry for entry in entries() if entry.name == "Qwen3_5ForCausalLM")
    model: Any = entry.build().double()
    lens, given = Lens(model), {"input_ids": torch.arange(3, 17).view(2, 7)}
    for inputs in ({"input_ids": given["input_ids"][:1]}, given):
        maps: list[Any] = [
            lens.measure("attention_gradient", inputs, position=-1, word=5, targets=targets)
            for targets in (None, [2, 6])
        ]
        wholes, few = (each if isinstance(each, list) else [each] for each in maps)
        for whole, own in zip(wholes, few, strict=True):
            np.testing.assert_allclose(own.scores, whole.scores[:, [2, 6]], atol=1e-7)


def test_a_few_targets_cost_a_forward_and_a_backward_pass() -> None:
    """In multiplications: the frozen parameters need no gradients."""
    model = test_gradients.build("llama")
    given, lens = test_gradients.inputs("llama", 30), Lens(model)

    def products(run: Any) -> int:
        with FlopCounterMode(display=False) as counter:
            run()
        return counter.get_total_flops()

    def measured() -> None:
        lens.measure("attention_gradient", given, position=-1, targets=[-1])

    measured()
    with torch.no_grad():
        plain = products(lambda: model(**given))
    assert products(measured) <= 2.2 * plain
