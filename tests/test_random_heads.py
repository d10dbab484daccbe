"""A head that the checkpoint lacks is random, so its predictions raise an error, while layer
measures work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, MixlensError, UnsupportedModel
from tests.measures import models


def test_measures_that_need_a_random_head_raise(tmp_path: Path) -> None:
    config = hf.BertConfig(**models._SIZES)
    body = models.randomised(hf.BertModel(config)).float()
    body.save_pretrained(tmp_path)
    config.architectures = ["BertForSequenceClassification"]  # whose head was not saved
    config.save_pretrained(tmp_path)
    lens = Lens.from_pretrained(str(tmp_path))
    assert type(lens.model).__name__ == "BertForSequenceClassification"
    given = {"input_ids": torch.tensor([[3, 7, 11, 2]])}
    with pytest.raises(UnsupportedModel, match=r"no classifier\.bias, classifier\.weight"):
        lens.measure("gradient_norm", given)
    lens.measure("attention_norm", given)
    model: Any = lens.model
    model.save_pretrained(tmp_path)
    Lens.from_pretrained(str(tmp_path)).measure("gradient_norm", given)


def test_a_body_without_a_head_is_reported_as_such(tmp_path: Path) -> None:
    body = hf.BertModel(hf.BertConfig(**models._SIZES), add_pooling_layer=False)
    models.randomised(body).save_pretrained(tmp_path)  # its missing pooler explains no word
    lens = Lens.from_pretrained(str(tmp_path))
    given = {"input_ids": torch.tensor([[3, 7, 11, 2]])}
    for name in ("blank_out", "gradient_norm"):
        with pytest.raises(InvalidInput, match=r"returns no logits.*checkpoint with a head"):
            lens.measure(name, given, word=5)
    with pytest.raises(InvalidInput, match="returns no logits"):
        lens.compare(given, 1, explain={"word": 5})


def test_nothing_is_generated_or_cited_with_a_random_head(tmp_path: Path) -> None:
    tokenizer = Lens.bundled("causal").tokenizer
    config = hf.LlamaConfig(**models._CAUSAL | {"vocab_size": len(tokenizer)})
    models.randomised(hf.LlamaModel(config)).save_pretrained(tmp_path)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(tmp_path)
    lens = Lens.from_pretrained(str(tmp_path), tokenizer=tokenizer)
    missing = r"no lm_head\.weight"
    with pytest.raises(UnsupportedModel, match=missing):
        lens.generate("The keys", max_new_tokens=2)
    for answer in (None, " A cat."):
        with pytest.raises(UnsupportedModel, match=missing):
            lens.context_cite("A dog. A cat.", "Who?", answer, ablations=2, held_out=2)
    lens.generate("The keys", answer=" are")  # no word is predicted for it


def test_the_report_does_not_list_what_needs_a_random_head(tmp_path: Path) -> None:
    config = hf.BertConfig(**models._SIZES)
    models.randomised(hf.BertModel(config)).float().save_pretrained(tmp_path)
    config.architectures = ["BertForSequenceClassification"]
    config.save_pretrained(tmp_path)
    _require_true(Lens.from_pretrained(str(tmp_path)), "gradient_norm")


def test_the_report_does_not_list_what_the_measure_refuses() -> None:
    config = hf.MixtralConfig(
        **models._SIZES, num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2
    )
    _require_true(Lens(models.randomised(hf.MixtralForCausalLM(config))), "deep_lift")


def _require_true(lens: Lens, refused: str) -> None:
    """Every measure that the report lists can be measured, and the named one is not listed."""
    listed = lens.verify().measures
    assert listed[refused] is not None
    given = {"input_ids": torch.tensor([[3, 7, 11, 2]])}
    for name, reason in listed.items():
        options = {"replacement": "zero"} if name == "blank_out" else {}
        if reason is None:
            lens.measure(name, given, **options)
        else:
            with pytest.raises(MixlensError):
                lens.measure(name, given, **options)
