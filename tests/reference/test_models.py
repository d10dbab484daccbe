"""The stored models are the ones the authors' numbers belong to: they give the stored states and
logits again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mixlens import Lens
from tests import reference
from tests.measures import models

pytestmark = pytest.mark.smoke


def close(actual: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, atol=1e-10, rtol=0)


def test_every_array_is_read_without_pickle() -> None:
    files = sorted(reference.FOLDER.glob("**/*.npz"))
    assert len(files) >= 10
    for file in files:
        for name, array in reference.arrays(str(file.relative_to(reference.FOLDER))).items():
            assert np.isfinite(array).all(), (file, name)


@torch.no_grad()
def test_decompx() -> None:
    numbers, given = reference.arrays("decompx/results.npz"), reference.arrays("decompx/inputs.npz")
    tensors = {name: torch.from_numpy(value) for name, value in given.items()}
    made = reference.decompx()(**tensors, output_hidden_states=True)
    close(made.logits, numbers["logits"])
    close(torch.stack(made.hidden_states), numbers["hidden"])


@torch.no_grad()
def test_alti_logit() -> None:
    numbers = reference.arrays("alti_logit/alti_logit.npz")
    ids = reference.tokens(numbers["ids"])
    made = reference.alti_logit()(ids, output_hidden_states=True, output_attentions=True)
    close(made.logits[0], numbers["logits"])
    close(torch.cat(made.hidden_states), numbers["hidden_states"])
    close(torch.cat(made.attentions), numbers["attentions"])


@pytest.mark.parametrize(
    ("folder", "architecture", "inputs"),
    [
        ("bert", "BertForSequenceClassification", ["input_ids"]),
        ("bart", "BartForConditionalGeneration", ["input_ids", "decoder_input_ids"]),
        ("lxmert", "LxmertForQuestionAnswering", ["input_ids", "visual_feats", "visual_pos"]),
    ],
)
@torch.no_grad()
def test_chefer2021(folder: str, architecture: str, inputs: list[str]) -> None:
    numbers = reference.arrays("chefer2021/numbers.npz")
    model = reference.pretrained(f"chefer2021/{folder}", architecture)
    made = model(**{name: torch.from_numpy(numbers[name]) for name in inputs})
    logits = made.question_answering_score if folder == "lxmert" else made.logits
    close(logits, numbers[f"{folder}/logits"])


@pytest.mark.parametrize(("folder", "architecture"), [("bert", "BertModel"), ("gpt2", "GPT2Model")])
def test_kobayashi2024(folder: str, architecture: str) -> None:
    """The scope without the feed-forward block is a measure of ours."""
    numbers = reference.arrays("kobayashi2024/numbers.npz")
    lens = Lens(reference.pretrained(f"kobayashi2024/{folder}", architecture))
    recorded = lens.record({"input_ids": reference.tokens(numbers["input_ids"])})
    measure = "attention_norm_res_ln" if folder == "bert" else "attention_norm_res"
    for reading in ("joint", "fixed"):
        close(
            models.scores("attention_norm", recorded).values[:, 0],
            numbers[f"{folder}/{reading}/Attn"],
        )
        close(models.scores(measure, recorded).values[:, 0], numbers[f"{folder}/{reading}/Atb"])
