"""The explained number is the one that the model's own API returns for its head."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

from mixlens import InvalidInput, Lens
from mixlens.evaluations.aopc import outputs
from mixlens.replay.explained_output import select_explained
from tests.measures import models

_BERT: dict[str, Any] = {**models._SIZES, "max_position_embeddings": 40}
_GPT2: dict[str, Any] = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 4}
_VIT: dict[str, Any] = {
    **{key: value for key, value in models._SIZES.items() if key != "vocab_size"},
    "image_size": 16,
    "patch_size": 8,
}


def softmax(logits: Tensor) -> Tensor:
    return torch.softmax(logits, -1)


def bert(head: str = "SequenceClassification", **settings: Any) -> Any:
    return getattr(hf, f"BertFor{head}")(hf.BertConfig(**{**_BERT, **settings}))


def gpt2(head: str, **settings: Any) -> Any:
    config = hf.GPT2Config(**_GPT2, n_positions=40, pad_token_id=0, **settings)
    return getattr(hf, head)(config)


def bart(**settings: Any) -> Any:
    return hf.BartForSequenceClassification(hf.BartConfig(**models._BART, **settings))


def t5(**settings: Any) -> Any:
    size: dict[str, Any] = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24}
    size |= {"num_layers": 2, "num_heads": 4, "eos_token_id": 2, "decoder_start_token_id": 0}
    config = hf.T5Config(**size, **settings)
    return hf.T5ForSequenceClassification(config)


def vit(**settings: Any) -> Any:
    return hf.ViTForImageClassification(hf.ViTConfig(**_VIT, **settings))


def clip(**settings: Any) -> Any:
    return hf.CLIPForImageClassification(hf.CLIPConfig(vision_config=_VIT, **settings))


SEVERAL: dict[str, Any] = {"num_labels": 4, "problem_type": "multi_label_classification"}
ONE: dict[str, Any] = {"num_labels": 4, "problem_type": "single_label_classification"}
REGRESSION: dict[str, Any] = {"num_labels": 4, "problem_type": "regression"}
LABEL, HERE = {"label": 2}, {"label": 2, "position": 3}
Case = tuple[Callable[[], Any], dict[str, Any], Callable[[Tensor], Tensor] | None]
# Each head, what is asked for, and the function of its own API; None: it has none.
HEADS: dict[str, Case] = {
    "text": (lambda: bert(num_labels=4), LABEL, softmax),
    "text, one label": (lambda: bert(**ONE), LABEL, softmax),
    "text, several labels": (lambda: bert(**SEVERAL), LABEL, torch.sigmoid),
    "text, one sigmoid": (
        lambda: bert(**{**SEVERAL, "num_labels": 1}),
        {"label": 0},
        torch.sigmoid,
    ),
    "text, regression": (lambda: bert(**REGRESSION), LABEL, None),
    "text, one number": (lambda: bert(num_labels=1), {"label": 0}, None),
    "causal, several labels": (
        lambda: gpt2("GPT2ForSequenceClassification", **SEVERAL),
        LABEL,
        torch.sigmoid,
    ),
    "causal, one label": (lambda: gpt2("GPT2ForSequenceClassification", **ONE), LABEL, softmax),
    "encoder-decoder": (lambda: bart(num_labels=4), LABEL, softmax),
    "encoder-decoder, several labels": (lambda: bart(**SEVERAL), LABEL, torch.sigmoid),
    "T5, several labels": (lambda: t5(**SEVERAL), LABEL, torch.sigmoid),
    "tokens": (lambda: bert("TokenClassification", num_labels=4), HERE, softmax),
    "tokens, several labels": (lambda: bert("TokenClassification", **SEVERAL), HERE, None),
    "next sentence": (lambda: bert("NextSentencePrediction", **SEVERAL), {"label": 1}, softmax),
    "words": (lambda: bert("MaskedLM"), {"word": 7, "position": 3}, softmax),
    "words of a classifier's configuration": (
        lambda: gpt2("GPT2LMHeadModel", **SEVERAL),
        {"word": 7},
        softmax,
    ),
    "replaced tokens": (
        lambda: hf.ElectraForPreTraining(hf.ElectraConfig(**_BERT, embedding_size=16)),
        LABEL,
        None,
    ),
    "image": (lambda: vit(num_labels=4), LABEL, softmax),
    "image, several labels": (lambda: vit(**SEVERAL), LABEL, torch.sigmoid),
    "image of two towers, several labels": (lambda: clip(**SEVERAL), LABEL, torch.sigmoid),
}


@functools.cache
def lens(name: str) -> Lens:
    torch.manual_seed(0)
    return Lens(models.randomised(HEADS[name][0]()))


def given(name: str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    if name.startswith("image"):
        return {"pixel_values": torch.randn(2, 3, 16, 16, generator=generator).double()}
    ids = torch.randint(5, 50, (2, 7), generator=generator)
    ids[0, 6] = ids[1, 4] = 2  # BART reads its classes off the end mark
    ids[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


def native(name: str, row: int) -> Tensor:
    """Logits of the model itself for one text without padding."""
    one = {key: value[row : row + 1] for key, value in given(name).items()}
    if "attention_mask" in one:
        real = one["attention_mask"][0].bool()
        one = {key: value[:, real] for key, value in one.items()}
    with torch.no_grad():
        logits: Tensor = lens(name).model(**one).logits[0]
    if logits.dim() == 1:
        return logits
    return logits[HEADS[name][1].get("position", -1)]


@pytest.mark.parametrize("name", HEADS)
def test_the_explained_number_is_that_of_the_models_own_api(name: str) -> None:
    _, asked, function = HEADS[name]
    chosen = asked.get("label", asked.get("word"))
    recording = lens(name).record(given(name))
    both = torch.arange(2)
    logit = select_explained(recording, of="logit", **asked)(recording.output, both)
    for row in range(2):
        assert float(logit[row]) == pytest.approx(float(native(name, row)[chosen]), abs=1e-6)
    if function is None:
        with pytest.raises(InvalidInput, match="pass of=logit"):
            select_explained(recording, **asked)
        return
    number = select_explained(recording, **asked)(recording.output, both)
    for row in range(2):
        truth = float(function(native(name, row))[chosen])
        assert float(number[row]) == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("settings", [SEVERAL, ONE, {"num_labels": 4}])
def test_predictions_and_evaluations_are_those_of_the_pipeline(settings: dict[str, Any]) -> None:
    bundled = Lens.bundled()
    torch.manual_seed(0)
    model = models.randomised(bert(**{**settings, "vocab_size": len(bundled.tokenizer)}))
    own: Any = hf.TextClassificationPipeline(model=model, tokenizer=bundled.tokenizer)
    text = "The old dogs bark."
    theirs = {each["label"]: each["score"] for each in own(text, top_k=None)}
    measured = Lens(own)
    assert dict(measured.predictions(text, top=4)) == pytest.approx(theirs, abs=1e-6)
    recording = measured.record(text)
    erased = np.zeros((2, len(recording.tokens[recording.structure.stacks[0].name][0])), bool)
    erased[1, 2] = True
    values = outputs(recording, erased, {"label": 3}, "mask")
    assert values[0] == pytest.approx(theirs["LABEL_3"], abs=1e-6)
    ids = bundled.tokenizer(text)["input_ids"]
    ids[2] = bundled.tokenizer.mask_token_id
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0]
    function = torch.sigmoid if settings is SEVERAL else softmax
    assert values[1] == pytest.approx(float(function(logits)[3]), abs=1e-6)
    maps = measured.measure("blank_out", text, label=3, signed=True)
    assert maps.scores[0, 0, 2] == pytest.approx(values[0] - values[1], abs=1e-6)


def test_a_foil_needs_classes_that_exclude_each_other() -> None:
    several = lens("text, several labels")
    recording = several.record(given("text, several labels"))
    with pytest.raises(InvalidInput, match="needs exclusive classes"):
        select_explained(recording, label=1, foil=2)
    difference = select_explained(recording, label=1, foil=2, of="logit")(
        recording.output, torch.arange(1)
    )
    logits = native("text, several labels", 0)
    assert float(difference[0]) == pytest.approx(float(logits[1] - logits[2]), abs=1e-9)


def test_classes_that_the_configuration_does_not_count_have_no_probability() -> None:
    model = models.randomised(bert(num_labels=4))
    model.num_labels = model.config.num_labels = 3
    recording = Lens(model).record(given("text"))
    with pytest.raises(InvalidInput, match="returns 4 numbers but num_labels is 3"):
        select_explained(recording, label=1)
