"""The agreement set that ships with the package."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import mixlens
from mixlens import datasets as corpus
from mixlens.datasets.examples import Agreement
from training import agreement_sentences

BUNDLED = Path(mixlens.__file__).parent / "bundled"


@pytest.fixture(scope="module")
def examples() -> list[Agreement]:
    return [each for each in corpus.bundled() if isinstance(each, Agreement)]


def test_the_generator_writes_this_file() -> None:
    rows = [json.loads(line) for line in (BUNDLED / "agreement.jsonl").read_text().splitlines()]
    assert rows == agreement_sentences.rows()
    assert rows != agreement_sentences.rows(seed=1)


@pytest.mark.smoke
def test_it_is_balanced(examples: list[Agreement]) -> None:
    data = corpus.bundled()
    assert (data.kind, len(data), data.errors) == ("agreement", 200, ())
    assert Counter((each.group, each.label) for each in examples) == {
        (group, label): 20
        for group in agreement_sentences.GROUPS
        for label in ("singular", "plural")
    }
    assert len({each.text for each in examples}) == 200


def test_every_cue_is_the_word_that_decides(examples: list[Agreement]) -> None:
    for example in examples:
        ((first, last),) = example.cues
        words = example.text.rstrip(".").replace(".", " ").split()
        cue = example.text[first:last]
        assert cue.endswith("s") == (example.label == "plural") or cue == "princess"
        if str(example.group).startswith("determiner"):
            assert cue == words[-1]
        else:
            assert cue == words[1]  # behind a determiner that goes with both numbers
            assert words[0].lower() in agreement_sentences.DETERMINERS


def test_attractors_have_the_other_number(examples: list[Agreement]) -> None:
    for example in examples:
        if example.group == "subject_verb_attractor":
            nearest = example.text[: example.place[0]].split()[-1]
            assert nearest.endswith("s") == (example.label == "singular")


@pytest.mark.parametrize(("model", "space"), [("masked", ""), ("causal", " ")])
def test_targets_and_foils_are_single_tokens(
    examples: list[Agreement], model: str, space: str
) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(BUNDLED / model)
    words = {word for each in examples for word in (each.target, each.foil)}
    assert {
        word: tokenizer.tokenize(space + word)
        for word in words
        if len(tokenizer.tokenize(space + word)) != 1
    } == {}
    assert tokenizer.unk_token_id not in {
        number for word in words for number in tokenizer(space + word).input_ids
    }


def test_the_bundled_model_prefers_the_targets(examples: list[Agreement]) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(BUNDLED / "masked")
    model = AutoModelForMaskedLM.from_pretrained(BUNDLED / "masked").eval()
    masked = [
        each.text[: each.place[0]] + tokenizer.mask_token + each.text[each.place[1] :]
        for each in examples
    ]
    inputs = tokenizer(masked, return_tensors="pt", padding=True)
    with torch.no_grad():
        logits = model(**inputs).logits[inputs.input_ids == tokenizer.mask_token_id]
    pairs = torch.tensor(
        [tokenizer.convert_tokens_to_ids([each.target, each.foil]) for each in examples]
    )
    chosen = logits.gather(1, pairs)
    accuracy = (chosen[:, 0] > chosen[:, 1]).float().mean().item()
    print(f"the bundled masked model prefers the target in {accuracy:.3f} of {len(examples)}")
    assert accuracy > 0.95
