"""Prompt fine-tuning of the bundled models: it learns, copies the passed model, and reports skipped
examples.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import ByteLevel

from mixlens import EmptyInput, InvalidInput, Lens, MissingTokenizer
from mixlens.finetuning import Settings, halves, prompt_finetuned
from mixlens.finetuning.classification import classifier
from mixlens.finetuning.prompt import choices, prompts
from mixlens.finetuning.scoring import Objective, pad_batch, score_choices
from mixlens.finetuning.training_data import token_inputs
from tests.conformance.zoo import built
from tests.finetuning.sentences import agreement, labelled

FAST = Settings(epochs=3, rate=5e-4, batch=3)


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def causal() -> Lens:
    return Lens.bundled("causal")


@pytest.mark.parametrize("name", ["lens", "causal"])
def test_it_learns_and_the_given_model_stays_as_it_was(
    name: str, request: pytest.FixtureRequest
) -> None:
    given: Lens = request.getfixturevalue(name)
    before = {key: value.clone() for key, value in given.model.state_dict().items()}
    chance = torch.get_rng_state()
    trained = prompt_finetuned(given, agreement(), settings=FAST)
    assert (
        trained.report["scores"]["before"]["accuracy"] < 0.7
    )  # plural subjects with a singular verb
    assert trained.report["scores"]["after"]["accuracy"] == 1
    losses = [epoch["loss"] for epoch in trained.report["history"]]
    assert losses[-1] < losses[0] / 2
    assert trained.report["history"][-1]["accuracy"] > trained.report["history"][0]["accuracy"]
    assert trained.report["scores"]["after"]["by_group"] == {"plural": 1, "singular": 1}
    assert all(torch.equal(before[key], value) for key, value in given.model.state_dict().items())
    assert torch.equal(chance, torch.get_rng_state())
    assert not torch.are_deterministic_algorithms_enabled()
    assert not trained.lens.model.training


def test_in_place_trains_the_given_model() -> None:
    own = Lens.bundled()
    trained = prompt_finetuned(own, agreement(), settings=replace(FAST, epochs=1), in_place=True)
    assert trained.lens.model is own.model
    other = Lens.bundled().model.state_dict()
    assert any(not torch.equal(other[key], value) for key, value in own.model.state_dict().items())


@pytest.mark.parametrize("name", ["lens", "causal"])
def test_the_choice_in_a_batch_is_that_of_each_text_alone(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Padding and places: what is asked in a batch of different lengths is what the lens itself
    measures.
    """
    given: Lens = request.getfixturevalue(name)
    sentences = agreement()[:3]
    reasons: Counter[str] = Counter()
    items = prompts(given, sentences, 128, reasons)
    assert not reasons
    assert len({len(item.inputs["input_ids"]) for item in items}) == 1  # so one is cut short
    items[0] = replace(
        items[0],
        inputs={key: value[1:] for key, value in items[0].inputs.items()},
        place=items[0].place - 1,
    )
    with torch.inference_mode():
        batched = choices(
            given.model(**pad_batch(items, given.tokenizer.pad_token_id)).logits, items
        )
        alone = torch.cat(
            [choices(given.model(**pad_batch([item], 0)).logits, [item]) for item in items]
        )
    assert torch.allclose(batched, alone, atol=1e-4)
    text = (
        sentences[1].text[: sentences[1].place[0]].rstrip()
        if name == "causal"
        else sentences[1].text.replace(" is ", " [MASK] ")
    )
    with torch.inference_mode():
        logits = given.model(**given.tokenizer(text, return_tensors="pt")).logits[0]
    spelled = [" is", " are"] if name == "causal" else ["is", "are"]
    words = [given.tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in spelled]
    place = (
        -1
        if name == "causal"
        else given.tokenizer(text)["input_ids"].index(given.tokenizer.mask_token_id)
    )
    assert torch.allclose(batched[1], logits[place, words], atol=1e-4)


def test_scores_do_not_depend_on_the_order(lens: Lens) -> None:
    items = prompts(lens, agreement(), 128, Counter())
    task = Objective(choices, lens.tokenizer.pad_token_id)
    forward = score_choices(lens.model, items, task, FAST)
    backward = score_choices(lens.model, items[::-1], task, FAST)
    assert forward.choices == backward.choices[::-1]
    assert forward.loss == pytest.approx(backward.loss, rel=1e-5)


def test_unusable_examples_are_skipped_and_counted(lens: Lens, causal: Lens) -> None:
    plain = agreement()[0]
    split = replace(plain, foil="unpronounceableness")
    same = replace(plain, foil="Is")  # the tokenizer knows lower case only
    first = replace(
        plain,
        text=plain.text[plain.place[0] :],
        place=(0, plain.place[1] - plain.place[0]),
        cues=(),
    )
    later = replace(plain, cues=((plain.place[1] + 1, plain.place[1] + 4),))
    reasons: Counter[str] = Counter()
    assert len(prompts(lens, [plain, split, same, first, later], 128, reasons)) == 3
    assert reasons == {
        "target or foil is not one token": 1,
        "target and foil are the same token": 1,
    }
    reasons.clear()
    assert len(prompts(causal, [plain, first, later], 128, reasons)) == 1
    assert reasons == {"the target is the first word": 1, "a cue comes after the target": 1}
    reasons.clear()
    assert not prompts(lens, [plain], 5, reasons)
    assert reasons == {"more than 5 tokens": 1}
    reasons.clear()
    twice = replace(plain, text=plain.text.replace("old", "[MASK]"))
    assert not prompts(lens, [twice], 128, reasons)
    assert reasons == {"the text does not have exactly one mask": 1}


def test_examples_without_groups_are_summed_up_and_those_left_out_are_reported(
    lens: Lens, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = (replace(example, group=None) for example in agreement())
    split = replace(first, foil="unpronounceableness")
    report = prompt_finetuned(lens, [split, *others], settings=replace(FAST, epochs=1)).report
    assert "left out: 1 (target or foil is not one token)" in capsys.readouterr().err
    assert report["data"]["left_out"] == {"target or foil is not one token": 1}
    assert set(report["scores"]["after"]) == {"accuracy", "loss"}


def test_wrong_data_and_wrong_models_get_clear_errors(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match="is of kind classification"):
        prompt_finetuned(lens, labelled(), settings=FAST)
    with pytest.raises(InvalidInput, match="too few"):
        prompt_finetuned(lens, agreement()[:1], settings=FAST)
    hopeless = [replace(example, foil="unpronounceableness") for example in agreement()]
    with pytest.raises(InvalidInput, match="None of the 12 examples can be used"):
        prompt_finetuned(lens, hopeless, settings=FAST)
    model: Any = lens.model
    headless = Lens(model.bert, lens.tokenizer)
    with pytest.raises(InvalidInput, match="no logits"):
        prompt_finetuned(headless, agreement(), settings=FAST)
    of_texts = Lens(classifier(lens, ["no", "yes"], FAST)[0].eval(), lens.tokenizer)
    with pytest.raises(InvalidInput, match="a class of the whole text"):
        prompt_finetuned(of_texts, agreement(), settings=FAST)


def test_inputs_without_tokens_raise(lens: Lens, causal: Lens) -> None:
    with pytest.raises(MissingTokenizer):
        token_inputs(lens.model, None, "a")
    bare = copy.deepcopy(causal.tokenizer)
    bare.backend_tokenizer.post_processor = ByteLevel()
    with pytest.raises(EmptyInput, match="returns no tokens for ''"):
        token_inputs(causal.model, bare, "")
    with pytest.raises(InvalidInput, match="Encoder-decoder models are not supported"):
        token_inputs(built("bart"), lens.tokenizer, "a")


def test_halves_are_disjoint_whole_and_the_same_every_time() -> None:
    examples = agreement()
    first, second = halves(examples, seed=1)
    assert sorted(e.name for e in first + second) == sorted(e.name for e in examples)
    for group in ("plural", "singular"):
        assert sum(e.group == group for e in first) == sum(e.group == group for e in second) == 3
    assert halves(examples, seed=1) == (first, second)
    assert halves(examples, seed=2) != (first, second)
    twice = [*examples, *(replace(example, name="again") for example in examples)]
    first, second = halves(twice)
    assert not {e.text for e in first} & {e.text for e in second}


def test_real_examples(lens: Lens, shared: Path) -> None:
    from mixlens import datasets as corpus

    examples = corpus.read(shared / "data" / "blimp_cues", sample=40)
    trained = prompt_finetuned(
        lens, examples, settings=replace(FAST, epochs=1, rate=3e-5, batch=16)
    )
    assert trained.report["data"]["trained_on"] + trained.report["data"]["held_out"] >= 35
    assert set(trained.report["scores"]["before"]["by_group"]) == {
        "ana",
        "dna",
        "dnaa",
        "darn",
        "rpsv",
    }
    assert trained.report["scores"]["before"]["accuracy"] > 0.85
