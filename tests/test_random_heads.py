"""A head that the checkpoint lacks is random: what it says is refused, what is inside is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from mixlens import Lens, UnsupportedModel
from tests.measures import models


def test_what_needs_a_random_head_is_refused_by_name(tmp_path: Path) -> None:
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
