"""Value Zeroing as its authors' own program returns it, for seven tokens on a small random BERT in
float64.
"""

from __future__ import annotations

import numpy as np
import torch
import transformers as hf

from mixlens import Lens
from tests.measures import models


def test_value_zeroing_is_the_authors(shared):
    model = hf.BertModel.from_pretrained(
        shared / "reference", dtype=torch.float64, attn_implementation="eager"
    ).eval()
    numbers = np.load(shared / "reference" / "bert7.npz")
    recorded = Lens(model).record({"input_ids": torch.from_numpy(numbers["input_ids"])})
    made = models.scores("value_zeroing", recorded).values[:, 0].numpy()
    np.testing.assert_allclose(made, numbers["value_zeroing"], atol=1e-10, rtol=0)
    rolled = made / made.sum(-1, keepdims=True)
    for layer in range(1, len(rolled)):
        rolled[layer] = rolled[layer] @ rolled[layer - 1]
    np.testing.assert_allclose(rolled, numbers["value_zeroing.rollout"], atol=1e-10, rtol=0)
