"""The protocol of DecompX's tables against plain loops over the model itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mixlens.datasets.examples import Labelled
from mixlens.evaluations import Case
from mixlens.papers.modarressi2023 import paper
from tests.papers.settings import lens_for

TEXTS = (
    "a good old film",
    "the dog near the river sees a small bird and the man walks to the old door",
)


@torch.no_grad()
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("measure", ["alti", "decompx_logit"])
def test_falls_and_accuracy_are_those_of_the_masked_texts(text: str, measure: str) -> None:
    lens = lens_for("classifier")
    case = Case(lens, Labelled(name="one", text=text, label="1"))
    row = np.asarray(case.target_row(measure, "rollout"))
    ids = lens.tokenizer(text, return_tensors="pt")["input_ids"]
    whole = lens.model(ids).logits.softmax(-1)[0]
    predicted = int(whole.argmax())
    words = range(1, ids.shape[1] - 1)
    order = sorted(words, key=lambda place: -row[place])
    falls, right = [], []
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        masked = ids.clone()
        for place in order[: math.floor(share * len(order) + 1e-9)]:
            masked[0, place] = lens.tokenizer.mask_token_id
        said = lens.model(masked).logits.softmax(-1)[0]
        falls.append(float(whole[predicted] - said[predicted]))
        right.append(int(said.argmax()) == 1)
    seen = paper.observe(case, measure=measure)
    assert seen["aopc"] == pytest.approx(np.mean(falls), abs=1e-6)
    assert seen["accuracy"] == np.mean(right)


def test_few_tokens_lose_none_at_small_shares() -> None:
    masked = paper.mask_in_order(np.array([3, 1, 2]), tokens=5)
    assert masked.sum(1).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert masked[3].tolist() == [False, False, False, True, False]
    assert torch.as_tensor(masked[-1]).nonzero().flatten().tolist() == [1, 3]
