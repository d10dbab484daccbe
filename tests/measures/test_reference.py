"""The authors' own numbers: what their programs return for seven tokens on a small random BERT in
float64.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import Lens
from tests.measures import models


@pytest.fixture(scope="module")
def reference(shared):
    model = hf.BertModel.from_pretrained(
        shared / "reference", dtype=torch.float64, attn_implementation="eager"
    ).eval()
    numbers = np.load(shared / "reference" / "bert7.npz")
    return Lens(model).record({"input_ids": torch.from_numpy(numbers["input_ids"])}), numbers


@pytest.mark.parametrize(
    ("measure", "per_head", "key", "options", "tolerance"),
    [
        ("attention", True, "attention", {}, 1e-10),
        ("effective_attention", True, "effective_attention", {}, 1e-10),
        ("attention_norm", False, "attention_norm", {}, 1e-10),
        ("attention_norm", True, "attention_norm.per_head", {}, 1e-10),
        ("attention_norm_res", False, "attention_norm_res", {}, 1e-10),
        ("attention_norm_res_ln", False, "attention_norm_res_ln", {}, 1e-10),
        ("globenc", False, "globenc", {}, 1e-10),
        ("alti", False, "alti", {}, 2e-6),
        ("alti", False, "alti", {"variant": "released"}, 1e-10),
    ],
)
def test_scores_are_the_authors(reference, measure, per_head, key, options, tolerance):
    recorded, numbers = reference
    made = models.scores(measure, recorded, per_head=per_head, **options).values[:, 0].numpy()
    np.testing.assert_allclose(made, numbers[key], atol=tolerance, rtol=0)


def test_mixing_ratio_is_the_authors(reference):
    recorded, numbers = reference
    made = models.scores("attention_norm_res_ln", recorded).extras["mixing_ratio"][:, 0].numpy()
    np.testing.assert_allclose(made, numbers["mixing_ratio_res_ln"], atol=1e-10, rtol=0)


def test_the_parts_are_the_authors(reference):
    recorded, numbers = reference
    for index, layer in enumerate(recorded.layers()):
        site = layer.site()
        np.testing.assert_allclose(
            site.transformed().norm(dim=-1)[0].numpy(), numbers["norm_f"][index], atol=1e-10, rtol=0
        )
        np.testing.assert_allclose(
            site.block_output[0].numpy(), numbers["resultants"][index], atol=1e-10, rtol=0
        )
